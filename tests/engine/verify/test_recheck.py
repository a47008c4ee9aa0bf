"""Findings about files that change while they are read: believed only when found again."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kdump.engine.verify import recheck as looks
from kdump.findings.finding import Finding, finding
from kdump.storage.targets import Target

SEALED, ACTIVE = 0, 100


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "WAITS", (0.0, 0.0, 0.0, 0.0))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Give a partition of two segments."""
    for base in (SEALED, ACTIVE):
        for ending in (".log", ".index"):
            (tmp_path / f"{base:020}{ending}").write_bytes(b"x" * 100)
    return tmp_path


def found(directory: Path, segment: int | None, code: str = "crc-mismatch", at: int = 5) -> Finding:
    name = "leader-epoch-checkpoint" if segment is None else f"{segment:020}.log"
    return finding(
        code, path=str(directory / name), topic="t", partition=0, segment=segment, position=at
    )


class Looks:
    """Hands out what each further look finds, and remembers what was asked to be read."""

    def __init__(self, *results: Iterable[Finding]) -> None:
        self.results = list(results)
        self.asked: list[frozenset[int]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, bases: frozenset[int]) -> Iterable[Finding]:
        self.asked.append(bases)
        self.meanwhile()
        return self.results.pop(0)


def settle(
    directory: Path, first: Iterable[Finding], again: Looks, meanwhile: Callable[[], object]
) -> list[str]:
    """Give the codes that are believed, after something happened during the first look."""
    before = looks.listing_of(str(directory))
    meanwhile()
    target = Target("t", 0, str(directory), None, (), whole=True)
    return [each.code for each in looks.settle(target, str(directory), before, tuple(first), again)]


def append(directory: Path) -> None:
    with (directory / f"{ACTIVE:020}.log").open("ab") as file:
        file.write(b"more")


def nothing() -> None:
    pass


def test_sound_partitions_are_checked_once(directory: Path) -> None:
    again = Looks()
    notes = [found(directory, ACTIVE, "file-shrank")]
    assert settle(directory, notes, again, lambda: append(directory)) == ["file-shrank"]
    assert again.asked == []


def test_unchanged_files_are_not_rechecked(directory: Path) -> None:
    again = Looks()
    assert settle(directory, [found(directory, ACTIVE)], again, nothing) == ["crc-mismatch"]
    assert again.asked == []


def test_growing_newest_segment_casts_no_doubt_on_sealed_ones(directory: Path) -> None:
    again = Looks()
    damages = [found(directory, SEALED)]
    assert settle(directory, damages, again, lambda: append(directory)) == ["crc-mismatch"]
    assert again.asked == []


def test_unrepeated_finding_is_dropped(directory: Path) -> None:
    again = Looks([])
    damages = [found(directory, SEALED), found(directory, ACTIVE, "offset-index-order")]
    assert settle(directory, damages, again, lambda: append(directory)) == ["crc-mismatch"]
    assert again.asked == [frozenset({ACTIVE})]


def test_repeated_finding_is_confirmed(directory: Path) -> None:
    again = Looks(*([found(directory, ACTIVE)] for _ in range(4)))
    again.meanwhile = lambda: append(directory)
    damages = [found(directory, ACTIVE)]
    assert settle(directory, damages, again, lambda: append(directory)) == ["crc-mismatch"]
    assert len(again.asked) == 4


def test_finding_repeated_only_once_is_dropped(directory: Path) -> None:
    again = Looks([found(directory, ACTIVE)], [])
    again.meanwhile = lambda: append(directory)
    damages = [found(directory, ACTIVE)]
    assert settle(directory, damages, again, lambda: append(directory)) == []


def test_moving_finding_is_a_note(directory: Path) -> None:
    again = Looks(*([found(directory, ACTIVE, at=at)] for at in (6, 7, 8, 9)))
    again.meanwhile = lambda: append(directory)
    damages = [found(directory, SEALED), found(directory, ACTIVE)]
    told = settle(directory, damages, again, lambda: append(directory))
    assert told == ["crc-mismatch", "partition-changing"]
    assert len(again.asked) == 4


def test_different_finding_in_unchanged_files_is_trusted(directory: Path) -> None:
    again = Looks([found(directory, ACTIVE, "torn-tail")])
    damages = [found(directory, ACTIVE)]
    assert settle(directory, damages, again, lambda: append(directory)) == ["torn-tail"]


def test_index_created_later_is_a_change(directory: Path) -> None:
    (directory / f"{ACTIVE:020}.index").unlink()
    again = Looks([])

    def create() -> None:
        (directory / f"{ACTIVE:020}.index").write_bytes(b"")

    missing = [found(directory, ACTIVE, "offset-index-missing")]
    assert settle(directory, missing, again, create) == []


def test_partition_findings_are_doubted_if_any_file_changes(directory: Path) -> None:
    again = Looks([])
    missing = [found(directory, None, "leader-epochs-missing")]
    assert settle(directory, missing, again, lambda: append(directory)) == []


def test_fresh_writes_of_a_running_broker_are_rechecked(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks.lock, "is_held", lambda _: True)
    hour_ago = time.time() - 3600
    os.utime(directory / f"{SEALED:020}.log", (hour_ago, hour_ago))
    os.utime(directory / f"{SEALED:020}.index", (hour_ago, hour_ago))
    again = Looks([])
    damages = [found(directory, SEALED), found(directory, ACTIVE)]
    assert settle(directory, damages, again, nothing) == ["crc-mismatch"]
    assert again.asked == [frozenset({ACTIVE})]


def test_exchanged_segments_are_read_again(directory: Path) -> None:
    again = Looks([])

    def compact() -> None:
        fresh = directory / "fresh"
        fresh.write_bytes(b"x" * 50)
        fresh.rename(directory / f"{SEALED:020}.log")
        (directory / f"{ACTIVE:020}.index").unlink()

    assert settle(directory, [found(directory, SEALED)], again, compact) == []
    assert again.asked == [frozenset({SEALED, ACTIVE})]

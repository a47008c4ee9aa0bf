"""Both indexes against the log: what cannot be read of them."""

from pathlib import Path

import pytest
from each import each
from segments import (
    START_MS,
    batches,
    only,
    partition_of,
    place_of,
    read,
    run_checks,
    time_index,
    write,
    write_partition,
)
from segments import name as named

from kdump.engine.checks.index_proof import IndexProof
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding
from kdump.kernels.text_form import time_text
from kdump.storage import source as sources


def cut(parent: Path, kept: int, *, last: int | None = 30) -> Path:
    """Write a log of ten batches that has lost all but some, though its indexes know of them."""
    directory = write_partition(parent, {0: batches(0, 30), 30: batches(30, 60)})
    if last is None:
        for extension in ("log", "index", "timeindex"):
            (directory / named(30, extension)).unlink()
    log = b"".join(batches(0, 3 * kept))
    write(directory, 0, "log", log)
    return directory


@pytest.mark.parametrize("last", [30, None])
def test_log_that_ends_before_its_indexes_is_reported(tmp_path: Path, last: int | None) -> None:
    directory = cut(tmp_path, 4, last=last)
    told = {one.code: one for one in run_checks(directory)}["log-too-short"]
    end = len(read(directory, 0, "log"))
    assert (told.position, told.offset, told.expected, told.actual) == (end, 12, 29, 11)
    assert (told.lost_at_least, told.next_offset) == (1, last)
    assert told.lost_at_most == (None if last is None else 18)
    assert told.message == (
        f"The segment's log ends at position {end:,} with offset 11; its indexes refer to offset "
        f"29 at time {time_text(START_MS + 290)}."
    )
    partition = partition_of(directory)
    found = [*scan(partition, [IndexProof(partition)])]
    touches = [one.touches for one in found if isinstance(one, Conditional)
               and one.finding.code == "log-too-short"]  # fmt: skip
    start = end - len(batches(9, 12)[0])
    assert touches == [RestsOn(0, start, end + 1)]


@each(
    ("offset", "time", "short"),
    [
        (29, 290, True),
        (29, 110, False),  # a time that the log reaches
        (29, 111, True),
        (11, 290, False),  # an offset that it reaches
    ],
)
def test_log_shorter_than_its_indexes(tmp_path: Path, offset: int, time: int, short: bool) -> None:
    directory = cut(tmp_path, 4)
    write(directory, 0, "index", b"")
    write(directory, 0, "timeindex", time_index([(START_MS + time, offset)]))
    assert ("log-too-short" in [one.code for one in run_checks(directory)]) is short
    (directory / named(0, "index")).unlink()
    assert ("log-too-short" in [one.code for one in run_checks(directory)]) is short


@pytest.mark.parametrize("padded", ["", "index", "timeindex"])
def test_indexes_continue_after_a_truncation(tmp_path: Path, padded: str) -> None:
    """In files that are not trimmed, of the newest segment."""
    directory = cut(tmp_path, 4, last=None)
    if padded:
        write(directory, 0, padded, read(directory, 0, padded) + bytes(240))
    assert ("log-too-short" in [one.code for one in run_checks(directory)]) is (padded == "")


@pytest.mark.parametrize("extension", ["index", "timeindex"])
def test_unreadable_index_bytes_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    """It is told of, and nothing is held against the zeros that stand for it."""
    directory = write_partition(tmp_path, {0: batches(0, 60), 60: batches(60, 90)})
    name = named(0, extension)
    pread = sources.Source._pread

    def failing(source: sources.Source, view: memoryview, position: int) -> int:
        if source.path.endswith(name):
            raise OSError(5, "Input/output error")
        return pread(source, view, position)

    monkeypatch.setattr(sources.Source, "_pread", failing)
    size = len(read(directory, 0, extension))
    assert place_of(only(directory), directory) == ("unreadable", name, 0, size)


@each("extension", ["index", "timeindex"])
@each("gone", [True, False])
def test_unopenable_index_is_an_error(tmp_path: Path, extension: str, gone: bool) -> None:
    """The log is read all the same; one that a running broker took away is a note."""
    directory = write_partition(tmp_path, {0: batches(0, 60), 60: batches(60, 90)})
    partition = partition_of(directory)
    path = directory / named(0, extension)
    path.unlink()
    if not gone:
        path.mkdir()
    found = [*scan(partition, [IndexProof(partition)])]
    assert [one.code for one in found if isinstance(one, Finding)] == ["file-vanished"] * gone
    assert all(one.path == str(path) for one in found if isinstance(one, Finding))
    assert [error.path for error in partition.errors] == ([] if gone else [str(path)])
    assert [segment.complete for segment in partition.segments] == [True, True]

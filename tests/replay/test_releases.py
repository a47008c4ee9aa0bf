"""Which release holds for what lies in a data directory, where none was asked for (D14)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import DATA as SAMPLES
from commands import run
from each import each

from kdump.broker.settings import Settings
from kdump.broker.versions import NEWEST, Version
from kdump.engine.verify.predict import Predictor
from kdump.output.verify_recovery import recovery_lines
from kdump.replay import directory_releases
from kdump.replay.directory_releases import ReleaseCache, writers
from kdump.replay.releases import Releases
from kdump.storage.targets import EVERYTHING, Target, resolve


def rows(*words: str | Path) -> list[dict[str, object]]:
    result = run(*words, "--format", "jsonl")
    assert result.exit_code in (0, 2, 3), result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@each(
    ("directory", "first", "last"),
    [
        ("clean/0.7.2", (0, 7), (0, 7)),
        ("clean/0.10.2.2", (0, 10, 1), (0, 10, 2)),
        ("clean/2.8.2", (2, 4), (3, 6)),
        ("clean/4.1.1/d1", (4, 1), (4, 1)),
        ("damaged/4.4.0-three-nodes/n2", (4, 4), (4, 4)),
    ],
)
def test_newest_possible_release_is_used(directory: str, first: Version, last: Version) -> None:
    path = str(SAMPLES / directory)
    assert Releases().range_of(path) == (first, last)
    assert Releases().of(path) == last
    assert Releases((2, 0)).range_of(path) == ((2, 0), (2, 0))


def test_records_suffice_to_date_a_node() -> None:
    """The quick way through a metadata log comes to what the whole of it says."""
    for path in SAMPLES.glob("*/*/*"):
        if (path / "__cluster_metadata-0").is_dir():
            found = ReleaseCache([str(path)]).of(str(path))
            assert writers(str(path)) == (found.first, found.last)


def test_metadata_log_may_be_in_another_directory() -> None:
    with_log, without = (str(SAMPLES / "clean/4.1.1" / name) for name in ("d1", "d2"))
    assert Releases().of(without) == (4, 1)
    assert Releases(None, [with_log]).of(without) == (4, 1)


def test_copies_of_partitions_date_nothing(tmp_path: Path) -> None:
    """A log with its offset index alone is none of 0.10.0, and no broker of 0.8 had it."""
    copy = tmp_path / "orders-0"
    copy.mkdir()
    for path in (SAMPLES / "clean/4.1.1/d1/orders.zstd-0").glob("*[gx]"):
        if path.suffix in (".log", ".index"):
            shutil.copy(path, copy)
    assert Releases().range_of(str(tmp_path)) == (NEWEST, NEWEST)


def test_several_directories_use_the_newest_release() -> None:
    paths = [str(SAMPLES / one) for one in ("clean/2.8.2", "clean/4.1.1/d1", "clean/0.7.2")]
    assert Releases().newest(paths) == (4, 1)
    assert Releases().newest([]) == NEWEST


def test_prediction_names_its_release_and_the_result_of_the_oldest(tmp_path: Path) -> None:
    """A quorum-state that is none is refused since 3.8; before it is written anew."""
    copy = shutil.copytree(SAMPLES / "damaged/4.1.1-killed/d1", tmp_path / "data")
    (copy / "__cluster_metadata-0").mkdir(exist_ok=True)
    (copy / "__cluster_metadata-0/quorum-state").write_text("{")
    found = [one for one in rows("predict", copy) if one["row"] == "node-start"]
    outcomes = [(one["outcome"], one["cause"], one["broker_version"]) for one in found]
    assert ("refuses", "quorum-state", "4.4") in outcomes
    assert ("unknown", "version", "3.7") in outcomes
    named = rows("predict", "--broker-version", "newest", copy)
    assert {one["broker_version"] for one in named if "broker_version" in one} == {"4.4"}
    assert not any(one.get("cause") == "version" for one in named)


def test_prediction_shows_the_result_of_the_oldest_release() -> None:
    """A broker of 0.10.0 knows no batches of format 2: it cuts off all of them."""

    class Between(Releases):
        def range_of(self, directory: str) -> tuple[Version, Version]:
            return (0, 10, 0), (4, 4)

    path = str(SAMPLES / "damaged/4.4.0-three-nodes/n2/t10-1")
    (target,) = (one for one in resolve([path], EVERYTHING, None) if isinstance(one, Target))
    row = Predictor(Between(), Settings(), {}).partition(target)
    assert (row.broker_version, row.outcome, row.records_lost) == ("4.4", "truncate", 51)
    assert row.oldest == {"broker_version": "0.10.0", "outcome": "empty", "records_lost": 67}
    assert "With Kafka 0.10.0: empty, 67 records lost" in "\n".join(
        recovery_lines([row], None, 200)
    )


def every(*words: str) -> list[dict[str, Any]]:
    """Return the rows of a command, and the findings that come on standard error."""
    result = run(*words, "--format", "jsonl")
    lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


_NODES = "damaged/4.4.0-three-nodes"


@pytest.mark.parametrize(
    ("words", "kind", "oldest", "text"),
    [
        (
            "find-offset 20 {0}/t13-1",
            "offset-lookup",
            "offset error",
            "With Kafka 0.10.0: offset none",
        ),
        ("find-time -3 clean/2.8.2/oneseg-0", "time-lookup", "offset error", "modification time"),
        (
            "verify damaged/one-bit",
            "finding",
            "served_from",
            "For a 0.10.0 broker, that is offset",
        ),
        ("dump damaged/one-bit", "finding", "served_from", '"served_from":897'),
        (
            "elect {0}/n1 {0}/n2",
            "replica-election",
            "leader leader_end records_at_stake",
            "With Kafka 0.10.0: leader",
        ),
        (
            "why --now 2026-11-28T06:00Z clean/2.8.2/oneseg-0",
            "segment-fate",
            "verdict deletable_at_ms",
            "With Kafka 0.10.0: verdict active",
        ),
        (
            "reindex --all clean/2.8.2/oneseg-0",
            "reindex",
            "entries_after first_difference",
            "Kafka 0.10.0 writes other",
        ),
    ],
)
def test_answers_mention_the_oldest_release(
    words: str, kind: str, oldest: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_releases, "writers", lambda *_: ((0, 10, 0), (4, 4)))
    monkeypatch.setenv("COLUMNS", "200")
    given = words.format(_NODES + "/n2" if "t13-1" in words else _NODES).split()
    asked = [str(SAMPLES / one) if "/" in one else one for one in given]
    found = [one for one in every(*asked) if one["row"] == kind and one.get("oldest")]
    assert found
    assert {name for one in found for name in one["oldest"]} <= {*oldest.split(), "broker_version"}
    assert all(one["oldest"]["broker_version"] == "0.10.0" for one in found)
    shown = run(*asked, "--format", "table")
    assert text in " ".join((shown.stdout + shown.stderr).split())
    if words.startswith("dump"):
        return
    # One release that was named has no other end.
    assert not any(one.get("oldest") for one in every(*asked, "--broker-version", "4.4"))


def test_groups_and_salvage_name_their_release() -> None:
    salvaged = rows("salvage", SAMPLES / "clean/2.8.2")
    assert {one["broker_version"] for one in salvaged if one["row"] == "salvaged"} == {"3.6"}
    asked = rows("groups", SAMPLES / "clean/4.4.0")
    commits = [one["broker_version"] for one in asked if one.get("expire_ms") is not None]
    assert commits
    assert set(commits) == {"4.4"}

"""No finding on what sound brokers wrote: logs and indexes of every era.

Corpora of real brokers in all their states, directories that the broker's own append code writes
from a seed, and indexes that brokers of 1.0 and 2.8 write beside the same logs. One directory in
eighteen ways on every run; KDUMP_FUZZ=long takes 300, from KDUMP_FUZZ_SEED on.
"""

import random
import shutil
from pathlib import Path
from typing import Any

import corpus
import pytest
from each import each
from long_runs import LONG, SEED
from oracle import OracleError, old_oracle, oracle
from segments import partition_of, run_checks, without_notes

from kdump.storage.local_log import looks_like_partition

COUNT = 300 if LONG else 8
OLD_COUNT = 150 if LONG else 3

SETS = (
    "modern/data/live",
    "modern/data/clean",
    "modern/data/killed",
    "modern/data/recovered",
    "modern/extras/future-live",
    "modern/extras/future-killed",
    "modern/extras/metadata-torn-after",
    "old/mixed-282.live",
    "old/mixed-282.killed",
    "old/mixed-282.clean",
    "old/v0-0822.live",
    "old/v0-0822.killed",
    "old/v0-0822.clean",
    "old/v0-0901.live",
    "old/v0-0901.killed",
    "old/v0-0901.clean",
    "old/v1-01022.live",
    "old/v1-01022.killed",
    "old/v1-01022.clean",
)
PROFILES = (
    *("tiny", "mixed-v0", "mixed-v1", "mixed-v2", "mixed-all", "leader-v0", "leader-v1"),
    *("leader-v2", "logappend", "txn", "compacted", "outoforder-time", "restarts"),
    *("huge-offsets", "group-offsets", "txn-state", "metadata", "share-state"),
)


def partitions(directory: Path) -> list[Path]:
    """Find partitions, but for those that were sent deliberately wrong requests."""
    return [
        path
        for path in sorted(directory.rglob("*-*"))
        if path.is_dir()
        and not path.name.startswith("bad")
        and looks_like_partition([entry.name for entry in path.iterdir()])
    ]


@each("deep", [False, True], ids=["", "deep"])
@each("name", SETS)
def test_corpora_have_no_damage(name: str, deep: bool) -> None:
    found = partitions(corpus.corpus(name))
    assert len(found) >= 3
    for path in found:
        assert not without_notes(run_checks(path, deep=deep)), path
        assert not without_notes(run_checks(path, quick=True)), path


def options(draw: random.Random) -> dict[str, str]:
    given: dict[str, str] = {}
    if draw.random() < 0.6:
        given["indexIntervalBytes"] = str(draw.choice([0, 50, 200, 1024]))
    if draw.random() < 0.5:
        given["segmentBytes"] = str(draw.choice([40_000, 60_000, 100_000]))
    if draw.random() < 0.4:
        given["crash"] = "true"
    if draw.random() < 0.3:
        given["batches"] = str(draw.choice([30, 100, 300]))
    return given


def make_directory(
    parent: Path, number: int, profiles: tuple[str, ...]
) -> tuple[Path, dict[str, str]]:
    """Write a directory; a batch larger than a segment is refused, then segments are large."""
    draw = random.Random(number)
    profile, given = profiles[number % len(profiles)], options(draw)
    try:
        return oracle().make(profile, number, parent / f"{profile}-0", **given), given
    except OracleError:
        del given["segmentBytes"]
        shutil.rmtree(parent / f"{profile}-0", ignore_errors=True)
        return oracle().make(profile, number, parent / f"{profile}-0", **given), given


@pytest.mark.oracle
@each("number", range(SEED, SEED + COUNT))
def test_generated_directories_have_no_damage(tmp_path: Path, number: int) -> None:
    directory, _ = make_directory(tmp_path, number, PROFILES)
    assert not without_notes(run_checks(directory, deep=True))
    assert not without_notes(run_checks(directory, quick=True))
    partition = partition_of(directory)
    assert partition.segments


@pytest.mark.oracle
@each("number", range(SEED, SEED + OLD_COUNT))
@each("how", ["replay", "recover"])
@each("version", ["1.0", "2.8"])
def test_indexes_of_older_brokers_have_no_damage(
    tmp_path: Path, version: str, how: str, number: int
) -> None:
    """One entry for an append of many batches, first offsets and last ones (I9)."""
    profiles = tuple(profile for profile in PROFILES if not profile.endswith(("state", "data")))
    directory, given = make_directory(tmp_path, number, profiles)
    draw = random.Random(number)
    members: dict[str, Any] = {"indexIntervalBytes": int(given.get("indexIntervalBytes", 4096))}
    if how == "replay":
        most = draw.choice([1, 3, 10, 40])
        members |= {"batchesPerAppend": [1, most], "seed": number, "leader": draw.random() < 0.5}
    out = tmp_path / "out-0"
    out.mkdir()
    answer = old_oracle(version).answer(how, dir=directory, out=out, **members)
    assert answer["ok"], answer
    segments = answer["result"]["segments"] if how == "recover" else []
    if any("error" in one or one["truncatedBytes"] for one in segments):
        return  # alone, without the producers of earlier segments, it cut a sound log or gave up
    for log in directory.glob("*.log"):
        shutil.copy(log, out / log.name)
    assert not without_notes(run_checks(out))

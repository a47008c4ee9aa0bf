"""Directories that the broker's own append code writes from a seed: what it reads, kdump reads.

One seed for each profile on every run; KDUMP_FUZZ=long, or a large KDUMP_FUZZ_COUNT, takes more,
from KDUMP_FUZZ_SEED on.
"""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from dumped import Json, first_difference, run_dump
from each import each
from long_runs import SEED, how_many
from oracle import PROFILES, Oracle, oracle
from partitions import target_of

from kdump.broker.visibility import View

pytestmark = pytest.mark.oracle

_COUNT = how_many(5000, 300_000)
SEEDS = range(SEED, SEED + max(1, _COUNT // 5000))


IN_FULL = 256  # bytes; the oracle gives longer keys and values by hash and size


def make_directory(tmp_path: Path, profile: str, seed: int) -> tuple[Oracle, Path]:
    """Write a directory; it goes with the test."""
    asked = oracle()
    return asked, asked.make(profile, seed, tmp_path / f"{profile}-0")


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def batch_of_theirs(batch: Json) -> Json:
    """Write the oracle's batch as a `batch` row; -1 stands there for what v0 and v1 lack."""
    modern = batch["magic"] >= 2
    timed = batch["magic"] >= 1
    return {
        "position": batch["position"],
        "size_bytes": batch["sizeInBytes"],
        "magic": batch["magic"],
        "codec": batch["codec"],
        "base_offset": batch["baseOffset"],
        "last_offset": batch["lastOffset"],
        "records_count": batch["count"],
        "crc": batch["crc"],
        "crc_valid": batch["isValid"],
        "timestamp_type": batch["timestampType"] if timed else None,
        "max_timestamp_ms": batch["maxTimestamp"] if timed else None,
        "leader_epoch": batch["partitionLeaderEpoch"] if modern else None,
        "producer_id": batch["producerId"] if modern else None,
        "producer_epoch": batch["producerEpoch"] if modern else None,
        "base_sequence": batch["baseSequence"] if modern else None,
        "last_sequence": batch["lastSequence"] if modern else None,
        "transactional": batch["isTransactional"],
        "control": batch["isControl"],
        "delete_horizon_ms": batch["deleteHorizonMs"],
    }


def batch_of_ours(row: Json) -> Json:
    """Drop what the oracle's answer lacks: the base timestamp, and a v0 or v1 entry's count."""
    aside = {"row", "topic", "partition", "segment", "base_timestamp_ms"}
    members = {name: value for name, value in row.items() if name not in aside}
    if row["magic"] < 2:
        assert row["records_count"] is not None
        members["records_count"] = None
    return members


def bytes_as_given(value: str | None) -> Any:
    if value is None or len(value) <= 2 * IN_FULL:
        return value
    plain = bytes.fromhex(value)
    return {"size": len(plain), "sha256": hashlib.sha256(plain).hexdigest()}


def record_of_ours(row: Json) -> Json:
    """Write a `record` row as the oracle's record."""
    members: Json = {
        "position": row["position"],
        "offset": row["offset"],
        "timestamp": -1 if row["timestamp_ms"] is None else row["timestamp_ms"],
        "key": bytes_as_given(row["key"]),
        "value": bytes_as_given(row["value"]),
    }
    if row["headers"]:
        members["headers"] = [
            [bytes.fromhex(header["key"]).decode(), header["value"]] for header in row["headers"]
        ]
    if row["sequence"] is not None:
        members["sequence"] = row["sequence"]
    if row["control"] is not None:
        members["control"] = row["control"]["type"]
    return members


@each("seed", SEEDS)
@each("profile", PROFILES)
def test_batches_and_records_equal_the_broker(tmp_path: Path, profile: str, seed: int) -> None:
    asked, directory = make_directory(tmp_path, profile, seed)
    assert logs(directory)
    for log in logs(directory):
        rows, found = run_dump(log, mode="batches", deep=True)
        answer = asked.ask("batches", file=log)
        assert "error" not in answer
        assert answer["endPosition"] == answer["logSize"] == log.stat().st_size
        theirs = [batch_of_theirs(batch) for batch in answer["batches"]]
        assert first_difference(map(batch_of_ours, rows), theirs) == ""
        assert found == []

        rows, found = run_dump(log)
        records = asked.ask("records", file=log, maxHex=IN_FULL)
        assert records["batchErrors"] == []
        assert first_difference(map(record_of_ours, rows), records["records"]) == ""
        assert found == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("profile", ["txn", "compacted", "leader-v2"])
def test_aborted_transactions_and_last_stable_offset(
    tmp_path: Path, profile: str, seed: int
) -> None:
    asked, directory = make_directory(tmp_path, profile, seed)
    view = View(target_of(directory), committed=True, limit=1 << 26)
    theirs = asked.ask("aborted", dir=directory, offset=0)
    end = theirs["logEndOffset"] if view.end is None else view.end
    assert end == theirs["lastStableOffset"]
    ours = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in view.aborted]
    assert sorted(ours) == sorted(
        (entry["producerId"], entry["firstOffset"], entry["lastOffset"])
        for entry in theirs["aborted"]
    )


@each("seed", SEEDS)
@each("profile", ["leader-v1", "mixed-all", "txn", "huge-offsets"])
def test_ranges_start_where_the_broker_starts(tmp_path: Path, profile: str, seed: int) -> None:
    """The first record of a range is the first at or after the offset that a fetch hands out."""
    asked, directory = make_directory(tmp_path, profile, seed)
    every, _ = run_dump(directory)
    for number in range(0, len(every), max(1, len(every) // 12)):
        offset = every[number]["offset"]
        rows, found = run_dump(directory, from_offset=offset, limit=3)
        assert rows == every[number : number + 3]
        assert found == []
        answer = asked.ask("find_offset", dir=directory, offset=offset, maxSize=1)
        assert answer["unified"]["fetch"]["position"] == rows[0]["position"]

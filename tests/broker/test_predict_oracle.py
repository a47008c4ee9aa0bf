"""Random starts: broken directories, loaded by the classes of Kafka 4.1.1 and predicted by us.

What must agree: whether the start succeeds, the log end, and every log's size afterwards.
KDUMP_FUZZ=long takes 500 starts; KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import hashlib
from pathlib import Path
from typing import Any

import builders
import pytest
from each import each
from long_runs import SEED, how_many
from oracle import old_oracle, oracle
from recoveries import INTERVAL, Case

from kdump.broker.log_reader import RefusalError
from kdump.broker.recovered_producers import Producers, Snapshots
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.storage.names import Kind

pytestmark = pytest.mark.oracle

_COUNT = how_many(25, 500)

# Seeds on which we once differed, with what we had wrong.
ONCE_WRONG = {
    232: "a wrapper's first offset names a part of a split segment",
    263: "the same, where the first part is the segment's own",
    332: "a search compares base offsets from 4.1 on",
    351: "the same, behind a repeated batch",
    654: "the same, after a recovery",
    914: "parts of a split segment with one name",
    1361: "a .log.swap without its .index.swap is given one of zeros",
    2442: "a wrapper whose offset is below its inner offsets stops a search",
    2793: "as 1361, among other segments",
    5533: "a search from a negative position begins at 0",
    6495: "the offset of the first open transaction is looked up, too",
    7874: "a search that opens a wrapper opens all of it",
    4114: "as 1361, with offsets too far apart",
}
# Known differences: seed -> why.
KNOWN = {
    6888: "the broker frames all messages of a wrapper before it reads a field of one; behind a "
    "message whose fields do not fit we do not look, and there one with an impossible size follows",
}


def differences(case: Case) -> str | None:
    broker, ours = case.broker(), case.ours()
    fields: dict[str, Any] = ours["fields"]
    if ("refused" in broker) != ("refused" in ours):
        return f"{case}\n  broker {broker}\n  ours {ours}"
    if "refused" in broker:
        return None
    if (broker["log_end"], broker["logs"]) != (ours["log_end"], ours["logs"]):
        return f"{case}\n  broker {broker['log_end']} {broker['logs']}\n  ours {ours}"
    wrong = row_differences(case, fields, broker["logs"])
    return f"{case}\n  {wrong}: {fields}" if wrong else None


def row_differences(case: Case, row: dict[str, Any], after: dict[int, int]) -> str | None:
    """Hold the row itself to what the broker left."""
    before = {int(path.stem): path.stat().st_size for path in case.directory.glob("*.log")}
    if row["truncate_segment"] is not None:
        left = after.get(row["truncate_segment"])
        if left != row["truncate_position"] and row["outcome"] != "delete-segments":
            return f"truncate_position is not {left}"
    swapped = any(case.directory.glob("*.swap"))
    split = "split" in row["reason"]
    deleted = set(row["segments_deleted"])
    split = split or not deleted <= set(before)  # a part of a split segment, deleted again
    if not swapped and not split and deleted != set(before) - set(after):
        return "segments_deleted"
    if row["outcome"] in ("clean", "recover") and not swapped and not split:
        for base, size in after.items():
            if before.get(base, 0) != size:
                return f"log {base} changed"
    if not row["log_end_after"] <= row["log_end_before"] and row["outcome"] != "wrong-log-end":
        return "log_end_before"
    return None


@pytest.mark.parametrize("first", range(SEED, SEED + _COUNT, 25))
def test_predictions_match_random_starts(first: int, tmp_path: Path) -> None:
    judge = oracle()
    failures = []
    for seed in range(first, min(first + 25, SEED + _COUNT)):
        case = Case(judge, seed, tmp_path / str(seed))
        if (found := differences(case)) is not None and seed not in KNOWN:
            failures.append(found)
    assert not failures, "\n".join(failures)


@each("seed", sorted(ONCE_WRONG))
def test_start_regressions(seed: int, tmp_path: Path) -> None:
    found = differences(Case(oracle(), seed, tmp_path))
    assert found is None, found


_VALUE = b"\0\0\0\0\0\1"  # version, coordinator epoch
_MARKER = builders.control_record(0, _VALUE)


@each(
    ("record", "starts"),
    [
        (_MARKER, True),
        (_MARKER + b"\0\0", False),
        (_MARKER + _MARKER, False),
        (_MARKER[:-1], False),
        (builders.control_record(0, b"\xff\xff\0\0\0\1"), False),
        (builders.control_record(0, b"short"), False),
        (builders.control_record(9, _VALUE), False),
        (builders.record(key=b"\0", value=_VALUE), False),
    ],
)
def test_replayed_marker_is_predicted(record: bytes, starts: bool, tmp_path: Path) -> None:
    """A batch with one declared record; bytes behind it stop a start like a broken marker does."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    log = (
        builders.batch([builders.record(0)], attributes=0x10, base_sequence=0, **producer),
        builders.batch([record], base_offset=1, attributes=0x30, **producer),
        builders.batch([builders.record(0)], base_offset=2),
    )
    case = Case.of(oracle(), tmp_path, {0: b"".join(log)})
    assert ("refused" in case.broker()) is not starts
    assert (found := differences(case)) is None, found


@pytest.mark.parametrize("version", ["2.8", "1.0"])
@pytest.mark.parametrize("first", range(SEED, SEED + (100 if _COUNT > 100 else 10), 10))
def test_recovery_by_older_brokers_is_predicted(version: str, first: int, tmp_path: Path) -> None:
    """Segment by segment: the bytes cut, and the index that is built."""
    judge, old = oracle(), old_oracle(version)
    broker = tuple(map(int, version.split(".")))
    settings = Settings(index_interval_bytes=INTERVAL)
    failures = []
    for seed in range(first, first + 10):
        case = Case(judge, seed, tmp_path / str(seed))
        told = old.ask("recover", dir=case.directory, indexIntervalBytes=INTERVAL)
        producers = Producers(Snapshots(()))
        for segment in told["segments"]:
            base = segment["baseOffset"]
            path = case.directory / f"{base:020d}.log"
            ours = Segment(base, {Kind.LOG: str(path)}, broker, settings)
            producers.last_aborted = None
            try:
                cut: int | None = ours.recover(producers)
            except RefusalError:
                cut = None
            if "Fenced" in str(segment.get("error")):
                break  # known: epochs that fall stop brokers before 2.4, which is not followed
            if cut != segment.get("truncatedBytes"):
                failures.append(f"{case}: segment {base}: {cut}, broker {segment}")
                break
            if cut is None:
                break  # what the producers' state is after that is not known
            built = told["files"][f"{base:020d}.index"]
            if hashlib.sha256(bytes(ours.offset_index().data)).hexdigest() != built["sha256"]:
                failures.append(f"{case}: segment {base}: another index")
    assert not failures, "\n".join(failures)

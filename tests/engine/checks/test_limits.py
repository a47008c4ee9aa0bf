"""What stated limits would have refused: one note of each kind, with its first place."""

import os
from pathlib import Path

import builders
import pytest
import segments
from directories import BATCH_BYTES, TIME, DataDirectory, codes, findings
from each import each

from kdump.broker.settings import FILE, Settings
from kdump.engine.checks.limits import Limits
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding

SECOND = 1000


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Give two segments, the first last changed at TIME + 10 s, the second at TIME + 20 s."""
    directory = DataDirectory(tmp_path / "data")
    partition = directory.partition("orders", 0)
    directory.stop()
    for base, seconds in ((0, 10), (10, 20)):
        changed_ns = (TIME + seconds * SECOND) * 1_000_000
        os.utime(partition / f"{base:020}.log", ns=(changed_ns, changed_ns))
    return directory


def run_verify(data: DataDirectory, text: str, *, deep: bool = True) -> list[Finding]:
    path = data.path.parent / "server.properties"
    path.write_text(f"log.dirs={data.path}\n{text}\n")
    return findings(server_properties=str(path), deep=deep)


def test_missing_limits_make_no_note(data: DataDirectory) -> None:
    assert codes(data.path, deep=True) == []
    assert run_verify(data, "") == []


def test_batches_over_the_limit_are_a_note(data: DataDirectory) -> None:
    assert run_verify(data, f"message.max.bytes={BATCH_BYTES}") == []
    told = run_verify(data, f"message.max.bytes={BATCH_BYTES - 1}", deep=False)
    assert [(found.code, found.severity.value, found.actual) for found in told] == [
        ("over-message-limit", "note", BATCH_BYTES)
    ]
    assert (told[0].segment, told[0].position, told[0].offset) == (0, 0, 1)
    assert told[0].expected == BATCH_BYTES - 1
    assert told[0].message == (
        f"10 batches are larger than message.max.bytes={BATCH_BYTES - 1:,}; the largest has "
        f"{BATCH_BYTES:,} bytes."
    )


def test_times_after_the_last_change_of_the_file(data: DataDirectory) -> None:
    log = data.path / "orders-0" / f"{10:020}.log"
    changed_ns = (TIME - 5 * SECOND) * 1_000_000
    os.utime(log, ns=(changed_ns, changed_ns))
    assert run_verify(data, "log.message.timestamp.after.max.ms=6000") == []
    told = run_verify(data, "log.message.timestamp.after.max.ms=5015")
    assert [(found.code, found.segment, found.position) for found in told] == [
        ("record-time-limit", 10, 3 * BATCH_BYTES)
    ]
    assert (told[0].expected, told[0].actual) == (5015, 5019)
    assert told[0].message == (
        "In 2 batches, record timestamps are up to 5,019 ms later than the last change of their "
        "file; the timestamp limits in the settings allow 5,015 ms."
    )
    assert run_verify(data, "log.message.timestamp.after.max.ms=5015", deep=False) == []


def test_times_before_the_segment_was_begun(data: DataDirectory) -> None:
    assert run_verify(data, "log.message.timestamp.before.max.ms=10000") == []
    told = run_verify(data, "log.message.timestamp.before.max.ms=9985")
    assert [(found.code, found.segment, found.position) for found in told] == [
        ("record-time-limit", 10, 0)
    ]
    assert (told[0].expected, told[0].actual) == (9985, 9990)
    assert told[0].message == (
        "In 3 batches, record timestamps are up to 9,990 ms earlier than the last change of the "
        "previous segment; the timestamp limits in the settings allow 9,985 ms."
    )


def test_old_timestamp_limit_applies_to_both_directions(data: DataDirectory) -> None:
    told = run_verify(data, "log.message.timestamp.difference.max.ms=9985")
    assert [found.code for found in told] == ["record-time-limit"]


@each("limit", ["after", "before"])
@each(
    ("attributes", "told_of"),
    [(0, True), (builders.LOG_APPEND_TIME, False), (builders.DELETE_HORIZON, False)],
)
def test_times_not_set_by_producers(
    tmp_path: Path, limit: str, attributes: int, told_of: bool
) -> None:
    """A broker's own clock, and a delete horizon in the place of the first time."""
    log = b"".join(
        builders.batch(base_offset=offset, base_timestamp=TIME, attributes=attributes)
        for offset in (10, 11)
    )
    directory = segments.write_partition(tmp_path, {0: segments.batches(0, 9), 10: []})
    segments.write(directory, 10, "log", log)
    for base, seconds in ((0, 9), (10, -9 if limit == "after" else 9)):
        changed_ns = (TIME + seconds * SECOND) * 1_000_000
        os.utime(directory / f"{base:020}.log", ns=(changed_ns, changed_ns))
    name = f"timestamp_{limit}_max_ms"
    stated = Settings().override(FILE, {name: 5000})
    partition = segments.partition_of(directory, deep=True, settings=stated)
    found = [one for one in scan(partition, [Limits(partition)]) if isinstance(one, Finding)]
    assert [(one.code, one.segment, one.position, one.offset) for one in found] == [
        ("record-time-limit", 10, 0, 10)
    ] * told_of

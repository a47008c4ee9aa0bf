"""What a consumer is handed: log start, high watermark, last stable offset, aborted data."""

import os
import random
import struct
from pathlib import Path

import builders
import pytest
from dumped import run_dump
from partitions import target_of

from kdump.broker.visibility import View
from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding, Severity
from kdump.storage import names

WRITTEN = 1_700_000_000  # seconds; when the log was last written
ABORT, COMMIT = 0, 1


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path


def data(base: int, producer: int = -1, *, transactional: bool = False, count: int = 1) -> bytes:
    return builders.batch(
        [builders.record(n) for n in range(count)],
        base_offset=base,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        attributes=builders.TRANSACTIONAL if transactional else 0,
    )


def write_log(directory: Path, *segments: list[bytes], bases: tuple[int, ...] = (0,)) -> Path:
    path = directory / "orders-7"
    path.mkdir(exist_ok=True)
    for base, entries in zip(bases, segments, strict=True):
        log = path / f"{base:020}.log"
        log.write_bytes(b"".join(entries))
        os.utime(log, (WRITTEN, WRITTEN))
    return path


def write_checkpoint(directory: Path, name: str, *lines: str, time: int = WRITTEN) -> None:
    path = directory / name
    path.write_text("\n".join(("0", str(len(lines)), *lines)) + "\n")
    os.utime(path, (time, time))


def write_aborted(path: Path, base: int, *entries: tuple[int, int, int, int]) -> None:
    packed = b"".join(struct.pack(">bxqqqq", 0, *entry) for entry in entries)
    (path / f"{base:020}.txnindex").write_bytes(packed)


def write_snapshot(path: Path, offset: int, *producers: tuple[int, int]) -> None:
    """Write (producer id, first offset of its open transaction or -1)."""
    entries = b"".join(
        struct.pack(">qhiqiqiq", producer, 0, 0, offset - 1, 0, 0, -1, first)
        for producer, first in producers
    )
    covered = struct.pack(">i", len(producers)) + entries
    head = struct.pack(">hI", 1, builders.crc32c(covered))
    (path / f"{offset:020}.snapshot").write_bytes(head + covered)


def ten(log_dir: Path) -> Path:
    """Offsets 0 to 9, in batches of one."""
    return write_log(log_dir, [data(n) for n in range(10)])


def dump_offsets(path: Path, level: str = "read_uncommitted") -> tuple[list[int], list[Finding]]:
    rows, found = run_dump(path, visible=True, isolation=level)
    return [row["offset"] for row in rows], found


def test_dump_ends_at_the_high_watermark(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "other 7 3", "orders 7 6", "orders 6 1")
    assert dump_offsets(path) == ([0, 1, 2, 3, 4, 5], [])


def test_high_watermark_may_be_inside_a_batch(log_dir: Path) -> None:
    """A high watermark, like a log start, may fall inside a batch."""
    path = write_log(log_dir, [data(0, count=4), data(4, count=4)])
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 6")
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 2")
    assert dump_offsets(path) == ([2, 3, 4, 5], [])


def test_high_watermark_is_limited_to_the_log_end(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 600")
    assert dump_offsets(path) == (list(range(10)), [])


@pytest.mark.parametrize(
    ("line", "age", "why"),
    [
        (None, 0, "not on disk, or cannot be read"),
        ("other 7 5", 0, "not on disk, or cannot be read"),
        ("orders 7 5", 11, "was written 11 s before the log's last change"),
        ("orders 7 1", 0, "is below the log start"),
    ],
)
def test_missing_high_watermark_is_replaced_by_the_log_end(
    log_dir: Path, line: str | None, age: int, why: str
) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 2")
    if line:
        write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, line, time=WRITTEN - age)
    offsets, found = dump_offsets(path)
    assert offsets == list(range(2, 10))
    assert [one.code for one in found] == ["high-watermark-unknown"]
    assert why in found[0].message
    assert found[0].severity.value == "note"
    assert (found[0].topic, found[0].partition, found[0].path) == ("orders", 7, str(path))


@pytest.mark.parametrize("age", [-100, 0, 10])
def test_slightly_older_checkpoint_is_used(log_dir: Path, age: int) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 5", time=WRITTEN - age)
    assert dump_offsets(path) == (list(range(5)), [])


def test_log_start(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 10")
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 4")
    assert dump_offsets(path)[0] == [4, 5, 6, 7, 8, 9]


def test_log_start_below_the_first_segment(log_dir: Path) -> None:
    """Retention deletes segments without writing the checkpoint; so does copying to a tier."""
    path = write_log(log_dir, [data(n) for n in range(50, 55)], bases=(50,))
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 55")
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 4")
    offsets, (told,) = dump_offsets(path)
    assert offsets == [50, 51, 52, 53, 54]
    where = "not on this disk: they are in remote storage, unless they were deleted"
    assert str(told.message) == f"Offsets 4 to 49 are {where}."


def test_unreadable_log_start_checkpoint_is_reported(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 10")
    (log_dir / names.LOG_START_CHECKPOINT).write_text("0\nmany\n")
    offsets, found = dump_offsets(path)
    assert offsets == list(range(10))
    assert [one.code for one in found] == ["log-start-unknown"]


def test_range_narrows_the_view(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 7")
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 3")
    for low, high, expected in ((0, 99, [3, 4, 5, 6]), (4, 6, [4, 5]), (8, 99, []), (0, 3, [])):
        rows, _ = run_dump(path, visible=True, from_offset=low, to_offset=high)
        assert [row["offset"] for row in rows] == expected


def test_segment_file_is_read_in_its_partition(log_dir: Path) -> None:
    path = ten(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 7")
    assert dump_offsets(path / f"{0:020}.log")[0] == list(range(7))


def test_control_records_are_not_visible(log_dir: Path) -> None:
    entries = [
        data(0, 5, transactional=True),
        builders.marker(COMMIT, base_offset=1, producer_id=5),
    ]
    path = write_log(log_dir, [*entries, data(2)])
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 3")
    assert dump_offsets(path)[0] == [0, 2]
    assert dump_offsets(path, "read_committed")[0] == [0, 2]


# Transactions ------------------------------------------------------------------------------------


def transactions(log_dir: Path) -> Path:
    """Producer 5 aborts 0 and 2, then commits 5; producer 6 has left 7 open."""
    entries = [
        data(0, 5, transactional=True),
        data(1),
        data(2, 5, transactional=True),
        builders.marker(ABORT, base_offset=3, producer_id=5),
        data(4, 6),
        data(5, 5, transactional=True),
        builders.marker(COMMIT, base_offset=6, producer_id=5),
        data(7, 6, transactional=True),
        data(8),
    ]
    path = write_log(log_dir, entries)
    write_aborted(path, 0, (5, 0, 3, 4))
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 9")
    return path


def test_aborted_and_open_transactions(log_dir: Path) -> None:
    path = transactions(log_dir)
    assert dump_offsets(path) == ([0, 1, 2, 4, 5, 7, 8], [])
    shown, (note,) = dump_offsets(path, "read_committed")
    assert shown == [1, 4, 5]
    assert (note.code, note.severity, note.offset) == ("read-committed-stops", Severity.NOTE, 7)
    assert "Producer 6, epoch 0, has a transaction open since offset 7 (2023-11-14T22:" in (
        note.message
    )


def test_range_before_the_open_transaction_is_not_affected(log_dir: Path) -> None:
    path = str(transactions(log_dir))
    for end, notes in ((7, 0), (8, 1)):
        options = DumpOptions(visible=True, isolation="read_committed", to_offset=end)
        assert sum(isinstance(item, Finding) for item in dump([path], options)) == notes


def test_transactions_missing_in_the_index_are_returned(log_dir: Path) -> None:
    """As a broker does; a missing index silently gives aborted records to consumers."""
    path = transactions(log_dir)
    (path / f"{0:020}.txnindex").unlink()
    assert dump_offsets(path, "read_committed")[0] == [0, 1, 2, 4, 5]


def test_transaction_index_ends_at_an_unknown_version(log_dir: Path) -> None:
    path = transactions(log_dir)
    (path / f"{0:020}.txnindex").write_bytes(b"\x09" + bytes(33))
    assert dump_offsets(path, "read_committed")[0] == [0, 1, 2, 4, 5]


def test_transaction_decided_above_the_high_watermark_stays_open(log_dir: Path) -> None:
    """The marker at 6 is not replicated yet, so what it commits is not stable (L7)."""
    path = transactions(log_dir)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 6")
    assert dump_offsets(path, "read_committed")[0] == [1, 4]
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 3")
    assert dump_offsets(path, "read_committed")[0] == []
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 7")
    assert dump_offsets(path, "read_committed")[0] == [1, 4, 5]


def two_segments(log_dir: Path) -> Path:
    """A transaction opened in the first segment, open still; another aborted across the roll."""
    first = [data(0), data(1, 6, transactional=True), data(2, 5, transactional=True)]
    second = [
        data(3),
        data(4, 5, transactional=True),
        builders.marker(ABORT, base_offset=5, producer_id=5),
        data(6),
    ]
    path = write_log(log_dir, first, second, bases=(0, 3))
    write_aborted(path, 3, (5, 2, 5, 1))
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 7")
    return path


@pytest.mark.parametrize("snapshot", ["none", "sound", "torn", "above", "elsewhere"])
def test_open_since_an_earlier_segment(log_dir: Path, snapshot: str) -> None:
    path = two_segments(log_dir)
    if snapshot in ("sound", "torn"):
        write_snapshot(path, 3, (6, 1), (5, 2), (9, -1))
    if snapshot == "torn":
        file = path / f"{3:020}.snapshot"
        file.write_bytes(file.read_bytes()[:-1])
    if snapshot == "above":
        write_snapshot(path, 7)
    if snapshot == "elsewhere":
        write_snapshot(path, 5)
    shown, (note,) = dump_offsets(path, "read_committed")
    assert shown == [0]
    assert (note.code, note.offset) == ("read-committed-stops", 1)


def test_snapshot_replaces_the_replay(log_dir: Path) -> None:
    """Segments below it need not be there."""
    path = two_segments(log_dir)
    write_snapshot(path, 3, (5, 2))
    (path / f"{0:020}.log").write_bytes(data(0) + data(1) + data(2))
    assert dump_offsets(path, "read_committed")[0] == [0, 1, 2, 3, 6]


def test_abort_in_an_unread_segment_is_known(log_dir: Path) -> None:
    """Its later, committed data must not be taken for aborted: the marker is not met any more."""
    first = [data(0, 5, transactional=True), builders.marker(ABORT, base_offset=1, producer_id=5)]
    second = [data(2, 5, transactional=True), builders.marker(COMMIT, base_offset=3, producer_id=5)]
    path = write_log(log_dir, first, second, bases=(0, 2))
    write_aborted(path, 0, (5, 0, 1, 2))
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 4")
    assert dump_offsets(path, "read_committed")[0] == [2]
    rows, _ = run_dump(path, visible=True, isolation="read_committed", from_offset=2)
    assert [row["offset"] for row in rows] == [2]
    assert dump_offsets(path / f"{2:020}.log", "read_committed")[0] == [2]
    write_checkpoint(log_dir, names.LOG_START_CHECKPOINT, "orders 7 2")
    assert dump_offsets(path, "read_committed")[0] == [2]


def random_log(log_dir: Path, rng: random.Random) -> tuple[Path, dict[int, str], int]:
    """Write transactions of four producers; return each offset's fate, and the stable offset."""
    fate: dict[int, str] = {}
    begun: dict[int, list[int]] = {}
    segments: list[list[bytes]] = [[]]
    bases, aborted = [0], [[]]  # type: ignore[var-annotated]
    for offset in range(80):
        if rng.random() < 0.08:
            segments.append([])
            aborted.append([])
            bases.append(offset)
        producer = rng.randrange(1, 5)
        if rng.random() < 0.25 and producer in begun:
            kind = rng.choice((ABORT, COMMIT))
            segments[-1].append(builders.marker(kind, base_offset=offset, producer_id=producer))
            mine = begun.pop(producer)
            if kind == ABORT:
                aborted[-1].append((producer, mine[0], offset, 0))
                fate.update(dict.fromkeys(mine, "aborted"))
            fate[offset] = "control"
        elif rng.random() < 0.6:
            begun.setdefault(producer, []).append(offset)
            segments[-1].append(data(offset, producer, transactional=True))
            fate[offset] = "data"
        else:
            # A producer has no plain data amid a transaction.
            segments[-1].append(data(offset))
            fate[offset] = "data"
    path = write_log(log_dir, *segments, bases=tuple(bases))
    for base, entries in zip(bases, aborted, strict=True):
        if entries:
            write_aborted(path, base, *entries)
    return path, fate, min((mine[0] for mine in begun.values()), default=80)


@pytest.mark.parametrize("seed", range(25))
def test_random_transactions_are_filtered_in_any_range(log_dir: Path, seed: int) -> None:
    rng = random.Random(seed)
    path, fate, stable = random_log(log_dir, rng)
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 80")
    for low in (0, *rng.sample(range(80), 5)):
        high = rng.randrange(low, 90)
        rows, found = run_dump(
            path, visible=True, isolation="read_committed", from_offset=low, to_offset=high
        )
        assert [row["offset"] for row in rows] == [
            offset for offset in range(low, min(high, stable)) if fate[offset] == "data"
        ], (low, high)
        stopped = stable < min(high, 80)
        assert [one.code for one in found] == ["read-committed-stops"] * stopped, (low, high)


def test_headers_of_visible_batches(log_dir: Path) -> None:
    path = transactions(log_dir)
    rows, _ = run_dump(path, visible=True, isolation="read_committed", mode="batches")
    assert [row["base_offset"] for row in rows] == [1, 4, 5]


def view(path: Path) -> View:
    return View(target_of(path), committed=True, limit=1 << 20)


def test_damage_does_not_hide_an_open_transaction(log_dir: Path) -> None:
    path = transactions(log_dir)
    log = path / f"{0:020}.log"
    whole = log.read_bytes()
    broken = bytearray(whole)
    broken[70] ^= 1
    log.write_bytes(bytes(broken))
    os.utime(log, (WRITTEN, WRITTEN))
    assert view(path).end == 7


def test_empty_partition_has_no_records(log_dir: Path) -> None:
    path = write_log(log_dir, [])
    write_checkpoint(log_dir, names.REPLICATION_CHECKPOINT, "orders 7 0")
    assert dump_offsets(path) == ([], [])
    assert dump_offsets(path, "read_committed") == ([], [])


def test_no_high_watermark_before_0_8(log_dir: Path) -> None:
    path = log_dir / "orders-7"
    path.mkdir()
    payload = b"hello"
    entry = struct.pack(">BBI", 1, 0, builders.crc32(payload)) + payload
    (path / f"{0:020}.kafka").write_bytes(struct.pack(">i", len(entry)) + entry)
    rows, found = run_dump(path, visible=True)
    assert [row["value"] for row in rows] == [payload.hex()]
    assert found == []

"""The indexes that `reindex` writes, and where a broker's recovery would have ended."""

import struct
from pathlib import Path

import pytest
from builders import CONTROL, TRANSACTIONAL, batch, control_record, marker, message, record, wrapper
from each import each

from kdump import kernels
from kdump.broker import index_builder
from kdump.broker.index_builder import (
    IndexBuilder,
    IndexEntries,
    InvalidOffsetError,
    Rules,
    Stop,
)
from kdump.broker.producer_state import ProducerStates
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.storage.file_records import FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex


def build_index(
    path: Path, log: bytes, broker: Version = (4, 1), *, index_size_max_bytes: int = 10_000
) -> IndexBuilder:
    path.write_bytes(log)
    settings = Settings(index_interval_bytes=0, index_size_max_bytes=index_size_max_bytes)
    builder = IndexBuilder(0, Rules(broker, settings), ProducerStates())
    with Source(str(path)) as source:
        for item in FileRecords(source).walk():
            if not builder.take(item):
                break
    builder.finish()
    return builder


def test_recovery_ends_after_an_unreadable_marker(tmp_path: Path) -> None:
    """The broker notices when the batch is in the index already."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = batch([record()], attributes=TRANSACTIONAL, base_sequence=0, **producer)
    short = control_record(0, b"short")
    broken = batch([short], base_offset=1, attributes=TRANSACTIONAL | CONTROL, **producer)
    behind = [batch([record()], base_offset=at) for at in (2, 3)]
    log = b"".join((first, broken, *behind))
    builder = build_index(tmp_path / f"{0:020}.log", log, (4, 0))
    end = len(first + broken)
    words = "the control record of producer 7 cannot be read"
    assert builder.stop == Stop(end, 2, words, "cut")
    assert (builder.end_position, builder.next_offset, builder.lost) == (end, 2, 2)
    assert [entry for _, entry in builder.index.offset_index().slots()] == [(1, len(first))]
    words = "the control record of producer 7 is too short"
    assert build_index(tmp_path / f"{0:020}.log", log).stop == Stop(len(first), 1, words, "fail")


def entries_of(
    log: bytes,
    broker: Version = (4, 1),
    base: int = 0,
    *,
    interval: int = 0,
    most: int = 10_000,
    start: int = 0,
) -> tuple[IndexEntries, RecordBatches, int, int]:
    """Build entries of a whole log; give where that ended, and why."""
    rows, _, _ = kernels.walk(bytearray(log), 0, len(log), start, -1, True, 1000)
    settings = Settings(index_interval_bytes=interval, index_size_max_bytes=most)
    entries = IndexEntries(base, broker, settings, start=start)
    return entries, rows, *entries.take(rows)


def slots(index: OffsetIndex | TimeIndex) -> list[tuple[int, int]]:
    return [(*entry,) for _, entry in index.slots()]


def at(base: int, time: int = -1, count: int = 1) -> bytes:
    return batch([record(n) for n in range(count)], base_offset=base, max_timestamp=time)


SIZE = len(at(0))
MOST = (1 << 31) - 1


@each(
    ("times", "due", "last"),
    [
        ((-1, -1, -1), [], []),
        ((0, 0, 0), [(0, 100)], []),
        ((5, 9, 7), [(9, 101)], []),
        ((5, 6, 9), [(6, 101), (9, 102)], []),
        ((5,), [], [(5, 100)]),
        ((0,), [], [(0, 100)]),
    ],
)
@each("start", [0, 1000])
def test_time_entries_and_the_last_one(
    times: tuple[int, ...], due: list[tuple[int, int]], last: list[tuple[int, int]], start: int
) -> None:
    """One beside each offset entry if a later time was seen, and one at the end (I16)."""
    log = b"".join(at(100 + number, time) for number, time in enumerate(times))
    entries, rows, row, reason = entries_of(log, base=90, start=start)
    assert (row, reason) == (rows.count, reasons.END)
    assert slots(entries.time_index()) == due
    wanted = [(100 + number, number * SIZE) for number in range(1, len(times))]
    assert slots(entries.offset_index()) == wanted
    assert entries.finish()
    assert slots(entries.time_index()) == due + last
    old, *_ = entries_of(log, (0, 10), 90)
    assert old.finish()
    assert slots(old.time_index()) == []


@pytest.mark.parametrize(
    ("offsets", "times", "words"),
    [
        ((0, 1, 10, 3, 12), (0, 0, 5, 9, 6), "for offset 3 would be below the previous one, 10"),
        (
            (0, 20, 10, 11, 12),
            (0, 9, 5, 5, 30),
            "for offset 12 would be below the previous one, 20",
        ),
    ],
)
def test_falling_time_entry_is_not_written(
    offsets: tuple[int, ...], times: tuple[int, ...], words: str
) -> None:
    """An entry is due at each second batch; the slot for it is asked for first."""
    log = b"".join(map(at, offsets, times))
    for most, error in ((10_000, f"the time index entry {words}"), (24, "time index is full")):
        entries, rows, row, reason = entries_of(log, interval=SIZE, most=most)
        assert (row, reason) == (4, reasons.INDEX_FALLS)
        refusal = entries.refusal(rows, row)
        assert str(refusal).endswith(error)
        assert isinstance(refusal, InvalidOffsetError) == (most == 10_000)


def test_falling_last_time_entry_is_not_written() -> None:
    log = b"".join(map(at, (0, 1, 10, 3), (0, 0, 5, 9)))
    entries = entries_of(log, interval=SIZE)[0]
    assert not entries.finish()
    assert (
        str(entries.time_falls())
        == "the time index entry for offset 3 would be below the previous one, 10"
    )
    log = b"".join(map(at, (0, 1, 10, 10), (0, 0, 5, 9)))
    assert entries_of(log, interval=SIZE)[0].finish()
    log = b"".join(map(at, (0, 1, 10, 3), (0, 0, 5, 5)))
    assert entries_of(log, interval=SIZE)[0].finish()


def test_last_time_entry_of_an_offset_that_no_slot_holds() -> None:
    entries = entries_of(at(5, 9))[0]
    for base, relative in ((5, 0), (6, -1), (5 - (1 << 31), -(1 << 31)), (6 - (1 << 31), MOST)):
        entries.base_offset = base
        assert entries.finish()
        assert struct.unpack(">qi", entries.times[-12:]) == (9, relative)


@each(
    ("bases", "times", "most", "words"),
    [
        ((1, 2, 2), (-1, -1, -1), 8, "IllegalArgumentException: the offset index is full"),
        (
            (1, 2, 2),
            (-1, -1, -1),
            16,
            "the index entry due at {} would decrease from offset 2 to 2",
        ),
        ((1, 2, 2), (5, 6, 7), 24, "the index entry due at {} would decrease from offset 2 to 2"),
        ((1, 2, 1), (5, 6, 7), 24, "the index entry due at {} would decrease from offset 2 to 1"),
    ],
)
@each("start", [0, 500])
def test_first_falling_entry_gives_the_reason(
    bases: tuple[int, ...], times: tuple[int, ...], most: int, words: str, start: int
) -> None:
    log = b"".join(map(at, bases, times))
    entries, rows, row, reason = entries_of(log, most=most, start=start)
    assert (row, reason) == (2, reasons.INDEX_FALLS)
    assert str(entries.refusal(rows, row)) == words.format(2 * SIZE)


def test_brokers_before_2_0_index_first_offsets() -> None:
    log = at(0) + at(1, count=3) + at(1, count=4)
    for broker, indexed, falls in (((1, 1), [1], "1 to 1"), ((2, 0), [3, 4], None)):
        entries, rows, row, reason = entries_of(log, broker)
        assert [offset for offset, _ in slots(entries.offset_index())] == indexed
        if falls:
            assert reason == reasons.INDEX_FALLS
            assert str(entries.refusal(rows, row)).endswith(f"would decrease from offset {falls}")


@each(
    ("count", "times", "most", "full"),
    [
        (3, (-1,) * 3, 16, "time index"),
        (3, (-1,) * 3, 24, None),
        (4, (-1,) * 4, 16, "offset index"),
        (2, (5, 5), 24, None),
        (3, (5, 5, 5), 24, "time index"),
        (3, (-1, -1, 5), 24, None),
        (3, (5, 6, 7), 24, "time index"),
        (4, (5, 5, 5, 5), 24, "time index"),
        (3, (5, 6, 7), 36, None),
        (4, (5, 6, 7, 7), 36, "time index"),
    ],
)
def test_index_without_a_free_slot(
    count: int, times: tuple[int, ...], most: int, full: str | None
) -> None:
    log = b"".join(map(at, range(count), times))
    entries, *_ = entries_of(log, most=most)
    assert entries.full() == full
    old, *_ = entries_of(log, (0, 10), most=most)
    assert old.full() == ("offset index" if count - 1 > most // 8 else None)


def test_builder_returns_to_a_checkpoint() -> None:
    entries = entries_of(b"".join(at(n, n) for n in range(4)))[0]
    mark = entries.mark()
    before = bytes(entries.offsets), bytes(entries.times)
    more, _, _ = kernels.walk(bytearray(at(4, 9) + at(5, 9)), 0, 2 * SIZE, 4 * SIZE, -1, True, 9)
    for _ in range(2):
        entries.take(more)
        after = bytes(entries.offsets), bytes(entries.times)
        assert after != before
        entries.go_back(mark)
        assert (bytes(entries.offsets), bytes(entries.times)) == before
    entries.take(more)
    assert (bytes(entries.offsets), bytes(entries.times)) == after


PRODUCER = {"producer_id": 7, "producer_epoch": 0}
OPENING = batch([record()], attributes=TRANSACTIONAL, base_sequence=0, **PRODUCER)
ABORTING = marker(0, base_offset=1, producer_id=7)
PLAIN = batch([record()], base_offset=1, base_sequence=1, **PRODUCER)
ODD = batch([control_record(5, b"")], base_offset=1, attributes=0x30, **PRODUCER)
FIRST = batch([record()])
SECOND = batch([record()], base_offset=1)
THIRD = batch([record()], base_offset=2)
IN_BATCH = "writes records that no transaction can contain"


@each(
    ("log", "what", "outcome", "lost"),
    [
        ((FIRST, SECOND[:-1]), "an incomplete batch", "cut", 0),
        ((FIRST, SECOND[:7]), "an incomplete batch", "cut", 0),
        ((FIRST, bytes([*SECOND[:-1], 9]), THIRD), "a checksum mismatch", "cut", 0),
        ((FIRST, struct.pack(">qi", 1, 5) + bytes(9)),
         "the length is below that of the smallest message", "cut", 0),
        ((FIRST, struct.pack(">qiib", 1, 20, 0, 2) + bytes(15)),
         "the batch is smaller than its header", "cut", 0),
        ((FIRST, batch(base_offset=1 << 32), THIRD),
         f"offset {1 << 32} does not belong in the segment", "split", 2),
        ((FIRST, batch(base_offset=-2), THIRD),
         "offset -2 does not belong in the segment", "fail", 2),
        ((THIRD, SECOND, SECOND), "offsets decrease", "empty", 1),
        ((OPENING, PLAIN, THIRD), f"producer 7 {IN_BATCH}", "fail", 2),
        ((OPENING, ODD, THIRD), f"producer 7 {IN_BATCH}", "fail", 2),
        ((message(0), message(1, magic=3), message(2)), "a checksum mismatch", "cut", 2),
    ],
)  # fmt: skip
def test_recovery_end_and_the_broker_reaction(
    log: tuple[bytes, ...], what: str, outcome: str, lost: int, tmp_path: Path
) -> None:
    builder = build_index(tmp_path / f"{0:020}.log", b"".join(log))
    stop = builder.stop
    assert stop is not None
    taken = 2 if what == "offsets decrease" else 1
    assert (stop.what, stop.outcome, builder.lost) == (what, outcome, lost)
    assert stop.position == builder.end_position == sum(map(len, log[:taken]))
    behind = {THIRD: 3, SECOND: 2}.get(log[taken - 1], 1)
    assert stop.offset == builder.next_offset == behind
    assert (stop.gap is not None) == (lost == 0)


def test_zeros_after_the_last_batch_do_not_stop_recovery(tmp_path: Path) -> None:
    builder = build_index(tmp_path / f"{0:020}.log", FIRST + bytes(100))
    assert (builder.stop, builder.end_position, builder.next_offset) == (None, len(FIRST), 1)


def test_old_brokers_ignore_the_magic(tmp_path: Path) -> None:
    log = message(0) + message(1, magic=3) + message(2)
    builder = build_index(tmp_path / f"{0:020}.log", log, (0, 10))
    assert (builder.stop, builder.next_offset) == (None, 3)


def test_wrapper_at_which_an_old_broker_writes_an_entry(tmp_path: Path) -> None:
    inner = [message(4), message(5)]
    path = tmp_path / f"{0:020}.log"
    builder = build_index(path, message(0) + wrapper(inner, 5) + message(6), (1, 1))
    assert [entry[0] for entry in slots(builder.index.offset_index())] == [4, 6]
    broken = wrapper(inner, 5, compress=lambda plain: plain)
    builder = build_index(path, message(0) + broken + message(6), (1, 1))
    size = len(message(0))
    assert builder.stop == Stop(size, 1, "the wrapper cannot be opened", "fail")
    builder = build_index(path, message(0) + broken + message(6))
    assert [entry[0] for entry in slots(builder.index.offset_index())] == [5, 6]


def test_aborted_transactions_are_indexed(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    ended = marker(1, base_offset=1, producer_id=7)
    unknown = marker(0, base_offset=2, producer_id=8)
    builder = build_index(path, OPENING + ABORTING + unknown)
    assert bytes(builder.aborted) == struct.pack(">hqqqq", 0, 7, 0, 1, 2)
    assert [*builder.abort_markers] == [1, 2]
    assert builder.over_limit() is None
    builder = build_index(path, OPENING + ended)
    assert (bytes(builder.aborted), [*builder.abort_markers]) == (b"", [])


def test_abort_after_the_end_of_recovery_is_dropped(tmp_path: Path) -> None:
    """The producers of a run are replayed before an offset in it is found to fall."""
    again = batch([record()], base_offset=2, attributes=TRANSACTIONAL, base_sequence=1, **PRODUCER)
    log = (OPENING, ABORTING, again, SECOND, marker(0, base_offset=3, producer_id=7))
    builder = build_index(tmp_path / f"{0:020}.log", b"".join(log))
    assert builder.stop is not None
    assert builder.stop.outcome == "empty"
    assert builder.next_offset == 3
    assert bytes(builder.aborted) == struct.pack(">hqqqq", 0, 7, 0, 1, 2)


def test_oversize_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{0:020}.log"
    log = FIRST + SECOND + THIRD
    builder = build_index(path, log, index_size_max_bytes=8)
    expected = "does not fit in 8 bytes (segment.index.bytes): a broker cannot recover it"
    assert builder.over_limit() == expected
    assert build_index(path, log, index_size_max_bytes=40).over_limit() is None
    for most, words in ((1, None), (0, "more than 0 transactions were aborted in the segment")):
        monkeypatch.setattr(index_builder, "_ABORTED_MOST", most)
        builder = build_index(path, OPENING + ABORTING)
        assert builder.over_limit() == words

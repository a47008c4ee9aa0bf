"""One segment while a start is predicted, on logs made by hand."""

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import batch, control_record, message, record
from each import each

from kdump.broker.index_builder import InvalidOffsetError
from kdump.broker.log_reader import BLOCK_BYTES, RefusalError
from kdump.broker.recovered_producers import Producers, Snapshots
from kdump.broker.segment import OffsetOverflowError, Segment
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.errors import PathError
from kdump.storage.names import Kind
from kdump.storage.source import Source


def test_emptied_segment_has_empty_indexes(tmp_path: Path) -> None:
    """Recovery had made entries before the one that would not rise; none of them stays (I19)."""
    log = tmp_path / f"{0:020}.log"
    records = [record(0), record(1)]
    log.write_bytes(b"".join(batch(records, base_offset=at) for at in (0, 2, 4, 2)))
    segment = Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings(index_interval_bytes=0))
    with pytest.raises(InvalidOffsetError):
        segment.recover(None)
    assert len(segment.offset_index()) > 0
    assert len(segment.time_index()) > 0
    assert segment.truncate_to_base() == log.stat().st_size
    assert (segment.size_bytes, len(segment.offset_index()), len(segment.time_index())) == (0, 0, 0)
    assert segment.position_of(4) == 0


def test_log_may_shrink_during_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no longer there ends the reading; it is not asked for again and again."""
    log = tmp_path / f"{0:020}.log"
    one = batch([record(0, value=bytes(BLOCK_BYTES // 2))])
    log.write_bytes(b"".join(struct.pack(">q", at) + one[8:] for at in range(6)))
    reads = 0
    read_into = Source.read_into

    def shrinking(source: Source, *arguments: Any) -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            os.truncate(log, 0)
        assert reads < 100
        return read_into(source, *arguments)

    monkeypatch.setattr(Source, "read_into", shrinking)
    segment = Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings())
    segment.recover(None)
    assert segment.valid_end == 1
    assert segment.size_bytes == len(one)


def recover(path: Path, log: bytes, broker: Version, index_bytes: int) -> Segment:
    path.write_bytes(log)
    settings = Settings(index_interval_bytes=0, index_size_max_bytes=index_bytes)
    segment = Segment(0, {Kind.LOG: str(path)}, broker, settings)
    segment.recover(Producers(Snapshots(())))
    return segment


@each(
    ("broker", "index_bytes", "most", "full"),
    [
        ((4, 1), 8, 0, "time index"),
        ((4, 1), 24, 1, "time index"),
        ((4, 1), 60, 4, "time index"),
        ((0, 10), 24, 3, "offset index"),
    ],
)
def test_index_that_is_too_small(
    broker: Version, index_bytes: int, most: int, full: str, tmp_path: Path
) -> None:
    """An entry for each batch but the first; one slot of a time index is kept (I13)."""
    path = tmp_path / f"{0:020}.log"
    if broker < (0, 11):
        log = [message(at, timestamp=at) for at in range(most + 2)]
    else:
        log = [batch([record()], base_offset=at, max_timestamp=at) for at in range(most + 2)]
    segment = recover(path, b"".join(log[:-1]), broker, index_bytes)
    assert len(segment.offset_index()) == most
    with pytest.raises(RefusalError, match=f"the {full} is full"):
        recover(path, b"".join(log), broker, index_bytes)


@pytest.mark.parametrize("index_bytes", [10_000, 60])
def test_index_ends_where_a_marker_ends_recovery(index_bytes: int, tmp_path: Path) -> None:
    """The broken marker has its entry and stays; that the index would be full later is not met."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = batch([record()], attributes=0x10, base_sequence=0, **producer)
    marker = batch([control_record(0, b"short")], base_offset=1, attributes=0x30, **producer)
    behind = [batch([record()], base_offset=at, max_timestamp=1 << 60) for at in range(2, 20)]
    log = b"".join((first, marker, *behind))
    segment = recover(tmp_path / f"{0:020}.log", log, (4, 0), index_bytes)
    assert segment.end == len(first + marker)
    assert [entry for _, entry in segment.offset_index().slots()] == [(1, len(first))]
    assert segment.last_time().timestamp_ms < 1 << 60
    with pytest.raises(RefusalError, match="BufferUnderflowException"):
        recover(tmp_path / f"{0:020}.log", log, (4, 1), index_bytes)


def files_of(path: Path, log: bytes, **others: bytes) -> Segment:
    """Write a segment at offset 10, whose entries are one byte-equal batch each."""
    files = {}
    for suffix, content in {"log": log, **others}.items():
        file = path / f"{10:020}.{suffix}"
        file.write_bytes(content)
        kind = {"log": Kind.LOG, "index": Kind.OFFSET_INDEX, "timeindex": Kind.TIME_INDEX}[suffix]
        files[kind] = str(file)
    return Segment(10, files, (4, 1), Settings(index_interval_bytes=0))


def at(base: int, time: int = 0) -> bytes:
    return batch([record()], base_offset=base, max_timestamp=time)


SIZE = len(at(0))
TWO = at(10, 5) + at(11, 9)
INDEX = struct.pack(">ii", 1, SIZE)
TIMES = struct.pack(">qi", 9, 1)


def test_closed_files_are_reopened(tmp_path: Path) -> None:
    segment = files_of(tmp_path, TWO, index=INDEX, timeindex=TIMES)
    for _ in range(2):
        log, index, times = segment.log(), segment.offset_index(), segment.time_index()
        assert segment.log() is log
        assert segment.offset_index() is index
        assert segment.time_index() is times
        assert (index.last_offset, times.last_entry) == (11, (9, 11))
        segment.close()
        with pytest.raises(PathError):
            log.read(0, 1)
        assert segment.log() is not log
        assert segment.offset_index() is not index
        assert segment.time_index() is not times
        segment.close()
    (tmp_path / f"{10:020}.log").write_bytes(TWO + at(12))
    segment.close()
    assert segment.read_next_offset() == 13
    assert segment.end == 3 * SIZE


def test_rebuilt_indexes_are_kept(tmp_path: Path) -> None:
    segment = files_of(tmp_path, TWO, index=b"", timeindex=b"")
    assert segment.recover(None) == 0
    index = segment.offset_index()
    segment.close()
    assert segment.rebuilt
    assert segment.offset_index() is index
    assert segment.last_time() == (9, 11)
    assert segment.find_last_indexed() == (SIZE, 11)


def test_largest_time_known(tmp_path: Path) -> None:
    """That of the last entry; its file is not left open for it."""
    segment = files_of(tmp_path, TWO, timeindex=TIMES)
    assert segment.last_time() == (9, 11)
    (tmp_path / f"{10:020}.timeindex").write_bytes(struct.pack(">qi", 7, 0))
    assert segment.last_time() == (9, 11)
    assert segment.time_index().last_entry == (7, 10)
    assert segment.last_time() == (7, 10)
    without = Segment(10, {Kind.LOG: segment.path}, (4, 1), Settings())
    assert without.last_time() == without.time_index().last_entry == (-1, 10)


def test_times_that_a_truncation_leaves(tmp_path: Path) -> None:
    """The first of equal ones, wherever it lies."""
    log = at(9, 5) + at(8, 7) + at(7, 7) + at(10, 20)
    segment = files_of(tmp_path, log)
    assert segment.truncate_to_base() == SIZE
    assert segment.last_time() == (7, 8)
    assert (segment.end, segment.original_end, segment.size_bytes) == (3 * SIZE, 4 * SIZE, 3 * SIZE)
    nothing = files_of(tmp_path, at(8, 7))
    assert nothing.truncate_to_base() == 0
    assert nothing.last_time() == (7, 8)


def test_part_of_a_file(tmp_path: Path) -> None:
    path = files_of(tmp_path, at(5) + TWO + at(12)).path
    part = Segment(10, {Kind.LOG: path}, (4, 1), Settings(index_interval_bytes=0),
                   part=(SIZE, 3 * SIZE))  # fmt: skip
    assert (part.start, part.end, part.original_end, part.size_bytes) == (
        SIZE, 3 * SIZE, 3 * SIZE, 2 * SIZE
    )  # fmt: skip
    assert part.is_part
    found = part.translate_offset(11)
    assert found is not None
    assert found.position == 2 * SIZE
    assert part.translate_offset(12) is None
    assert part.position_of(11) == SIZE
    assert part.read_next_offset() == 12
    part.recover(None)
    assert part.position_of(11) == 2 * SIZE
    assert part.find_last_indexed() == (2 * SIZE, 11)
    assert (part.read_next_offset(), part.valid_end) == (12, 12)


def test_segment_without_bytes(tmp_path: Path) -> None:
    segment = files_of(tmp_path, b"", index=INDEX)
    assert (segment.size_bytes, segment.read_next_offset()) == (0, 10)
    assert segment.translate_offset(10) is None
    assert not segment.has_overflow()
    made = Segment(10, {}, (4, 1), Settings(), part=(0, 0))
    assert (made.path, made.size_bytes, made.read_next_offset()) == ("", 0, 10)


@pytest.mark.parametrize(
    ("last", "overflows"), [(9 + (1 << 31), False), (10 + (1 << 31), True), (9, False)]
)
def test_offset_too_far_above_the_base(tmp_path: Path, last: int, overflows: bool) -> None:
    assert files_of(tmp_path, at(last)).has_overflow() == overflows


def test_index_of_a_running_broker_ends_where_it_was_written(tmp_path: Path) -> None:
    index = INDEX + bytes(80)
    path = files_of(tmp_path, TWO, index=index).path
    files = {Kind.LOG: path, Kind.OFFSET_INDEX: path.replace(".log", ".index")}
    for running, entries, start in ((False, 11, 0), (True, 1, SIZE)):
        segment = Segment(10, files, (4, 1), Settings(), running=running)
        assert segment.position_of(12) == start
        assert segment.offset_index().entries == entries
        assert segment.position_of(12) == start


def test_log_of_more_bytes_than_can_be_counted(tmp_path: Path) -> None:
    segment = files_of(tmp_path, b"")
    os.truncate(segment.path, (1 << 31) - 1)
    segment.refuse_oversize()
    os.truncate(segment.path, 1 << 31)
    segment.close()
    with pytest.raises(RefusalError, match=r"log is larger than 2\^31 - 1 bytes"):
        segment.refuse_oversize()


def test_modification_time(tmp_path: Path) -> None:
    segment = files_of(tmp_path, TWO)
    os.utime(segment.path, ns=(0, 1_234_999_999))
    assert segment.modified_ms() == 1234
    Path(segment.path).unlink()
    with pytest.raises(PathError):
        segment.modified_ms()


@each(
    ("log", "cut", "valid", "why"),
    [
        (TWO, 0, 12, ""),
        (TWO + at(12)[:-1], SIZE - 1, 12, "an incomplete entry"),
        (at(10)[:-1], SIZE - 1, 10, "an incomplete entry"),
        (b"", 0, 10, ""),
    ],
)
def test_recovery(tmp_path: Path, log: bytes, cut: int, valid: int, why: str) -> None:
    segment = files_of(tmp_path, log)
    assert segment.recover(None) == cut
    assert (segment.end, segment.valid_end, segment.why_cut) == (len(log) - cut, valid, why)
    assert segment.bytes_read == len(log) - cut
    assert segment.recover(None) == 0
    assert segment.why_cut == why  # what was cut before stays


def test_recovery_stops_at_an_offset_out_of_range(tmp_path: Path) -> None:
    far = 11 + (1 << 32)
    for offset in (far, 9):
        segment = files_of(tmp_path, at(10) + at(11) + at(offset))
        with pytest.raises(OffsetOverflowError) as raised:
            segment.recover(None)
        assert str(raised.value) == f"offset {offset} in the segment of 10"
        assert segment.rebuilt
        assert [(*entry,) for _, entry in segment.offset_index().slots()] == [(11, SIZE)]


def test_recovery_with_a_falling_last_time(tmp_path: Path) -> None:
    log = at(10, 1) + at(11, 1) + at(20, 5) + at(12, 9)
    segment = files_of(tmp_path, log)
    segment.settings = Settings(index_interval_bytes=SIZE)
    with pytest.raises(
        InvalidOffsetError, match="for offset 12 would be below the previous one, 20"
    ):
        segment.recover(None)

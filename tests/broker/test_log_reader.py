"""How a reading of a log ends, release by release, on entries made by hand."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import batch, message, record, wrapper
from each import each

from kdump.broker.log_reader import (
    BLOCK_BYTES,
    CorruptRecordError,
    Entries,
    MemoryRefusalError,
    RefusalError,
    UnknowableError,
)
from kdump.broker.versions import Version
from kdump.record.layout import MAX_INT32
from kdump.storage.file_records import DEFAULT_LIMIT, HEADER_BLOCK_BYTES
from kdump.storage.source import Source


@each("above", [-1, 0, 1, 12])
def test_end_beyond_int32_is_refused(above: int, tmp_path: Path) -> None:
    """Before 1.1.1 the position, the twelve bytes of offset and size, and the size are added."""
    one = batch([record()])
    size = MAX_INT32 - len(one) - 12 + above
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(one + struct.pack(">qi", 1, size) + bytes(20))
    with Source(str(path)) as source:
        for broker, wraps in (((1, 1), above > 0), ((1, 1, 1), False)):
            entries = Entries(source, broker, 0, source.size)
            met = entries.as_is(0)
            assert next(met).count == 1
            if wraps:
                with pytest.raises(RefusalError, match=f"a size of {size} wraps around"):
                    next(met)
            else:
                assert list(met) == []


@each("limit", [BLOCK_BYTES, DEFAULT_LIMIT], ids=["too large to hold", "held"])
@each("sound", [True, False])
def test_entry_larger_than_a_block(sound: bool, limit: int, tmp_path: Path) -> None:
    small = batch([record()])
    large = bytearray(batch([record(value=bytes(2 * BLOCK_BYTES))], base_offset=1))
    if not sound:
        large[-1] ^= 1
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(small + large + batch([record()], base_offset=2))
    with Source(str(path)) as source:
        entries = Entries(source, (4, 1), 0, source.size, limit=limit)
        runs = [*entries.read_sound(MAX_INT32)]
        found = [run.batches.base_offset(0) for run in runs]
        assert found == ([0, 1, 2] if sound else [0])
        for run in runs:  # of one too large to be held there are no bytes
            held = len(run.data) > 0
            assert held or run.base == run.batches.position(0) == len(small)
        assert entries.stop == (source.size if sound else len(small))
        assert entries.why == ("" if sound else "a checksum mismatch")


def test_message_above_the_limit_of_an_old_broker(tmp_path: Path) -> None:
    """Recovery of brokers before 0.11 held each against message.max.bytes, its header included."""
    log = [message(0), message(1, value=bytes(100)), message(2)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(log))
    most = len(log[1]) - 12
    with Source(str(path)) as source:
        for broker, limit, taken in (((0, 10), most - 1, 1), ((0, 10), most, 3), ((1, 0), 1, 3)):
            entries = Entries(source, broker, 0, source.size)
            assert sum(run.batches.count for run in entries.read_sound(limit)) == taken
            assert entries.stop == sum(map(len, log[:taken]))
            assert entries.why == ("an entry larger than message.max.bytes" if taken == 1 else "")


def write_log(path: Path, *parts: bytes) -> Source:
    log = path / f"{0:020}.log"
    log.write_bytes(b"".join(parts))
    return Source(str(log))


ONE = batch([record()])
TWO = batch([record()], base_offset=1)
BROKEN = bytes([*TWO[:-1], TWO[-1] ^ 1])
HEADLESS = struct.pack(">qiibIHBBB", 1, 14, 0, 2, 0, 0, 0, 0, 1)  # its delta ends in what follows
LARGE = batch([record(value=bytes(2 * BLOCK_BYTES))], base_offset=1)
CUT = "an incomplete entry"
CHECKSUM = "a checksum mismatch"
SIZE = "an impossible entry size"
NEW, OLD = (4, 1), (0, 10)


@each(
    ("log", "broker", "taken", "why"),
    [
        ((ONE, TWO), NEW, 2, ""),
        ((ONE, TWO[:-1]), NEW, 1, CUT),
        ((ONE, TWO[:7]), NEW, 1, CUT),
        ((ONE, LARGE[:-1]), NEW, 1, CUT),
        ((ONE, bytes(30)), NEW, 1, SIZE),
        ((ONE, struct.pack(">qi", 1, 13) + bytes(BLOCK_BYTES)), NEW, 1, SIZE),
        ((ONE, BROKEN, ONE), NEW, 1, CHECKSUM),
        ((BROKEN, ONE), NEW, 0, CHECKSUM),
        ((ONE, HEADLESS, ONE), NEW, 1, CHECKSUM),
        ((message(0), ONE), NEW, 2, ""),
        ((message(0), ONE), OLD, 1, CHECKSUM),
        ((message(0), message(1, magic=0)), OLD, 2, ""),
        ((message(0), message(1, magic=3), message(2)), NEW, 1, CHECKSUM),
        ((message(0), message(1, magic=3), message(2)), OLD, 3, ""),
        ((message(0), message(1, crc=1), message(2)), OLD, 1, CHECKSUM),
    ],
)
def test_end_and_reason_of_a_checked_read(
    log: tuple[bytes, ...], broker: Version, taken: int, why: str, tmp_path: Path
) -> None:
    with write_log(tmp_path, *log) as source:
        entries = Entries(source, broker, 0, source.size)
        for _ in range(2):  # it may be read again
            assert sum(run.batches.count for run in entries.read_sound(MAX_INT32)) == taken
            assert entries.stop == sum(map(len, log[:taken]))
            assert entries.why == why
        assert entries.bytes_read == 2 * entries.stop


@pytest.mark.parametrize("tail", [0, 2 * BLOCK_BYTES])
def test_checked_read_survives_a_size_that_overflows(tail: int, tmp_path: Path) -> None:
    size = MAX_INT32 - len(ONE) - 11
    with write_log(tmp_path, ONE, struct.pack(">qi", 1, size), bytes(20 + tail)) as source:
        for broker, start, wraps in (
            ((1, 1), 0, True), ((1, 1, 1), 0, False), (OLD, 0, False), ((1, 1), len(ONE), False),
        ):  # fmt: skip
            entries = Entries(source, broker, start, source.size)
            if wraps:
                with pytest.raises(RefusalError, match=f"a size of {size} wraps"):
                    list(entries.read_sound(MAX_INT32))
            else:
                list(entries.read_sound(MAX_INT32))
                assert entries.why == CUT or broker == OLD


def test_part_of_a_file_is_read_alone(tmp_path: Path) -> None:
    with write_log(tmp_path, ONE, TWO, BROKEN) as source:
        entries = Entries(source, NEW, len(ONE), len(ONE + TWO))
        (run,) = entries.read_sound(MAX_INT32)
        assert (run.batches.base_offset(0), run.batches.position(0)) == (1, len(ONE))
        assert (entries.stop, entries.why, entries.bytes_read) == (entries.end, "", len(TWO))
        (rows,) = entries.as_is(len(ONE))
        assert (rows.base_offset(0), rows.count, entries.stop) == (1, 1, entries.end)
        assert entries.bytes_read == len(TWO) + 61


SILENT = None
MEMORY = "OutOfMemoryError: {} bytes requested for one entry"
LEAST = "CorruptRecordException: record size {} at position 0 is below the minimum, 14"
_WRAPS = MAX_INT32 - len(ONE) - 11


@each(
    ("size", "left", "broker", "error"),
    [
        ((1 << 30) + 1, 12, (0, 8), MEMORY),
        ((1 << 30) + 1, 12, (0, 9), MEMORY),
        ((1 << 30) + 1, 11, (0, 9), SILENT),
        (1 << 30, 30, (0, 9), SILENT),
        (5, 30, (0, 9), SILENT),
        ((1 << 30) + 1, 30, (0, 10), SILENT),
        (_WRAPS + len(ONE) - 1, 30, (0, 10), SILENT),
        (_WRAPS + len(ONE), 30, (0, 10), MEMORY),
        (_WRAPS + len(ONE), 13, (0, 10, 1), MEMORY),
        (_WRAPS + len(ONE), 12, (0, 10), SILENT),
        (-1, 30, (0, 10), SILENT),
        (13, 13, (0, 10, 2), LEAST),
        (13, 12, (0, 10, 2), SILENT),
        (14, 13, (0, 10, 2), SILENT),
        (13, 17, (0, 11), SILENT),
        (13, 18, (0, 11), LEAST),
        (-5, 18, NEW, LEAST),
        (14, 18, NEW, SILENT),
    ],
)
def test_incomplete_entry(
    size: int, left: int, broker: Version, error: str | None, tmp_path: Path
) -> None:
    """Positions count from where the segment starts in its file."""
    with write_log(tmp_path, ONE, struct.pack(">qi", 1, size).ljust(30, b"\0")[:left]) as source:
        met = Entries(source, broker, len(ONE), source.size).as_is(len(ONE))
        if error is None:
            assert list(met) == []
        else:
            with pytest.raises(RefusalError, match=re.escape(error.format(size))) as raised:
                list(met)
            assert isinstance(raised.value, MemoryRefusalError) == (error == MEMORY)
            assert isinstance(raised.value, CorruptRecordError) == (error == LEAST)


@pytest.mark.parametrize("before", [0, 1])
def test_batch_smaller_than_its_header(before: int, tmp_path: Path) -> None:
    """What follows is read as the rest of it, where there is enough of it."""
    with write_log(tmp_path, *[message(0)] * before, HEADLESS, batch(base_offset=9)) as source:
        (rows,) = Entries(source, NEW, 0, source.size).as_is(0)
        assert [*rows.last_offsets] == [0] * before + [1 + 256, 9]
        (rows,) = Entries(source, OLD, 0, source.size).as_is(0)
        assert rows.last_offset(before) != 1 + 256
    with write_log(tmp_path, *[message(0)] * before, HEADLESS, bytes(34)) as source:
        met = Entries(source, NEW, 0, source.size).as_is(0)
        assert before == 0 or [*next(met).last_offsets] == [0]
        with pytest.raises(RefusalError, match="a batch header cut off by the file end"):
            next(met)
    with write_log(tmp_path, message(0, body=b"")) as source:  # small, but of a magic that may be
        assert [rows.count for rows in Entries(source, NEW, 0, source.size).as_is(0)] == [1]


BLOCKS = batch([record(value=bytes(HEADER_BLOCK_BYTES // 3))] * 2, last_offset_delta=1)


def at(offset: int, entry: bytes = BLOCKS) -> bytes:
    return struct.pack(">q", offset) + entry[8:]


@pytest.mark.parametrize("broker", [(0, 10), (4, 0), (4, 1)])
def test_search_in_blocks_of_a_few_entries(broker: Version, tmp_path: Path) -> None:
    """From any entry on; each is counted, and of old brokers' the base offset is not known."""
    count, size = 12, len(BLOCKS)
    old = broker < (0, 10, 2)
    with write_log(tmp_path, *(at(3 * number) for number in range(count))) as source:
        for start in (0, 1, 4):
            for offset in range(3 * count + 1):
                entries = Entries(source, broker, 0, source.size)
                found = entries.search(start * size, offset)
                # An old one has the last offset in the field of the first; 3n + 2 is in a hole.
                number = max(start, -(-offset // 3) if old else (offset + 1) // 3)
                if number >= count:
                    assert found is None
                    continue
                last = 3 * number + (0 if old else 1)
                base = None if old else 3 * number
                assert found is not None
                scanned = number - start + 1
                assert found == (number * size, size, base, last, scanned)
                assert not old or entries.bytes_read == 12 * scanned


@each(
    ("bases", "offset", "old", "new"),
    [
        ([0, 2, 4], 3, 1, 1),
        ([0, 4, 8], 3, 1, 1),
        ([0, 4, 8], 9, 2, 2),
        ([0, 4, 8], 10, None, None),
        ([4, 0, 8], 1, 0, 0),
        ([4, 0, 8], 5, 0, 2),
        ([4, 0, 2], 5, 0, None),
        ([4, 0, 4], 4, 0, 0),
        ([4, 4, 8], 5, 0, 1),
        ([4, 4, 8], 4, 0, 0),
    ],
)
@each("small", [True, False])
def test_search_by_either_offset(
    bases: list[int], offset: int, old: int | None, new: int | None, small: bool, tmp_path: Path
) -> None:
    entry = batch([record(), record(1)]) if small else BLOCKS
    with write_log(tmp_path, *(at(base, entry) for base in bases)) as source:
        for broker, number in (((4, 0), old), ((4, 1), new)):
            found = Entries(source, broker, 0, source.size).search(0, offset)
            if number is None:
                assert found is None
            else:
                place = number * len(entry), len(entry), bases[number], bases[number] + 1
                assert found is not None
                assert (found[:4], found.scanned) == (place, number + 1)


def test_end_of_a_log_from_an_indexed_offset(tmp_path: Path) -> None:
    log = [at(base, batch([record(), record(1)])) for base in (10, 20, 5)]
    size = len(log[0])
    with write_log(tmp_path, *log) as source:
        for broker, behind_a_fall in (((4, 0), 7), ((4, 1), 3)):
            entries = Entries(source, broker, 0, source.size)
            assert entries.next_offset(0, 10, 3) == 7
            assert entries.next_offset(size, 21, 3) == behind_a_fall
            assert entries.next_offset(0, 30, 3) == 3
            assert entries.next_offset(3 * size, 0, 3) == 3


def test_old_search_by_twelve_bytes(tmp_path: Path) -> None:
    """It looks at the size of what it passes over only, and needs thirteen bytes."""
    log = [message(0), struct.pack(">qi", 4, 5), b"\0"]
    size = len(log[0])
    with write_log(tmp_path, *log) as source:
        entries = Entries(source, OLD, 0, source.size)
        assert entries.search(0, 1) == (size, 17, None, 4, 2)
        with pytest.raises(RefusalError, match="invalid message size 5"):
            entries.search(0, 5)
        assert Entries(source, OLD, 0, size + 12).search(0, 1) is None
    with write_log(tmp_path, log[0], struct.pack(">qi", 1, 14), b"\0") as source:
        assert Entries(source, OLD, 0, source.size).search(0, 2) is None
        source.size += 20  # it shrank since
        assert Entries(source, OLD, 0, source.size).search(size + 5, 2) is None


def wrap(*inner: bytes, **fields: Any) -> bytes:
    return wrapper(inner, 8, **fields)


@each(
    ("entry", "limit", "error", "words"),
    [
        (wrap(message(7), message(8), magic=0), 1000, None, ""),
        (wrap(message(7), message(8)), len(wrap(message(7), message(8))) - 1,
         UnknowableError, "a compressed entry of {} bytes"),
        (wrap(message(7, value=bytes(2000)), message(8)), 1000,
         UnknowableError, "a compressed entry that is not opened: "),
        (wrap(wrapper([message(7)], 7), magic=0), 1000,
         CorruptRecordError, "a broken compressed entry"),
        (wrap(message(7)[:-1]), 1000, CorruptRecordError, "a broken compressed entry"),
        (wrap(), 1000, CorruptRecordError, "a broken compressed entry"),
        (wrap(message(7), compress=lambda plain: plain), 1000,
         RefusalError, "a compressed entry that cannot be opened"),
    ],
)  # fmt: skip
def test_first_offset_in_a_wrapper(
    entry: bytes, limit: int, error: type[Exception] | None, words: str, tmp_path: Path
) -> None:
    with write_log(tmp_path, message(0), entry) as source:
        entries = Entries(source, NEW, 0, source.size, limit=limit)
        (rows,) = entries.as_is(0)
        assert entries.first_offset(rows, 0) == 0
        if error is None:
            assert entries.first_offset(rows, 1) == 7
            assert entries.search(0, 6) == (len(message(0)), len(entry), None, 8, 2)
            return
        with pytest.raises(error, match=words.format(len(entry))) as raised:
            entries.first_offset(rows, 1)
        assert type(raised.value) is error
        if isinstance(raised.value, CorruptRecordError):
            assert raised.value.end_position == len(message(0))

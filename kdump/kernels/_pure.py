"""The pure kernel: what each kernel function means.

`_fast` holds the same functions, compiled; a test compares the two. What holds for all of them:

- They are total. On no bytes do they raise; they return the good part, where it ends and why
  (`reasons`). An exception means that the caller passed something that is no data: a row number
  outside its columns, say.
- `data` is any contiguous bytes-like object. `start` and `end` are indexes into it; both are cut to
  its length, and no byte at or past `end` is looked at.
- All integers are int64 and wrap as Java's long does.
- A `stop` is an index into `data`. A POSITION of a batch is a position in the file: `base` plus the
  index. Positions of records are indexes into the bytes they were decoded from.
"""

from __future__ import annotations

import codecs
import re
import sys
import zlib
from array import array
from binascii import b2a_base64
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, cast

from kdump.kernels import columns as c
from kdump.kernels import gathered as g
from kdump.kernels import reasons
from kdump.kernels.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.kernels.gathered import Gathered

    Data = bytes | bytearray | memoryview
    Rows = array[int] | None
    Write = Callable[[bytes], object]
    Row = tuple[int, ...]

_U16 = Struct(">H")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I64 = Struct(">q")

_LOG_OVERHEAD = 12  # offset and size; size counts from here
_UP_TO_MAGIC = 17
_MESSAGE_OVERHEAD = (14, 22)  # crc to value length of magic 0 and 1, without key and value (F7)
_SMALLEST_RECORD = 7  # a length, six one-byte fields
_HEADER_V2 = 61
_CRC_FROM_V2 = 21
_CRC_FROM_LEGACY = 16

# The part of the v2 header that the CRC covers, from byte 21 on (F20).
_HEADER_V2_TAIL = Struct(
    ">"
    "H"  # 21 attributes
    "i"  # 23 lastOffsetDelta
    "q"  # 27 baseTimestamp
    "q"  # 35 maxTimestamp
    "q"  # 43 producerId
    "h"  # 51 producerEpoch
    "i"  # 53 baseSequence
    "i"  # 57 recordsCount
)
assert _HEADER_V2_TAIL.size == _HEADER_V2 - _CRC_FROM_V2

_CODEC = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

_MAX_SEQUENCE = 0x7FFFFFFF
_MAX_INT32 = 0x7FFFFFFF
_MAX_INT64 = (1 << 63) - 1


class _Bad(Exception):
    """What is wrong at the record being read; never leaves this module."""

    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


def _view(data: Data) -> memoryview:
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _clamp(start: int, end: int, length: int) -> tuple[int, int]:
    end = max(0, min(end, length))
    return max(0, min(start, end)), end


def _int64(value: int) -> int:
    """Wrap to int64 as Java's long does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


# Checksums ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _crc32c_function() -> Callable[[memoryview, int], int]:
    try:
        from crc32c import crc32c as function
    except ImportError:
        from crcmod.predefined import mkPredefinedCrcFun

        function = mkPredefinedCrcFun("crc-32c")
    return cast("Callable[[memoryview, int], int]", function)


def keep_freed_memory() -> None:
    """Ask the C library to keep freed blocks of some megabytes instead of giving them back.

    Columns and text of one size are made and dropped thousands of times in a bulk run; mapping
    their pages anew each time costs as much as the work on them. For the whole process, so it is
    the command that asks, never an import. Nothing happens where the C library is not glibc, and
    in the pure kernel.
    """


def crc32(data: Data, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32 (IEEE) of `data[start:end]`, continuing from `crc`, as zlib.crc32 does."""
    view = _view(data)
    start, end = _clamp(start, end, len(view))
    return zlib.crc32(view[start:end], crc & 0xFFFFFFFF)


def crc32c(data: Data, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data[start:end]`, continuing from `crc`."""
    view = _view(data)
    start, end = _clamp(start, end, len(view))
    return _crc32c_function()(view[start:end], crc & 0xFFFFFFFF)


# The walk over log entries -----------------------------------------------------------------------


def walk(
    data: Data,
    start: int,
    end: int,
    base: int,
    last_offset: int,
    check_crc: bool,
    max_batches: int,
) -> tuple[Columns, int, int]:
    """Frame the log entries in `data[start:end]` as brokers do, `end` being the end of file (S6).

    Returns (batch columns, stop, reason). `stop` is the end of the last row. `reason`, in this
    order: END nothing is left; FULL `max_batches` rows are filled; SHORT_TAIL 17 bytes or fewer are
    left; LENGTH_TOO_SMALL; CUT_SHORT.

    `last_offset` is the highest offset known to lie before, -1 for none. An entry that does not
    rise above it and above all rows before has OFFSET_NOT_RISING; so do all entries behind a wrong
    high one.

    LAYOUT says how the entry was read: 2 for magic 2 and above, 1 for magic 1, else 0, as brokers
    do (S6 step 5). One exception: brokers 0.8 and 0.9 stored any magic byte over a v0 message. If
    an entry of magic 2 and above is no valid v2 batch (F22) but its CRC-32 as a v0 message is
    right, it is read as layout 0, with MAGIC_UNKNOWN. This is looked for only with `check_crc`.
    Without it COMPUTED_CRC repeats CRC.

    TOO_SMALL entries show what lies inside their own bytes (S9): of layout 2 the other fields are
    -1, last offset is the base offset, COMPUTED_CRC 0 and CRC_BAD set; of layout 1 the timestamp
    is -1.
    """
    view = _view(data)
    start, end = _clamp(start, end, len(view))
    rows: list[Row] = []
    flags = 0
    position = start
    while True:
        left = end - position
        if left == 0:
            reason = reasons.END
            break
        if len(rows) >= max_batches:
            reason = reasons.FULL
            break
        if left <= _UP_TO_MAGIC:
            reason = reasons.SHORT_TAIL
            break
        size = _I32.unpack_from(view, position + 8)[0]
        if size < _MESSAGE_OVERHEAD[0]:
            reason = reasons.LENGTH_TOO_SMALL
            break
        if size > left - _LOG_OVERHEAD:
            reason = reasons.CUT_SHORT
            break
        frame = view[position : position + _LOG_OVERHEAD + size]
        row = _entry(frame, base + position, last_offset, check_crc)
        rows.append(row)
        flags |= row[c.B_FLAGS]
        last_offset = max(last_offset, row[c.B_LAST_OFFSET])
        position += _LOG_OVERHEAD + size
    return Columns.from_rows(c.BATCH_WIDTH, rows, flags), position, reason


def _entry(frame: memoryview, position: int, last_offset: int, check_crc: bool) -> Row:
    magic = frame[16] - 256 if frame[16] > 127 else frame[16]
    if magic < 2:
        return _legacy_entry(frame, position, last_offset, check_crc, magic, max(magic, 0))
    row = _v2_entry(frame, position, last_offset, check_crc, magic)
    if (
        check_crc
        and row[c.B_FLAGS] & c.CRC_BAD
        and _U32.unpack_from(frame, 12)[0] == zlib.crc32(frame[_CRC_FROM_LEGACY:])
    ):
        return _legacy_entry(frame, position, last_offset, check_crc, magic, 0)
    return row


def _legacy_entry(
    frame: memoryview, position: int, last_offset: int, check_crc: bool, magic: int, layout: int
) -> Row:
    """Read a v0 or v1 message, plain or wrapper (F6, F7)."""
    offset = _I64.unpack_from(frame, 0)[0]
    crc = computed = _U32.unpack_from(frame, 12)[0]
    if check_crc:
        computed = zlib.crc32(frame[_CRC_FROM_LEGACY:])
    attributes = frame[17]
    codec = attributes & _CODEC
    flags = 0
    timestamp = -1
    if len(frame) < _LOG_OVERHEAD + _MESSAGE_OVERHEAD[layout]:
        flags |= c.TOO_SMALL
    elif layout == 1:
        timestamp = _I64.unpack_from(frame, 18)[0]
    if computed != crc:
        flags |= c.CRC_BAD
    if magic not in (0, 1):
        flags |= c.MAGIC_UNKNOWN
    if offset <= last_offset:
        flags |= c.OFFSET_NOT_RISING
    if codec:
        flags |= c.WRAPPER | c.COMPRESSED
        if codec > 3:
            flags |= c.CODEC_UNKNOWN
    return (
        position,
        len(frame),
        magic,
        attributes,
        -1 if codec else offset,
        offset,
        -1 if codec else 1,
        crc,
        computed,
        -1,
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        flags,
        layout,
    )


def _v2_entry(
    frame: memoryview, position: int, last_offset: int, check_crc: bool, magic: int
) -> Row:
    """Read a v2 batch header (F20)."""
    base_offset = _I64.unpack_from(frame, 0)[0]
    leader_epoch = _I32.unpack_from(frame, 12)[0]
    crc = computed = _U32.unpack_from(frame, 17)[0]
    flags = 0
    tail = bytes(frame[_CRC_FROM_V2:_HEADER_V2])
    if len(frame) < _HEADER_V2:
        flags |= c.TOO_SMALL | c.CRC_BAD
        computed = 0
        whole = tail.ljust(_HEADER_V2_TAIL.size, b"\0")
        # Where each field ends, counted from byte 21; what ends outside the entry is not there.
        ends = (2, 6, 14, 22, 30, 32, 36, 40)
        attributes, delta, base_ms, max_ms, producer, epoch, sequence, count = (
            value if end <= len(tail) else -1
            for value, end in zip(_HEADER_V2_TAIL.unpack(whole), ends, strict=True)
        )
        if len(tail) < ends[1]:
            delta = 0
    else:
        if check_crc:
            computed = _crc32c_function()(frame[_CRC_FROM_V2:], 0)
        attributes, delta, base_ms, max_ms, producer, epoch, sequence, count = (
            _HEADER_V2_TAIL.unpack(tail)
        )
        if count < 0 or delta < 0 or count > delta + 1:
            flags |= c.DELTA_COUNT
    last = _int64(base_offset + delta)
    codec = attributes & _CODEC
    if computed != crc:
        flags |= c.CRC_BAD
    if magic != 2:
        flags |= c.MAGIC_UNKNOWN
    if base_offset <= last_offset or last < base_offset:
        flags |= c.OFFSET_NOT_RISING
    if codec:
        flags |= c.COMPRESSED
        if codec > 4:
            flags |= c.CODEC_UNKNOWN
    if attributes & _CONTROL:
        flags |= c.CONTROL
    if attributes & _TRANSACTIONAL:
        flags |= c.TRANSACTIONAL
    return (
        position,
        len(frame),
        magic,
        attributes,
        base_offset,
        last,
        count,
        crc,
        computed,
        leader_epoch,
        base_ms,
        max_ms,
        producer,
        epoch,
        sequence,
        flags,
        2,
    )


# What verify asks of a run of headers -------------------------------------------------------------


def tally(batches: Columns) -> tuple[int, int, int, int]:
    """Return (records, wrappers, compressed, newest) of all rows.

    `records` adds up RECORDS_COUNT where it is above 0, which it is for no wrapper; `compressed`
    counts rows, wrappers among them; `newest` is the largest MAX_TIMESTAMP, -1 at least.
    """
    flags = batches.column(c.B_FLAGS)
    return (
        sum(count for count in batches.column(c.B_RECORDS_COUNT) if count > 0),
        sum(1 for flag in flags if flag & c.WRAPPER),
        sum(1 for flag in flags if flag & c.COMPRESSED),
        max(-1, max(batches.column(c.B_MAX_TIMESTAMP), default=-1)),
    )


def rising_slots(data: Data, size: int) -> int:
    """Count the whole slots of an index, from the first on, that rise as written entries do (I3).

    `size` 8, an offset index: relative offsets and positions rise strictly, from 0 and from above
    0. `size` 12, a time index: timestamps rise strictly from 0, relative offsets do not fall.
    """
    view = _view(data)
    strict = size == 8
    pairs = Struct(">ii" if strict else ">qi")
    key, value = -1, 0
    for slot in range(len(view) // size):
        next_key, next_value = pairs.unpack_from(view, slot * size)
        if next_key <= key or next_value < value or (strict and next_value == value):
            return slot
        key, value = next_key, next_value
    return len(view) // size


def prove_entries(
    batches: Columns,
    offset_slots: Data,
    time_slots: Data,
    base_offset: int,
    state: array[int],
    marks: array[int],
    most: int,
) -> list[tuple[int, int, int]]:
    """Hold index entries against the next run of headers of their log; all slots rise.

    `state` says where the last call ended: next slot of the offset index, of the time index, the
    highest last offset and timestamp so far, 1 if a v0 entry was met, and how many more entries
    were wrong than could be returned, which is `most`. It starts as (0, 0, base offset - 1, -1,
    0, 0). `marks` has room for one number for each slot of the offset index: the highest timestamp
    of the batches that start before its position.

    Returns (why, slot, row) for each wrong entry. Of the offset index, entry (E, p): NO_BATCH at p
    starts none, and `row` is the one behind; PASSES_OVER a batch before p ends at E or later (I10
    d); BELOW_BATCH the batch at p starts above E (I10 e). Of the time index, entry (T, O), judged
    at the first row that ends at O or later: STARTS_LATE the offset index leads a lookup of T past
    a batch that has T or a later time; OTHER_TIME that row's maximum is not T (I14), unless it
    is of layout 0, where brokers wrote the times of messages they had converted.
    """
    offsets, times = _view(offset_slots), _view(time_slots)
    found: list[tuple[int, int, int]] = []
    offset_slot, time_slot, highest, newest, legacy, unsaid = state[:6]
    offset_end, time_end = len(offsets) // 8, len(times) // 12
    columns = (c.B_POSITION, c.B_BASE_OFFSET, c.B_LAST_OFFSET, c.B_MAX_TIMESTAMP, c.B_LAYOUT)
    rows = zip(*(batches.column(column) for column in columns), strict=True)
    for row, (position, first, last, timestamp, layout) in enumerate(rows):
        wrong: list[tuple[int, int]] = []
        while offset_slot < offset_end:
            relative, at = _OFFSET_SLOT.unpack_from(offsets, offset_slot * 8)
            if at > position:
                break
            if at < position:
                wrong.append((c.NO_BATCH, offset_slot))
            elif _int64(base_offset + relative) <= highest:
                wrong.append((c.PASSES_OVER, offset_slot))
            elif _int64(base_offset + relative) < first:
                wrong.append((c.BELOW_BATCH, offset_slot))
            marks[offset_slot] = newest
            offset_slot += 1
        while time_slot < time_end:
            time, relative = _TIME_SLOT.unpack_from(times, time_slot * 12)
            if _int64(base_offset + relative) > last:
                break
            floor = _floor_of(offsets, offset_slot, relative)
            if floor >= 0 and marks[floor] >= time:
                wrong.append((c.STARTS_LATE, time_slot))
            elif layout and timestamp != time:
                wrong.append((c.OTHER_TIME, time_slot))
            time_slot += 1
        for why, slot in wrong:
            if len(found) < most:
                found.append((why, slot, row))
            else:
                unsaid += 1
        highest = max(highest, last)
        newest = max(newest, timestamp)
        legacy |= layout == 0
    state[:6] = array("q", (offset_slot, time_slot, highest, newest, legacy, unsaid))
    return found


_OFFSET_SLOT = Struct(">ii")
_TIME_SLOT = Struct(">qi")


def _floor_of(offsets: memoryview, end: int, relative: int) -> int:
    """Find the last of the first `end` slots at or below a relative offset, -1 for none."""
    low = 0
    while low < end:
        middle = (low + end) // 2
        if _I32.unpack_from(offsets, middle * 8)[0] <= relative:
            low = middle + 1
        else:
            end = middle
    return low - 1


# What reindex builds from a run of headers --------------------------------------------------------


def index_entries(
    batches: Columns,
    first: int,
    base_offset: int,
    interval: int,
    first_offsets: bool,
    state: array[int],
) -> tuple[bytes, bytes, int, int]:
    """Make the index entries that recovery writes for the rows from `first` on (R2).

    An entry is due at a batch that starts more than `interval` bytes behind the last one's. The
    offset index gets the batch's last offset, or with `first_offsets`, as brokers before 2.0 do,
    its base offset; the time index the highest timestamp so far, if that rose since its last entry.

    `state` says where the last call ended: position of the last entry; highest timestamp so far and
    the last offset of the batch that had it first; how many entries the offset index has, and the
    offset of its last; how many the time index has, timestamp and offset of its last, and how many
    the offset index had then. It starts as (0, -1, -1, 0, 0, 0, -1, 0, 0).

    Returns (offset index bytes, time index bytes, row, reason). `row` is the first that was not
    used. `reason`: END all were; UNOPENED an entry is due at a wrapper whose base offset is not
    known; OFFSET_RANGE a last offset that no index can hold, which brokers look at since 2.0
    (`first_offsets` unset); INDEX_FALLS an entry is due that would not rise above the last one.
    """
    offsets: list[bytes] = []
    times: list[bytes] = []
    last_position, newest, newest_offset = state[:3]
    entries, last_entry, time_entries, last_time, last_time_offset, then = state[3:9]
    reason, row = reasons.END, max(first, 0)
    while row < batches.count:
        position = batches.value(c.B_POSITION, row)
        last = batches.value(c.B_LAST_OFFSET, row)
        if not (first_offsets or 0 <= last - base_offset <= _MAX_INT32):
            reason = reasons.OFFSET_RANGE
            break
        timestamp, timestamp_offset = newest, newest_offset
        if batches.value(c.B_MAX_TIMESTAMP, row) > newest:
            timestamp, timestamp_offset = batches.value(c.B_MAX_TIMESTAMP, row), last
        if _int64(position - last_position) > interval:
            entry = last
            if first_offsets:
                entry = batches.value(c.B_BASE_OFFSET, row)
                if entry == -1 and batches.value(c.B_FLAGS, row) & c.WRAPPER:
                    reason = reasons.UNOPENED
                    break
            if (entries and entry <= last_entry) or (
                time_entries and timestamp_offset < last_time_offset
            ):
                reason = reasons.INDEX_FALLS
                break
            offsets.append(_OFFSET_SLOT.pack(_int32(entry - base_offset), _int32(position)))
            entries, last_entry, last_position = entries + 1, entry, position
            if timestamp > last_time:
                times.append(_TIME_SLOT.pack(timestamp, _int32(timestamp_offset - base_offset)))
                time_entries += 1
                last_time, last_time_offset, then = timestamp, timestamp_offset, entries
        newest, newest_offset = timestamp, timestamp_offset
        row += 1
    state[:9] = array(
        "q",
        (
            last_position, newest, newest_offset, entries, last_entry, time_entries, last_time,
            last_time_offset, then,
        ),
    )  # fmt: skip
    return b"".join(offsets), b"".join(times), row, reason


def _int32(value: int) -> int:
    """Wrap to int32 as Java's cast does."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def follow_producers(
    batches: Columns, first: int, end: int, next_offset: int, table: array[int]
) -> tuple[int, int]:
    """Follow producers through the rows of [first, end) that hold no surprise (R7).

    `table` has PRODUCER_WIDTH numbers for each producer known, brought up to date in place: its
    id, epoch, last sequence, last offset, offset delta and timestamp of the last batch. Returns
    (row, offset behind the row before). `row` is the first that is more than the next plain batch
    of one of these producers, or of none: its base offset is not the next, it is of a control or
    transactional batch, its producer or epoch is not known, or its sequence does not go on.
    """
    known = {table[at]: at for at in range(0, len(table), c.PRODUCER_WIDTH)}
    row = max(first, 0)
    while row < min(end, batches.count):
        base, last = batches.value(c.B_BASE_OFFSET, row), batches.value(c.B_LAST_OFFSET, row)
        producer_id = batches.value(c.B_PRODUCER_ID, row)
        flags = batches.value(c.B_FLAGS, row)
        if base != next_offset or flags & (c.CONTROL | c.TRANSACTIONAL) or last >= _MAX_INT64:
            break
        if producer_id >= 0:
            at = known.get(producer_id)
            sequence = batches.value(c.B_BASE_SEQUENCE, row)
            if (
                at is None
                or table[at + 1] != batches.value(c.B_PRODUCER_EPOCH, row)
                or table[at + 2] < 0
                or sequence != (table[at + 2] + 1) & _MAX_INT32
            ):
                break
            delta = _int64(last - base)
            table[at + 2] = (sequence + delta) & _MAX_INT32
            table[at + 3], table[at + 4] = last, delta
            table[at + 5] = batches.value(c.B_MAX_TIMESTAMP, row)
        next_offset = last + 1
        row += 1
    return row, next_offset


def prove_records(
    batches: Columns, records: Columns, state: array[int], complete: bool, most: int
) -> list[tuple[int, int, int]]:
    """Hold records against the headers of their batches, in order.

    `state` carries over a batch that comes in several pieces: its row (-1: none), the last offset
    in it, its newest timestamp, 1 if its maximum cannot be told from its records; then sums: null
    keys, the offset of the first, messages of v0 and v1 with slack behind the value (F11), the
    position of the first one's batch, and how many more were wrong than could be returned, which
    is `most`. It starts as (-1, 0, -1, 0, 0, -1, 0, -1, 0). `complete`: the last batch ends here.

    Returns (why, batch, record) in order: OFFSET_OUTSIDE the batch's range (a wrapper's is known
    at its end only), OFFSET_ORDER not above the record before, INNER_SUM a message inside a
    wrapper has a wrong checksum; and at the end of a batch, with the record behind its last:
    MAX_TIMESTAMP the header's is not the records' (not of LogAppendTime, which records do not
    carry; not where no record or a message of another magic is inside), LAST_OFFSET a v0
    wrapper's offset is not its last message's (F12).
    """
    found: list[tuple[int, int, int]] = []
    row, last, newest, vague, nulls, first_null, slack, first_slack, unsaid = state[:9]

    def say(why: int, batch: int, record: int) -> None:
        nonlocal unsaid
        if len(found) < most:
            found.append((why, batch, record))
        else:
            unsaid += 1

    def close(record: int) -> None:
        if row < 0 or row >= batches.count:
            return
        layout, flags = batches.value(c.B_LAYOUT, row), batches.value(c.B_FLAGS, row)
        timed = layout == 2 or (layout == 1 and flags & c.WRAPPER)
        append_time = batches.value(c.B_ATTRIBUTES, row) & _LOG_APPEND_TIME
        told = timed and not append_time and not vague
        if told and newest != batches.value(c.B_MAX_TIMESTAMP, row):
            say(c.MAX_TIMESTAMP, row, record)
        if layout == 0 and flags & c.WRAPPER and last != batches.value(c.B_LAST_OFFSET, row):
            say(c.LAST_OFFSET, row, record)

    for record in range(records.count):
        batch = records.value(c.R_BATCH, record)
        if batch != row:
            close(record)
            row, newest, vague = batch, -1, 0
            last = -1
        header_flags = batches.value(c.B_FLAGS, batch)
        flags = records.value(c.R_FLAGS, record)
        offset = records.value(c.R_OFFSET, record)
        lowest = -1 if header_flags & c.WRAPPER else batches.value(c.B_BASE_OFFSET, batch)
        if offset < lowest or offset > batches.value(c.B_LAST_OFFSET, batch):
            say(c.OFFSET_OUTSIDE, batch, record)
        elif offset <= last and offset >= 0:
            say(c.OFFSET_ORDER, batch, record)
        last = offset
        newest = max(newest, records.value(c.R_TIMESTAMP, record))
        if flags & c.INNER_CRC_BAD:
            say(c.INNER_SUM, batch, record)
        if flags & c.INNER_MAGIC_OTHER:
            vague = 1
        key, value = records.value(c.R_KEY_SIZE, record), records.value(c.R_VALUE_SIZE, record)
        if key < 0 and not header_flags & c.CONTROL:
            first_null = first_null if nulls else offset
            nulls += 1
        layout = batches.value(c.B_LAYOUT, batch)
        if layout < 2:
            magic = flags >> c.INNER_MAGIC_SHIFT & 3 if header_flags & c.WRAPPER else layout
            fixed = _LOG_OVERHEAD + _MESSAGE_OVERHEAD[magic == 1]
            if records.value(c.R_SIZE, record) > fixed + max(key, 0) + max(value, 0):
                first_slack = first_slack if slack else batches.value(c.B_POSITION, batch)
                slack += 1
    if complete:
        close(records.count)
        row = -1
    state[:9] = array(
        "q", (row, last, newest, vague, nulls, first_null, slack, first_slack, unsaid)
    )
    return found


# Records of v2 -----------------------------------------------------------------------------------


def _varint(view: memoryview, position: int, end: int, most: int = 5) -> tuple[int, int]:
    """Read a zigzag varint of at most `most` bytes (F23): 5 for int32, 10 for int64.

    Bits above the 32nd (64th) are lost. Returns (value, position behind it).
    """
    raw = shift = 0
    while True:
        if position >= end:
            raise _Bad(reasons.RECORD_LENGTH_MISMATCH)
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 7 * most:
            raise _Bad(reasons.VARINT_TOO_LONG)
    raw &= 0xFFFFFFFF if most == 5 else 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position


def _record(view: memoryview, position: int, end: int, batch: Row, index: int) -> Row:
    """Read one record of `view[position:end]` (F24); `batch` is its row in the batch columns."""
    try:
        size, body = _varint(view, position, end)
    except _Bad as bad:
        if bad.reason == reasons.RECORD_LENGTH_MISMATCH:
            raise _Bad(reasons.RECORD_CUT_SHORT) from None
        raise
    if size < _SMALLEST_RECORD - 1:
        raise _Bad(reasons.RECORD_LENGTH)
    if size > end - body:
        raise _Bad(reasons.RECORD_CUT_SHORT)
    end = body + size
    at = body + 1  # the record's attributes are unused
    timestamp_delta, at = _varint(view, at, end, 10)
    offset_delta, at = _varint(view, at, end)
    key_size, at = _varint(view, at, end)
    key = 0
    if key_size >= 0:
        if key_size > end - at:
            raise _Bad(reasons.KEY_LENGTH)
        key = at
        at += key_size
    value_size, at = _varint(view, at, end)
    value = 0
    if value_size >= 0:
        if value_size > end - at:
            raise _Bad(reasons.VALUE_LENGTH)
        value = at
        at += value_size
    headers_count, at = _varint(view, at, end)
    if not 0 <= headers_count <= end - at:
        raise _Bad(reasons.HEADER_COUNT)
    headers = at
    for _ in range(headers_count):
        *_, at = _header(view, at, end)
    if at != end:
        raise _Bad(reasons.RECORD_LENGTH_MISMATCH)
    timestamp = batch[c.B_MAX_TIMESTAMP]
    if not batch[c.B_ATTRIBUTES] & _LOG_APPEND_TIME:
        timestamp = _int64(batch[c.B_BASE_TIMESTAMP] + timestamp_delta)
    return (
        index,
        position,
        end - position,
        _int64(batch[c.B_BASE_OFFSET] + offset_delta),
        timestamp,
        key,
        max(key_size, -1),
        value,
        max(value_size, -1),
        headers,
        headers_count,
        0,
    )


def _header(view: memoryview, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Read one record header: (key, its size, value, its size or -1, position behind it)."""
    key_size, key = _varint(view, at, end)
    if not 0 <= key_size <= end - key:
        raise _Bad(reasons.HEADER_KEY_LENGTH)
    value_size, value = _varint(view, key + key_size, end)
    if value_size > end - value:
        raise _Bad(reasons.HEADER_VALUE_LENGTH)
    if value_size < 0:
        return key, key_size, 0, -1, value
    return key, key_size, value, value_size, value + value_size


def decode_records(
    data: Data,
    start: int,
    end: int,
    batches: Columns,
    index: int,
    done: int,
    max_records: int,
) -> tuple[Columns, int, int]:
    """Decode the plain records of v2 batch `index` from `data[start:end]`, which they must fill.

    `done` records were decoded before; go on after FULL with `start` = stop and `done` increased by
    the rows returned. Returns (record columns, stop, reason): END after the last record; FULL
    `max_records` rows are filled and more are due; COUNT_NEGATIVE; RECORDS_MISSING the bytes end
    before the count; RECORDS_REMAINING bytes behind the last record, not looked for in a batch of
    count 0 (F25); or what is wrong at the record that starts at `stop`.

    Offset is base offset + delta; timestamp base timestamp + delta, or the batch's maximum if its
    type is LogAppendTime (F24).
    """
    view = _view(data)
    start, end = _clamp(start, end, len(view))
    batch = _batch_row(batches, index)
    rows: list[Row] = []
    stop, reason = _records(view, start, end, batch, index, max(done, 0), max_records, rows)
    return Columns.from_rows(c.RECORD_WIDTH, rows), stop, reason


def _records(
    view: memoryview,
    position: int,
    end: int,
    batch: Row,
    index: int,
    done: int,
    max_records: int,
    rows: list[Row],
) -> tuple[int, int]:
    """Append the records of one batch to `rows`, which may hold up to `max_records`."""
    count = batch[c.B_RECORDS_COUNT]
    if count < 0:
        return position, reasons.COUNT_NEGATIVE
    while done < count:
        if len(rows) >= max_records:
            return position, reasons.FULL
        if position == end:
            return position, reasons.RECORDS_MISSING
        try:
            row = _record(view, position, end, batch, index)
        except _Bad as bad:
            return position, bad.reason
        rows.append(row)
        position += row[c.R_SIZE]
        done += 1
    if count and position < end:
        return position, reasons.RECORDS_REMAINING
    return position, reasons.END


def _batch_row(batches: Columns, index: int) -> Row:
    if not 0 <= index < batches.count:
        raise IndexError(index)
    return batches.row(index)


def decode_run(
    data: Data, base: int, batches: Columns, first: int, max_records: int
) -> tuple[Columns, int, int, int]:
    """Decode the records of batches `first` on, one after the other, while they are plain.

    Plain means: not COMPRESSED, CONTROL, CRC_BAD or TOO_SMALL, recordsCount not negative, and
    wholly inside `data`, whose first byte is at file position `base`. A v0 or v1 message is one
    record; bytes behind its value are allowed (F11). A batch is never split.

    Returns (record columns, next batch, stop, reason). END: all batches are done. FULL: the records
    of the next batch do not fit, though at most as many are counted as its bytes can hold; if it is
    `first` itself, it alone exceeds `max_records`, and decode_records takes it in pieces.
    NOT_PLAIN: the next batch must not be decoded here. These three stop where the next batch
    starts (END: where the last one ends). Any other reason is what is wrong in the next batch, at
    `stop`; its good records are among the rows.
    """
    view = _view(data)
    rows: list[Row] = []
    index = max(0, min(first, batches.count))
    stop, reason = 0, reasons.END
    while index < batches.count:
        batch = batches.row(index)
        start = stop = _int64(batch[c.B_POSITION] - base)
        size = batch[c.B_SIZE]
        layout = batch[c.B_LAYOUT]
        if not _is_plain(batch, start, len(view)):
            reason = reasons.NOT_PLAIN
            break
        due = 1
        if layout == 2:
            due = min(batch[c.B_RECORDS_COUNT], (size - _HEADER_V2) // _SMALLEST_RECORD)
        if len(rows) + due > max(0, max_records):
            reason = reasons.FULL
            break
        end = start + size
        if layout == 2:
            # A count that the bytes cannot hold is found out by running out of them.
            stop, reason = _records(
                view, start + _HEADER_V2, end, batch, index, 0, len(rows) + due + 1, rows
            )
        else:
            try:
                key, value = _key_and_value(view, start, end, layout)
            except _Bad as bad:
                reason = bad.reason
            else:
                stop = end
                offset, timestamp = batch[c.B_LAST_OFFSET], batch[c.B_MAX_TIMESTAMP]
                rows.append((index, start, size, offset, timestamp, *key, *value, 0, 0, 0))
        if reason:
            break
        index += 1
    return Columns.from_rows(c.RECORD_WIDTH, rows), index, stop, reason


def _is_plain(batch: Row, start: int, length: int) -> bool:
    layout, size = batch[c.B_LAYOUT], batch[c.B_SIZE]
    if batch[c.B_FLAGS] & (c.COMPRESSED | c.CONTROL | c.CRC_BAD | c.TOO_SMALL):
        return False
    if layout == 2:
        smallest = _HEADER_V2
        if batch[c.B_RECORDS_COUNT] < 0:
            return False
    else:
        smallest = _LOG_OVERHEAD + _MESSAGE_OVERHEAD[1 if layout == 1 else 0]
    return smallest <= size <= length and 0 <= start <= length - size


# Messages of v0 and v1 ---------------------------------------------------------------------------


def _key_and_value(
    view: memoryview, start: int, end: int, layout: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Find key and value, each (first byte, size), of the message entry `view[start:end]` (F7).

    The entry must hold its fixed fields. Any negative length is null: (0, -1).
    """
    at = start + _LOG_OVERHEAD + _MESSAGE_OVERHEAD[1 if layout == 1 else 0] - 8
    size = _I32.unpack_from(view, at)[0]
    at += 4
    if size > end - at - 4:
        raise _Bad(reasons.KEY_LENGTH)
    key = (0, -1)
    if size >= 0:
        key = (at, size)
        at += size
    size = _I32.unpack_from(view, at)[0]
    at += 4
    if size > end - at:
        raise _Bad(reasons.VALUE_LENGTH)
    return key, (at, size) if size >= 0 else (0, -1)


def _inner_size(view: memoryview, position: int, end: int) -> int:
    """Return the size field of the inner message at `position`, or raise what is wrong (F17)."""
    if end - position < _LOG_OVERHEAD:
        raise _Bad(reasons.INNER_CUT_SHORT)
    size: int = _I32.unpack_from(view, position + 8)[0]
    if size < _MESSAGE_OVERHEAD[0]:
        raise _Bad(reasons.INNER_SIZE)
    if size > end - position - _LOG_OVERHEAD:
        raise _Bad(reasons.INNER_CUT_SHORT)
    return size


def _inner_frame(view: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return (byte behind it, layout) of a plain inner message with all its fixed fields."""
    size = _inner_size(view, position, end)
    layout = 1 if view[position + 16] == 1 else 0
    if size < _MESSAGE_OVERHEAD[layout]:
        raise _Bad(reasons.INNER_SIZE)
    if view[position + 17] & _CODEC:
        raise _Bad(reasons.INNER_COMPRESSED)
    return position + _LOG_OVERHEAD + size, layout


def inner_base(
    data: Data, start: int, end: int, wrapper_offset: int, wrapper_magic: int
) -> tuple[int, int, int, int]:
    """Find what to add to the offset fields of a wrapper's messages, plain in `data[start:end]`.

    Returns (base, last inner offset field, count of messages, reason). Magic 1: base = wrapper
    offset - last inner offset, or 0 if the wrapper offset is 0 (F14); other magics store absolute
    offsets: 0 (F13). Without a message: base 0, last -1.

    The first that holds: INNER_SIZE an inner size below 14, so that the last message is not known;
    INNER_EMPTY; WRAPPER_OFFSET, the wrapper offset is below the last inner one (magic 1), where
    brokers before 0.11 go on with the negative base returned; INNER_CUT_SHORT; END.
    """
    view = _view(data)
    position, end = _clamp(start, end, len(view))
    last, count, reason = -1, 0, reasons.END
    while position < end:
        try:
            size = _inner_size(view, position, end)
        except _Bad as bad:
            reason = bad.reason
            break
        last = _I64.unpack_from(view, position)[0]
        count += 1
        position += _LOG_OVERHEAD + size
    base = 0
    if wrapper_magic == 1 and count and wrapper_offset:
        base = _int64(wrapper_offset - last)
    if reason != reasons.INNER_SIZE:
        if not count:
            reason = reasons.INNER_EMPTY
        elif wrapper_magic == 1 and wrapper_offset and wrapper_offset < last:
            reason = reasons.WRAPPER_OFFSET
    return base, last, count, reason


def decode_messages(
    data: Data,
    start: int,
    end: int,
    batches: Columns,
    index: int,
    base: int,
    max_records: int,
) -> tuple[Columns, int, int]:
    """Decode the messages inside wrapper `index`, plain in `data[start:end]`; `base` is inner_base.

    Returns (record columns, stop, reason): END; FULL, go on with `start` = stop; INNER_CUT_SHORT;
    INNER_SIZE below 14, or below 22 in magic 1; INNER_COMPRESSED (F16); KEY_LENGTH, VALUE_LENGTH.
    `stop` is where the message in question starts.

    A message's own magic decides its layout: 1, else 0 (F15). Its timestamp is -1 in layout 0, the
    wrapper's under a LogAppendTime wrapper of magic 1, else its own field (F10). A wrong CRC-32 is
    a flag of the record, as is a magic other than the wrapper's.
    """
    view = _view(data)
    position, end = _clamp(start, end, len(view))
    batch = _batch_row(batches, index)
    wrapper_time = batch[c.B_LAYOUT] == 1 and bool(batch[c.B_ATTRIBUTES] & _LOG_APPEND_TIME)
    rows: list[Row] = []
    reason = reasons.END
    while position < end:
        if len(rows) >= max_records:
            reason = reasons.FULL
            break
        try:
            behind, layout = _inner_frame(view, position, end)
            key, value = _key_and_value(view, position, behind, layout)
        except _Bad as bad:
            reason = bad.reason
            break
        magic = view[position + 16]
        timestamp = -1
        if layout:
            timestamp = batch[c.B_MAX_TIMESTAMP]
            if not wrapper_time:
                timestamp = _I64.unpack_from(view, position + 18)[0]
        flags = min(magic, 3) << c.INNER_MAGIC_SHIFT
        if _U32.unpack_from(view, position + 12)[0] != zlib.crc32(view[position + 16 : behind]):
            flags |= c.INNER_CRC_BAD
        if magic != batch[c.B_MAGIC] & 0xFF:
            flags |= c.INNER_MAGIC_OTHER
        offset = _int64(base + _I64.unpack_from(view, position)[0])
        rows.append(
            (index, position, behind - position, offset, timestamp, *key, *value, 0, 0, flags)
        )
        position = behind
    return Columns.from_rows(c.RECORD_WIDTH, rows), position, reason


# The search for the next entry -------------------------------------------------------------------

# A size of at least 14 and a magic of 0 to 2 at their places: all that a fast first look can ask.
_CANDIDATE = re.compile(rb"(?s)(?=.{8}(?!\0\0\0[\0-\r])[\0-\x7f].{7}[\0-\x02])")
_NOT_ZERO = re.compile(rb"[^\0]")
_WINDOW = 4096


def resync(
    data: Data,
    start: int,
    end: int,
    base: int,
    min_offset: int,
    max_offset: int,
    budget: int,
) -> tuple[int, int]:
    """Find the first index in `data[start:end]` where a believable, valid entry starts.

    Believable: magic 0 to 2, all of it before `end`, no unknown attribute bit, a known codec; its
    fixed fields present; its offset (magic 2: base offset) between `min_offset` and `max_offset`,
    both exclusive; magic 2: last offset not below base offset. Valid: its CRC is right.

    Returns (index or -1, bytes of CRC spent). A candidate whose CRC would exceed `budget` bytes in
    all ends the search: a hostile file must not make it quadratic. `base` is the file position of
    `data` and changes nothing.
    """
    del base
    view = _view(data)
    position, end = _clamp(start, end, len(view))
    used = 0
    while position + _LOG_OVERHEAD + _MESSAGE_OVERHEAD[0] <= end:
        # A size field of zeros is never believed: go to the first place where it is none.
        some = _NOT_ZERO.search(view, position + 8, end)
        if some is None:
            break
        position = max(position, some.start() - 11)
        window = position + _WINDOW
        found = _CANDIDATE.search(view, position, min(end, window + _UP_TO_MAGIC - 1))
        if found is None:
            position = window
            continue
        position = found.start()
        covered = _believable(view, position, end, min_offset, max_offset)
        if covered is not None:
            crc_from, behind, modern = covered
            if used + behind - crc_from > budget:
                return -1, used
            used += behind - crc_from
            piece = view[crc_from:behind]
            if modern:
                right = _crc32c_function()(piece, 0) == _U32.unpack_from(view, position + 17)[0]
            else:
                right = zlib.crc32(piece) == _U32.unpack_from(view, position + 12)[0]
            if right:
                return position, used
        position += 1
    return -1, used


def _believable(
    view: memoryview, position: int, end: int, min_offset: int, max_offset: int
) -> tuple[int, int, bool] | None:
    """Return (first byte under the CRC, byte behind the entry, is it v2), or None."""
    if position + _LOG_OVERHEAD + _MESSAGE_OVERHEAD[0] > end:
        return None
    offset, size = _I64.unpack_from(view, position)[0], _I32.unpack_from(view, position + 8)[0]
    behind = position + _LOG_OVERHEAD + size
    magic = view[position + 16]
    if not min_offset < offset < max_offset or size < _MESSAGE_OVERHEAD[0] or behind > end:
        return None
    if magic == 2:
        if behind - position < _HEADER_V2:
            return None
        attributes = _U16.unpack_from(view, position + 21)[0]
        delta = _I32.unpack_from(view, position + 23)[0]
        if attributes & ~0x7F or attributes & _CODEC > 4 or _int64(offset + delta) < offset:
            return None
        return position + _CRC_FROM_V2, behind, True
    if magic > 2 or size < _MESSAGE_OVERHEAD[magic]:
        return None
    attributes = view[position + 17]
    if attributes & ~0x0F or attributes & _CODEC > 3:
        return None
    return position + _CRC_FROM_LEGACY, behind, False


# JSON Lines --------------------------------------------------------------------------------------

_PIECE = 1 << 18
_BLOCK = 3 << 14  # of a long value; a multiple of 3, so that base64 needs no padding inside
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown-5", "unknown-6", "unknown-7")
_TYPES = ('"CreateTime"', '"LogAppendTime"')

# What a terminal might act on: controls, line and paragraph separators, direction marks.
_ESCAPES = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
}
_ESCAPES.update({8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"})


class _Out:
    """Collects output and hands it on in pieces."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.parts: list[bytes] = []
        self.size = 0

    def put(self, text: str) -> None:
        part = text.encode()
        self.parts.append(part)
        self.size += len(part)
        if self.size >= _PIECE:
            self.flush()

    def flush(self) -> None:
        if self.parts:
            self.write(b"".join(self.parts))
            self.parts.clear()
            self.size = 0


def _put_bytes(out: _Out, piece: memoryview, mode: int) -> None:
    """Write bytes as a JSON string (or the base64 object of BYTES_AUTO), block by block."""
    if mode == c.BYTES_AUTO:
        mode = c.BYTES_UTF8 if _is_utf8(piece) else -1
    blocks = (piece[at : at + _BLOCK] for at in range(0, len(piece), _BLOCK))
    out.put('{"base64":"' if mode == -1 else '"')
    if mode == c.BYTES_UTF8:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for block in blocks:
            out.put(decoder.decode(block).translate(_ESCAPES))
        out.put(decoder.decode(b"", final=True))
    elif mode == c.BYTES_HEX:
        for block in blocks:
            out.put(block.hex())
    else:
        for block in blocks:
            out.put(b2a_base64(block, newline=False).decode())
    out.put('"}' if mode == -1 else '"')


def _is_utf8(piece: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(piece), _BLOCK):
            decoder.decode(piece[at : at + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _span(view: memoryview, position: int, size: int) -> memoryview | None:
    """Return `size` bytes from `position` on; None for null and for what is not inside."""
    if size < 0 or position < 0 or size > len(view) - position:
        return None
    return view[position : position + size]


def _row_numbers(columns: Columns, rows: Rows) -> Sequence[int]:
    if rows is None:
        return range(columns.count)
    for row in rows:
        if not 0 <= row < columns.count:
            raise IndexError(row)
    return rows


def _number(value: int, present: bool) -> str:
    return str(value) if present else "null"


def _sequence(batch: Row, delta: int) -> int:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    base = batch[c.B_BASE_SEQUENCE]
    return -1 if base < 0 else (base + delta) & _MAX_SEQUENCE


def _is_magic_0(batch: Row, flags: int) -> bool:
    """Say whether a record has no timestamp: its own magic decides inside a wrapper (F10, F15)."""
    if batch[c.B_LAYOUT] == 2:
        return False
    if batch[c.B_FLAGS] & c.WRAPPER:
        return flags >> c.INNER_MAGIC_SHIFT & 3 != 1
    return batch[c.B_LAYOUT] != 1


def format_records(
    write: Write,
    data: Data,
    batches: Columns,
    records: Columns,
    rows: Rows,
    head: bytes,
    bytes_mode: int,
) -> int:
    """Write `record` rows as JSON Lines and return how many.

    `data` is what the records were decoded from; `rows` the row numbers wanted (None: all); `head`
    the JSON text of the members that are the same in all of them, without braces. `write` gets
    pieces of bytes, none much above 256 KiB: a long value comes in several, so that memory stays
    bounded.

    Members after the head: position, magic, codec, offset, timestamp_ms, timestamp_type,
    leader_epoch, producer_id, producer_epoch, sequence, transactional, control (null), key, value,
    headers. What a version does not have is null; what it has is written as stored, so -1 stays -1.
    Position, magic and codec are the batch's. Header keys are strings under BYTES_AUTO too.

    Escaped are, besides what JSON asks for, U+007F to U+009F, U+2028, U+2029 and the direction
    marks, since text from a log is hostile to terminals.
    """
    view = _view(data)
    numbers = _row_numbers(records, rows)
    out = _Out(write)
    start = '{"row":"record",' + (head.decode() + "," if head else "")
    key_mode = c.BYTES_UTF8 if bytes_mode == c.BYTES_AUTO else bytes_mode
    batch: Row = ()
    batch_at = -1
    for number in numbers:
        record = records.row(number)
        if record[c.R_BATCH] != batch_at:
            batch = _batch_row(batches, record[c.R_BATCH])
            batch_at = record[c.R_BATCH]
        out.put(start + _record_members(batch, record))
        for name, at in ((',"key":', c.R_KEY), (',"value":', c.R_VALUE)):
            piece = _span(view, record[at], record[at + 1])
            out.put(name)
            if piece is None:
                out.put("null")
            else:
                _put_bytes(out, piece, bytes_mode)
        out.put(',"headers":[')
        separator = ""
        for key, key_size, value, value_size in _headers(view, record):
            out.put(separator + '{"key":')
            _put_bytes(out, view[key : key + key_size], key_mode)
            out.put(',"value":')
            if value_size < 0:
                out.put("null")
            else:
                _put_bytes(out, view[value : value + value_size], bytes_mode)
            out.put("}")
            separator = ","
        out.put("]}\n")
    out.flush()
    return len(numbers)


def _record_members(batch: Row, record: Row) -> str:
    attributes = batch[c.B_ATTRIBUTES]
    modern = batch[c.B_LAYOUT] == 2
    without_time = _is_magic_0(batch, record[c.R_FLAGS])
    kind = _TYPES[bool(attributes & _LOG_APPEND_TIME)]
    if without_time or batch[c.B_LAYOUT] not in (1, 2):
        kind = "null"
    sequence = _sequence(batch, _int64(record[c.R_OFFSET] - batch[c.B_BASE_OFFSET]))
    transactional = "true" if modern and attributes & _TRANSACTIONAL else "false"
    return (
        f'"position":{batch[c.B_POSITION]},"magic":{batch[c.B_MAGIC]}'
        f',"codec":"{_CODECS[attributes & _CODEC]}"'
        f',"offset":{record[c.R_OFFSET]}'
        f',"timestamp_ms":{_number(record[c.R_TIMESTAMP], not without_time)}'
        f',"timestamp_type":{kind}'
        f',"leader_epoch":{_number(batch[c.B_LEADER_EPOCH], modern)}'
        f',"producer_id":{_number(batch[c.B_PRODUCER_ID], modern)}'
        f',"producer_epoch":{_number(batch[c.B_PRODUCER_EPOCH], modern)}'
        f',"sequence":{_number(sequence, modern)}'
        f',"transactional":{transactional},"control":null'
    )


def _headers(view: memoryview, record: Row) -> Iterator[tuple[int, int, int, int]]:
    """Yield the headers of a decoded record: (key, size, value, size or -1)."""
    if _span(view, record[c.R_POSITION], record[c.R_SIZE]) is None:
        return
    end = record[c.R_POSITION] + record[c.R_SIZE]
    at = record[c.R_HEADERS]
    if not 0 <= at <= end:
        return
    for _ in range(record[c.R_HEADERS_COUNT]):
        try:
            key, key_size, value, value_size, at = _header(view, at, end)
        except _Bad:
            return
        yield key, key_size, value, value_size


def format_batches(write: Write, batches: Columns, rows: Rows, head: bytes) -> int:
    """Write `batch` rows as JSON Lines and return how many; arguments as in format_records.

    Members after the head: position, size_bytes, magic, codec, base_offset, last_offset,
    records_count, crc, crc_valid, timestamp_type, base_timestamp_ms, max_timestamp_ms,
    leader_epoch, producer_id, producer_epoch, base_sequence, last_sequence, transactional, control,
    delete_horizon_ms. base_offset and records_count of a wrapper are null while RECORDS_COUNT is
    negative. base_timestamp_ms is null where the field holds the delete horizon (F21).
    """
    numbers = _row_numbers(batches, rows)
    out = _Out(write)
    start = '{"row":"batch",' + (head.decode() + "," if head else "")
    for number in numbers:
        out.put(start + _batch_members(batches.row(number)))
    out.flush()
    return len(numbers)


def _batch_members(batch: Row) -> str:
    attributes, layout, flags = batch[c.B_ATTRIBUTES], batch[c.B_LAYOUT], batch[c.B_FLAGS]
    modern = layout == 2
    timed = layout in (1, 2)
    known = not (flags & c.WRAPPER and batch[c.B_RECORDS_COUNT] < 0)
    horizon = modern and bool(attributes & _DELETE_HORIZON)
    kind = _TYPES[bool(attributes & _LOG_APPEND_TIME)] if timed else "null"
    sequence = _sequence(batch, _int64(batch[c.B_LAST_OFFSET] - batch[c.B_BASE_OFFSET]))
    return (
        f'"position":{batch[c.B_POSITION]},"size_bytes":{batch[c.B_SIZE]}'
        f',"magic":{batch[c.B_MAGIC]},"codec":"{_CODECS[attributes & _CODEC]}"'
        f',"base_offset":{_number(batch[c.B_BASE_OFFSET], known)}'
        f',"last_offset":{batch[c.B_LAST_OFFSET]}'
        f',"records_count":{_number(batch[c.B_RECORDS_COUNT], known)}'
        f',"crc":{batch[c.B_CRC]},"crc_valid":{"false" if flags & c.CRC_BAD else "true"}'
        f',"timestamp_type":{kind}'
        f',"base_timestamp_ms":{_number(batch[c.B_BASE_TIMESTAMP], timed and not horizon)}'
        f',"max_timestamp_ms":{_number(batch[c.B_MAX_TIMESTAMP], timed)}'
        f',"leader_epoch":{_number(batch[c.B_LEADER_EPOCH], modern)}'
        f',"producer_id":{_number(batch[c.B_PRODUCER_ID], modern)}'
        f',"producer_epoch":{_number(batch[c.B_PRODUCER_EPOCH], modern)}'
        f',"base_sequence":{_number(batch[c.B_BASE_SEQUENCE], modern)}'
        f',"last_sequence":{_number(sequence, modern)}'
        f',"transactional":{"true" if modern and attributes & _TRANSACTIONAL else "false"}'
        f',"control":{"true" if modern and attributes & _CONTROL else "false"}'
        f',"delete_horizon_ms":{_number(batch[c.B_BASE_TIMESTAMP], horizon)}}}\n'
    )


# Buffers for Arrow -------------------------------------------------------------------------------


def _narrow(value: int, bits: int) -> bytes:
    """Write the lowest bits of a number; only senseless columns lose any."""
    return (value & (1 << bits) - 1).to_bytes(bits // 8, sys.byteorder)


class _Room:
    """The buffers of a Gathered while rows are added to it."""

    def __init__(self, gathered: Gathered) -> None:
        self.buffers = gathered.buffers
        self.counts = gathered.counts
        rooms: list[list[int]] = [[], []]
        for number, bits in enumerate(g.BITS):
            if bits:
                items = len(self.buffers[number]) * 8 // bits - (number in g.ENDS)
                rooms[number in g.OF_HEADERS].append(items)
        self.rows, self.headers = min(rooms[0]), min(rooms[1])
        if self.counts[g.N_ROWS] > self.rows or self.counts[g.N_HEADERS] > self.headers:
            raise ValueError(gathered)

    def number(self, buffer: int, at: int, value: int) -> None:
        size = g.BITS[buffer] // 8
        self.buffers[buffer][size * at : size * (at + 1)] = _narrow(value, 8 * size)

    def end(self, buffer: int, at: int) -> int:
        """Return where item `at - 1` ends."""
        if not at:
            self.number(buffer, 0, 0)
        return int.from_bytes(self.buffers[buffer][4 * at : 4 * at + 4], sys.byteorder)

    def bit(self, buffer: int, at: int, value: bool) -> None:
        mask = 1 << (at & 7)
        whole = self.buffers[buffer]
        whole[at >> 3] = whole[at >> 3] | mask if value else whole[at >> 3] & ~mask

    def bytes(self, buffer: int, ends: int, at: int, piece: bytes | memoryview) -> bool:
        """Add item `at` of a column of bytes; False: there is no room."""
        start = self.end(ends, at)
        if len(piece) > len(self.buffers[buffer]) - start:
            return False
        self.buffers[buffer][start : start + len(piece)] = piece
        self.number(ends, at + 1, start + len(piece))
        return True


def _utf8(name: memoryview) -> bytes:
    return bytes(name).decode("utf-8", "replace").encode()


def gather(
    gathered: Gathered, data: Data, batches: Columns, records: Columns, rows: Rows, first: int
) -> int:
    """Add records to the buffers of an Arrow record batch, from the `first`th row number on.

    Returns how many there was room for. A key or value of size -1, or that is not inside `data`, is
    null. What each buffer holds is said in `gathered`.
    """
    view = _view(data)
    numbers = _row_numbers(records, rows)
    room = _Room(gathered)
    taken = 0
    for row in numbers[max(first, 0) :]:
        batch = _batch_row(batches, records.value(c.R_BATCH, row))
        if room.counts[g.N_ROWS] == room.rows or not _gather_row(room, view, batch, records, row):
            break
        taken += 1
    return taken


def _gather_row(room: _Room, view: memoryview, batch: Row, records: Columns, row: int) -> bool:
    """Add one record; False: there is no room, and nothing was added."""
    counts = room.counts
    at, header = counts[g.N_ROWS], counts[g.N_HEADERS]
    key = _span(view, records.value(c.R_KEY, row), records.value(c.R_KEY_SIZE, row))
    value = _span(view, records.value(c.R_VALUE, row), records.value(c.R_VALUE_SIZE, row))
    if not room.bytes(g.G_KEYS, g.G_KEY_ENDS, at, key or b""):
        return False
    if not room.bytes(g.G_VALUES, g.G_VALUE_ENDS, at, value or b""):
        return False
    contents_null = 0
    for name, name_size, content, content_size in _headers(view, records.row(row)):
        inside = _span(view, content, content_size)
        if (
            header == room.headers
            or not room.bytes(g.G_NAMES, g.G_NAME_ENDS, header, _utf8(view[name:][:name_size]))
            or not room.bytes(g.G_CONTENTS, g.G_CONTENT_ENDS, header, inside or b"")
        ):
            return False
        room.bit(g.G_CONTENT_VALID, header, inside is not None)
        contents_null += inside is None
        header += 1
    room.end(g.G_LISTS, at)
    room.number(g.G_LISTS, at + 1, header)
    room.bit(g.G_KEY_VALID, at, key is not None)
    room.bit(g.G_VALUE_VALID, at, value is not None)
    offset, attributes = records.value(c.R_OFFSET, row), batch[c.B_ATTRIBUTES]
    modern = batch[c.B_LAYOUT] == 2
    timed = not _is_magic_0(batch, records.value(c.R_FLAGS, row))
    of_v2: tuple[int, ...] = (-1, -1, -1, -1)
    if modern:
        of_v2 = (
            batch[c.B_LEADER_EPOCH],
            batch[c.B_PRODUCER_ID],
            batch[c.B_PRODUCER_EPOCH],
            _sequence(batch, _int64(offset - batch[c.B_BASE_OFFSET])),
        )
    numbers = (
        batch[c.B_POSITION],
        batch[c.B_MAGIC],
        attributes & 7,
        offset,
        records.value(c.R_TIMESTAMP, row),
        attributes >> 3 & 1,
        *of_v2,
    )
    for buffer, number in enumerate(numbers):
        room.number(buffer, at, number)
    room.bit(g.G_TRANSACTIONAL, at, modern and bool(attributes & _TRANSACTIONAL))
    room.bit(g.G_MODERN, at, modern)
    room.bit(g.G_TIMED, at, timed)
    counts[g.N_ROWS] = at + 1
    counts[g.N_HEADERS] = header
    counts[g.N_KEYS_NULL] += key is None
    counts[g.N_VALUES_NULL] += value is None
    counts[g.N_CONTENTS_NULL] += contents_null
    counts[g.N_OLD] += not modern
    counts[g.N_UNTIMED] += not timed
    return True


def room_for(data: Data, records: Columns, row: int) -> tuple[int, int, int, int, int]:
    """Return what `gather` needs for one record: headers; bytes of key, value, names, contents."""
    if not 0 <= row < records.count:
        raise IndexError(row)
    view = _view(data)
    headers = names = contents = 0
    for name, name_size, content, content_size in _headers(view, records.row(row)):
        headers += 1
        names += len(_utf8(view[name:][:name_size]))
        contents += len(_span(view, content, content_size) or b"")
    key = _span(view, records.value(c.R_KEY, row), records.value(c.R_KEY_SIZE, row))
    value = _span(view, records.value(c.R_VALUE, row), records.value(c.R_VALUE_SIZE, row))
    return headers, len(key or b""), len(value or b""), names, contents

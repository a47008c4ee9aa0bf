"""Check headers and records for `verify`: checksums, index entries, sequences."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels._pure.layout import I32, view_of
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.layout import (
    MAX_INT32,
    MAX_INT64,
    TIMESTAMP_TYPE_BIT,
    format_at,
    int64,
    message_format,
)

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data


def tally(batches: RecordBatches) -> tuple[int, int, int, int]:
    """Return (records, wrappers, compressed, newest) of all rows.

    `records` adds up RECORDS_COUNT where it is above 0, which it is for no wrapper; `compressed`
    counts rows, wrappers among them; `newest` is the largest MAX_TIMESTAMP, -1 at least.
    """
    flags = batches.row_flags
    return (
        sum(count for count in batches.records_counts if count > 0),
        sum(1 for flag in flags if flag & c.WRAPPER),
        sum(1 for flag in flags if flag & c.COMPRESSED),
        max(-1, max(batches.max_timestamps, default=-1)),
    )


def rising_slots(data: Data, size: int) -> int:
    """Count the whole slots of an index, from the first on, that rise as written entries do (I3).

    `size` 8, an offset index: relative offsets and positions rise strictly, from 0 and from above
    0. `size` 12, a time index: timestamps rise strictly from 0, relative offsets do not fall.
    """
    view = view_of(data)
    strict = size == 8
    pairs = Struct(">ii" if strict else ">qi")
    key, value = -1, 0
    for slot in range(len(view) // size):
        next_key, next_value = pairs.unpack_from(view, slot * size)
        if next_key <= key or next_value < value or (strict and next_value == value):
            return slot
        key, value = next_key, next_value
    return len(view) // size


def index_sectors(data: Data, start: int, size: int) -> list[int]:
    """Find sectors of `size` bytes that hold a piece of an offset index and nothing else.

    At least three slots rise; behind the last of them there are only zeros, as of an index that was
    made larger than what is written. The first sector is at `start`; gives where each begins.
    """
    view = view_of(data)
    found = []
    for at in range(max(start, 0), len(view) - size + 1, size):
        end = at + 8 * rising_slots(view[at : at + size], 8)
        if end - at >= 24 and not any(view[end : at + size]):
            found.append(at)
    return found


def prove_entries(
    batches: RecordBatches,
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
    offsets, times = view_of(offset_slots), view_of(time_slots)
    found: list[tuple[int, int, int]] = []
    offset_slot, time_slot, highest, newest, legacy, unsaid = state
    offset_end, time_end = len(offsets) // 8, len(times) // 12
    columns = (c.B_POSITION, c.B_BASE_OFFSET, c.B_LAST_OFFSET, c.B_MAX_TIMESTAMP, c.B_LAYOUT)
    rows = zip(*(batches.column(column) for column in columns), strict=True)
    for row, (position, first, last, timestamp, layout) in enumerate(rows):
        timed = format_at(layout).has_timestamps
        wrong: list[tuple[int, int]] = []
        while offset_slot < offset_end:
            relative, at = _OFFSET_SLOT.unpack_from(offsets, offset_slot * 8)
            if at > position:
                break
            if at < position:
                wrong.append((c.NO_BATCH, offset_slot))
            elif int64(base_offset + relative) <= highest:
                wrong.append((c.PASSES_OVER, offset_slot))
            elif int64(base_offset + relative) < first:
                wrong.append((c.BELOW_BATCH, offset_slot))
            marks[offset_slot] = newest
            offset_slot += 1
        while time_slot < time_end:
            time, relative = _TIME_SLOT.unpack_from(times, time_slot * 12)
            if int64(base_offset + relative) > last:
                break
            floor = _floor_of(offsets, offset_slot, relative)
            if floor >= 0 and marks[floor] >= time:
                wrong.append((c.STARTS_LATE, time_slot))
            elif timed and timestamp != time:
                wrong.append((c.OTHER_TIME, time_slot))
            time_slot += 1
        for why, slot in wrong:
            if len(found) < most:
                found.append((why, slot, row))
            else:
                unsaid += 1
        highest = max(highest, last)
        newest = max(newest, timestamp)
        legacy |= not timed
    state[:] = array("q", (offset_slot, time_slot, highest, newest, legacy, unsaid))
    return found


_OFFSET_SLOT = Struct(">ii")
_TIME_SLOT = Struct(">qi")


def _floor_of(offsets: memoryview, end: int, relative: int) -> int:
    """Find the last of the first `end` slots at or below a relative offset, -1 for none."""
    low = 0
    while low < end:
        middle = (low + end) // 2
        if I32.unpack_from(offsets, middle * 8)[0] <= relative:
            low = middle + 1
        else:
            end = middle
    return low - 1


def index_entries(
    batches: RecordBatches,
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
    last_position, newest, newest_offset, *rest = state
    entries, last_entry, time_entries, last_time, last_time_offset, then = rest
    reason, row = reasons.END, max(first, 0)
    while row < batches.count:
        position = batches.position(row)
        last = batches.last_offset(row)
        if not (first_offsets or 0 <= last - base_offset <= MAX_INT32):
            reason = reasons.OFFSET_RANGE
            break
        timestamp, timestamp_offset = newest, newest_offset
        if batches.max_timestamp(row) > newest:
            timestamp, timestamp_offset = batches.max_timestamp(row), last
        if int64(position - last_position) > interval:
            entry = last
            if first_offsets:
                entry = batches.base_offset(row)
                if entry == -1 and batches.flags_of(row) & c.WRAPPER:
                    reason = reasons.UNOPENED
                    break
            if (entries and entry <= last_entry) or (
                time_entries and timestamp_offset < last_time_offset
            ):
                reason = reasons.INDEX_FALLS
                break
            offsets.append(_OFFSET_SLOT.pack(_int32(entry - base_offset), _int32(position)))
            entries, last_entry, last_position = int64(entries + 1), entry, position
            if timestamp > last_time:
                times.append(_TIME_SLOT.pack(timestamp, _int32(timestamp_offset - base_offset)))
                time_entries = int64(time_entries + 1)
                last_time, last_time_offset, then = timestamp, timestamp_offset, entries
        newest, newest_offset = timestamp, timestamp_offset
        row += 1
    state[:] = array(
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
    batches: RecordBatches, first: int, end: int, next_offset: int, table: array[int]
) -> tuple[int, int]:
    """Follow producers through the rows of [first, end) that hold no surprise (R7).

    `table` has PRODUCER_WIDTH numbers for each producer known, brought up to date in place: its
    id, epoch, last sequence, last offset, offset delta and timestamp of the last batch. Returns
    (row, offset behind the row before). `row` is the first that is more than the next plain batch
    of one of these producers, or of none: its base offset is not the next, it is of a control or
    transactional batch, its producer or epoch is not known, its sequence does not go on, or it
    goes on at 0 again.
    """
    known = {table[at]: at for at in range(0, len(table), c.PRODUCER_WIDTH)}
    row = max(first, 0)
    while row < min(end, batches.count):
        base, last = batches.base_offset(row), batches.last_offset(row)
        producer_id = batches.producer_id(row)
        flags = batches.flags_of(row)
        if base != next_offset or flags & (c.CONTROL | c.TRANSACTIONAL) or last >= MAX_INT64:
            break
        if producer_id >= 0:
            at = known.get(producer_id)
            sequence = batches.base_sequence(row)
            if (
                at is None
                or table[at + 1] != batches.producer_epoch(row)
                or table[at + 2] < 0
                or not sequence
                or sequence != (table[at + 2] + 1) & MAX_INT32
            ):
                break
            delta = int64(last - base)
            table[at + 2] = (sequence + delta) & MAX_INT32
            table[at + 3], table[at + 4] = last, delta
            table[at + 5] = batches.max_timestamp(row)
        next_offset = last + 1
        row += 1
    return row, next_offset


def prove_records(
    batches: RecordBatches, records: DecodedRecords, state: array[int], complete: bool, most: int
) -> list[tuple[int, int, int]]:
    """Hold records against the headers of their batches, in order.

    `state` carries over a batch that comes in several pieces: its row (-1: none), the last offset
    in it, its newest timestamp, 1 if its maximum cannot be told from its records; then sums: null
    keys, the offset of the first, messages of v0 and v1 with slack behind the value (F11), the
    position of the first one's batch, and how many more were wrong than could be returned, which
    is `most`. It starts as (-1, 0, -1, 0, 0, -1, 0, -1, 0). `complete`: the last batch ends here.

    Returns (why, batch, record) in order: OFFSET_OUTSIDE the batch's range (a wrapper's is known
    at its end only), OFFSET_ORDER not above the record before, INNER_CRC a message inside a
    wrapper has a wrong checksum; and at the end of a batch, with the record behind its last:
    MAX_TIMESTAMP the header's is not the records' (not of LogAppendTime, which records do not
    carry; not where no record or a message of another magic is inside), LAST_OFFSET a v0
    wrapper's offset is not its last message's (F12).
    """
    found: list[tuple[int, int, int]] = []
    row, last, newest, vague, nulls, first_null, slack, first_slack, unsaid = state

    def say(why: int, batch: int, record: int) -> None:
        nonlocal unsaid
        if len(found) < most:
            found.append((why, batch, record))
        else:
            unsaid += 1

    def close(record: int) -> None:
        if row < 0 or row >= batches.count:
            return
        read, wrapper = format_at(batches.layout(row)), batches.flags_of(row) & c.WRAPPER
        timed = read.has_timestamps and (wrapper or not read.is_legacy)
        append_time = batches.attributes(row) & TIMESTAMP_TYPE_BIT
        told = timed and not append_time and not vague
        if told and newest != batches.max_timestamp(row):
            say(c.MAX_TIMESTAMP, row, record)
        if not read.relative_offsets and wrapper and last != batches.last_offset(row):
            say(c.LAST_OFFSET, row, record)

    for record in range(records.count):
        batch = records.batch(record)
        if batch != row:
            close(record)
            row, newest, vague = batch, -1, 0
            last = -1
        header_flags = batches.flags_of(batch)
        flags = records.flags_of(record)
        offset = records.offset(record)
        lowest = -1 if header_flags & c.WRAPPER else batches.base_offset(batch)
        if offset < lowest or offset > batches.last_offset(batch):
            say(c.OFFSET_OUTSIDE, batch, record)
        elif offset <= last and offset >= 0:
            say(c.OFFSET_ORDER, batch, record)
        last = offset
        newest = max(newest, records.timestamp(record))
        if flags & c.INNER_CRC_BAD:
            say(c.INNER_CRC, batch, record)
        if flags & c.INNER_MAGIC_OTHER:
            vague = 1
        key, value = records.key_size(record), records.value_size(record)
        if key < 0 and not header_flags & c.CONTROL:
            first_null = first_null if nulls else offset
            nulls += 1
        read = format_at(batches.layout(batch))
        if read.is_legacy:
            if header_flags & c.WRAPPER:
                read = message_format(flags >> c.INNER_MAGIC_SHIFT & 3)
            fixed = read.smallest_size
            if records.size_bytes(record) > fixed + max(key, 0) + max(value, 0):
                first_slack = first_slack if slack else batches.position(batch)
                slack += 1
    if complete:
        close(records.count)
        row = -1
    state[:] = array("q", (row, last, newest, vague, nulls, first_null, slack, first_slack, unsaid))
    return found

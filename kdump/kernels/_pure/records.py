"""Decode records and inner messages into columns."""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels._pure.layout import I32, I64, U32, clamp, view_of
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.layout import (
    CODEC_MASK,
    LOG_OVERHEAD,
    SMALLEST_MESSAGE,
    SMALLEST_RECORD,
    TIMESTAMP_TYPE_BIT,
    format_at,
    int64,
    message_format,
)
from kdump.kernels.varints import Bad, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.kernels._pure.layout import Data, Row
    from kdump.kernels.layout import Format


_MARKER_KEY = Struct(">hh")  # version, type (F29)
_MARKER_VALUE = Struct(">hi")  # version, coordinatorEpoch
_MARKER_TYPES = ("ABORT", "COMMIT")


def _record(view: memoryview, position: int, end: int, batch: Row, index: int) -> Row:
    """Read one record of `view[position:end]` (F24); `batch` is its row in the batch columns."""
    try:
        size, body = varint(view, position, end)
    except Bad as bad:
        if bad.reason == reasons.RECORD_LENGTH_MISMATCH:
            raise Bad(reasons.RECORD_CUT_SHORT) from None
        raise
    if size < SMALLEST_RECORD - 1:
        raise Bad(reasons.RECORD_LENGTH)
    if size > end - body:
        raise Bad(reasons.RECORD_CUT_SHORT)
    end = body + size
    at = body + 1  # the record's attributes are unused
    timestamp_delta, at = varint(view, at, end, 10)
    offset_delta, at = varint(view, at, end)
    key_size, at = varint(view, at, end)
    key = 0
    if key_size >= 0:
        if key_size > end - at:
            raise Bad(reasons.KEY_LENGTH)
        key = at
        at += key_size
    value_size, at = varint(view, at, end)
    value = 0
    if value_size >= 0:
        if value_size > end - at:
            raise Bad(reasons.VALUE_LENGTH)
        value = at
        at += value_size
    headers_count, at = varint(view, at, end)
    if not 0 <= headers_count <= end - at:
        raise Bad(reasons.HEADER_COUNT)
    headers = at
    for _ in range(headers_count):
        *_, at = read_header(view, at, end)
    if at != end:
        raise Bad(reasons.RECORD_LENGTH_MISMATCH)
    timestamp = batch[c.B_MAX_TIMESTAMP]
    if not batch[c.B_ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
        timestamp = int64(batch[c.B_BASE_TIMESTAMP] + timestamp_delta)
    return (
        index,
        position,
        end - position,
        int64(batch[c.B_BASE_OFFSET] + offset_delta),
        timestamp,
        key,
        max(key_size, -1),
        value,
        max(value_size, -1),
        headers,
        headers_count,
        0,
    )


def read_header(view: memoryview, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Read one record header: (key, its size, value, its size or -1, position behind it)."""
    key_size, key = varint(view, at, end)
    if not 0 <= key_size <= end - key:
        raise Bad(reasons.HEADER_KEY_LENGTH)
    value_size, value = varint(view, key + key_size, end)
    if value_size > end - value:
        raise Bad(reasons.HEADER_VALUE_LENGTH)
    if value_size < 0:
        return key, key_size, 0, -1, value
    return key, key_size, value, value_size, value + value_size


def decode_records(
    data: Data,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    done: int,
    max_records: int,
) -> tuple[DecodedRecords, int, int]:
    """Decode the plain records of batch `index` from `data[start:end]`, which they must fill.

    `done` records were decoded before; go on after FULL with `start` = stop and `done` increased by
    the rows returned. Returns (record columns, stop, reason): END after the last record; FULL
    `max_records` rows are filled and more are due; COUNT_NEGATIVE; RECORDS_MISSING the bytes end
    before the count; RECORDS_REMAINING bytes behind the last record, not looked for in a batch of
    count 0 (F25); or what is wrong at the record that starts at `stop`.

    Offset is base offset + delta; timestamp base timestamp + delta, or the batch's maximum if its
    type is LogAppendTime (F24).
    """
    view = view_of(data)
    start, end = clamp(start, end, len(view))
    batch = batch_row(batches, index)
    rows: list[Row] = []
    stop, reason = _records(view, start, end, batch, index, max(done, 0), max_records, rows)
    return DecodedRecords.from_rows(c.RECORD_WIDTH, rows), stop, reason


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
        except Bad as bad:
            return position, bad.reason
        rows.append(row)
        position += row[c.R_SIZE]
        done += 1
    if count and position < end:
        return position, reasons.RECORDS_REMAINING
    return position, reasons.END


def batch_row(batches: RecordBatches, index: int) -> Row:
    if not 0 <= index < batches.count:
        raise IndexError(index)
    return batches.row(index)


def decode_run(
    data: Data, base: int, batches: RecordBatches, first: int, max_records: int
) -> tuple[DecodedRecords, int, int, int]:
    """Decode the records of batches `first` on, one after the other, while they are plain.

    Plain means: not COMPRESSED, CRC_BAD or TOO_SMALL, recordsCount not negative, and wholly inside
    `data`, whose first byte is at file position `base`; and of CONTROL batches, those that are one
    sound transaction marker, which gets the flag MARKER. A v0 or v1 message is one record; bytes
    behind its value are allowed (F11). A batch is never split.

    Returns (record columns, next batch, stop, reason). END: all batches are done. FULL: the records
    of the next batch do not fit, though at most as many are counted as its bytes can hold; if it is
    `first` itself, it alone exceeds `max_records`, and decode_records takes it in pieces.
    NOT_PLAIN: the next batch must not be decoded here. These three stop where the next batch
    starts (END: where the last one ends). Any other reason is what is wrong in the next batch, at
    `stop`; its good records are among the rows.
    """
    view = view_of(data)
    rows: list[Row] = []
    flags = 0
    index = max(0, min(first, batches.count))
    stop, reason = 0, reasons.END
    while index < batches.count:
        batch = batches.row(index)
        start = stop = int64(batch[c.B_POSITION] - base)
        size = batch[c.B_SIZE]
        read = format_at(batch[c.B_LAYOUT])
        if not _is_plain(view, batch, read, start):
            reason = reasons.NOT_PLAIN
            break
        due = 1
        if not read.is_legacy:
            due = min(batch[c.B_RECORDS_COUNT], (size - read.header_size) // SMALLEST_RECORD)
        if len(rows) + due > max(0, max_records):
            reason = reasons.FULL
            break
        end = start + size
        if not read.is_legacy:
            # A count that the bytes cannot hold is found out by running out of them.
            stop, reason = _records(
                view, start + read.header_size, end, batch, index, 0, len(rows) + due + 1, rows
            )
            if batch[c.B_FLAGS] & c.CONTROL:
                rows[-1] = (*rows[-1][: c.R_FLAGS], c.MARKER)
                flags = c.MARKER
        else:
            try:
                key, value = _key_and_value(view, start, end, read)
            except Bad as bad:
                reason = bad.reason
            else:
                stop = end
                offset, timestamp = batch[c.B_LAST_OFFSET], batch[c.B_MAX_TIMESTAMP]
                rows.append((index, start, size, offset, timestamp, *key, *value, 0, 0, 0))
        if reason:
            break
        index += 1
    return DecodedRecords.from_rows(c.RECORD_WIDTH, rows, flags), index, stop, reason


def _is_plain(view: memoryview, batch: Row, read: Format, start: int) -> bool:
    size, length = batch[c.B_SIZE], len(view)
    if batch[c.B_FLAGS] & (c.COMPRESSED | c.CRC_BAD | c.TOO_SMALL):
        return False
    if not read.is_legacy and batch[c.B_RECORDS_COUNT] < 0:
        return False
    if not (read.smallest_size <= size <= length and 0 <= start <= length - size):
        return False
    if not batch[c.B_FLAGS] & c.CONTROL:
        return True
    return not read.is_legacy and _is_marker(view, batch, start + read.header_size, start + size)


def _is_marker(view: memoryview, batch: Row, start: int, end: int) -> bool:
    """Whether `view[start:end]` is one record, and that a sound transaction marker."""
    if batch[c.B_RECORDS_COUNT] != 1:
        return False
    try:
        record = _record(view, start, end, batch, 0)
    except Bad:
        return False
    return record[c.R_SIZE] == end - start and marker_of(view, record) is not None


def marker_of(view: memoryview, record: Row) -> tuple[str, int, int] | None:
    """Return (type, version, coordinator epoch) of a transaction marker; None: it is none (F29)."""
    key, value = record[c.R_KEY], record[c.R_VALUE]
    for at, size, least in (
        (key, record[c.R_KEY_SIZE], _MARKER_KEY.size),
        (value, record[c.R_VALUE_SIZE], _MARKER_VALUE.size),
    ):
        if size < least or at < 0 or size > len(view) - at:
            return None
    version, kind = _MARKER_KEY.unpack_from(view, key)
    value_version, epoch = _MARKER_VALUE.unpack_from(view, value)
    if version < 0 or value_version < 0 or not 0 <= kind < len(_MARKER_TYPES):
        return None
    return _MARKER_TYPES[kind], version, epoch


def _key_and_value(
    view: memoryview, start: int, end: int, read: Format
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Find key and value, each (first byte, size), of the message entry `view[start:end]` (F7).

    The entry must hold its fixed fields. Any negative length is null: (0, -1).
    """
    at = start + read.header_size - 4
    size = I32.unpack_from(view, at)[0]
    at += 4
    if size > end - at - 4:
        raise Bad(reasons.KEY_LENGTH)
    key = (0, -1)
    if size >= 0:
        key = (at, size)
        at += size
    size = I32.unpack_from(view, at)[0]
    at += 4
    if size > end - at:
        raise Bad(reasons.VALUE_LENGTH)
    return key, (at, size) if size >= 0 else (0, -1)


def _inner_size(view: memoryview, position: int, end: int) -> int:
    """Return the size field of the inner message at `position`, or raise what is wrong (F17)."""
    if end - position < LOG_OVERHEAD:
        raise Bad(reasons.INNER_CUT_SHORT)
    size: int = I32.unpack_from(view, position + 8)[0]
    if size < SMALLEST_MESSAGE:
        raise Bad(reasons.INNER_SIZE)
    if size > end - position - LOG_OVERHEAD:
        raise Bad(reasons.INNER_CUT_SHORT)
    return size


def _inner_frame(view: memoryview, position: int, end: int) -> tuple[int, Format]:
    """Return (byte behind it, format) of a plain inner message with all its fixed fields."""
    size = LOG_OVERHEAD + _inner_size(view, position, end)
    read = message_format(view[position + 16])
    if size < read.smallest_size:
        raise Bad(reasons.INNER_SIZE)
    if view[position + 17] & CODEC_MASK:
        raise Bad(reasons.INNER_COMPRESSED)
    return position + size, read


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
    view = view_of(data)
    position, end = clamp(start, end, len(view))
    last, count, reason = -1, 0, reasons.END
    while position < end:
        try:
            size = _inner_size(view, position, end)
        except Bad as bad:
            reason = bad.reason
            break
        last = I64.unpack_from(view, position)[0]
        count += 1
        position += LOG_OVERHEAD + size
    base = 0
    relative = message_format(wrapper_magic).relative_offsets
    if relative and count and wrapper_offset:
        base = int64(wrapper_offset - last)
    if reason != reasons.INNER_SIZE:
        if not count:
            reason = reasons.INNER_EMPTY
        elif relative and wrapper_offset and wrapper_offset < last:
            reason = reasons.WRAPPER_OFFSET
    return base, last, count, reason


def decode_messages(
    data: Data,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    base: int,
    max_records: int,
) -> tuple[DecodedRecords, int, int]:
    """Decode the messages inside wrapper `index`, plain in `data[start:end]`; `base` is inner_base.

    Returns (record columns, stop, reason): END; FULL, go on with `start` = stop; INNER_CUT_SHORT;
    INNER_SIZE below 14, or below 22 in magic 1; INNER_COMPRESSED (F16); KEY_LENGTH, VALUE_LENGTH.
    `stop` is where the message in question starts.

    A message's own magic decides its layout: 1, else 0 (F15). Its timestamp is -1 in layout 0, the
    wrapper's under a LogAppendTime wrapper of magic 1, else its own field (F10). A wrong CRC-32 is
    a flag of the record, as is a magic other than the wrapper's.
    """
    view = view_of(data)
    position, end = clamp(start, end, len(view))
    batch = batch_row(batches, index)
    meant = batch[c.B_ATTRIBUTES] & message_format(batch[c.B_LAYOUT]).meant_bits
    wrapper_time = bool(meant & TIMESTAMP_TYPE_BIT)
    rows: list[Row] = []
    reason, all_flags = reasons.END, 0
    while position < end:
        if len(rows) >= max_records:
            reason = reasons.FULL
            break
        try:
            behind, read = _inner_frame(view, position, end)
            key, value = _key_and_value(view, position, behind, read)
        except Bad as bad:
            reason = bad.reason
            break
        magic = view[position + 16]
        timestamp = -1
        if read.has_timestamps:
            timestamp = batch[c.B_MAX_TIMESTAMP]
            if not wrapper_time:
                timestamp = I64.unpack_from(view, position + 18)[0]
        flags = min(magic, 3) << c.INNER_MAGIC_SHIFT
        if U32.unpack_from(view, position + 12)[0] != zlib.crc32(view[position + 16 : behind]):
            flags |= c.INNER_CRC_BAD
        if magic != batch[c.B_MAGIC] & 0xFF:
            flags |= c.INNER_MAGIC_OTHER
        all_flags |= flags
        offset = int64(base + I64.unpack_from(view, position)[0])
        rows.append(
            (index, position, behind - position, offset, timestamp, *key, *value, 0, 0, flags)
        )
        position = behind
    return DecodedRecords.from_rows(c.RECORD_WIDTH, rows, all_flags), position, reason


def same_records(
    data: Data,
    records: DecodedRecords,
    row: int,
    other_data: Data,
    others: DecodedRecords,
    other_row: int,
) -> int:
    """Count the records from two rows on that are the same, one by one.

    They have the same offset, timestamp, key and value, and headers of the same bytes. Offsets
    rise from 0 on; the first pair that is not so ends it, as does the end of either side.
    """
    view, other_view = view_of(data), view_of(other_data)
    row, other_row = max(row, 0), max(other_row, 0)
    most = max(min(records.count - row, others.count - other_row), 0)
    last = -1
    for number in range(most):
        mine, theirs = records.row(row + number), others.row(other_row + number)
        if mine[c.R_OFFSET] <= last or any(mine[k] != theirs[k] for k in _ALIKE):
            return number
        last = mine[c.R_OFFSET]
        bytes_of_both = zip(_parts(mine, view), _parts(theirs, other_view), strict=True)
        for (at, size), (other_at, other_size) in bytes_of_both:
            if size < 0 and other_size < 0:
                continue
            if not (_inside(at, size, view) and _inside(other_at, other_size, other_view)):
                return number
            if view[at : at + size] != other_view[other_at : other_at + other_size]:
                return number
    return most


_ALIKE = (c.R_OFFSET, c.R_TIMESTAMP, c.R_KEY_SIZE, c.R_VALUE_SIZE, c.R_HEADERS_COUNT)


def _parts(record: tuple[int, ...], view: memoryview) -> Iterator[tuple[int, int]]:
    """Give where the key, the value and the headers of a record lie, and how long they are."""
    yield record[c.R_KEY], record[c.R_KEY_SIZE]
    yield record[c.R_VALUE], record[c.R_VALUE_SIZE]
    if record[c.R_HEADERS_COUNT] > 0:
        start, end = record[c.R_HEADERS], record[c.R_POSITION] + record[c.R_SIZE]
        fits = _inside(record[c.R_POSITION], record[c.R_SIZE], view) and 0 <= start <= end
        yield (start, end - start) if fits else (-1, 0)


def _inside(at: int, size: int, view: memoryview) -> bool:
    return 0 <= size <= len(view) and 0 <= at <= len(view) - size

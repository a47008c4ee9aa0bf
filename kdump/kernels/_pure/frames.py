"""Walk over log entries: where each is, what its header says, whether it is sound."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels._pure.layout import BATCH_FIELDS, I8, I32, I64, U32, clamp, view_of
from kdump.kernels._pure.sums import crc32c_function
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START_LEGACY,
    FORMATS,
    HEADER_SIZE_UP_TO_MAGIC,
    LARGEST_HEADER,
    LOG_OVERHEAD,
    PRE08_CODEC_MASK,
    PRE08_SMALLEST,
    SMALLEST_MESSAGE,
    TRANSACTIONAL_BIT,
    format_of,
    int64,
)

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data, Row
    from kdump.kernels.layout import Format


def walk(
    data: Data, start: int, end: int, base: int, last_offset: int, check_crc: bool, max_batches: int
) -> tuple[RecordBatches, int, int]:
    """Frame the log entries in `data[start:end]` as brokers do, `end` being the end of file (S6).

    Returns (batch columns, stop, reason). `stop` is the end of the last row. `reason`, in this
    order: END nothing is left; FULL `max_batches` rows are filled; SHORT_TAIL 17 bytes or fewer are
    left; LENGTH_TOO_SMALL; CUT_SHORT.

    `last_offset` is the highest offset known to lie before, -1 for none. An entry that does not
    rise above it and above all rows before has OFFSET_NOT_RISING; so do all entries behind a wrong
    high one.

    LAYOUT says how the entry was read, which is as `format_of` has it of its magic, as in brokers
    (S6 step 5). One exception: brokers 0.8 and 0.9 stored any magic byte over a v0 message. If
    what should be a batch is no valid one (F22) but its CRC-32 as a v0 message is right, it is read
    as layout 0, with MAGIC_UNKNOWN. This is looked for only with `check_crc`. Without it
    COMPUTED_CRC repeats CRC.

    TOO_SMALL entries show what lies inside their own bytes (S9): of a batch the other fields are
    -1, last offset is the base offset, COMPUTED_CRC 0 and CRC_BAD set; of layout 1 the timestamp
    is -1.
    """
    view = view_of(data)
    start, end = clamp(start, end, len(view))
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
        if left <= HEADER_SIZE_UP_TO_MAGIC:
            reason = reasons.SHORT_TAIL
            break
        size = I32.unpack_from(view, position + 8)[0]
        if size < SMALLEST_MESSAGE:
            reason = reasons.LENGTH_TOO_SMALL
            break
        if size > left - LOG_OVERHEAD:
            reason = reasons.CUT_SHORT
            break
        frame = view[position : position + LOG_OVERHEAD + size]
        row = _entry(frame, base + position, last_offset, check_crc)
        rows.append(row)
        flags |= row[c.B_FLAGS]
        last_offset = max(last_offset, row[c.B_LAST_OFFSET])
        position += LOG_OVERHEAD + size
    return RecordBatches.from_rows(c.BATCH_WIDTH, rows, flags), position, reason


def _entry(frame: memoryview, position: int, last_offset: int, check_crc: bool) -> Row:
    read = format_of(frame[16])
    if read.is_legacy:
        return _message(frame, position, last_offset, check_crc, read)
    row = _batch(frame, position, last_offset, check_crc, read)
    if (
        check_crc
        and row[c.B_FLAGS] & c.CRC_BAD
        and U32.unpack_from(frame, 12)[0] == zlib.crc32(frame[CRC_START_LEGACY:])
    ):
        return _message(frame, position, last_offset, check_crc, FORMATS[0])
    return row


def _message(
    frame: memoryview, position: int, last_offset: int, check_crc: bool, read: Format
) -> Row:
    """Read a v0 or v1 message, plain or wrapper (F6, F7)."""
    magic = I8.unpack_from(frame, 16)[0]
    offset = I64.unpack_from(frame, 0)[0]
    crc = computed = U32.unpack_from(frame, 12)[0]
    if check_crc:
        computed = zlib.crc32(frame[CRC_START_LEGACY:])
    attributes = frame[17]
    codec = attributes & CODEC_MASK
    flags = 0
    timestamp = -1
    if len(frame) < read.smallest_size:
        flags |= c.TOO_SMALL
    elif read.has_timestamps:
        timestamp = I64.unpack_from(frame, 18)[0]
    if computed != crc:
        flags |= c.CRC_BAD
    if magic != read.magic:
        flags |= c.MAGIC_UNKNOWN
    if offset <= last_offset:
        flags |= c.OFFSET_NOT_RISING
    if codec:
        flags |= c.WRAPPER | c.COMPRESSED
        if codec > read.largest_codec:
            flags |= c.CODEC_UNKNOWN
    if attributes & ~read.meant_bits:
        flags |= c.RESERVED
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
        read.magic,
    )


def _batch(
    frame: memoryview, position: int, last_offset: int, check_crc: bool, read: Format
) -> Row:
    """Read the header of a record batch (F20)."""
    magic = I8.unpack_from(frame, 16)[0]
    base_offset = I64.unpack_from(frame, 0)[0]
    leader_epoch = I32.unpack_from(frame, 12)[0]
    crc = computed = U32.unpack_from(frame, read.crc_position)[0]
    flags = 0
    fields = bytes(frame[read.crc_start : read.crc_start + BATCH_FIELDS.size])
    if len(frame) < read.header_size:
        flags |= c.TOO_SMALL | c.CRC_BAD
        computed = 0
        # Where each field ends; what ends outside the entry is not there.
        whole = max(end for end in (2, 6, 14, 22, 30, 32, 36) if end <= len(fields))
        fields = (fields[:whole] if whole > 2 else fields[:2] + bytes(4)).ljust(
            BATCH_FIELDS.size, b"\xff"
        )
    elif check_crc:
        computed = crc32c_function()(frame[read.crc_start :], 0)
    fixed = BATCH_FIELDS.unpack(fields)
    attributes, delta, base_ms, max_ms, producer, epoch, sequence, count = fixed
    if not flags and (count < 0 or delta < 0 or count > delta + 1):
        flags |= c.DELTA_COUNT
    last = int64(base_offset + delta)
    codec = attributes & CODEC_MASK
    if computed != crc:
        flags |= c.CRC_BAD
    if magic != read.magic:
        flags |= c.MAGIC_UNKNOWN
    if base_offset <= last_offset or last < base_offset:
        flags |= c.OFFSET_NOT_RISING
    if codec:
        flags |= c.COMPRESSED
        if codec > read.largest_codec:
            flags |= c.CODEC_UNKNOWN
    if attributes & CONTROL_BIT:
        flags |= c.CONTROL
    if attributes & TRANSACTIONAL_BIT:
        flags |= c.TRANSACTIONAL
    if attributes & ~read.meant_bits:
        flags |= c.RESERVED
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
        read.magic,
    )


def hop(
    fd: int, position: int, end: int, smallest: int, max_batches: int
) -> tuple[RecordBatches, int]:
    """Frame entries of a file by their headers alone, as far as these need no wait.

    Returns (batch columns, stop), as a `walk` without checksums that begins at `position` has them.
    It ends, too, before an entry of fewer bytes than `smallest` or than a header, before one whose
    header is not in memory, and before any that a walk would not frame: `stop` is for a walk.
    """
    rows: list[Row] = []
    flags, last_offset = 0, -1
    header = bytearray(LARGEST_HEADER)
    while (
        len(rows) < max_batches
        and end - position >= LARGEST_HEADER
        and _read_cached(fd, header, position)
    ):
        size = LOG_OVERHEAD + I32.unpack_from(header, 8)[0]
        if size < max(smallest, LARGEST_HEADER) or size > end - position:
            break
        row = list(_entry(memoryview(header), position, last_offset, False))
        row[c.B_SIZE] = size
        rows.append(tuple(row))
        flags |= row[c.B_FLAGS]
        last_offset = max(last_offset, row[c.B_LAST_OFFSET])
        position += size
    return RecordBatches.from_rows(c.BATCH_WIDTH, rows, flags), position


def _read_cached(fd: int, header: bytearray, position: int) -> bool:
    """Whether a header could be read whole from memory."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(fd, [header], position, os.RWF_NOWAIT) == len(header)
    except OSError:
        return False


def walk_pre08(
    data: Data, start: int, end: int, base: int, segment: int, max_records: int
) -> tuple[RecordBatches, DecodedRecords]:
    """Frame and decode the messages of 0.6 or 0.7 in `data[start:end]`, while they are plain (S1).

    Plain means whole, of the magic of the first, not compressed, with a right checksum (F1-F3). As
    rows they are messages without a time: what a consumer reports as the next offset stands as the
    last one (F4); `segment` is the offset of the file's first byte.
    """
    view = view_of(data)
    start, end = clamp(start, end, len(view))
    batches: list[Row] = []
    records: list[Row] = []
    while end - start >= 4 + PRE08_SMALLEST and len(batches) < max_records:
        size, magic = 4 + I32.unpack_from(view, start)[0], view[start + 4]
        payload = 4 + PRE08_SMALLEST + magic
        if magic > 1 or not payload <= size <= end - start:
            break
        if batches and magic != batches[0][c.B_MAGIC]:
            break
        crc = U32.unpack_from(view, start + payload - 4)[0]
        if magic and view[start + 5] & PRE08_CODEC_MASK:
            break
        if crc != zlib.crc32(view[start + payload : start + size]):
            break
        offset = int64(segment + base + start)
        batches.append(
            (int64(base + start), size, magic, 0, offset, int64(offset + size), 1, crc, crc)
            + (-1,) * 6
            + (0, 0)
        )
        value = start + payload, size - payload
        records.append((len(records), start, size, offset, -1, 0, -1, *value, 0, 0, 0))
        start += size
    return (
        RecordBatches.from_rows(c.BATCH_WIDTH, batches),
        DecodedRecords.from_rows(c.RECORD_WIDTH, records),
    )

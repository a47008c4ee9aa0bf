"""Write anew what can be had of an entry whose checksum is wrong, or whose end is missing.

A message in a wrapper has a checksum of its own: what it covers is as it was written. The records
of a batch have none: what can be read up to the damage is taken, and nothing proves it. Offsets
stay as they were, and nothing is compressed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.batch import read_batch
from kdump.record.decoded_part import DecodedPart
from kdump.record.layout import (
    BATCH_HEADER_V2,
    CODEC_MASK,
    CRC_START_LEGACY,
    CRC_START_V2,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    format_at,
)
from kdump.record.legacy import read_past_nested, value_position
from kdump.tuples import NamedTuple

_UNFIT = c.MAGIC_UNKNOWN | c.TOO_SMALL | c.CODEC_UNKNOWN | c.DELTA_COUNT | c.CONTROL | c.RESERVED
_ATTRIBUTES, _TIMESTAMP = CRC_START_LEGACY + 1, CRC_START_LEGACY + 2  # in a message of format 1
_NO_PRODUCER = (-1, -1, -1)
_MESSAGES_A_PIECE = 8192


class Part(NamedTuple):
    """An entry written anew. `is_proved`: checksums cover all of its records, but for offsets.

    `is_plain`: it is one message out of a wrapper, not the records from the first of a batch on.
    `highest` is the last offset that the damaged entry says it has.
    """

    data: bytes
    first: int
    last: int
    records_count: int
    is_proved: bool
    is_plain: bool
    highest: int


def parts_of(
    damaged: bytes, is_known: Callable[[int, int], bool], limit: int, *, highest: int
) -> Iterator[Part]:
    """Yield what can be had of the entry that `damaged` begins with, in the order of its offsets.

    `after` is the offset right before its first, None if that is not known. `is_known` says whether
    a producer id and epoch are those of a producer. `limit` bounds the uncompressed bytes,
    `highest` is the largest offset that is taken.
    """
    data = bytearray(damaged)
    rows = _header(data)
    if rows is None:
        return
    if rows.flags & c.WRAPPER:
        yield from _messages(data, rows, limit, highest)
    elif not rows.is_legacy(0):
        yield from _prefix(data, rows, is_known, limit, highest)


def last_inside(damaged: bytes) -> int | None:
    """The last offset of the wrapper that `damaged` begins with, if it counts what it holds from 0.

    Where its compression left a message as it was, that looks like one by itself at such a number.
    """
    rows = _header(bytearray(damaged))
    if rows is None or not (rows.flags & c.WRAPPER and rows.format(0).relative_offsets):
        return None
    return rows.last_offset(0)


def _header(data: bytearray) -> RecordBatches | None:
    """Read the header of an entry, which then has the size that there is of it."""
    if len(data) <= LOG_OVERHEAD:
        return None
    size = min(LOG_OVERHEAD + max(int.from_bytes(data[8:12], "big", signed=True), 0), len(data))
    del data[size:]
    data[8:LOG_OVERHEAD] = (size - LOG_OVERHEAD).to_bytes(4, "big", signed=True)
    rows, _, _ = kernels.walk(data, 0, size, 0, -1, False, 1)
    return None if not rows.count or rows.flags & _UNFIT else rows


def _prefix(
    data: bytearray,
    rows: RecordBatches,
    is_known: Callable[[int, int], bool],
    limit: int,
    highest: int,
) -> Iterator[Part]:
    """Yield the records of a batch up to the first that cannot be right, as one batch."""
    (
        base, _, epoch, magic, _, attributes, _, base_ms, most_ms, *producer, _,
    ) = BATCH_HEADER_V2.unpack_from(data)  # fmt: skip
    if base < 0:
        return
    if not (tuple(producer) == _NO_PRODUCER or is_known(producer[0], producer[1])):
        if rows.flags & c.TRANSACTIONAL:
            return  # a transaction that nobody would ever end
        producer = list(_NO_PRODUCER)
    is_dense = rows.records_count(0) == rows.last_offset(0) - base + 1
    keeps_most = bool(attributes & TIMESTAMP_TYPE_BIT)
    plain: bytes | bytearray | memoryview = b""
    start = end = count = 0
    last, largest_ms = base - 1, -1
    for piece in read_batch(data, 0, rows, 0, limit=limit):
        right = _right(piece, last, min(highest, rows.last_offset(0)), most_ms, is_dense=is_dense)
        if right and not count:
            plain, start = piece.data, piece.records.position(0)
        if right:
            end = piece.records.position(right - 1) + piece.records.size_bytes(right - 1)
            last = piece.records.offset(right - 1)
            largest_ms = max(largest_ms, *piece.records.timestamps[:right], -1)
            count += right
        if right < piece.records.count:
            break
    if not count:
        return
    records = bytes(memoryview(plain)[start:end])
    size = BATCH_HEADER_V2.size + len(records)
    entry = bytearray(
        BATCH_HEADER_V2.pack(
            base, size - LOG_OVERHEAD, epoch, magic, 0, attributes & ~CODEC_MASK, last - base,
            base_ms, most_ms if keeps_most else largest_ms, *producer, count,
        )
    )  # fmt: skip
    entry += records
    at = format_at(rows.layout(0)).crc_position
    entry[at : at + 4] = kernels.crc32c(entry, CRC_START_V2, size).to_bytes(4, "big")
    yield Part(bytes(entry), base, last, count, False, False, rows.last_offset(0))


def _right(piece: DecodedPart, last: int, highest: int, most_ms: int, *, is_dense: bool) -> int:
    """Count the records up to the first whose offset or time the batch cannot have."""
    for row, (offset, timestamp) in enumerate(
        zip(piece.records.offsets, piece.records.timestamps, strict=True)
    ):
        follows = offset == last + 1 if is_dense else offset > last
        if not (follows and offset <= highest and timestamp <= most_ms):
            return row
        last = offset
    return piece.records.count


def _messages(data: bytearray, rows: RecordBatches, limit: int, highest: int) -> Iterator[Part]:
    """Yield each message of a wrapper whose own checksum is right, as a message by itself."""
    at = value_position(memoryview(data), 0, len(data), rows.layout(0))
    if at is None:
        return
    # What the wrapper says of its size may be more than there is of it.
    claimed = int.from_bytes(data[at - 4 : at], "big", signed=True)
    if claimed > len(data) - at:
        data[at - 4 : at] = (len(data) - at).to_bytes(4, "big", signed=True)
    last, highest = -1, min(highest, rows.last_offset(0))
    for piece in _read_nested(data, rows, limit):
        view = memoryview(piece.data)
        for row, offset in enumerate(piece.records.offsets):
            if piece.records.row_flags[row] & (c.INNER_CRC_BAD | c.INNER_MAGIC_OTHER):
                continue
            position = piece.records.position(row)
            message = bytes(view[position : position + piece.records.size_bytes(row)])
            # Below 0: counted from the last message, which did not come out. Where they begin only
            # an uncompacted log would tell, and wrappers do not say whether theirs is one.
            if not last < offset <= highest:
                continue
            last, is_proved = offset, True
            if rows.attributes(0) & TIMESTAMP_TYPE_BIT:
                message = _set_arrival_time(message, piece.records.timestamp(row))
                is_proved = False
            entry = offset.to_bytes(8, "big") + message[8:]
            yield Part(entry, offset, offset, 1, is_proved, True, rows.last_offset(0))


def _read_nested(data: bytearray, rows: RecordBatches, limit: int) -> Iterator[DecodedPart]:
    """Yield the messages of a wrapper, those that are compressed again as bytes."""
    for piece in read_batch(data, 0, rows, 0, limit=limit):
        yield piece
        if piece.reason == reasons.INNER_COMPRESSED:
            yield from read_past_nested(piece, rows, 0, _MESSAGES_A_PIECE)


def _set_arrival_time(message: bytes, timestamp: int) -> bytes:
    """Give a message the time at which its wrapper arrived, which readers take for its own."""
    new = bytearray(message)
    new[_ATTRIBUTES] |= TIMESTAMP_TYPE_BIT
    new[_TIMESTAMP : _TIMESTAMP + 8] = timestamp.to_bytes(8, "big", signed=True)
    crc = kernels.crc32(new, CRC_START_LEGACY, len(new))
    new[LOG_OVERHEAD:CRC_START_LEGACY] = crc.to_bytes(4, "big")
    return bytes(new)

"""Find the next believable entry behind damage, and the records asked for."""

from __future__ import annotations

import re
import zlib
from array import array
from typing import TYPE_CHECKING

from kdump.kernels._pure.layout import BATCH_FIELDS, I32, I64, U32, clamp, view_of
from kdump.kernels._pure.sums import crc32c_function
from kdump.kernels._pure.text import span_of
from kdump.kernels.columns import R_KEY
from kdump.kernels.layout import (
    CODEC_MASK,
    CRC32C,
    FORMATS,
    HEADER_SIZE_UP_TO_MAGIC,
    LARGEST_HEADER,
    LOG_OVERHEAD,
    NEWEST_MAGIC,
    SMALLEST_MESSAGE,
    SMALLEST_RECORD,
    TIMESTAMP_TYPE_BIT,
    int64,
)
from kdump.kernels.varints import Bad, varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.kernels._pure.layout import Data
    from kdump.kernels.columns import DecodedRecords
    from kdump.kernels.layout import Format

    Bounds = tuple[int | None, int | None]

# A size of at least 14 and a known magic at their places: all that a fast first look can ask.
_CANDIDATE = re.compile(rb"(?s)(?=.{8}(?!\0\0\0[\0-\r])[\0-\x7f].{7}[\0-\x%02x])" % NEWEST_MAGIC)
_NOT_ZERO = re.compile(rb"[^\0]")
_WINDOW = 4096
_MESSAGE_BITS = CODEC_MASK | TIMESTAMP_TYPE_BIT
# All that is looked at of an entry before its sum: a batch's header, its first record's size.
_HEADER = LARGEST_HEADER + 5


def resync(
    data: Data, start: int, end: int, behind: int, min_offset: int, max_offset: int, summed: int
) -> tuple[int, int, bool]:
    """Find the first index in `data[start:end]` where a believable entry starts.

    Believable: a known magic, a size that ends before `end` plus `behind`, the bytes of the file
    that follow and are not at hand; no unknown attribute bit, a known codec; its fixed fields
    present. Its offset, or base offset, lies above `min_offset`, and its last below `max_offset`.
    A message: a key and a value that fit. A batch: a last offset not below the base offset,
    no more records than that leaves room for, and if they are plain a first one that fits.

    Its CRC is right, or has not been looked at, for covering more than `summed` bytes or bytes that
    are not at hand.

    Returns (index, index behind the entry, whether the CRC is right). Where there is none:
    (-1, index from which the bytes at hand are too few to tell, False).
    """
    view = view_of(data)
    position, end = clamp(start, end, len(view))
    behind = max(behind, 0)
    needed = _HEADER if behind else LOG_OVERHEAD + SMALLEST_MESSAGE
    stop = max(position, end - needed + 1)
    while position < stop:
        # A size field of zeros is never believed: go to the first place where it is none.
        some = _NOT_ZERO.search(view, position + 8, end)
        if some is None:
            break
        position = max(position, some.start() - 11)
        window = position + _WINDOW
        found = _CANDIDATE.search(view, position, min(end, window + HEADER_SIZE_UP_TO_MAGIC - 1))
        if found is None:
            position = window
            continue
        position = found.start()
        if position >= stop:
            break
        size = _believable(view[position:end], behind, min_offset, max_offset)
        if size:
            read = FORMATS[view[position + 16]]
            if size - read.crc_start > summed or size > end - position:
                return position, position + size, False
            piece = view[position + read.crc_start : position + size]
            crc = crc32c_function() if read.crc_kind == CRC32C else zlib.crc32
            if crc(piece, 0) == U32.unpack_from(view, position + read.crc_position)[0]:
                return position, position + size, True
        position += 1
    return -1, stop, False


def _believable(view: memoryview, behind: int, min_offset: int, max_offset: int) -> int:
    """Return the size of the entry that may start with `view`, or 0."""
    offset, size = I64.unpack_from(view, 0)[0], I32.unpack_from(view, 8)[0] + LOG_OVERHEAD
    read = FORMATS[view[16]]
    if not min_offset < offset < max_offset or size > len(view) + behind:
        return 0
    if size < read.smallest_size:
        return 0
    if read.is_legacy:
        believed = _message(view, size, read)
    else:
        believed = _batch(view, size, offset, max_offset, read)
    return size if believed else 0


def _batch(view: memoryview, size: int, offset: int, max_offset: int, read: Format) -> bool:
    attributes, delta, *_, count = BATCH_FIELDS.unpack_from(view, read.crc_start)
    if attributes & ~read.meant_bits or attributes & CODEC_MASK > read.largest_codec:
        return False
    if not 0 <= count <= delta + 1 or not offset <= int64(offset + delta) < max_offset:
        return False
    if attributes & CODEC_MASK or not count:
        return True
    try:
        length, first = varint(view, read.header_size, min(size, len(view), _HEADER))
    except Bad:
        return False
    return SMALLEST_RECORD - 1 <= length <= size - first


def _message(view: memoryview, size: int, read: Format) -> bool:
    fixed = read.smallest_size
    attributes = view[17]
    if attributes & ~_MESSAGE_BITS or attributes & CODEC_MASK > read.largest_codec:
        return False
    key_size: int = I32.unpack_from(view, fixed - 8)[0]
    if not -1 <= key_size <= size - fixed:
        return False
    at = fixed - 4 + max(key_size, 0)
    if at + 4 > len(view):
        return True  # the checksum decides
    value_size = I32.unpack_from(view, at)[0]
    return bool(-1 <= value_size <= size - at - 4)


def select_records(
    data: Data,
    records: DecodedRecords,
    admitted: bytearray | None,
    offsets: Bounds,
    times: Bounds,
    key: bytes | None,
    part: bytes | None,
) -> array[int]:
    """Return the numbers of the records asked for.

    They belong to a batch that `admitted` marks (None: all do), their offset and their time lie
    in bounds (the upper exclusive; None: no bound), their key is `key` (None: any), and `part`
    stands in their bytes (None: anything).
    """
    view = view_of(data)
    rows: Iterable[int] = range(records.count)
    if admitted is not None:
        batches = records.batches
        rows = [row for row in rows if 0 <= batches[row] < len(admitted) and admitted[batches[row]]]
    for values, (low, high) in ((records.offsets, offsets), (records.timestamps, times)):
        if low is not None:
            rows = [row for row in rows if values[row] >= low]
        if high is not None:
            rows = [row for row in rows if values[row] < high]
    if key is not None:
        sizes, places = records.key_sizes, records.column(R_KEY)
        size, wanted = len(key), memoryview(key)
        rows = [row for row in rows if sizes[row] == size]
        rows = [row for row in rows if span_of(view, places[row], size) == wanted]
    if part is not None:
        rows = list(_with_part(view, records, rows, part))
    return array("q", rows)


def _with_part(
    view: memoryview, records: DecodedRecords, rows: Iterable[int], part: bytes
) -> Iterator[int]:
    """Yield the rows of records that hold some bytes; the next of these is looked for once."""
    if not part:
        raise ValueError(part)
    if not records.count:
        return
    search = re.compile(re.escape(part)).search
    last = int64(records.positions[-1] + records.sizes[-1])
    hit = -1
    for row in rows:
        position, size = records.position(row), records.size_bytes(row)
        if span_of(view, position, size) is None:
            continue
        if hit < position:
            found = search(view, position, max(position, min(last, len(view))))
            if found is None:
                return
            hit = found.start()
        if hit <= position + size - len(part):
            yield row

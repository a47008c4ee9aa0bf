"""Find the next believable entry behind damage."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from kdump.kernels._pure.layout import I32, I64, U16, U32, Bad, clamped, int64, varint, view_of
from kdump.kernels._pure.sums import crc32c_function
from kdump.kernels.layout import (
    BATCH_OVERHEAD_V2,
    CODEC_MASK,
    CRC_START_LEGACY,
    CRC_START_V2,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MESSAGE_OVERHEAD,
    SMALLEST_RECORD,
)

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data

# A size of at least 14 and a magic of 0 to 2 at their places: all that a fast first look can ask.
_CANDIDATE = re.compile(rb"(?s)(?=.{8}(?!\0\0\0[\0-\r])[\0-\x7f].{7}[\0-\x02])")
_NOT_ZERO = re.compile(rb"[^\0]")
_WINDOW = 4096
_HEADER = (
    BATCH_OVERHEAD_V2 + 5
)  # all that is looked at of an entry before its sum: a v2 batch's first size


def resync(
    data: Data,
    start: int,
    end: int,
    behind: int,
    min_offset: int,
    max_offset: int,
    summed: int,
) -> tuple[int, int, bool]:
    """Find the first index in `data[start:end]` where a believable entry starts.

    Believable: magic 0 to 2, a size that ends before `end` plus `behind`, the bytes of the file
    that follow and are not at hand; no unknown attribute bit, a known codec; its fixed fields
    present. Its offset, or base offset, lies above `min_offset`, and its last below `max_offset`.
    Magic 0 and 1: a key and a value that fit. Magic 2: a last offset not below the base offset,
    no more records than that leaves room for, and if they are plain a first one that fits.

    Its CRC is right, or has not been looked at, for covering more than `summed` bytes or bytes that
    are not at hand.

    Returns (index, index behind the entry, whether the CRC is right). Where there is none:
    (-1, index from which the bytes at hand are too few to tell, False).
    """
    view = view_of(data)
    position, end = clamped(start, end, len(view))
    behind = max(behind, 0)
    needed = _HEADER if behind else LOG_OVERHEAD + MESSAGE_OVERHEAD[0]
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
            crc_from = CRC_START_V2 if view[position + 16] == 2 else CRC_START_LEGACY
            if size - crc_from > summed or size > end - position:
                return position, position + size, False
            piece = view[position + crc_from : position + size]
            if crc_from == CRC_START_V2:
                right = crc32c_function()(piece, 0) == U32.unpack_from(view, position + 17)[0]
            else:
                right = zlib.crc32(piece) == U32.unpack_from(view, position + 12)[0]
            if right:
                return position, position + size, True
        position += 1
    return -1, stop, False


def _believable(view: memoryview, behind: int, min_offset: int, max_offset: int) -> int:
    """Return the size of the entry that may start with `view`, or 0."""
    offset, size = I64.unpack_from(view, 0)[0], I32.unpack_from(view, 8)[0] + LOG_OVERHEAD
    magic = view[16]
    if not min_offset < offset < max_offset or size > len(view) + behind:
        return 0
    if size < LOG_OVERHEAD + MESSAGE_OVERHEAD[0]:
        return 0
    if magic == 2:
        believed = size >= BATCH_OVERHEAD_V2 and _batch(view, size, offset, max_offset)
    else:
        believed = magic < 2 and _message(view, size, magic)
    return size if believed else 0


def _batch(view: memoryview, size: int, offset: int, max_offset: int) -> bool:
    attributes = U16.unpack_from(view, 21)[0]
    delta, count = I32.unpack_from(view, 23)[0], I32.unpack_from(view, 57)[0]
    if attributes & ~0x7F or attributes & CODEC_MASK > 4:
        return False
    if not 0 <= count <= delta + 1 or not offset <= int64(offset + delta) < max_offset:
        return False
    if attributes & CODEC_MASK or not count:
        return True
    try:
        length, first = varint(view, BATCH_OVERHEAD_V2, min(size, len(view), _HEADER))
    except Bad:
        return False
    return SMALLEST_RECORD - 1 <= length <= size - first


def _message(view: memoryview, size: int, magic: int) -> bool:
    fixed = LOG_OVERHEAD + MESSAGE_OVERHEAD[magic]
    attributes = view[17]
    if size < fixed or attributes & ~0x0F or attributes & CODEC_MASK > 3:
        return False
    key_size: int = I32.unpack_from(view, fixed - 8)[0]
    if not -1 <= key_size <= size - fixed:
        return False
    at = fixed - 4 + max(key_size, 0)
    if at + 4 > len(view):
        return True  # the checksum decides
    value_size = I32.unpack_from(view, at)[0]
    return bool(-1 <= value_size <= size - at - 4)

"""The next believable entry behind damage."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from kdump.kernels._pure.layout import (
    CODEC,
    CRC_FROM_LEGACY,
    CRC_FROM_V2,
    HEADER_V2,
    I32,
    I64,
    LOG_OVERHEAD,
    MESSAGE_OVERHEAD,
    U16,
    U32,
    UP_TO_MAGIC,
    clamped,
    int64,
    view_of,
)
from kdump.kernels._pure.sums import crc32c_function

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data

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
    view = view_of(data)
    position, end = clamped(start, end, len(view))
    used = 0
    while position + LOG_OVERHEAD + MESSAGE_OVERHEAD[0] <= end:
        # A size field of zeros is never believed: go to the first place where it is none.
        some = _NOT_ZERO.search(view, position + 8, end)
        if some is None:
            break
        position = max(position, some.start() - 11)
        window = position + _WINDOW
        found = _CANDIDATE.search(view, position, min(end, window + UP_TO_MAGIC - 1))
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
                right = crc32c_function()(piece, 0) == U32.unpack_from(view, position + 17)[0]
            else:
                right = zlib.crc32(piece) == U32.unpack_from(view, position + 12)[0]
            if right:
                return position, used
        position += 1
    return -1, used


def _believable(
    view: memoryview, position: int, end: int, min_offset: int, max_offset: int
) -> tuple[int, int, bool] | None:
    """Return (first byte under the CRC, byte behind the entry, is it v2), or None."""
    if position + LOG_OVERHEAD + MESSAGE_OVERHEAD[0] > end:
        return None
    offset, size = I64.unpack_from(view, position)[0], I32.unpack_from(view, position + 8)[0]
    behind = position + LOG_OVERHEAD + size
    magic = view[position + 16]
    if not min_offset < offset < max_offset or size < MESSAGE_OVERHEAD[0] or behind > end:
        return None
    if magic == 2:
        if behind - position < HEADER_V2:
            return None
        attributes = U16.unpack_from(view, position + 21)[0]
        delta = I32.unpack_from(view, position + 23)[0]
        if attributes & ~0x7F or attributes & CODEC > 4 or int64(offset + delta) < offset:
            return None
        return position + CRC_FROM_V2, behind, True
    if magic > 2 or size < MESSAGE_OVERHEAD[magic]:
        return None
    attributes = view[position + 17]
    if attributes & ~0x0F or attributes & CODEC > 3:
        return None
    return position + CRC_FROM_LEGACY, behind, False

"""Small helpers for all rooms, and the fields that every batch header has."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kdump.kernels import reasons
from kdump.kernels.layout import BATCH_OVERHEAD_V2, CRC_START_V2

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    Data = bytes | bytearray | memoryview
    Rows = array[int] | None
    Write = Callable[[bytes], object]
    Row = tuple[int, ...]

I8 = Struct(">b")
I32 = Struct(">i")
U32 = Struct(">I")
I64 = Struct(">q")

# What the checksum of a batch header covers in every format, from CRC_START on (F20).
BATCH_FIELDS = Struct(
    ">"
    "H"  #  0 attributes
    "i"  #  2 lastOffsetDelta
    "q"  #  6 baseTimestamp
    "q"  # 14 maxTimestamp
    "q"  # 22 producerId
    "h"  # 30 producerEpoch
    "i"  # 32 baseSequence
    "i"  # 36 recordsCount
)
assert BATCH_FIELDS.size == BATCH_OVERHEAD_V2 - CRC_START_V2


class Bad(Exception):
    """What is wrong at the record being read; never leaves the pure kernel."""

    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


def view_of(data: Data) -> memoryview:
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def clamped(start: int, end: int, length: int) -> tuple[int, int]:
    end = max(0, min(end, length))
    return max(0, min(start, end)), end


def varint(view: memoryview, position: int, end: int, most: int = 5) -> tuple[int, int]:
    """Read a zigzag varint of at most `most` bytes (F23): 5 for int32, 10 for int64.

    Bits above the 32nd (64th) are lost. Returns (value, position behind it).
    """
    raw = shift = 0
    while True:
        if position >= end:
            raise Bad(reasons.RECORD_LENGTH_MISMATCH)
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 7 * most:
            raise Bad(reasons.VARINT_TOO_LONG)
    raw &= 0xFFFFFFFF if most == 5 else 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position

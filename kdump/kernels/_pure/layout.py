"""Where fields lie in entries and records, and small helpers for all rooms."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kdump.kernels import reasons

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    Data = bytes | bytearray | memoryview
    Rows = array[int] | None
    Write = Callable[[bytes], object]
    Row = tuple[int, ...]

U16 = Struct(">H")
I32 = Struct(">i")
U32 = Struct(">I")
I64 = Struct(">q")

LOG_OVERHEAD = 12  # offset and size; size counts from here
UP_TO_MAGIC = 17
MESSAGE_OVERHEAD = (14, 22)  # crc to value length of magic 0 and 1, without key and value (F7)
SMALLEST_RECORD = 7  # a length, six one-byte fields
HEADER_V2 = 61
CRC_FROM_V2 = 21
CRC_FROM_LEGACY = 16

# The part of the v2 header that the CRC covers, from byte 21 on (F20).
HEADER_V2_TAIL = Struct(
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
assert HEADER_V2_TAIL.size == HEADER_V2 - CRC_FROM_V2

CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
#: Attribute bits that have a meaning, by layout; the others are reserved, and zero.
MEANT = (CODEC, CODEC | LOG_APPEND_TIME, 0x7F)

MAX_SEQUENCE = 0x7FFFFFFF
MAX_INT32 = 0x7FFFFFFF
MAX_INT64 = (1 << 63) - 1


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


def int64(value: int) -> int:
    """Wrap to int64 as Java's long does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


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

"""Small helpers for all rooms, and the formats as this kernel reads them."""

from __future__ import annotations

from struct import Struct, calcsize
from typing import TYPE_CHECKING, NamedTuple

from kdump.kernels import reasons
from kdump.kernels.layout import FIELD_CODES, FORMATS, MAX_INT32

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from kdump.kernels.layout import Format

    Data = bytes | bytearray | memoryview
    Rows = array[int] | None
    Write = Callable[[bytes], object]
    Row = tuple[int, ...]

I8 = Struct(">b")
U16 = Struct(">H")
I32 = Struct(">i")
U32 = Struct(">I")
I64 = Struct(">q")


class Tail(NamedTuple):
    """The fields of a batch header, and where each ends; both from where the checksum starts."""

    fields: Struct
    ends: tuple[int, ...]


def _tail_of(read: Format) -> Tail:
    ends, codes = [read.crc_start], ">"
    for position, code in zip(read.fields or (), FIELD_CODES, strict=False):
        codes += f"{position - ends[-1]}x{code}"
        ends.append(position + calcsize(f">{code}"))
    codes += f"{read.header_size - ends[-1]}x"
    return Tail(Struct(codes), tuple(end - read.crc_start for end in ends[1:]))


TAILS = tuple(_tail_of(each) for each in FORMATS)
MAX_SEQUENCE = MAX_INT32


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

"""Small helpers for all rooms, and the fields that every batch header has."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

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


def view_of(data: Data) -> memoryview:
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def clamp(start: int, end: int, length: int) -> tuple[int, int]:
    end = max(0, min(end, length))
    return max(0, min(start, end)), end

"""Checksums, and the allocator's part of bulk work."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from kdump.kernels._pure.layout import clamped, view_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.kernels._pure.layout import Data


@lru_cache(maxsize=1)
def crc32c_function() -> Callable[[memoryview, int], int]:
    try:
        from crc32c import crc32c as function
    except ImportError:
        from crcmod.predefined import mkPredefinedCrcFun

        function = mkPredefinedCrcFun("crc-32c")
    return cast("Callable[[memoryview, int], int]", function)


def keep_freed_memory() -> None:
    """Ask the C library to keep freed blocks of some megabytes instead of giving them back.

    Columns and text of one size are made and dropped thousands of times in a bulk run; mapping
    their pages anew each time costs as much as the work on them. For the whole process, so it is
    the command that asks, never an import. Nothing happens where the C library is not glibc, and
    in the pure kernel.
    """


def crc32(data: Data, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32 (IEEE) of `data[start:end]`, continuing from `crc`, as zlib.crc32 does."""
    view = view_of(data)
    start, end = clamped(start, end, len(view))
    return zlib.crc32(view[start:end], crc & 0xFFFFFFFF)


def crc32c(data: Data, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data[start:end]`, continuing from `crc`."""
    view = view_of(data)
    start, end = clamped(start, end, len(view))
    return crc32c_function()(view[start:end], crc & 0xFFFFFFFF)

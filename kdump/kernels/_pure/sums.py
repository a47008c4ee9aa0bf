"""Checksums, and the allocator's part of bulk work."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from kdump.kernels._pure.layout import clamp, view_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.kernels._pure.layout import Data


_CRC32, _CRC32C = 0xEDB88320, 0x82F63B78  # the polynomials, bits reflected


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
    start, end = clamp(start, end, len(view))
    return zlib.crc32(view[start:end], crc & 0xFFFFFFFF)


def crc32c(data: Data, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data[start:end]`, continuing from `crc`."""
    view = view_of(data)
    start, end = clamp(start, end, len(view))
    return crc32c_function()(view[start:end], crc & 0xFFFFFFFF)


def crc32_joined(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two pieces joined, from those of each and the second's size."""
    return _move(first, size, _CRC32) ^ second & 0xFFFFFFFF


def crc32c_joined(first: int, second: int, size: int) -> int:
    """Return the CRC-32C of two pieces joined, from those of each and the second's size."""
    return _move(first, size, _CRC32C) ^ second & 0xFFFFFFFF


def _product(a: int, b: int, polynomial: int) -> int:
    """Multiply two polynomials over GF(2), bits reflected, modulo a third."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (polynomial if b & 1 else 0)
    return product


@lru_cache(maxsize=2)
def _powers(polynomial: int) -> tuple[int, ...]:
    """Return what moves a CRC by 1, 2, 4 ... bytes: x to the 8, 16, 32 ... of the polynomial."""
    power = 1 << 23
    found = []
    for _ in range(63):
        found.append(power)
        power = _product(power, power, polynomial)
    return tuple(found)


def _move(crc: int, size: int, polynomial: int) -> int:
    """Return what a CRC contributes to that of a text which goes on for `size` bytes."""
    crc &= 0xFFFFFFFF
    for power in range(max(size, 0).bit_length()):
        if size >> power & 1:
            crc = _product(_powers(polynomial)[power], crc, polynomial)
    return crc

"""Check with crcmod a checksum that a kernel calls wrong.

Slow and independent of both kernels: it is asked once for each batch about to be reported, never
on the way through sound data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

_POLYNOMIALS = {"crc-32c": 0x11EDC6F41, "crc-32": 0x104C11DB7}


def crcmod_check(name: str, data: bytes | memoryview) -> int:
    """Compute `crc-32c` or `crc-32` of some bytes with crcmod."""
    return _function(name)(bytes(data))


@cache
def _function(name: str) -> Callable[[bytes], int]:
    """Make the function once: its table costs as much as summing a batch of some kilobytes."""
    import crcmod

    function: Callable[[bytes], int] = crcmod.mkCrcFun(
        _POLYNOMIALS[name], initCrc=0, xorOut=0xFFFFFFFF
    )
    return function

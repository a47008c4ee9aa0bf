"""crcmod's word on a checksum that a kernel calls wrong.

Slow and independent of both kernels: it is asked once for each batch about to be reported, never
on the way through sound data.
"""

from __future__ import annotations

_POLYNOMIALS = {"crc-32c": 0x11EDC6F41, "crc-32": 0x104C11DB7}


def second_opinion(name: str, data: bytes | memoryview) -> int:
    """Compute `crc-32c` or `crc-32` of some bytes with crcmod."""
    import crcmod

    compute = crcmod.mkCrcFun(_POLYNOMIALS[name], initCrc=0, xorOut=0xFFFFFFFF)
    result: int = compute(bytes(data))
    return result

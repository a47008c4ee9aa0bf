"""Read varints, and say why one cannot be read."""

from __future__ import annotations

from kdump.kernels import reasons


class Bad(Exception):
    """What is wrong at the record being read; a kernel returns its reason."""

    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


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

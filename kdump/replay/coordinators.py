"""Say which partition of an internal topic a coordinator keeps a group in (G1)."""

from __future__ import annotations

_INT32 = 1 << 32
_INT32_MIN = -(1 << 31)


def partition_for(name: str, partitions: int) -> int:
    """Return the partition of a name: Java's hash of it, modulo their number."""
    number = java_hash(name)
    return (0 if number == _INT32_MIN else abs(number)) % partitions


def java_hash(text: str) -> int:
    """Return what `String.hashCode` returns: over code units of 16 bits, in 32 bits."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (number * 31 + (high << 8) + low) % _INT32
    return number - _INT32 if number >= -_INT32_MIN else number

"""Find the single flipped bit that explains a wrong checksum, by the linearity of CRCs.

The difference between two checksums depends only on which bits differ, not on the data: flipping
the bit that lies k bits before the end of the covered range changes the checksum by the register
value "one bit, stepped k + 1 times". So the search runs over powers of x modulo the polynomial,
with giant steps, and never looks at the data: two thousand steps for a batch of a megabyte.
A difference of one bit alone means that the stored checksum itself was hit.

The tables are made once for each polynomial: a hostile file may hold a broken batch every hundred
bytes.
"""

from __future__ import annotations

from functools import cache

from kdump.record.layout import CRC32, CRC32C
from kdump.tuples import NamedTuple

CRC32_POLYNOMIAL = 0xEDB88320  # both reflected: the lowest bit is the highest power
CRC32C_POLYNOMIAL = 0x82F63B78
POLYNOMIALS = {CRC32: CRC32_POLYNOMIAL, CRC32C: CRC32C_POLYNOMIAL}
_GIANT = 4096  # bits; a power of two


class Flip(NamedTuple):
    """`position` as an index from the start of the covered range; None: in the stored checksum.

    `bit` 0 is the lowest of the byte (in the stored checksum: of the 32-bit number).
    """

    position: int | None
    bit: int

    def place(self, covered: int, crc: int) -> tuple[int, int]:
        """Say which byte and which bit of it, from where the covered range and the checksum lie."""
        if self.position is None:  # big-endian: the checksum's lowest byte comes last
            return crc + 3 - self.bit // 8, self.bit % 8
        return covered + self.position, self.bit


def _step(register: int, polynomial: int) -> int:
    return register >> 1 ^ (polynomial if register & 1 else 0)


def _step_back(register: int, polynomial: int) -> int:
    # Both polynomials have their top bit set, so the bit that fell out shows in the top bit.
    if register & 0x80000000:
        return (register ^ polynomial) << 1 | 1
    return register << 1


def _apply(matrix: list[int], register: int) -> int:
    result = bit = 0
    while register:
        if register & 1:
            result ^= matrix[bit]
        register >>= 1
        bit += 1
    return result


@cache
def _small_steps(polynomial: int) -> dict[int, int]:
    """Map what one bit becomes after 1 to _GIANT steps to the number of steps, less one."""
    steps: dict[int, int] = {}
    register = polynomial  # one bit, stepped once: the last bit of the range
    for k in range(_GIANT):
        steps[register] = k
        register = _step(register, polynomial)
    return steps


@cache
def _giant_step_back(polynomial: int) -> tuple[list[int], ...]:
    """Give _GIANT steps back as four tables, one for each byte of the register."""
    matrix = [_step_back(1 << bit, polynomial) for bit in range(32)]
    for _ in range(_GIANT.bit_length() - 1):
        matrix = [_apply(matrix, column) for column in matrix]
    return tuple([_apply(matrix, byte << shift) for byte in range(256)] for shift in (0, 8, 16, 24))


def find_flip(stored: int, computed: int, size_bytes: int, polynomial: int) -> Flip | None:
    """Find the one flipped bit in `size_bytes` covered bytes that explains the difference.

    Returns None when no single bit does (or when there is no difference).
    """
    difference = stored ^ computed
    if not difference:
        return None
    if difference & (difference - 1) == 0:
        return Flip(None, difference.bit_length() - 1)
    bits = size_bytes * 8
    small = _small_steps(polynomial)
    low, second, third, high = _giant_step_back(polynomial)
    for passed in range(0, bits, _GIANT):
        k = small.get(difference, -1)
        if k >= 0:
            k += passed
            if k >= bits:
                return None
            # A byte enters lowest bit first, so the last bit of a byte is its bit 7.
            return Flip(size_bytes - 1 - k // 8, 7 - k % 8)
        difference = (
            low[difference & 0xFF]
            ^ second[difference >> 8 & 0xFF]
            ^ third[difference >> 16 & 0xFF]
            ^ high[difference >> 24]
        )
    return None

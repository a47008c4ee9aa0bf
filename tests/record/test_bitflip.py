"""bitflip: every single flipped bit is found where it is, and two are not taken for one."""

import random
from collections.abc import Callable

import pytest
from builders import crc32, crc32c
from damage import flip_bit

from kdump.record.bitflip import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, Flip, find_flip

SUMS = pytest.mark.parametrize(
    ("checksum", "polynomial"),
    [(crc32, CRC32_POLYNOMIAL), (crc32c, CRC32C_POLYNOMIAL)],
    ids=["crc-32", "crc-32c"],
)
DATA = random.Random(7).randbytes(300)


@SUMS
def test_every_flipped_bit_of_the_covered_bytes_is_located(
    checksum: Callable[[bytes], int], polynomial: int
) -> None:
    stored = checksum(DATA)
    for position in range(len(DATA)):
        for bit in range(8):
            computed = checksum(flip_bit(DATA, position, bit))
            found = find_flip(stored, computed, len(DATA), polynomial)
            # Flips whose effect is one bit of the sum cannot be told from a flip in the stored sum.
            expected = Flip(position, bit)
            if (stored ^ computed).bit_count() == 1:
                assert found is not None
                assert found.position is None
            else:
                assert found == expected


@SUMS
def test_every_flipped_bit_of_the_stored_checksum_is_located(
    checksum: Callable[[bytes], int], polynomial: int
) -> None:
    computed = checksum(DATA)
    for bit in range(32):
        found = find_flip(computed ^ 1 << bit, computed, len(DATA), polynomial)
        assert found == Flip(None, bit)


@SUMS
def test_two_flips_are_rarely_mistaken_for_one(
    checksum: Callable[[bytes], int], polynomial: int
) -> None:
    rng = random.Random(11)
    stored = checksum(DATA)
    for _ in range(500):
        first, second = rng.sample(range(len(DATA) * 8), 2)
        broken = flip_bit(flip_bit(DATA, first // 8, first % 8), second // 8, second % 8)
        assert find_flip(stored, checksum(broken), len(DATA), polynomial) is None


@SUMS
@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17, 1000])
def test_first_and_last_bit_are_located_at_any_size(
    checksum: Callable[[bytes], int], polynomial: int, size: int
) -> None:
    data = random.Random(size).randbytes(size)
    for position, bit in ((0, 0), (0, 7), (size - 1, 0), (size - 1, 7)):
        computed = checksum(flip_bit(data, position, bit))
        if (checksum(data) ^ computed).bit_count() > 1:
            assert find_flip(checksum(data), computed, size, polynomial) == Flip(position, bit)


def test_no_difference_and_nothing_covered() -> None:
    assert find_flip(5, 5, 100, CRC32_POLYNOMIAL) is None
    assert find_flip(5, 6, 0, CRC32_POLYNOMIAL) is None
    assert find_flip(5, 10, 0, CRC32C_POLYNOMIAL) is None


@pytest.mark.parametrize("size", [1 << 20, 1 << 26])
def test_large_range_is_searched_without_its_bytes(size: int) -> None:
    # The last byte's top bit changes the sum by the polynomial, however much lies before it.
    assert find_flip(0, CRC32C_POLYNOMIAL, size, CRC32C_POLYNOMIAL) == Flip(size - 1, 7)
    for stored in range(1, 1 << 16, 4099):
        found = find_flip(stored << 8, 0, size, CRC32_POLYNOMIAL)
        assert found is None or found.position is None or found.position < size

"""The search behind damage and joined checksums, in either kernel."""

import random
import struct
from types import ModuleType

import pytest
from builders import (
    batch,
    message,
    record,
    wrapper,
)
from damage import flip
from each import each
from kernel_calls import MANY, decode


def test_resync_finds_the_next_valid_entry(kernel: ModuleType) -> None:
    for good in (batch(base_offset=50), message(50), message(50, magic=0), wrapper([], 50)):
        for junk in (b"", b"x" * 5000, bytes(10_000), bytes(4096) + b"\1" * 8190):
            data = junk + good + bytes(40)
            found = (len(junk), len(junk + good))
            assert kernel.resync(data, 0, len(data), 0, 49, 51, MANY) == (*found, True)
            assert kernel.resync(data, 0, len(data), 0, 50, 99, MANY)[0] == -1
            assert kernel.resync(data, 0, len(data), 0, 0, 50, MANY)[0] == -1
            assert kernel.resync(data, 0, len(junk + good) - 1, 0, 49, 51, MANY)[0] == -1
            assert kernel.resync(data, len(junk) + 1, len(data), 0, 49, 51, MANY)[0] == -1


def test_resync_leaves_checksums_to_the_caller(kernel: ModuleType) -> None:
    """Of entries that cover much, and of those whose end is not at hand; right or wrong."""
    for good in (batch(base_offset=50), message(50)):
        start = 16 if good[16] < 2 else 21
        for entry in (good, flip(good, len(good) - 1)):
            data = b"x" * 100 + entry + b"x" * 100
            found = (100, 100 + len(entry), False)
            covers = len(entry) - start
            assert kernel.resync(data, 0, len(data), 0, 0, 99, covers - 1) == found
            right = kernel.resync(data, 0, len(data), 0, 0, 99, covers)
            assert (right[0] == 100) == right[2] == (entry == good)
        long = message(50, value=bytes(500)) if start == 16 else batch([record(value=bytes(500))])
        data = b"x" * 100 + long
        known = 200
        assert kernel.resync(data, 0, known, len(data) - known, -1, 99, MANY) == (
            100,
            len(data),
            False,
        )
        assert kernel.resync(data, 0, known, len(data) - known - 1, -1, 99, MANY)[0] == -1


def test_resync_gives_the_position_that_needs_more(kernel: ModuleType) -> None:
    data = b"x" * 100 + batch(base_offset=50)[:65]
    assert kernel.resync(data, 0, len(data), 1000, 0, 99, MANY) == (-1, 100, False)
    assert kernel.resync(data, 120, len(data), 1000, 0, 99, MANY) == (-1, 120, False)


@each(
    "entry",
    [
        batch(base_offset=50, magic=3),
        batch(base_offset=50, attributes=0x80),
        batch(base_offset=50, attributes=5),
        batch(base_offset=50, last_offset_delta=-1),
        batch(base_offset=50, records_count=2, last_offset_delta=0),
        batch(base_offset=50, records_count=-1),
        batch(base_offset=50, payload=b"\x0a" + bytes(5)),
        batch(base_offset=50, payload=b"\x10" + bytes(7)),
        batch(base_offset=50, payload=b""),
        batch(base_offset=50, last_offset_delta=50, records_count=1),
        batch(base_offset=50, size=48),
        flip(batch(base_offset=50), 64),
        message(50, magic=-1),
        message(50, attributes=0x10),
        message(50, attributes=4),
        message(50, magic=1, layout=0, key=None, value=b"1234567"),
        message(50, body=struct.pack(">ii", -2, 0)),
        message(50, body=struct.pack(">ii", 1, 0)),
        message(50, body=struct.pack(">ii", 0, 1)),
        message(50, body=struct.pack(">ii", 0, -2)),
        flip(message(50), 40),
    ],
)
def test_resync_skips_implausible_entries(kernel: ModuleType, entry: bytes) -> None:
    assert kernel.resync(entry, 0, len(entry), 0, 0, 100, MANY)[0] == -1
    data = entry + batch(base_offset=60)
    assert kernel.resync(data, 0, len(data), 0, 0, 100, MANY)[0] == len(entry)


@each("name", ["crc32", "crc32c"])
def test_checksums_of_pieces_are_combined(kernel: ModuleType, name: str) -> None:
    data = random.Random(1).randbytes(5000)
    of, joined = getattr(kernel, name), getattr(kernel, f"{name}_joined")
    for at in (0, 1, 17, 2500, 4999, 5000):
        first, second = of(data, 0, at), of(data, at, len(data))
        assert joined(first, second, len(data) - at) == of(data, 0, len(data))
    zeros = of(bytes(1 << 16), 0, 1 << 16)
    assert joined(zeros, zeros, 1 << 16) == of(bytes(1 << 17), 0, 1 << 17)


def test_records_by_bounds_and_key(kernel: ModuleType) -> None:
    data = batch([record(n, 10 * n, b"k%d" % (n % 2), b"v") for n in range(4)], base_timestamp=0)
    data += batch([record(n, 0, None if n else b"", b"k0") for n in range(2)], base_offset=4)
    _, records = decode(kernel, data)
    none = (None, None)

    def rows(*asked: object) -> list[int]:
        return list(kernel.select_records(data, records, *asked, None))

    assert rows(None, none, none, None) == [0, 1, 2, 3, 4, 5]
    assert rows(None, (1, 5), none, None) == [1, 2, 3, 4]
    assert rows(None, none, (10, 30), None) == [1, 2]
    assert rows(None, none, none, b"k0") == [0, 2]
    assert rows(None, none, none, b"") == [4]
    assert rows(bytearray([0, 1]), none, none, None) == [4, 5]
    assert rows(bytearray([1]), none, none, None) == [0, 1, 2, 3]
    assert rows(bytearray([1, 0]), (2, None), (None, 30), b"k0") == [2]
    largest = records.value(4, 5)
    assert 5 in rows(None, none, (largest, None), None)
    assert 5 not in rows(None, none, (None, largest), None)


def test_records_are_searched_for_bytes(kernel: ModuleType) -> None:
    rng = random.Random(1)
    none = (None, None)
    for _ in range(300):
        values = [bytes(rng.choices(b"ab", k=rng.randrange(40))) for _ in range(rng.randrange(9))]
        data = batch([record(n, 0, b"k", value) for n, value in enumerate(values)])
        _, records = decode(kernel, data)
        sought = bytes(rng.choices(b"ab", k=rng.randrange(1, 20)))
        found = list(kernel.select_records(data, records, None, none, none, None, sought))
        inside = [n for n, value in enumerate(values) if sought in value]
        assert found == sorted(found)
        assert found == inside
    with pytest.raises(ValueError, match="b''"):
        kernel.select_records(data, records, None, none, none, None, b"")

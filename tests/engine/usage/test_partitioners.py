"""Hashes of clients, against what is published of them and where clients put keys.

Recorded from the clients' own code: Sarama 1.61.1 in `sarama_partitions.tsv`, and librdkafka 2.16
said the same of what both have; in `scala_partitions.tsv` the DefaultPartitioner of the Scala
producers 0.8.0 and 0.8.1.1, which agree, then of 0.8.2.2 and 0.10.2.2, which do too.
"""

from pathlib import Path

import pytest

from kdump.engine.usage.partitioners import PARTITIONERS, fnv1a, murmur2, string_hash

# Of the Java client's own tests, as numbers of 32 bits with a sign.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Of the authors of FNV.
FNV1A = {b"": 0x811C9DC5, b"a": 0xE40C292C, b"b": 0xE70C2DE5, b"foobar": 0xBF9CF968}


@pytest.mark.parametrize("key", MURMUR2)
def test_murmur2(key: bytes) -> None:
    assert murmur2(key) == MURMUR2[key] % (1 << 32)


@pytest.mark.parametrize("key", FNV1A)
def test_fnv1a(key: bytes) -> None:
    assert fnv1a(key) == FNV1A[key]


@pytest.mark.parametrize("file", ["sarama_partitions.tsv", "scala_partitions.tsv"])
def test_keys_lie_where_clients_put_them(file: str) -> None:
    """Each line: a key in hexadecimal, and where of 3, 7, 12, 100 and 1000 it goes by each name."""
    head, *lines = Path(__file__).with_name(file).read_text().splitlines()
    for line in lines:
        key, *said = line.split("\t")
        numbers = [PARTITIONERS[name](bytes.fromhex(key)) for name in head.split("\t")[1:]]
        assert said == [
            " ".join(str(number % count) for count in (3, 7, 12, 100, 1000))
            for number in numbers
            if number is not None
        ], line


def test_string_hash() -> None:
    assert string_hash(b"") == 0
    assert string_hash(b"abc") == 96354
    assert string_hash("\U0001f600".encode()) == 0xD83D * 31 + 0xDE00
    assert string_hash(b"polygenelubricants") == 1 << 31  # the least number that there is
    assert string_hash(b"\xff") is None
    assert PARTITIONERS["java-hash"](b"polygenelubricants") == 0


def test_numbers_are_not_negative() -> None:
    for number_of in PARTITIONERS.values():
        numbers = [number_of(b"%d" % number) for number in range(2000)]
        assert all(number is not None and number >= 0 for number in numbers)


def test_an_empty_key_goes_anywhere() -> None:
    assert [name for name, number_of in PARTITIONERS.items() if number_of(b"") is None] == [
        "consistent-random"
    ]

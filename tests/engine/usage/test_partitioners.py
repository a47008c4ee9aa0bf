"""Hashes of clients, against what is published of them and where clients put keys.

Recorded from the clients' own code: Sarama 1.61.1 in `sarama_partitions.tsv`, and librdkafka 2.16
said the same of what both have; in `scala_partitions.tsv` the DefaultPartitioner of the Scala
producers 0.8.0 and 0.8.1.1, which agree, then of 0.8.2.2 and 0.10.2.2, which do too; in
`byte_array_partitions.tsv` their ByteArrayPartitioner of 0.8.1.1, then of 0.8.2.2 and 0.10.2.2; in
`kafkajs_partitions.tsv` the DefaultPartitioner of KafkaJS 1.16.0, which 1.12.0 and the
LegacyPartitioner of 2.2.4 agree with on 7,311 keys, then the DefaultPartitioner of 2.2.4.
"""

import hashlib
from pathlib import Path

import builders
import pytest
from each import each

from kdump.engine.usage.placement import PlacementOptions
from kdump.engine.usage.placement_rows import placement
from kdump.findings.rows import Row
from kdump.kernels.partitioners import PARTITIONERS, fnv1a, murmur2, string_hash

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


RECORDED = ("sarama", "scala", "byte_array", "kafkajs")
# Of the numbers of customer-0 to customer-4999, SHA-256 of what the same clients make of them.
OF_MANY = {
    "murmur2": "102d8c5d113476dcfce371f8940960892bd9f1aa5c9c255f6e564a71709840e9",
    "kafkajs-legacy": "bb5d62453930f6967645dca67dd6a36ba8586e04060326e1f8a3714963ad9f44",
    "byte-array-hash": "f1412af0bdbeb16317d00db2b0a896a0bb3968b7fb779c557abba5ad7e5ea876",
    "byte-array-hash-old": "15959cbeeadfdeabf935ed67b6b56ca93c343d34c08e95c4c07d162cd786ae3f",
}


@each("key", MURMUR2)
def test_murmur2_matches_kafka(key: bytes) -> None:
    assert murmur2(key) == MURMUR2[key] % (1 << 32)


@each("key", FNV1A)
def test_fnv1a_matches_its_definition(key: bytes) -> None:
    assert fnv1a(key) == FNV1A[key]


@each("file", [f"{name}_partitions.tsv" for name in RECORDED])
def test_keys_are_placed_like_clients_do(file: str) -> None:
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


@pytest.mark.parametrize("name", OF_MANY)
def test_thousands_of_keys_are_placed_like_clients_do(name: str) -> None:
    numbers = (PARTITIONERS[name](b"customer-%d" % number) for number in range(5000))
    text = " ".join(map(str, numbers)).encode()
    assert hashlib.sha256(text).hexdigest() == OF_MANY[name]


def test_string_hash() -> None:
    assert string_hash(b"") == 0
    assert string_hash(b"abc") == 96354
    assert string_hash("\U0001f600".encode()) == 0xD83D * 31 + 0xDE00
    assert string_hash(b"polygenelubricants") == 1 << 31  # the least number that there is
    assert string_hash(b"\xff") is None
    assert PARTITIONERS["java-hash"](b"polygenelubricants") == 0


def test_partitions_are_not_negative() -> None:
    for number_of in PARTITIONERS.values():
        numbers = [number_of(b"%d" % number) for number in range(2000)]
        assert all(number is not None and number >= 0 for number in numbers)


def test_empty_key_may_be_on_any_partition() -> None:
    assert [name for name, number_of in PARTITIONERS.items() if number_of(b"") is None] == [
        "consistent-random"
    ]


@pytest.mark.parametrize(
    ("partitioner", "given", "listed"),
    [("kafkajs-legacy", None, True), (None, None, False), (None, "murmur2", True)],
)
def test_misplaced_keys_need_a_matching_partitioner(
    tmp_path: Path, partitioner: str | None, given: str | None, listed: bool
) -> None:
    """A topic that KafkaJS filled but for two keys, and one that was filled in turn."""
    logs: list[list[bytes]] = [[], [], []]
    for number in range(60):
        key = b"customer-%d" % number
        place = PARTITIONERS[partitioner](key) if partitioner and number > 1 else number
        assert place is not None
        log = logs[place % 3]
        log.append(builders.record(len(log), key=key))
    for partition, log in enumerate(logs):
        (tmp_path / f"orders-{partition}").mkdir()
        path = tmp_path / f"orders-{partition}" / f"{0:020}.log"
        path.write_bytes(builders.batch(log))
    rows = list(placement([str(tmp_path)], PlacementOptions(partitioner=given)))
    first, *others = (row for row in rows if isinstance(row, Row))
    assert first.row == "key-placement"
    assert first.fields["fits"] is (partitioner is not None)
    assert partitioner in (None, first.fields["partitioner"])
    assert {row.row for row in others} == ({"misplaced-keys"} if listed else set())

"""Count the keys of a split that are on another partition than a partitioner says.

This is the step of `placement`. What is counted goes by producer; of keys, the first and
the last record on each partition go to sorted runs, so that those that moved can be told.

Where clients put a record by its key: the number that is divided by the count of partitions.

| name | whose |
| --- | --- |
| murmur2 | the Java client (its default), Sarama's murmur2, librdkafka's murmur2(_random) |
| crc32 | librdkafka's consistent, Sarama's consistent CRC |
| consistent-random | librdkafka's default consistent_random: an empty key goes anywhere |
| fnv1a | Sarama's hash partitioner, and librdkafka's fnv1a and fnv1a_random |
| fnv1a-reference | Sarama's reference hash partitioner: the sign bit is dropped |
| fnv1a-unsigned | Sarama's hash partitioner with unsigned arithmetic |
| java-hash | the Scala producers since 0.8.2 with keys that are strings |
| java-hash-old | those of 0.8.0 and 0.8.1 (KAFKA-1469): the sign bit is dropped |
| byte-array-hash | the Scala producers' ByteArrayPartitioner since 0.8.2 |
| byte-array-hash-old | that of 0.8.1: the sign bit is dropped |
| kafkajs-legacy | KafkaJS before 2.0, and its LegacyPartitioner since: murmur2 in doubles |

KafkaJS since 2.0, and its JavaCompatiblePartitioner before, is murmur2.

A record without a key goes anywhere, whoever sends it. All numbers are at least 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd
from struct import iter_unpack
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.usage.moved import KeySpans
from kdump.engine.work.pace import Going
from kdump.engine.work.spool import SortedRun, Spool
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk, RecordRow
from kdump.kernels import columns as c

if TYPE_CHECKING:
    from kdump.engine.reading.split_edges import SplitEdges
    from kdump.engine.work.pace import Pace
    from kdump.engine.work.splits import Split


Number = Callable[[bytes], int | None]
_MASK, _POSITIVE, _SIGN = 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000
_SEED, _M = 0x9747B28C, 0x5BD1E995
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193


def murmur2(key: bytes) -> int:
    """Give the hash of 32 bits that the Java client calls murmur2."""
    whole = len(key) & ~3
    number = (_SEED ^ len(key)) & _MASK
    for (four,) in iter_unpack("<I", key[:whole]):
        mixed = four * _M & _MASK
        number = (number * _M & _MASK) ^ ((mixed ^ mixed >> 24) * _M & _MASK)
    if len(key) > whole:
        number = (number ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    number = (number ^ number >> 13) * _M & _MASK
    return number ^ number >> 15


def fnv1a(key: bytes) -> int:
    """Give the FNV-1a hash of 32 bits."""
    number = _FNV_BASIS
    for byte in key:
        number = (number ^ byte) * _FNV_PRIME & _MASK
    return number


def string_hash(key: bytes) -> int | None:
    """Give what Java's `String.hashCode` is, as 32 bits; None where the key is no text."""
    try:
        units = key.decode().encode("utf-16-be")
    except UnicodeDecodeError:
        return None
    number = 0
    for (unit,) in iter_unpack(">H", units):
        number = number * 31 + unit & _MASK
    return number


def byte_array_hash(key: bytes) -> int:
    """Give what Java's `Arrays.hashCode` is of an array of bytes, as 32 bits."""
    number = 1
    for byte in key:
        number = number * 31 + (byte ^ 0x80) - 0x80 & _MASK
    return number


def murmur2_in_doubles(key: bytes) -> int:
    """Give murmur2 as JavaScript computes it in numbers that are doubles, as 32 bits.

    Products of 32 by 31 bits lose their lowest bits, and what is multiplied has a sign. The last
    bytes are mixed in twice, once filled up with zeros.
    """
    number = _signed(_SEED ^ len(key))
    for at in range(0, len(key), 4):
        four = _signed(int.from_bytes(key[at : at + 4], "little"))
        mixed = _product(four)
        mixed = _product(_signed(mixed ^ (mixed & _MASK) >> 24))
        number = _signed(_product(number) ^ mixed)
    if rest := len(key) & 3:
        number = _product(_signed(number ^ int.from_bytes(key[-rest:], "little")))
    number = _product(_signed(number ^ (number & _MASK) >> 13))
    return (number ^ (number & _MASK) >> 15) & _MASK


def _product(number: int) -> int:
    """Multiply as doubles do; the result is a whole number all the same."""
    return int(float(number) * _M)


def _signed(number: int) -> int:
    """Give the lowest 32 bits as a number with a sign."""
    return ((number & _MASK) ^ _SIGN) - _SIGN


def _absolute(number: int) -> int:
    """Give the absolute value of a number of 32 bits with a sign."""
    return (1 << 32) - number if number & _SIGN else number


def _java_hash(key: bytes) -> int | None:
    number = string_hash(key)
    return None if number is None else _scala_absolute(number)


def _scala_absolute(number: int) -> int:
    return 0 if number == _SIGN else _absolute(number)


def _java_hash_old(key: bytes) -> int | None:
    number = string_hash(key)
    return None if number is None else number & _POSITIVE


PARTITIONERS: dict[str, Number] = {
    "murmur2": lambda key: murmur2(key) & _POSITIVE,
    "consistent-random": lambda key: crc32(key) if key else None,
    "crc32": crc32,
    "fnv1a": lambda key: _absolute(fnv1a(key)),
    "fnv1a-reference": lambda key: fnv1a(key) & _POSITIVE,
    "fnv1a-unsigned": fnv1a,
    "java-hash": _java_hash,
    "java-hash-old": _java_hash_old,
    "byte-array-hash": lambda key: _scala_absolute(byte_array_hash(key)),
    "byte-array-hash-old": lambda key: byte_array_hash(key) & _POSITIVE,
    "kafkajs-legacy": lambda key: murmur2_in_doubles(key) & _POSITIVE,
}


#: Hashes that are kept, of keys no longer than this.
_HASHES_KEPT = 1 << 16
_KEPT_KEY_BYTES = 64
#: Producers of a split that are told apart; the others are taken as one.
_PRODUCERS_KEPT = 10_000
OTHERS = -2


class PlacementOptions(DumpOptions):
    """What is asked for; `partitioner` is a name, or None for the one that fits best."""

    partitioner: str | None = None
    partitions: int | None = None
    top: int = 20
    scratch: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The partitioners that are tried."""
        return (self.partitioner,) if self.partitioner else tuple(PARTITIONERS)


class Misplaced(NamedTuple):
    """Keyed records, and those that lie where they do not belong.

    `factor` is what all hashes of these less their partition are multiples of: the count of
    partitions by which they were placed, or a multiple of that. 0: there are none.
    """

    records: int = 0
    misplaced: int = 0
    factor: int = 0
    first: tuple[int, int] | None = None  # offset, timestamp
    last: tuple[int, int] | None = None

    def plus(self, other: Misplaced) -> Misplaced:
        """Add two of them."""
        firsts = [one.first for one in (self, other) if one.first is not None]
        lasts = [one.last for one in (self, other) if one.last is not None]
        return Misplaced(
            self.records + other.records,
            self.misplaced + other.misplaced,
            gcd(self.factor, other.factor),
            min(firsts, default=None),
            max(lasts, default=None),
        )


class Placed(NamedTuple):
    """What came of a split; `sums` by name of partitioner and producer id."""

    topic: str
    partition: int
    sums: dict[tuple[str, int], Misplaced]
    records: int
    without_key: int
    runs: tuple[SortedRun, ...]
    told: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None


class _Sum:
    """One `Misplaced` while it grows."""

    __slots__ = ("factor", "first", "last", "misplaced", "records")

    def __init__(self) -> None:
        self.records = self.misplaced = self.factor = 0
        self.first: tuple[int, int] | None = None
        self.last: tuple[int, int] | None = None

    def add(self, distance: int | None, offset: int, timestamp: int) -> None:
        self.records += 1
        if distance is not None:
            self.misplaced += 1
            self.factor = gcd(self.factor, distance)
            self.last = offset, timestamp
            if self.first is None:
                self.first = self.last

    def frozen(self) -> Misplaced:
        return Misplaced(self.records, self.misplaced, self.factor, self.first, self.last)


def place_split(
    split: Split,
    pace: Pace,
    *,
    options: PlacementOptions,
    counts: dict[str, int],
    topics: dict[str, int],
    directory: str,
    buckets: int,
) -> Placed:
    """Look at each key of a split; `counts` are those of the topics' partitions."""
    topic = split.target.topic or ""
    spool = Spool(directory, buckets)
    spans = KeySpans(spool, topics[topic], split.target.partition or 0)
    numbers = {name: _remembered(PARTITIONERS[name]) for name in options.names}
    sums: dict[tuple[str, int], _Sum] = {}
    reader = SplitReader(split, options, as_stored=True)
    going = Going(split.size_bytes, pace, split.start)
    told: list[Finding | KdumpError] = []
    records = without = 0
    for item in reader.items():
        if isinstance(item, (Finding, KdumpError)):
            told.append(item)
        elif isinstance(item, RecordRow):  # a message of 0.6 or 0.7
            records += 1
            without += 1
        elif isinstance(item, RecordChunk):
            going.reached(item)
            if item.controls is not None:
                continue
            for key, producer_id, offset, timestamp in _keys(item):
                records += 1
                if key is None:
                    without += 1
                    continue
                spans.add(key, offset, timestamp)
                _count(sums, numbers, split, counts[topic], key, producer_id, offset, timestamp)
    going.end()
    spans.flush()
    spool.flush()
    frozen = {place: one.frozen() for place, one in sums.items()}
    partition = split.target.partition or 0
    runs = tuple(spool.runs)
    return Placed(topic, partition, frozen, records, without, runs, tuple(told), reader.seam)


def _keys(chunk: RecordChunk) -> list[tuple[bytes | None, int, int, int]]:
    """Give key, producer id, offset and time of each record that is no marker."""
    records, batches, data = chunk.records, chunk.batches, chunk.data
    return [
        (
            records.key(data, row),
            batches.producer_id(records.batch(row)),
            records.offset(row),
            records.timestamp(row),
        )
        for row in chunk.numbers
        if not records.flags_of(row) & c.MARKER
    ]


def _count(
    sums: dict[tuple[str, int], _Sum],
    numbers: dict[str, Number],
    split: Split,
    count: int,
    key: bytes,
    producer_id: int,
    offset: int,
    timestamp: int,
) -> None:
    for name, number_of in numbers.items():
        number = number_of(key)
        if number is None:
            continue
        one = sums.get((name, producer_id))
        if one is None:
            whose = producer_id if len(sums) < _PRODUCERS_KEPT * len(numbers) else OTHERS
            one = sums.setdefault((name, whose), _Sum())
        lies = split.target.partition or 0
        one.add(None if number % count == lies else number - lies, offset, timestamp)


def _remembered(number: Number) -> Number:
    """Remember the hashes of short keys, which come again and again."""
    kept = lru_cache(_HASHES_KEPT)(number)
    return lambda key: kept(key) if len(key) <= _KEPT_KEY_BYTES else number(key)

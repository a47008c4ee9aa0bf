"""Count the keys of a split that lie on another partition than a partitioner says.

This is the step of `placement`. What is counted goes by producer; of keys, the first and
the last record on each partition go to sorted runs, so that those that moved can be told.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.usage.moved import KeySpans
from kdump.engine.usage.partitioners import PARTITIONERS, Number
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

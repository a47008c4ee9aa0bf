"""Count the keys of a split that are on another partition than a partitioner says.

This is the step of `placement`. What is counted goes by producer; of keys, the first and
the last record on each partition go to sorted runs, so that those that moved can be told.
"""

from __future__ import annotations

from array import array
from math import gcd
from typing import TYPE_CHECKING

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.usage.moved_keys import KeySpans
from kdump.engine.work.pace import ReadProgress
from kdump.engine.work.spool import SortedRun, Spool
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk, RecordRow
from kdump.kernels import columns as c
from kdump.kernels import count_placed
from kdump.kernels.partitioners import PARTITIONERS
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.split_edges import SplitEdges
    from kdump.engine.work.pace import Pace
    from kdump.engine.work.splits import Split


_NUMBERS = {name: number for number, name in enumerate(PARTITIONERS)}
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


class MisplacedCount(NamedTuple):
    """Keyed records, and those that lie where they do not belong.

    `factor` is what all hashes of these less their partition are multiples of: the count of
    partitions by which they were placed, or a multiple of that. 0: there are none.
    """

    records: int = 0
    misplaced: int = 0
    factor: int = 0
    first: tuple[int, int] | None = None  # offset, timestamp
    last: tuple[int, int] | None = None

    def plus(self, other: MisplacedCount) -> MisplacedCount:
        """Add two of them."""
        firsts = [one.first for one in (self, other) if one.first is not None]
        lasts = [one.last for one in (self, other) if one.last is not None]
        return MisplacedCount(
            self.records + other.records,
            self.misplaced + other.misplaced,
            gcd(self.factor, other.factor),
            min(firsts, default=None),
            max(lasts, default=None),
        )


class SplitPlacement(NamedTuple):
    """What came of a split; `sums` by name of partitioner and producer id."""

    topic: str
    partition: int
    sums: dict[tuple[str, int], MisplacedCount]
    records: int
    without_key: int
    runs: tuple[SortedRun, ...]
    told: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None


class _Sums:
    """What is counted of a split, by producer and partitioner."""

    def __init__(self, names: tuple[str, ...], partition: int, partitions: int) -> None:
        self.records = self.without = 0
        self._names, self._partition, self._partitions = names, partition, partitions
        self._which = bytes(_NUMBERS[name] for name in names)
        self._producers: dict[int, int] = {}
        self._sums = array("q", bytes(8 * c.PLACED_WIDTH * len(names)))

    def add(self, chunk: RecordChunk) -> None:
        """Count the records of a chunk."""
        at, count = 0, len(chunk)
        while at < count:
            at, records, without = count_placed(
                chunk.data, chunk.batches, chunk.records, chunk.rows, at, self._which,
                self._partition, self._partitions, self._producers, self._sums, OTHERS,
                _PRODUCERS_KEPT,
            )  # fmt: skip
            self.records += records
            self.without += without
            if at < count:
                self._sums.extend(bytes(len(self._sums)))

    def frozen(self) -> dict[tuple[str, int], MisplacedCount]:
        """Give what was counted by name of partitioner and producer id."""
        found = {}
        for producer_id, slot in self._producers.items():
            for place, name in enumerate(self._names, slot * len(self._names)):
                start = place * c.PLACED_WIDTH
                records, misplaced, factor, *where = self._sums[start : start + c.PLACED_WIDTH]
                first = (where[0], where[1]) if misplaced else None
                last = (where[2], where[3]) if misplaced else None
                if records:
                    one = MisplacedCount(records, misplaced, factor, first, last)
                    found[name, producer_id] = one
        return found


def place_split(
    split: Split,
    pace: Pace,
    *,
    options: PlacementOptions,
    counts: dict[str, int],
    topics: dict[str, int],
    directory: str,
    buckets: int,
) -> SplitPlacement:
    """Look at each key of a split; `counts` are those of the topics' partitions."""
    topic = split.target.topic or ""
    spool = Spool(directory, buckets)
    spans = KeySpans(spool, topics[topic], split.target.partition or 0)
    partition = split.target.partition or 0
    sums = _Sums(options.names, partition, counts[topic])
    reader = SplitReader(split, options, as_stored=True)
    going = ReadProgress(split.size_bytes, pace, split.start)
    told: list[Finding | KdumpError] = []
    for item in reader.items():
        if isinstance(item, (Finding, KdumpError)):
            told.append(item)
        elif isinstance(item, RecordRow):  # a message of 0.6 or 0.7
            sums.records += 1
            sums.without += 1
        elif isinstance(item, RecordChunk):
            going.advance(item)
            if item.controls is None:
                spans.add(item)
                sums.add(item)
    going.end()
    spans.flush()
    spool.flush()
    return SplitPlacement(
        topic,
        partition,
        sums.frozen(),
        sums.records,
        sums.without,
        tuple(spool.runs),
        tuple(told),
        reader.seam,
    )

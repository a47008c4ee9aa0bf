"""Count one split: the step of `usage`, pure and the same in every driver."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from itertools import groupby
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.usage.totals import WIDTH, PackedTotals, Totals
from kdump.engine.work.pace import ReadProgress
from kdump.engine.work.splits import Split
from kdump.errors import KdumpError
from kdump.findings.code import Hides
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk, RecordRow
from kdump.kernels import columns as c
from kdump.kernels.members import codec_name
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace
    from kdump.kernels.columns import RecordBatches

#: Keys longer than this are held as their start, size and digest.
LONGEST_KEY = 512
_START_BYTES = 256
#: Topic and partition, as far as groups are made of them.
PlaceOfGroup = tuple[str | None, int | None]
STEPS_MS = {"hour": 3_600_000, "day": 86_400_000}
_BROKEN = c.CRC_BAD | c.TOO_SMALL


class UsageOptions(DumpOptions):
    """What is asked for, and how logs are read for it; `top` 0 means all rows.

    `by` holds topic, partition, hour or day, producer, codec, key, as many as are asked for, in
    that order.
    """

    by: tuple[str, ...] = ("topic",)
    top: int = 0

    @property
    def wants_records(self) -> bool:
        """Whether headers are not enough."""
        return "key" in self.by

    @property
    def step_ms(self) -> int:
        """How long the hour or the day is that groups are made of; 0: they are not."""
        return next((STEPS_MS[word] for word in self.by if word in STEPS_MS), 0)

    @property
    def of_dump(self) -> DumpOptions:
        """How the logs are read."""
        return type(self)(**vars(self) | {"mode": "records" if self.wants_records else "batches"})

    def place_of(self, topic: str | None, partition: int | None) -> PlaceOfGroup:
        """Give what of a group is the same for all of a partition; None: not asked for."""
        if "partition" in self.by:
            return topic, partition
        return topic if "topic" in self.by else None, None


class LongKey(NamedTuple):
    """A key too long to be held."""

    start: bytes
    size_bytes: int
    digest: bytes


class SplitTotals(NamedTuple):
    """What came of one split: totals, and findings and errors in `reported`.

    `sums` are the numbers of all groups together, also of those that were dropped; `bytes_lost`
    those that findings name and that were not counted; `control_records` those that were left out.
    """

    totals: PackedTotals
    sums: tuple[int, ...]
    reported: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None
    bytes_lost: int
    control_records: int


def count_split(split: Split, pace: Pace, *, options: UsageOptions, most: int) -> SplitTotals:
    """Count what lies in a split by the groups asked for, of which at most so many are held."""
    reader = SplitReader(split, options.of_dump, as_stored=True)
    counter = _Counter(options, most)
    reported: list[Finding | KdumpError] = []
    lost = _LostBytes(options)
    going = ReadProgress(split.size_bytes, pace, split.start)
    for item in reader.items():
        if isinstance(item, (RecordChunk, BatchChunk)):
            going.advance(item)
            if isinstance(item, RecordChunk):
                counter.records(item)
            elif not (options.wants_records or item.batches.flags & _BROKEN):
                counter.batches(item)
        elif isinstance(item, Finding):
            reported.append(item)
            lost.take(item)
        elif isinstance(item, KdumpError):
            reported.append(item)
        elif isinstance(item, RecordRow):
            counter.message(item)
        elif isinstance(item, BatchRow) and item.crc_valid and not options.wants_records:
            counter.batch(item)
    going.end()
    return SplitTotals(
        counter.totals.pack(),
        counter.totals.sum(),
        tuple(reported),
        reader.seam,
        lost.size_bytes,
        counter.control_records,
    )


class _LostBytes:
    """Adds up the bytes that findings name, each once: of a batch there may be two."""

    def __init__(self, options: UsageOptions) -> None:
        self.size_bytes = 0
        self._lost = {Hides.BATCHES, Hides.RECORDS} if options.wants_records else {Hides.BATCHES}
        self._last: tuple[str, int | None] | None = None

    def take(self, finding: Finding) -> None:
        place = finding.path, finding.position
        if finding.entry.hides in self._lost and place != self._last:
            self._last = place
            self.size_bytes += finding.size_bytes or 0


class _Counter:
    """Adds up what a reader yields, by group."""

    def __init__(self, options: UsageOptions, most: int) -> None:
        self.totals = Totals(most)
        self.control_records = 0
        self._by_producer = "producer" in options.by
        self._by_codec = "codec" in options.by
        self._step_ms = options.step_ms
        self._segment = 0
        self._path = ""

    def batches(self, chunk: BatchChunk) -> None:
        """Add batches by their headers."""
        self._enter(chunk.place.path)
        if not self._step_ms:
            self._sum(chunk.batches, ())
            return
        row = 0
        for start, run in groupby(map(self._start, chunk.batches.max_timestamps)):
            end = row + sum(1 for _ in run)
            self._sum(chunk.batches.slice(row, end), (start,))
            row = end

    def _start(self, timestamp: int) -> int | None:
        """Return when the hour or the day of a batch begins."""
        return None if timestamp < 0 else timestamp - timestamp % self._step_ms

    def _sum(self, batches: RecordBatches, time: tuple[int | None, ...]) -> None:
        totals = self.totals
        row = 0
        while row < batches.count:
            group = self._group(batches.producer_id(row), batches.attributes(row))
            slot = totals.slot((*time, *group))
            self._seen_in_segment(slot)
            row = kernels.sum_batches(
                batches, row, self._by_producer, self._by_codec, totals.sums, slot
            )

    def batch(self, row: BatchRow) -> None:
        """Add an entry of 0.6 or 0.7."""
        self._enter(str(row.segment))
        totals = self.totals
        slot = totals.slot(
            (
                *((None,) if self._step_ms else ()),
                *((-1,) if self._by_producer else ()),
                *((row.codec,) if self._by_codec else ()),
            )
        )
        self._seen_in_segment(slot)
        at = slot * WIDTH
        totals.sums[at + c.T_BATCHES] += 1
        totals.sums[at + c.T_RECORDS] += row.records_count or 0
        totals.sums[at + c.T_UNOPENED] += row.records_count is None
        totals.sums[at + c.T_BYTES] += row.size_bytes

    def records(self, chunk: RecordChunk) -> None:
        """Add records by their keys; control records have none in that sense."""
        if chunk.controls is not None:
            self.control_records += chunk.records.count
            return
        totals, records = self.totals, chunk.records
        if records.flags & c.MARKER:
            self.control_records += sum(bool(flags & c.MARKER) for flags in records.row_flags)
        row = 0
        while True:
            row = kernels.sum_keys(
                chunk.data, records, row, totals.slots, totals.sums, totals.floor,
                totals.room, LONGEST_KEY,
            )  # fmt: skip
            if row >= records.count:
                return
            if records.key_size(row) > LONGEST_KEY:
                self._long_key(chunk, row)
                row += 1
            else:
                totals.make_room()

    def _long_key(self, chunk: RecordChunk, row: int) -> None:
        """Add one record under its key's digest."""
        from hashlib import blake2b

        records = chunk.records
        key = records.key(chunk.data, row) or b""
        size = len(key)
        long = LongKey(key[:_START_BYTES], size, blake2b(key, digest_size=16).digest())
        alone = records.slice(row, row + 1)
        alone.forget_key(0)
        sums = array("q", bytes(8 * WIDTH))
        slots: dict[Hashable, int] = {}
        kernels.sum_keys(chunk.data, alone, 0, slots, sums, 0, 1, 0)
        sums[c.T_BYTES] += size
        self.totals.add(long, sums)

    def message(self, row: RecordRow) -> None:
        """Add a message of 0.6 or 0.7, which has no key."""
        sums = array("q", bytes(8 * WIDTH))
        sums[c.T_RECORDS] = 1
        sums[c.T_BYTES] = len(row.value or b"")
        sums[c.T_FIRST] = sums[c.T_LAST] = -1
        self.totals.add(None, sums)

    def _group(self, producer_id: int, attributes: int) -> tuple[object, ...]:
        if self._by_codec:
            codec = codec_name(attributes)
            return (producer_id, codec) if self._by_producer else (codec,)
        return (producer_id,) if self._by_producer else ()

    def _enter(self, path: str) -> None:
        if path != self._path:
            self._path = path
            self._segment += 1

    def _seen_in_segment(self, slot: int) -> None:
        sums, at = self.totals.sums, slot * WIDTH
        if sums[at + c.T_SEEN] != self._segment:
            sums[at + c.T_SEEN] = self._segment
            sums[at + c.T_SEGMENTS] += 1

"""Add up bytes and records of a partition by time, from the headers that verification reads."""

from __future__ import annotations

from kdump.engine.reading.check import Check
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.kernels.columns import RecordBatches

_BUCKETS = 4096
_PIECES = 16  # of consecutive headers: each piece counts at its latest time


class Volume:
    """Bytes and records by spans of time, which grow as there are more of them than are kept.

    `first_ms` and `last_ms` are the earliest and the latest time; None: no batch has any.
    """

    def __init__(self, most: int = _BUCKETS) -> None:
        self._most = most
        self.span_ms = 1000
        self.spans: dict[int, tuple[int, int]] = {}
        self.records_count = self.size_bytes = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, first_ms: int, time_ms: int, size_bytes: int, records_count: int) -> None:
        """Add batches that count at one time; below 0 they have none."""
        self.size_bytes += size_bytes
        self.records_count += records_count
        if time_ms < 0:
            return
        self._reach(first_ms, time_ms)
        self._put(time_ms // self.span_ms, size_bytes, records_count)
        while len(self.spans) > self._most:
            self._widen()

    def join(self, other: Volume) -> None:
        """Add all of another one."""
        while self.span_ms < other.span_ms:
            self._widen()
        for at, (size_bytes, records_count) in other.spans.items():
            self._put(at * other.span_ms // self.span_ms, size_bytes, records_count)
        while len(self.spans) > self._most:
            self._widen()
        self.size_bytes += other.size_bytes
        self.records_count += other.records_count
        if other.first_ms is not None and other.last_ms is not None:
            self._reach(other.first_ms, other.last_ms)

    def _reach(self, first_ms: int, last_ms: int) -> None:
        self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)

    def _put(self, at: int, size_bytes: int, records_count: int) -> None:
        size, records = self.spans.get(at, (0, 0))
        self.spans[at] = size + size_bytes, records + records_count

    def _widen(self) -> None:
        before, self.spans = self.spans, {}
        self.span_ms *= 2
        for at, (size_bytes, records_count) in before.items():
            self._put(at // 2, size_bytes, records_count)


class Volumes(Check):
    """Adds up the batches of one partition."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self.volume = Volume()

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Add sound batches, several at a time."""
        if segment.is_snapshot or not batches.count:
            return
        times, sizes, counts = batches.max_timestamps, batches.sizes, batches.records_counts
        step = -(-batches.count // _PIECES)
        for at in range(0, batches.count, step):
            piece, end = times[at : at + step], at + step
            last, first = max(piece), min(piece)
            records = sum(count for count in counts[at:end] if count > 0)
            self.volume.add(last if first < 0 else first, last, sum(sizes[at:end]), records)

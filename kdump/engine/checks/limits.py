"""Note batches and timestamps that the broker's settings would have refused (V5, V22).

Only by settings that were stated, and only notes: they may have been others then, and a follower
stores what it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.settings import TOPIC
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import BatchAt
from kdump.kernels import columns as c
from kdump.record.layout import TIMESTAMP_TYPE_BIT
from kdump.storage import names

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place
    from kdump.kernels.columns import RecordBatches


class _Tally:
    """The first place of something, the worst value, and how often there was any."""

    def __init__(self) -> None:
        self.count = 0
        self.worst = 0
        self.first: BatchAt | None = None

    def add(self, place: Place, batches: RecordBatches, row: int, value: int) -> None:
        self.count += 1
        self.worst = max(self.worst, value)
        if self.first is None:
            self.first = BatchAt(place, batches.slice(row, row + 1), 0)


class Limits(Check):
    """Counts what exceeds stated limits, and reports each kind once a partition."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        settings = partition.settings
        internal = partition.target.topic == names.CLUSTER_METADATA_TOPIC
        self._largest = settings.message_max_bytes
        of_topic = settings.source("message_max_bytes") == TOPIC
        self._limit = "the topic's max.message.bytes" if of_topic else "message.max.bytes"
        self._sized = "message_max_bytes" in settings.stated_fields and not internal
        self._before_ms = settings.timestamp_before_max_ms
        self._after_ms = settings.timestamp_after_max_ms
        times = {"timestamp_before_max_ms", "timestamp_after_max_ms"}
        self._timed = partition.deep and bool(times & settings.stated_fields) and not internal
        self._large, self._early, self._late = _Tally(), _Tally(), _Tally()
        # When the records of a segment can have been appended, by the times of files.
        self._not_before_ms: int | None = None
        self._not_after_ms = 0
        self._sealed_ms: int | None = None  # last change of the segment before

    def begin(self, segment: SegmentScan) -> None:
        """Note when a segment can have been written."""
        if self._timed and segment.source is not None:
            changed_ms = segment.source.status().st_mtime_ns // 1_000_000
            self._not_before_ms, self._not_after_ms = self._sealed_ms, changed_ms
            self._sealed_ms = changed_ms

    def skip(self, segment: SegmentScan) -> None:
        """Forget when the segment before was written."""
        self._sealed_ms = None

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Compare headers with the limits."""
        place = segment.place
        if self._sized and max(batches.sizes) > self._largest:
            for row, size_bytes in enumerate(batches.sizes):
                if size_bytes > self._largest:
                    self._large.add(place, batches, row, size_bytes)
        if self._timed:
            self._look_at_times(place, batches)

    def _look_at_times(self, place: Place, batches: RecordBatches) -> None:
        after_ms = self._not_after_ms + self._after_ms
        if max(batches.max_timestamps) > after_ms:
            for row, time_ms in enumerate(batches.max_timestamps):
                if time_ms > after_ms and _is_create_time(batches, row):
                    self._late.add(place, batches, row, time_ms - self._not_after_ms)
        if self._not_before_ms is None:
            return
        before_ms = self._not_before_ms - self._before_ms
        if min(batches.base_timestamps) < before_ms:
            for row, time_ms in enumerate(batches.base_timestamps):
                if 0 <= time_ms < before_ms and _is_create_time(batches, row):
                    self._early.add(place, batches, row, self._not_before_ms - time_ms)

    def end(self) -> Iterator[Finding]:
        """Tell of each kind once."""
        if self._large.first is not None:
            yield self._large.first.finding(
                "over-message-limit",
                expected=self._largest,
                actual=self._large.worst,
                message=f"{self._large.count:,} batches are larger than {self._limit}="
                f"{self._largest:,}; the largest has {self._large.worst:,} bytes.",
            )
        for tally, limit_ms, words in (
            (self._late, self._after_ms, "later than the last change of their file"),
            (self._early, self._before_ms, "earlier than the last change of the previous segment"),
        ):
            if tally.first is not None:
                yield tally.first.finding(
                    "record-time-limit",
                    expected=limit_ms,
                    actual=tally.worst,
                    message=f"In {tally.count:,} batches, record timestamps are up to "
                    f"{tally.worst:,} ms {words}; the timestamp limits in the settings allow "
                    f"{limit_ms:,} ms.",
                )


def _is_create_time(batches: RecordBatches, row: int) -> bool:
    """Whether the header's times are the producer's; a delete horizon is no record's (F21)."""
    if not batches.has_timestamps(row):
        return False
    if batches.attributes(row) & TIMESTAMP_TYPE_BIT or batches.flags_of(row) & c.CONTROL:
        return False
    return not batches.has_delete_horizon(row)

"""Note segments and indexes that are larger than their topic's stated limits (O1, I2), and segments
with offsets that no index can name (K8).

A leader and a follower roll a segment before it is larger than `segment.bytes`, and make no index
larger than `segment.index.bytes`. The limits may have been lowered since, so this is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.settings import FILE
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import BatchAt, at_place
from kdump.kernels import columns as c
from kdump.storage import places
from kdump.storage.names import Kind
from kdump.storage.offsets import RELATIVE_MAX

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place
    from kdump.kernels.columns import RecordBatches


class SizeLimits(Check):
    """Compares sizes of files with stated limits, and reports each kind once a partition."""

    reads_tails = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self.settings = partition.settings.for_topic(partition.target.topic)

    def end(self) -> Iterator[Finding]:
        """Report what is too large."""
        stated = self.settings.stated_fields
        if "segment_bytes" in stated:
            yield from self._too_large(
                "segment-over-limit",
                self._named("segment_bytes", "segment.bytes", "log.segment.bytes"),
                self.settings.segment_bytes,
                self.settings.source("segment_bytes"),
                [(one.place, one.end_position) for one in self.partition.segments if one.complete],
            )
        if "index_size_max_bytes" in stated:
            indexes = [
                (one.place._replace(path=path), places.size_or_zero(path))
                for one in self.partition.segments
                for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
                if (path := one.segment.files.get(kind)) is not None
            ]
            yield from self._too_large(
                "index-over-limit",
                self._named(
                    "index_size_max_bytes", "segment.index.bytes", "log.index.size.max.bytes"
                ),
                self.settings.index_size_max_bytes,
                self.settings.source("index_size_max_bytes"),
                indexes,
            )

    def _named(self, field: str, of_topic: str, of_broker: str) -> str:
        """Name a setting as it is written where it came from."""
        is_internal = self.partition.target.topic in dict(self.settings.internal_segment_bytes)
        return of_broker if self.settings.source(field) == FILE and not is_internal else of_topic

    def _too_large(
        self, code: str, name: str, limit: int, source: str, files: list[tuple[Place, int]]
    ) -> Iterator[Finding]:
        over = [(place, size) for place, size in files if size > limit]
        if not over:
            return
        largest = max(size for _, size in over)
        many = "One file is" if len(over) == 1 else f"{len(over):,} files are"
        yield at_place(
            code,
            over[0][0],
            expected=limit,
            actual=largest,
            message=f"{many} over {name}={limit:,} ({source}), the largest with {largest:,} "
            "bytes; the limit may have been lowered since.",
        )


class OffsetRange(Check):
    """Reports sealed segments that hold offsets too far above their base, as old cleaners made.

    In the newest segment such an offset is taken for damage (`offset-past-range`).
    """

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._first: BatchAt | None = None
        self._count = 0

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Count batches whose last offset no index entry can hold, unless they are out of place."""
        most = segment.base_offset + RELATIVE_MAX
        if segment.is_snapshot or segment.active:
            return
        is_rising = not batches.flags & c.OFFSET_NOT_RISING
        if is_rising and batches.last_offset(batches.count - 1) <= most:
            return
        for row, last in enumerate(batches.last_offsets):
            if most < last < segment.end_offset and not batches.flags_of(row) & c.WRONG:
                self._count += 1
                if self._first is None:
                    self._first = BatchAt(segment.place, batches.slice(row, row + 1), 0)

    def finish(self, segment: SegmentScan) -> Iterator[Finding]:
        """Report a segment once."""
        first, count, self._first, self._count = self._first, self._count, None, 0
        if first is None or not segment.complete:
            return
        words = "One batch ends" if count == 1 else f"{count:,} batches end"
        yield first.finding(
            "offset-overflow",
            expected=segment.base_offset + RELATIVE_MAX,
            actual=segment.last_offset,
            message=f"{words} more than {RELATIVE_MAX:,} offsets above the base offset of segment "
            f"{segment.base_offset}; the segment ends at offset {segment.last_offset:,}. Brokers "
            "since 2.0 split such a segment when they recover or clean it; cleaners from 0.10.2 to "
            "1.1 fail on it.",
        )

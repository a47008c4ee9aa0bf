"""Note segments and indexes that are larger than their topic's stated limits (O1, I2).

A leader and a follower roll a segment before it is larger than `segment.bytes`, and make no index
larger than `segment.index.bytes`. The limits may have been lowered since, so this is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import at_place
from kdump.storage import places
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place


class SizeLimits(Check):
    """Compares sizes of files with stated limits, and reports each kind once a partition."""

    reads_tails = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self.settings = partition.settings.for_topic(partition.target.topic)

    def end(self) -> Iterator[Finding]:
        """Report what is too large."""
        stated = self.settings.stated
        if "segment_bytes" in stated:
            yield from self._too_large(
                "segment-over-limit",
                "segment.bytes",
                self.settings.segment_bytes,
                self.settings.source("segment_bytes"),
                [(one.place, one.end_position) for one in self.partition.segments if one.complete],
            )
        if "index_size_max_bytes" in stated:
            indexes = [
                (one.place._replace(path=path), places.planned_size(path))
                for one in self.partition.segments
                for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
                if (path := one.segment.files.get(kind)) is not None
            ]
            yield from self._too_large(
                "index-over-limit",
                "segment.index.bytes",
                self.settings.index_size_max_bytes,
                self.settings.source("index_size_max_bytes"),
                indexes,
            )

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

"""Make metrics of what `why` found, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.output.textfile import SERIES, labels, last_runs, metric
from kdump.rows.why import Compaction, PartitionSpace, PinnedSegments, SegmentFate, WhySummary

if TYPE_CHECKING:
    from kdump.findings.rows import Row

    _OfPartition = SegmentFate | PinnedSegments | PartitionSpace | Compaction

_PARTS = ("log", "index", "other", "retired")
_UNCLEANABLE = ("uncleanable-mark", "corrupt-batch")
#: Metric of partitions -> what it says.
_OF_PARTITIONS = {
    "pinned_bytes": "Bytes kept past retention, or by a future timestamp.",
    "deletable_bytes": "Bytes that the next retention pass deletes.",
    "oldest_deletable_timestamp_seconds": "Last record time of the oldest segment to be deleted.",
    "dirty_ratio": "Share of a compacted log that is not cleaned.",
    "uncleanable": "Whether the cleaner fails on a compacted log.",
}


class Gauges:
    """Takes rows as they come, and writes what they add up to."""

    def __init__(self) -> None:
        self._summary: WhySummary | None = None
        self._places: dict[str, dict[str, float]] = {name: {} for name in _OF_PARTITIONS}

    def add(self, row: Row) -> None:
        """Take up a row."""
        if isinstance(row, WhySummary):
            self._summary = row
        elif isinstance(row, SegmentFate):
            if row.verdict == "deletable" and row.largest_timestamp_ms is not None:
                name = "oldest_deletable_timestamp_seconds"
                self._places[name].setdefault(_of(row), row.largest_timestamp_ms // 1000)
        elif isinstance(row, PinnedSegments):
            self._plus("pinned_bytes", row, row.size_bytes)
        elif isinstance(row, PartitionSpace) and row.deletable_bytes:
            self._plus("deletable_bytes", row, row.deletable_bytes)
        elif isinstance(row, Compaction):
            self._plus("dirty_ratio", row, row.dirty_ratio)
            self._plus("uncleanable", row, int(row.blocked_by in _UNCLEANABLE))

    def _plus(self, name: str, row: _OfPartition, value: float) -> None:
        places, of = self._places[name], _of(row)
        if of in places or len(places) < SERIES:
            places[of] = places.get(of, 0) + value

    def text(self, now_s: int, before: str, *, succeeded: bool) -> str:
        """Write the file; the time of the last success outlives runs that fail."""
        return "".join(f"{line}\n" for line in self._lines(now_s, before, succeeded))

    def _lines(self, now_s: int, before: str, succeeded: bool) -> Iterator[str]:
        summary = self._summary
        if summary is not None:
            by_part = {labels(what=part): summary[f"{part}_bytes"] for part in _PARTS}
            yield from metric("kdump_why_bytes", "Apparent bytes of files, by kind.", by_part)
            verdicts = {
                labels(verdict=verdict): size for verdict, size in summary.bytes_by_verdict.items()
            }
            help_text = "Bytes of segments by verdict."
            yield from metric("kdump_why_segment_bytes", help_text, verdicts)
            if summary.next_deletable_ms is not None:
                yield from metric(
                    "kdump_why_next_deletable_timestamp_seconds",
                    "When retention next deletes a segment that it keeps now.",
                    {"": summary.next_deletable_ms // 1000},
                )
            for name, help_text in _OF_PARTITIONS.items():
                yield from metric(f"kdump_why_{name}", help_text, self._places[name])
        yield from last_runs("why", now_s, before, succeeded=succeeded and summary is not None)


def _of(row: _OfPartition) -> str:
    return labels(topic=row.topic or "", partition=row.partition)

"""Note sealed segments whose end none of the broker's rules explains (O1 to O3).

The topic may have had other settings, so that is worth no more than a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.rolling import COMPACTED, UNEXPLAINED, NextBatch, RollRule, SealedSegment, explain
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import at_place
from kdump.kernels import columns as c
from kdump.storage import places
from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding


class Rolling(Check):
    """Explains each sealed segment of a partition; `rolled` has them in order."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self.rolled: list[RollRule] = []
        self.settings = partition.settings.for_topic(partition.target.topic)
        self._cleaned = partition.cleaner_offset()

    def end(self) -> Iterator[Finding]:
        """Tell of segments that no rule explains, once, and only by settings that were stated."""
        for one, following in pairwise(self.partition.segments):
            rolled = self._explain(one, following)
            if rolled is not None:
                self.rolled.append(rolled)
        unexplained = [one for one in self.rolled if one.rule == UNEXPLAINED]
        if not unexplained or "segment_bytes" not in self.settings.stated_fields:
            return
        rules = Counter(one.rule for one in self.rolled if one.rule != UNEXPLAINED)
        by_rule = ", ".join(f"{rule} {count:,}" for rule, count in sorted(rules.items()))
        others = f" (others by rule: {by_rule})" if by_rule else ""
        first = unexplained[0].base_offset
        yield at_place(
            "roll-unexplained",
            next(at.place for at in self.partition.segments if at.base_offset == first),
            expected=f"{self.settings.segment_bytes} bytes or {self.settings.segment_ms} ms",
            actual=len(unexplained),
            message=f"For {len(unexplained):,} of {len(self.rolled):,} closed segments, the "
            f"settings do not explain the roll{others}; the topic may have had other settings.",
        )

    def _explain(self, one: SegmentScan, following: SegmentScan) -> RollRule | None:
        """Say which rule ended a segment; None where not all of it is known, or what follows."""
        first, behind = one.first, following.first
        if not one.complete or one.gaps or first is None or behind is None:
            return None
        if one.base_offset < self._cleaned:
            return RollRule(one.base_offset, COMPACTED)
        if not behind.flags & c.WRAPPER and behind.base_offset != one.next_offset:
            return None
        sealed = SealedSegment(
            one.base_offset,
            one.end_position,
            first.max_timestamp,
            _entries(one, Kind.OFFSET_INDEX, OFFSET_INDEX_ENTRY.size),
            _entries(one, Kind.TIME_INDEX, TIME_INDEX_ENTRY.size),
        )
        held = following.end_position
        incoming = NextBatch(behind.size_bytes, held, behind.max_timestamp, behind.last_offset)
        return explain(sealed, incoming, self.settings)


def _entries(segment: SegmentScan, kind: Kind, entry_bytes: int) -> int:
    path = segment.segment.files.get(kind)
    return 0 if path is None else places.size_or_zero(path) // entry_bytes

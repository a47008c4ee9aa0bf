"""Find the broker's rule by which each sealed segment was rolled (O1 to O3).

A roll is decided before an append, from what the segment holds and what is about to come; so the
first batch of the next segment is part of the question. The settings are those of now: a topic
may have had others, a cleaner may have put segments together, and a broker may have been told to
roll, so that a segment whose end no rule explains is worth no more than a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import at_place
from kdump.kernels import columns as c
from kdump.storage import names, places
from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import Kind
from kdump.storage.segment_range import RELATIVE_MAX

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding

SIZE, TIME, INDEX_FULL, OFFSET_RANGE = "size", "time", "index-full", "offset-range"
APPEND_SIZE = "size-of-append"  # if the append held several batches, as a follower's may
COMPACTED = "compacted"  # a cleaner put the segment together
UNEXPLAINED = "unexplained"
FETCH_BYTES = 1 << 20  # replica.fetch.max.bytes: what one fetch gives of a partition


class Sealed(NamedTuple):
    """What a segment held when it was rolled. Times in ms, -1 for none; index sizes in entries."""

    base_offset: int
    size_bytes: int
    first_max_timestamp_ms: int
    offset_entries: int
    time_entries: int


class Incoming(NamedTuple):
    """The first batch behind it, and how much its segment holds: an append is that or more."""

    size_bytes: int
    segment_bytes: int
    max_timestamp_ms: int
    last_offset: int


class Rolled(NamedTuple):
    """The rule that ended a segment, with both sides of it."""

    base_offset: int
    rule: str
    limit: int | None = None
    actual: int | None = None


def explain(sealed: Sealed, incoming: Incoming, settings: Settings) -> Rolled:
    """Say which rule ended a segment; the broker's order (O1)."""
    base, most_bytes = sealed.base_offset, settings.segment_bytes
    if sealed.size_bytes + incoming.size_bytes > most_bytes:
        return Rolled(base, SIZE, most_bytes, sealed.size_bytes + incoming.size_bytes)
    first = sealed.first_max_timestamp_ms
    if first >= 0 and sealed.size_bytes:
        waited_ms = incoming.max_timestamp_ms - first
        jitter_ms = min(settings.segment_jitter_ms, settings.segment_ms)
        if waited_ms > settings.segment_ms - jitter_ms:
            return Rolled(base, TIME, settings.segment_ms, waited_ms)
    for entries, entry_bytes, kept_free in (
        (sealed.offset_entries, OFFSET_INDEX_ENTRY.size, 0),
        (sealed.time_entries, TIME_INDEX_ENTRY.size, 1),  # for the entry made by the roll (I5)
    ):
        most = settings.index_size_max_bytes // entry_bytes - kept_free
        if entries >= most:
            return Rolled(base, INDEX_FULL, most, entries)
    relative = incoming.last_offset - base
    if relative > RELATIVE_MAX:
        return Rolled(base, OFFSET_RANGE, RELATIVE_MAX, relative)
    append_bytes = min(incoming.segment_bytes, FETCH_BYTES)
    if sealed.size_bytes + append_bytes > most_bytes:
        return Rolled(base, APPEND_SIZE, most_bytes, sealed.size_bytes + append_bytes)
    return Rolled(base, UNEXPLAINED)


class Rolling(Check):
    """Explains each sealed segment of a partition; `rolled` has them in order."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self.rolled: list[Rolled] = []
        self.settings = partition.settings.for_topic(partition.target.topic)
        directory, target = partition.directory, partition.target
        place = (names.CLEANER_CHECKPOINT, target.topic, target.partition)
        self._cleaned = (directory.offset(*place) if directory else None) or 0

    def end(self) -> Iterator[Finding]:
        """Tell of segments that no rule explains, once, and only by settings that were stated."""
        for one, following in pairwise(self.partition.segments):
            rolled = self._explained(one, following)
            if rolled is not None:
                self.rolled.append(rolled)
        unexplained = [one for one in self.rolled if one.rule == UNEXPLAINED]
        if not unexplained or "segment_bytes" not in self.settings.stated:
            return
        rules = Counter(one.rule for one in self.rolled)
        told = ", ".join(f"{count:,} by {rule}" for rule, count in sorted(rules.items()))
        first = unexplained[0].base_offset
        yield at_place(
            "roll-unexplained",
            next(at.place for at in self.partition.segments if at.base_offset == first),
            expected=f"{self.settings.segment_bytes} bytes or {self.settings.segment_ms} ms",
            actual=len(unexplained),
            message=f"{len(unexplained):,} of {len(self.rolled):,} segments ended although no "
            f"setting that was stated asked for it ({told}): the topic may have had others.",
        )

    def _explained(self, one: SegmentScan, following: SegmentScan) -> Rolled | None:
        """Say which rule ended a segment; None where not all of it is known, or what follows."""
        first, behind = one.first, following.first
        if not one.complete or one.gaps or first is None or behind is None:
            return None
        if one.base_offset < self._cleaned:
            return Rolled(one.base_offset, COMPACTED)
        if not behind.flags & c.WRAPPER and behind.base_offset != one.next_offset:
            return None
        sealed = Sealed(
            one.base_offset,
            one.end_position,
            first.max_timestamp,
            _entries(one, Kind.OFFSET_INDEX, OFFSET_INDEX_ENTRY.size),
            _entries(one, Kind.TIME_INDEX, TIME_INDEX_ENTRY.size),
        )
        held = following.end_position
        incoming = Incoming(behind.size_bytes, held, behind.max_timestamp, behind.last_offset)
        return explain(sealed, incoming, self.settings)


def _entries(segment: SegmentScan, kind: Kind, entry_bytes: int) -> int:
    path = segment.segment.files.get(kind)
    return 0 if path is None else places.planned_size(path) // entry_bytes

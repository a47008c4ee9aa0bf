"""Say by which rule a segment was rolled, and when one will be (O1, O2).

A roll is decided before an append, from what the segment holds and what is about to come; so the
first batch of the next segment is part of the question. The settings are those of now: a topic may
have had others, a cleaner may have put segments together, and a broker may have been told to roll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.offsets import RELATIVE_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings

SIZE, TIME, INDEX_FULL, OFFSET_RANGE = "size", "time", "index-full", "offset-range"
APPEND_SIZE = "size-of-append"  # if the append held several batches, as a follower's may
COMPACTED = "compacted"  # a cleaner put the segment together
UNEXPLAINED = "unexplained"
FETCH_BYTES = 1 << 20  # replica.fetch.max.bytes: what one fetch gives of a partition


class SealedSegment(NamedTuple):
    """What a segment held when it was rolled. Times in ms, -1 for none; index sizes in entries."""

    base_offset: int
    size_bytes: int
    first_max_timestamp_ms: int
    offset_entries: int
    time_entries: int


class NextBatch(NamedTuple):
    """The first batch behind it, and how much its segment holds: an append is that or more."""

    size_bytes: int
    segment_bytes: int
    max_timestamp_ms: int
    last_offset: int


class RollRule(NamedTuple):
    """The rule that ended a segment, with both sides of it."""

    base_offset: int
    rule: str
    limit: int | None = None
    actual: int | None = None


def explain(sealed: SealedSegment, incoming: NextBatch, settings: Settings) -> RollRule:
    """Say which rule ended a segment; the broker's order (O1)."""
    base, most_bytes = sealed.base_offset, settings.segment_bytes
    if sealed.size_bytes + incoming.size_bytes > most_bytes:
        return RollRule(base, SIZE, most_bytes, sealed.size_bytes + incoming.size_bytes)
    first = sealed.first_max_timestamp_ms
    if first >= 0 and sealed.size_bytes:
        waited_ms = incoming.max_timestamp_ms - first
        if waited_ms > longest_wait_ms(settings):
            return RollRule(base, TIME, settings.segment_ms, waited_ms)
    for entries, entry_bytes, kept_free in (
        (sealed.offset_entries, OFFSET_INDEX_ENTRY.size, 0),
        (sealed.time_entries, TIME_INDEX_ENTRY.size, 1),  # for the entry made by the roll (I5)
    ):
        most = settings.index_size_max_bytes // entry_bytes - kept_free
        if entries >= most:
            return RollRule(base, INDEX_FULL, most, entries)
    relative = incoming.last_offset - base
    if relative > RELATIVE_MAX:
        return RollRule(base, OFFSET_RANGE, RELATIVE_MAX, relative)
    append_bytes = min(incoming.segment_bytes, FETCH_BYTES)
    if sealed.size_bytes + append_bytes > most_bytes:
        return RollRule(base, APPEND_SIZE, most_bytes, sealed.size_bytes + append_bytes)
    return RollRule(base, UNEXPLAINED)


def longest_wait_ms(settings: Settings) -> int:
    """How far an append's time may lie behind the segment's first without a roll, at least."""
    return settings.segment_ms - min(settings.segment_jitter_ms, settings.segment_ms)

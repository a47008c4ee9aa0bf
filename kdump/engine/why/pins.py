"""Find the record that keeps segments from going: the one with the latest time of its segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.lookup_records import BrokerError, headers_of, records_at
from kdump.broker.segment import Segment
from kdump.errors import PathError

if TYPE_CHECKING:
    from kdump.broker.retention import SegmentFacts
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version
    from kdump.rows.why import PinnedBy
    from kdump.storage.local_log import LogSegment

#: So much of a segment is looked through for records ahead of the clock; beyond they are not told.
_MOST_BYTES = 64 << 20


class Pin(NamedTuple):
    """The record; where no record has a time, that of the file alone.

    `records_ahead` counts the records of its segment whose time is ahead of the clock; None where
    that would take reading much of it.
    """

    offset: int | None
    timestamp_ms: int
    producer_id: int | None = None
    records_ahead: int | None = None

    def member(self) -> PinnedBy:
        """The pin as a member of a row."""
        return {
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "producer_id": self.producer_id,
            "records_ahead": self.records_ahead,
        }


def read_pin(
    segment: LogSegment, facts: SegmentFacts, now_ms: int, broker: Version, settings: Settings
) -> Pin:
    """Find the record that has the largest timestamp of a segment."""
    if facts.largest_timestamp_ms < 0:
        return Pin(None, facts.modified_ms)
    pin = Pin(facts.largest_at, facts.largest_timestamp_ms)
    opened = Segment(segment.base_offset, segment.files, broker, settings, running=True)
    try:
        return _found(opened, facts, now_ms) or pin
    except (BrokerError, PathError, RefusalError, UnknowableError):
        return pin  # damage: the index says what it said
    finally:
        opened.close()


def _found(segment: Segment, facts: SegmentFacts, now_ms: int) -> Pin | None:
    latest = facts.largest_timestamp_ms
    position = segment.position_of(facts.largest_at)
    for rows in headers_of(segment, position):
        if max(rows.max_timestamps) < latest:
            continue
        row = next(row for row, time_ms in enumerate(rows.max_timestamps) if time_ms >= latest)
        producer_id = rows.producer_id(row) if rows.has_producer_fields(row) else -1
        offset = rows.last_offset(row)
        for at, time_ms in records_at(segment, rows.position(row), streaming=True):
            if time_ms == latest:
                offset = at
                break
        ahead = _records_ahead(segment, now_ms) if latest > now_ms else 0
        return Pin(offset, latest, None if producer_id < 0 else producer_id, ahead)
    return None


def _records_ahead(segment: Segment, now_ms: int) -> int | None:
    """Count records whose time is ahead; up to the last time entry before that there are none."""
    times = segment.time_index()
    slots = range(times.entries)
    ahead = next((slot for slot in slots if times.raw(slot)[0] > now_ms), len(slots))
    before = times.entry(ahead - 1).offset if ahead else segment.base_offset
    position = segment.position_of(before)
    if segment.end - position > _MOST_BYTES:
        return None
    found = 0
    for rows in headers_of(segment, position):
        for row, latest in enumerate(rows.max_timestamps):
            if latest > now_ms:
                records = records_at(segment, rows.position(row), streaming=True)
                found += sum(time_ms > now_ms for _, time_ms in records)
    return found

"""Read what retention asks of a segment, from its time index and its last batches alone.

A broker keeps the largest timestamp in memory. When a segment is closed it is the last entry of its
time index (I5); behind the last entry of the active one's are batches of which only their headers
tell. Where an index cannot be believed, all headers of that segment are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.remote_log import tier_of
from kdump.broker.retention import LogFacts, SegmentFacts
from kdump.broker.sound_start import count_written_slots, sound_start
from kdump.broker.versions import Version, has
from kdump.broker.visibility import View
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.local_log import LogSegment, with_next_base
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.places import FileStatus
    from kdump.storage.targets import Target

FROM_INDEX, FROM_LOG, FROM_FILE = "timeindex", "log", "mtime"


class Tail(NamedTuple):
    """What the headers behind the last believed index entry say; `next_offset` ends the log."""

    largest: TimestampOffset
    next_offset: int


def log_facts(target: Target, broker: Version, *, clean: bool) -> LogFacts:
    """Read the facts of a partition. `clean`: the broker stopped, and will believe its indexes."""
    log = target.log
    assert log is not None
    segments = [segment for segment in log.logs if segment.log is not None]
    facts: list[SegmentFacts] = []
    log_end = 0
    for segment, following in with_next_base(segments):
        one, next_offset = segment_facts(segment, log.statuses, broker, following, clean=clean)
        facts.append(one)
        log_end = next_offset
    view = View(target, committed=False, limit=DEFAULT_LIMIT)
    log_end = max(log_end, view.log_start)
    tier = tier_of(target)
    copied_to = None if tier is None or tier.log is None else tier.latest(log_end)[0]
    return LogFacts(tuple(facts), view.log_start, log_end, view.end, copied_to)


def segment_facts(
    segment: LogSegment,
    statuses: Mapping[str, FileStatus],
    broker: Version,
    next_base: int | None,
    *,
    clean: bool,
) -> tuple[SegmentFacts, int]:
    """Read the facts of one segment, and the offset behind it where it is the active one."""
    path = segment.log
    assert path is not None
    base = segment.base_offset
    status = statuses.get(path.rpartition("/")[2])
    size_bytes, modified_ms = 0, 0
    if status is not None and not isinstance(status, OSError):
        size_bytes, modified_ms = status.st_size, status.st_mtime_ns // 1_000_000
    by_file = SegmentFacts(base, size_bytes, -1, base, modified_ms, FROM_FILE)
    if segment.is_pre08:
        return by_file, base + size_bytes
    timed = has(broker, v.TIME_INDEX)
    largest, source = TimestampOffset(-1, base), FROM_FILE
    if timed:
        largest, believed = _last_entry(segment, next_base, clean=clean)
        source = FROM_INDEX
        if next_base is not None and (believed or not size_bytes):
            return _with(by_file, largest, source), next_base
    elif next_base is not None:
        return by_file, next_base
    tail = _tail(segment, path, next_base)
    # A broker that stopped in order will go by the index, whatever the log says.
    if timed and not (clean and believed) and tail.largest.timestamp_ms > largest.timestamp_ms:
        largest, source = tail.largest, FROM_LOG
    return _with(by_file, largest, source), tail.next_offset


def _with(facts: SegmentFacts, largest: TimestampOffset, source: str) -> SegmentFacts:
    if largest.timestamp_ms < 0:
        return facts
    return facts._replace(
        largest_timestamp_ms=largest.timestamp_ms, largest_at=largest.offset, time_source=source
    )


def _last_entry(
    segment: LogSegment, next_base: int | None, *, clean: bool
) -> tuple[TimestampOffset, bool]:
    """Give the last entry of the time index, and whether it says all there is to know.

    Behind a clean stop a broker believes the last slot as it is. Otherwise the last one written
    counts, where it can be true; a closed segment has at least one.
    """
    base = segment.base_offset
    nothing = TimestampOffset(-1, base)
    path = segment.files.get(Kind.TIME_INDEX)
    if path is None:
        return nothing, clean and Kind.OFFSET_INDEX in segment.files
    with Source(path) as source:
        index = TimeIndex(source, base, slotwise=True)
        if clean:
            return index.last_entry, True
        if not index.entries:
            return nothing, False
        last = index.last_entry
        if not _can_be(last, base, next_base) or last == (0, base):
            written = count_written_slots(index)
            if not written:
                return nothing, False
            last = index.entry(written - 1)
        if not _can_be(last, base, next_base):
            return nothing, False
        return last, True


def _can_be(entry: TimestampOffset, base: int, next_base: int | None) -> bool:
    return entry.offset >= base and (next_base is None or entry.offset < next_base)


def _tail(segment: LogSegment, path: str, next_base: int | None) -> Tail:
    """Read the headers behind the last entry of the offset index that the log bears out."""
    largest, next_offset = TimestampOffset(-1, segment.base_offset), segment.base_offset
    with Source(path) as log:
        position = sound_start(log, segment.base_offset, segment.files.get(Kind.OFFSET_INDEX))
        for rows in FileRecords(log, next_base=next_base).headers(position):
            next_offset = rows.last_offset(rows.count - 1) + 1
            latest = max(rows.max_timestamps)
            if latest > largest.timestamp_ms:
                row = list(rows.max_timestamps).index(latest)
                largest = TimestampOffset(latest, rows.last_offset(row))
    return Tail(largest, next_offset)

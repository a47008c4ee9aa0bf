"""Find where a consumer fails on a fetched batch: it verifies checksums, brokers do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords

if TYPE_CHECKING:
    from kdump.broker.partition import FetchStart, PartitionView
    from kdump.broker.segment import Segment
    from kdump.findings.finding import Finding
    from kdump.storage.offsets import ResolvedGap

#: Lookups go by these as a broker does; that offsets fall is for verify to say.
_NO_HINDRANCE = frozenset({"offset-not-rising"})


def find_served_damage(
    view: PartitionView, found: FetchStart, record: tuple[int, int] | None
) -> Iterator[Finding]:
    """Tell of damage from the first entry of a fetch up to the record that it is asked for.

    A consumer comes no further than the first of it. Where no record follows, the entry itself is
    looked at.
    """
    from kdump.storage.local_log import with_next_base

    reached = found.last_offset if record is None else max(record[0], 0)
    position, last = found.position, (found.base_offset or 0) - 1
    segments = [one for one in view.segments if one.base_offset >= found.segment]
    if reached <= found.last_offset and _is_flawless(view, segments[0], found, last):
        return
    for segment, following in with_next_base(segments):
        reported, at = _in_segment(view, segment, following, (position, last, reached))
        if reported and found.base_offset is None and segment is segments[0]:
            # The header read of a message or a wrapper does not tell where it begins.
            last = _last_before(view, segment, position)
            reported, at = _in_segment(view, segment, following, (position, last, reached))
        last = at
        yield from reported
        if reported or last >= reached:
            return
        position = 0


def _is_flawless(view: PartitionView, segment: Segment, found: FetchStart, last: int) -> bool:
    """Whether one entry has nothing wrong; for most lookups no more need be read."""
    end = found.position + found.size_bytes
    items = list(FileRecords(segment.log(), limit=view.limit).walk(found.position, end, last))
    return all(not isinstance(item, Gap) and not item.batches.flags & c.WRONG for item in items)


def _last_before(view: PartitionView, segment: Segment, position: int) -> int:
    """Find the last offset before a position, by the headers from the segment's start on."""
    last = segment.base_offset - 1
    for batches in FileRecords(segment.log(), limit=view.limit).headers(segment.start, position):
        last = max(last, batches.last_offset(batches.count - 1))
    return last


def _in_segment(
    view: PartitionView, segment: Segment, following: int | None, start: tuple[int, int, int]
) -> tuple[list[Finding], int]:
    """Walk one segment from a position and last offset on, up to the offset that is asked for.

    Return what was found, and the last offset that was reached.
    """
    from kdump.engine.reading.damage import flag_findings, gap_finding
    from kdump.engine.reading.segment_pass import SegmentPass
    from kdump.storage.offsets import Offsets, end_of

    position, last, reached = start
    source = segment.log()
    place = Place(view.target.topic, view.target.partition, segment.base_offset, segment.path)
    offsets = Offsets(last, end_of(segment.base_offset, following))
    log = SegmentPass(source, offsets, limit=view.limit, next_base=following)
    gap: Gap | None = None
    released: list[ResolvedGap] = []
    for item in log.items(position):
        released += log.take(item)
        if released:
            break
        if isinstance(item, Gap):
            gap = gap or item
        elif gap is None:
            batches = item.batches
            within = (row + 1 for row, at in enumerate(batches.last_offsets) if at >= reached)
            asked = batches.slice(0, next(within, batches.count))
            flagged = flag_findings(asked, place, last, following)
            reported = [one for one in flagged if one.code not in _NO_HINDRANCE]
            last = asked.last_offset(asked.count - 1)
            if reported or last >= reached:
                return reported, last
    if gap is None or (gap.to_end and following is None and last >= reached):
        return [], last
    released += offsets.release(following)
    return [gap_finding(released[0], place, source, active=following is None)], last

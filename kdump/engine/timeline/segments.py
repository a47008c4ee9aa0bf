"""The source of segments: rolls, gaps between them, and what the times of their files show.

Of each the first and the last header is read, and names, sizes and times of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.timeline.directories import file_event
from kdump.engine.timeline.headers import is_by_broker
from kdump.engine.timeline.raw_event import CLIENT, DERIVED, LEADER, Tie
from kdump.errors import PathError
from kdump.storage import names, places
from kdump.storage.after_damage import header_at
from kdump.storage.file_records import FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.local_log import LogSegment, with_next_base
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica
    from kdump.kernels.columns import RecordBatches

_LOOKED_AT = 256 << 10  # bytes behind the last entry of an index
#: A time of a file that lies further than this from what was last written to it is of a copy.
_LATE_MS = 60_000
_FILE_TIE = "the leader's time in a segment's last batch, and the time of a follower's file"


def segment_events(replica: Replica) -> None:
    """Hand over what the ends of segments show."""
    read = _Segments(replica)
    segments = [one for one in replica.log.logs if not one.is_pre08]
    for segment, following in with_next_base(segments):
        try:
            read.take(segment, following, is_first=segment is segments[0])
        except PathError:
            pass  # deleted meanwhile, or what verify reports


class _Segments:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._path_before = ""
        self._modified_before: int | None = None
        self._end: int | None = None  # the offset after the last one of the segment before

    def take(self, segment: LogSegment, following: int | None, *, is_first: bool) -> None:
        """Look at the first and the last batch of a segment, and at the time of its file."""
        path = str(segment.log)
        modified = self._replica.modification_ms(path)
        with Source(path) as source:
            first = header_at(source, 0)
            last = first and _last_header(source, segment, following)
        if modified is not None and last is not None:
            self._file(last, modified)
        if self._end is not None and segment.base_offset > self._end:
            self._gap(segment, self._end)
        self._end = None if last is None else last.last_offset(0) + 1
        earlier, changed = self._modified_before, self._path_before
        if modified is not None and earlier is not None and earlier > modified + _LATE_MS:
            text = f"{places.file_name(changed)} was modified after the segment that follows it"
            self._replica.take(file_event(self._replica, "file-changed", changed, text, earlier))
        if not is_first:
            self._roll(segment, first, modified)
        self._path_before, self._modified_before = path, modified

    def _file(self, last: RecordBatches, modified: int) -> None:
        """Hold the time of a file against the broker's time in its last batch."""
        item, read = self._replica.item, self._replica.read
        at_ms = last.max_timestamp(0)
        if not is_by_broker(item.topic, last, 0) or at_ms < 0:
            return
        leader = self._replica.leader(last.leader_epoch(0))
        if leader is None or item.node is None:
            return
        if leader == item.node:
            read.file_times[0] += 1
            read.file_times[1] += not -1000 <= modified - at_ms <= _LATE_MS
        else:
            read.ties.append(Tie(leader, at_ms, item.node, modified, _FILE_TIE, by_file=True))

    def _gap(self, segment: LogSegment, end: int) -> None:
        """Tell of offsets that no segment has, unless the cleaner may have removed them."""
        directory, place = LOG_DIRS.find_parent(self._replica.item.path), self._replica.event[3:5]
        if directory is not None and directory.offset(names.CLEANER_CHECKPOINT, *place) is None:
            text = f"no segment contains offsets {end:,} to {segment.base_offset - 1:,}"
            event = self._replica.event._replace(what="gap", offset=end, text=text, basis=DERIVED)
            path = str(segment.log)
            self._replica.take(event._replace(path=path, segment=segment.base_offset))

    def _roll(self, segment: LogSegment, first: RecordBatches | None, modified: int | None) -> None:
        event = self._replica.event._replace(
            what="roll",
            text=f"a segment begins at offset {segment.base_offset:,}",
            offset=segment.base_offset,
            path=str(segment.log),
            segment=segment.base_offset,
            basis=DERIVED,
        )
        if first is None:
            self._replica.take(event)
            return
        if first.base_offset(0) == segment.base_offset:
            by_broker = is_by_broker(self._replica.item.topic, first, 0)
            at_ms = first.max_timestamp(0) if by_broker else first.base_timestamp(0)
            event = event._replace(
                clock=LEADER if by_broker else CLIENT,
                clock_of=self._replica.leader(first.leader_epoch(0)) if by_broker else None,
                at_ms=None if at_ms < 0 else at_ms,
                position=0,
            )
        self._replica.take(event._replace(file_from=self._modified_before, file_to=modified))


def _last_header(
    source: Source, segment: LogSegment, following: int | None
) -> RecordBatches | None:
    """Return the header of the last batch of a segment, found by its index; None: too far away."""
    position = 0
    path = segment.files.get(names.Kind.OFFSET_INDEX)
    if path is not None:
        with Source(path) as entries:
            index = OffsetIndex(entries, segment.base_offset, slotwise=True)
            first, end = 0, index.entries  # of a file that was made at its full size, zeros follow
            while first < end:
                slot = (first + end) // 2
                first, end = (slot + 1, end) if any(index.raw(slot)) else (first, slot)
            if first:
                position = index.entry(first - 1).position
    if not 0 <= position < source.size or source.size - position > _LOOKED_AT:
        return None
    last = None
    for batches in FileRecords(source, next_base=following).headers(position):
        last = batches.slice(batches.count - 1, batches.count)
    return last

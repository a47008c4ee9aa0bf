"""The sources of partition directories: rolls, deletions, cleanings, open transactions, damage.

Of each segment the first header is read, and names, sizes and times of files. Headers of a whole
log are read only where it is small against all: see `run.py`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kdump.broker.control_batch import read_control
from kdump.engine.timeline.clocks import SET_BACK_MS
from kdump.engine.timeline.coordinators import EpochTies
from kdump.engine.timeline.happening import (
    CLIENT,
    DERIVED,
    FILE,
    INFERRED,
    LEADER,
    NO_CLOCK,
    Happening,
    Open,
    Tie,
)
from kdump.engine.timeline.metadata import Leaders
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record import control
from kdump.record.frames import Gap, Run
from kdump.record.layout import TIMESTAMP_TYPE_BIT
from kdump.replay.groups import TOPIC as GROUPS
from kdump.replay.transactions import TOPIC as TRANSACTIONS
from kdump.storage import names, places
from kdump.storage.after_damage import header_at
from kdump.storage.file_records import FileRecords, walk
from kdump.storage.index import OffsetIndex
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.source import Source

_MOST_MARKERS = 100_000
_MOST_DAMAGE = 1_000
_LOOKED_AT = 256 << 10  # bytes behind the last entry of an index
#: A CreateTime that goes back further than this had gone too far ahead.
_JUMP_MS = 600_000
#: Topics that a broker dates, and whose headers are all read.
INTERNAL = frozenset((names.CLUSTER_METADATA_TOPIC, GROUPS, TRANSACTIONS))
#: A time of a file that lies further than this from what was last written to it is of a copy.
_LATE_MS = 60_000


class Marker(NamedTuple):
    """A transaction marker, dated by the leader of its partition."""

    producer_id: int
    producer_epoch: int
    clock: int
    at_ms: int
    partition: str


class LogRead(NamedTuple):
    """What a partition's directory gives besides its events.

    `file_times` counts the files whose time could be held against their last batch, and those that
    fail; `span` are the first and the last time of its log files. `reached`, where all headers were
    read, is the epoch of the last batch and the offset behind it.
    """

    ties: tuple[Tie, ...] = ()
    markers: tuple[Marker, ...] = ()
    open_: tuple[Open, ...] = ()
    file_times: tuple[int, int] = (0, 0)
    span: tuple[int, int] | None = None
    node: int | None = None
    place: tuple[str, int] | None = None
    reached: tuple[int, int] = (-1, -1)


def log_events(
    log: LocalLog,
    topic: str,
    partition: int,
    node: int | None,
    topic_id: str | None,
    leaders: Leaders,
    take: Callable[[Happening], None],
    *,
    whole: bool,
    limit: int,
) -> LogRead:
    """Hand over the events that one replica of a partition shows; `whole`: read all headers."""
    read = _Read(log, topic, partition, node, topic_id, leaders, take)
    segments = [one for one in log.logs if not one.is_pre08]
    for (segment, following), number in zip(
        with_next_base(segments), range(len(segments)), strict=True
    ):
        try:
            read.segment(segment, following, number)
            if whole:
                read.walk(segment, following, limit)
        except PathError:
            read.lost()  # deleted meanwhile, or what verify reports
    read.checkpoints(segments[0].base_offset if segments else None, whole=whole)
    return read.done()


class _Read:
    def __init__(
        self,
        log: LocalLog,
        topic: str,
        partition: int,
        node: int | None,
        topic_id: str | None,
        leaders: Leaders,
        take: Callable[[Happening], None],
    ) -> None:
        self._log = log
        self._node = node
        self._take = take
        self._ties = EpochTies(topic, partition, topic_id, leaders)
        self._own: list[Tie] = []
        self._event = Happening(
            "", f"{topic}-{partition}", "", topic, partition, broker_id=node, node=node, about=topic
        )
        self._is_internal = topic in INTERNAL
        self._markers: deque[Marker] = deque(maxlen=_MOST_MARKERS)
        self._open: dict[int, Open] = {}
        self._holes_to = 0
        self._next: int | None = None
        self._epoch = -1  # of the last batch
        self._last_ms: tuple[int, int] | None = None
        self._modified_before: int | None = None
        self._path_before = ""
        self._end: int | None = None  # the offset after the last one of the segment before
        self._times = [0, 0]
        self._span: tuple[int, int] | None = None
        self._damaged = 0

    def segment(self, segment: LogSegment, following: int | None, number: int) -> None:
        """Look at the first and the last batch of a segment, and at the time of its file."""
        path = str(segment.log)
        modified = self._modified(path)
        with Source(path) as source:
            first = header_at(source, 0)
            last = first and _last_header(source, segment, following)
        if modified is not None and last is not None:
            self._file(last, modified)
        if self._end is not None and segment.base_offset > self._end:
            self._gap(segment, self._end)
        self._end = None if last is None else last.last_offset(0) + 1
        before = self._modified_before
        if modified is not None and before is not None and before > modified + _LATE_MS:
            text = "was modified after the segment that follows it"
            self._file_event("file-changed", self._path_before, text, before)
        self._path_before = path
        if number and first is not None:
            self._roll(segment, first, modified)
        elif number:
            self._take(self._roll_event(segment))
        self._modified_before = modified

    def _modified(self, path: str) -> int | None:
        status = self._log.statuses.get(path.rpartition("/")[2])
        if status is None or isinstance(status, OSError):
            return None
        if places.is_uri(path) or not places.keeps_times(path):
            return None
        modified = status.st_mtime_ns // 1_000_000
        low, high = self._span or (modified, modified)
        self._span = min(low, modified), max(high, modified)
        return modified

    def _file(self, last: RecordBatches, modified: int) -> None:
        """Hold the time of a file against the broker's time in its last batch."""
        at_ms = last.max_timestamp(0)
        if not self._by_broker(last, 0) or at_ms < 0:
            return
        leader = self._ties.leader(last.leader_epoch(0))
        if leader is None or self._node is None:
            return
        if leader == self._node:
            self._times[0] += 1
            self._times[1] += not -1000 <= modified - at_ms <= _LATE_MS
        else:
            why = "the leader's time in the last batch of a segment, then the time of a "
            why += "follower's file"
            self._own.append(Tie(leader, at_ms, self._node, modified, why, by_file=True))

    def _gap(self, segment: LogSegment, end: int) -> None:
        """Tell of offsets that no segment has, unless the cleaner may have removed them."""
        directory = LOG_DIRS.around(self._log.path)
        place = self._event.topic, self._event.partition
        if directory is not None and directory.offset(names.CLEANER_CHECKPOINT, *place) is None:
            text = f"no segment has the offsets {end:,} to {segment.base_offset - 1:,}"
            event = self._event._replace(what="gap", offset=end, text=text, basis=DERIVED)
            self._take(event._replace(path=str(segment.log), segment=segment.base_offset))

    def _file_event(self, what: str, path: str, text: str, at_ms: int) -> None:
        """Tell what the time of a file shows, by the clock of the broker that has it."""
        name = path.rpartition("/")[2]
        self._take(
            self._event._replace(
                what=what, text=f"{name} {text}", clock=FILE, clock_of=self._node, at_ms=at_ms,
                path=path, basis=INFERRED,
            )
        )  # fmt: skip

    def _by_broker(self, batches: RecordBatches, row: int) -> bool:
        """Whether a broker dated a batch, not a client."""
        if self._is_internal or batches.flags_of(row) & c.CONTROL:
            return True
        return bool(batches.attributes(row) & TIMESTAMP_TYPE_BIT)

    def _roll_event(self, segment: LogSegment) -> Happening:
        path = str(segment.log)
        return self._event._replace(
            what="roll",
            text=f"segment {path.rpartition('/')[2]} begins",
            offset=segment.base_offset,
            path=path,
            segment=segment.base_offset,
            basis=DERIVED,
        )

    def _roll(self, segment: LogSegment, first: RecordBatches, modified: int | None) -> None:
        by_broker = self._by_broker(first, 0)
        at_ms = first.max_timestamp(0) if by_broker else first.base_timestamp(0)
        event = self._roll_event(segment)
        if first.base_offset(0) == segment.base_offset:
            event = event._replace(
                clock=LEADER if by_broker else CLIENT,
                clock_of=self._ties.leader(first.leader_epoch(0)) if by_broker else None,
                at_ms=None if at_ms < 0 else at_ms,
                position=0,
            )
        self._take(event._replace(file_from=self._modified_before, file_to=modified))

    # All headers of a log.

    def walk(self, segment: LogSegment, following: int | None, limit: int) -> None:
        """Read all headers of a segment."""
        path = str(segment.log)
        for item in walk(path, limit=limit, next_base=following):
            if isinstance(item, Gap):
                if not (
                    item.to_end and following is None and item.reason in ("zeros", "cut-short")
                ):
                    self._damage(item, path, segment)
                self.lost()
                continue
            for row in range(item.batches.count):
                self._batch(item, row, path, segment)

    def lost(self) -> None:
        """Forget what is open: markers may have been in what cannot be read."""
        self._open.clear()

    def _batch(self, item: object, row: int, path: str, segment: LogSegment) -> None:
        batches: RecordBatches = item.batches  # type: ignore[attr-defined]
        base, last = batches.base_offset(row), batches.last_offset(row)
        if self._next is not None and base > self._next:
            self._holes_to = base
        if batches.records_count(row) not in (last - base + 1, -1):
            self._holes_to = last
        self._next, self._epoch = last + 1, batches.leader_epoch(row)
        flags, at_ms = batches.flags_of(row), batches.max_timestamp(row)
        if self._by_broker(batches, row):
            clock = self._ties.batch(batches.leader_epoch(row), at_ms)
            if self._ties.back_ms > SET_BACK_MS:
                text = f"the clock of broker {clock} was set back by {_seconds(self._ties.back_ms)}"
                self._jumped(batches, row, path, segment, text, clock)
        else:
            clock = None
            self._jump(batches, row, path, segment)
        if not batches.has_producer_fields(row):
            return
        producer = batches.producer_id(row)
        if flags & c.CONTROL:
            if isinstance(item, Run) and read_control(item, row).kind in (
                control.ABORT,
                control.COMMIT,
            ):
                self._open.pop(producer, None)
                if clock is not None:
                    epoch = batches.producer_epoch(row)
                    self._markers.append(Marker(producer, epoch, clock, at_ms, self._event.subject))
        elif flags & c.TRANSACTIONAL and producer not in self._open:
            event = self._event._replace(
                what="transaction-hangs",
                text="its first batch; no marker ends it",
                offset=base,
                epoch=batches.leader_epoch(row),
                node=None,
                broker_id=None,
                clock=CLIENT,
                at_ms=batches.base_timestamp(row),
                path=path,
                segment=segment.base_offset,
                position=batches.position(row),
                basis=DERIVED,
            )
            self._open[producer] = Open(producer, event)

    def _jump(self, batches: RecordBatches, row: int, path: str, segment: LogSegment) -> None:
        """See whether CreateTime goes far back: what came before was too far ahead."""
        at_ms, before = batches.base_timestamp(row), self._last_ms
        self._last_ms = batches.max_timestamp(row), batches.base_offset(row)
        if before is None or at_ms < 0 or before[0] - at_ms < _JUMP_MS:
            return
        text = f"CreateTime goes back by {_seconds(before[0] - at_ms)} behind offset {before[1]:,}"
        self._jumped(batches, row, path, segment, text, None)

    def _jumped(
        self,
        batches: RecordBatches,
        row: int,
        path: str,
        segment: LogSegment,
        text: str,
        broker: int | None,
    ) -> None:
        self._take(
            self._event._replace(
                what="time-jump",
                text=text,
                offset=batches.base_offset(row),
                epoch=batches.leader_epoch(row),
                node=None,
                broker_id=broker,
                clock=CLIENT if broker is None else LEADER,
                clock_of=broker,
                at_ms=batches.base_timestamp(row),
                path=path,
                segment=segment.base_offset,
                position=batches.position(row),
            )
        )

    def _damage(self, gap: Gap, path: str, segment: LogSegment) -> None:
        self._damaged += 1
        if self._damaged > _MOST_DAMAGE:
            return
        offset = self._next
        if offset is None:
            offset = segment.base_offset
        if gap.header is not None and gap.header.base_offset(0) >= offset:
            offset = gap.header.base_offset(0)
        text = f"{gap.size_bytes:,} bytes at position {gap.position:,} hold no usable batch"
        self._take(
            self._event._replace(
                what="damage",
                text=f"{text} ({gap.reason})",
                offset=offset,
                path=path,
                segment=segment.base_offset,
                position=gap.position,
                clock=NO_CLOCK,
            )
        )

    # What checkpoints say.

    def checkpoints(self, first: int | None, *, whole: bool) -> None:
        """Tell from checkpoints and the first segment what was deleted and cleaned."""
        path = os.path.join(self._log.path, names.PARTITION_METADATA)
        if (made := self._modified(path)) is not None:
            self._file_event("file-created", path, "was written: the replica began here", made)
        directory = LOG_DIRS.around(self._log.path)
        place = self._event.topic, self._event.partition
        start = directory.offset(names.LOG_START_CHECKPOINT, *place) if directory else None
        if first is not None and start is not None and start > first:
            text = f"records below offset {start:,} were deleted on request"
            self._checkpoint("delete", start, text, names.LOG_START_CHECKPOINT, DERIVED)
        elif first:
            text = f"segments below offset {first:,} are gone"
            event = self._event._replace(what="retention", offset=first, text=text)
            self._take(event._replace(path=self._log.path, segment=first, basis=INFERRED))
        cleaned = directory.offset(names.CLEANER_CHECKPOINT, *place) if directory else None
        if cleaned and (self._holes_to and whole):
            text = f"cleaned up to offset {cleaned:,}: fewer records than offsets lie below"
            self._checkpoint("clean", cleaned, text, names.CLEANER_CHECKPOINT, DERIVED)

    def _checkpoint(self, what: str, offset: int, text: str, name: str, basis: str) -> None:
        path = os.path.join(places.parent(self._log.path), name)
        self._take(
            self._event._replace(what=what, offset=offset, text=text, path=path, basis=basis)
        )

    def done(self) -> LogRead:
        """Return the result."""
        return LogRead(
            (*self._ties.found, *self._own),
            tuple(self._markers),
            tuple(self._open.values()),
            (self._times[0], self._times[1]),
            self._span,
            self._node,
            (str(self._event.topic), self._event.partition or 0),
            (self._epoch, -1 if self._next is None else self._next),
        )


def _seconds(ms: int) -> str:
    return f"{ms // 1000:,} s"


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

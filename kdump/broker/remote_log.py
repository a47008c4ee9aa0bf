"""The remote log of a partition: which segments a broker finds in it, for which offsets (W1).

A `RemoteLog` is what records of `__remote_log_metadata` add up to, kept as a broker keeps it: of
each leader epoch the segments by their first offset there. A `Tier` is a tiered partition as a
broker has it: that, and its own leader epochs and log start offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kdump.broker import versions as v
from kdump.broker.versions import Version, has
from kdump.storage.checkpoints import EpochStart
from kdump.storage.local_log import LogSegment
from kdump.storage.names import Kind
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.targets import Target

COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)
#: The states of a remote segment by their number in records.
STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
#: The states that may follow; one that does not is dropped (W2).
_FOLLOWING = {
    COPY_STARTED: {COPY_STARTED, COPY_FINISHED, DELETE_STARTED},
    COPY_FINISHED: {COPY_FINISHED, DELETE_STARTED},
    DELETE_STARTED: {DELETE_STARTED, DELETE_FINISHED},
}


class RemoteSegment(NamedTuple):
    """A segment that was uploaded, or is to be, as its metadata records describe it."""

    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    leader_epochs: tuple[EpochStart, ...]
    state: int = COPY_STARTED
    event_ms: int = -1
    has_aborts: bool | None = None  # whether it has a transaction index; None: not known

    def last_offset_in(self, epoch: int) -> int:
        """Its last offset of a leader epoch: before the next epoch in it, or its end."""
        later = [one for one in self.leader_epochs if one.epoch > epoch]
        return min(later).start_offset - 1 if later else self.end_offset


class _EpochSegments:
    """The segments of one leader epoch: by first offset those that are found, and all others."""

    def __init__(self) -> None:
        self.by_offset: dict[int, str] = {}
        self.starts: list[int] = []  # of those, rising
        self.others: dict[str, None] = {}
        self.highest: int | None = None

    def finish(self, start: int, segment_id: str, end: int) -> None:
        """Add a finished copy; it replaces those that begin no lower and end no higher (W3)."""
        highest = self.highest
        while self.starts and self.starts[-1] >= start and highest is not None and highest <= end:
            self.others[self.by_offset.pop(self.starts.pop())] = None
        if start not in self.by_offset:
            insort(self.starts, start)
        self.by_offset[start] = segment_id
        self.others.pop(segment_id, None)
        self.highest = end if highest is None else max(highest, end)

    def delete(self, start: int, segment_id: str) -> None:
        """Stop finding a segment, which is about to be deleted."""
        if self.by_offset.get(start) == segment_id:
            del self.by_offset[start]
            del self.starts[bisect_left(self.starts, start)]
        self.others[segment_id] = None

    def floor(self, offset: int) -> str | None:
        """Return the id of the last segment that begins at or below an offset."""
        number = bisect_right(self.starts, offset)
        return self.by_offset[self.starts[number - 1]] if number else None


class RemoteLog:
    """What the metadata records of one partition add up to (W2, W3).

    `segments` are those that are not deleted, by id; `deleted` are the ids of the others. `problem`
    says why a broker does not learn of all of them, and serves none.
    """

    def __init__(self) -> None:
        self.segments: dict[str, RemoteSegment] = {}
        self.deleted: dict[str, RemoteSegment] = {}
        self.problem: str | None = None
        self._epochs: dict[int, _EpochSegments] = {}

    def add(self, segment: RemoteSegment) -> None:
        """Take up the record that begins a copy."""
        known = self.segments.get(segment.segment_id)
        if segment.state != COPY_STARTED or (known is not None and known.state != COPY_STARTED):
            return
        for epoch, _ in segment.leader_epochs:
            self._of(epoch).others[segment.segment_id] = None
        self.segments[segment.segment_id] = segment

    def update(self, segment_id: str, state: int, event_ms: int) -> None:
        """Take up a record that changes a segment's state; without the first it is dropped."""
        known = self.segments.get(segment_id)
        if known is None or state not in _FOLLOWING[known.state] or state == COPY_STARTED:
            return
        segment = known._replace(state=state, event_ms=event_ms)
        for epoch, start in segment.leader_epochs:
            kept = self._of(epoch)
            if state == COPY_FINISHED:
                kept.finish(start, segment_id, segment.last_offset_in(epoch))
            elif state == DELETE_STARTED:
                kept.delete(start, segment_id)
            else:
                kept.others.pop(segment_id, None)
        if state == DELETE_FINISHED:
            self.deleted[segment_id] = segment
            del self.segments[segment_id]
        else:
            self.segments[segment_id] = segment

    def _of(self, epoch: int) -> _EpochSegments:
        return self._epochs.setdefault(epoch, _EpochSegments())

    def segment_at(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the segment that a broker reads an offset of a leader epoch from (W4)."""
        kept = self._epochs.get(epoch)
        floor = None if kept is None else kept.floor(offset)
        if floor is None:
            return None
        segment = self.segments[floor]
        return segment if offset <= segment.last_offset_in(epoch) else None

    def in_epoch(self, epoch: int) -> list[RemoteSegment]:
        """Return all segments of a leader epoch, of any state, by their start offsets."""
        kept = self._epochs.get(epoch)
        ids = [] if kept is None else [*kept.by_offset.values(), *kept.others]
        return sorted((self.segments[one] for one in ids), key=lambda one: one.start_offset)

    def highest(self, epoch: int) -> int | None:
        """Return the highest offset of a leader epoch that was ever copied."""
        kept = self._epochs.get(epoch)
        return None if kept is None else kept.highest

    def reachable_ids(self) -> frozenset[str]:
        """Return the ids of the segments that some offset leads to."""
        return frozenset(one for kept in self._epochs.values() for one in kept.by_offset.values())

    def starts(self) -> list[int]:
        """Return the offsets at which the segments of some leader epoch begin, rising."""
        return sorted({start for kept in self._epochs.values() for start in kept.starts})


class Objects(Protocol):
    """The objects of a partition in remote storage."""

    def files(self, segment_id: str) -> Mapping[Kind, str] | None:
        """Return the paths of a segment's files; None where none of its objects is there."""


def tier_of(target: Target) -> Tier | None:
    """Return what makes a partition tiered; None for one that is not."""
    return target.tier if isinstance(target.tier, Tier) else None


class Piece(NamedTuple):
    """A range of offsets, both inclusive, that a broker reads from one remote segment."""

    first: int
    last: int
    segment: RemoteSegment


class Tier:
    """A tiered partition as a broker has it that leads it.

    `log` is None where no metadata of remote segments is at hand. `checkpoint` is the log start
    offset as it was checkpointed, None for none; `first_base` the base of the first local segment.
    `copies` is False where nothing was copied since the broker started.
    """

    def __init__(
        self,
        log: RemoteLog | None,
        epochs: list[EpochStart],
        checkpoint: int | None,
        first_base: int,
        *,
        copies: bool = True,
        objects: Objects | None = None,
        topic_id: str | None = None,
    ) -> None:
        self.log = log
        self.epochs = epochs
        self.first_base = first_base
        self.copies = copies
        self.objects = objects
        self.topic_id = topic_id
        self.log_start = self._log_start(checkpoint)
        self.local_start = max(self.log_start, first_base)

    @property
    def problem(self) -> str | None:
        """Why a broker serves nothing of the remote log; None where it does."""
        return None if self.log is None else self.log.problem

    def _log_start(self, checkpoint: int | None) -> int:
        """The checkpointed log start, or where the first remote segment begins above it (W6)."""
        if self.log is None or not self.copies or self.problem is not None:
            return self.first_base if checkpoint is None else checkpoint
        for epoch, _ in self.epochs:
            if listed := self.log.in_epoch(epoch):
                return max(checkpoint or 0, listed[0].start_offset)
        return max(checkpoint or 0, self.first_base)

    def epoch_at(self, offset: int) -> int | None:
        """Return the leader epoch that an offset is of, by the checkpoint of epochs."""
        number = bisect_right(self.epochs, offset, key=lambda one: one.start_offset) - 1
        return self.epochs[number].epoch if number >= 0 else None

    def segment_at(self, offset: int) -> RemoteSegment | None:
        """Return the segment that an offset is read from; None: it is out of range (W4)."""
        epoch = self.epoch_at(offset)
        if self.log is None or epoch is None:
            return None
        return self.log.segment_at(epoch, offset)

    def reads(self, segment: RemoteSegment) -> bool:
        """Whether some offset from the log start on is read from a segment, if not locally (W4)."""
        own = dict(segment.leader_epochs)
        for number, (epoch, start) in enumerate(self.epochs):
            if epoch not in own:
                continue
            first, last = max(start, own[epoch], self.log_start), segment.last_offset_in(epoch)
            if number + 1 < len(self.epochs):
                last = min(last, self.epochs[number + 1].start_offset - 1)
            if first <= last and self.log and self.log.segment_at(epoch, first) == segment:
                return True
        return False

    def pieces(self) -> Iterator[Piece]:
        """Yield what is read from where, from the log start to the local log; gaps are left out."""
        offset = self.log_start
        starts = self.log.starts() if self.log else []
        starts = sorted({*starts, *(one.start_offset for one in self.epochs)})
        while offset < self.local_start:
            segment = self.segment_at(offset)
            if segment is None:
                number = bisect_right(starts, offset)
                if number == len(starts):
                    return
                offset = starts[number]
                continue
            last = segment.last_offset_in(self.epoch_at(offset) or 0)
            while last < segment.end_offset and self.segment_at(last + 1) == segment:
                last = segment.last_offset_in(self.epoch_at(last + 1) or 0)
            yield Piece(offset, min(last, self.local_start - 1), segment)
            offset = last + 1

    def local_files(self) -> list[LogSegment]:
        """Return the objects of the segments that are read, as those of a log on disk."""
        found = {piece.segment.segment_id: piece.segment for piece in self.pieces()}
        if self.objects is None:
            return []
        return [
            LogSegment(one.start_offset, dict(self.objects.files(one.segment_id) or {}))
            for one in found.values()
        ]

    def latest(self, log_end: int) -> tuple[int, int | None]:
        """Return the highest offset copied, -1 for none, and its leader epoch (W7)."""
        if self.log is None or not self.copies or self.problem is not None:
            return -1, None
        for number in range(len(self.epochs) - 1, -1, -1):
            epoch = self.epochs[number].epoch
            highest = self.log.highest(epoch)
            if highest is not None:
                behind = self.epochs[number + 1 :]
                end = behind[0].start_offset if behind else log_end
                found = min(highest, end - 1)
                return found, self.epoch_at(found)
        return -1, None

    def segments_for_time(
        self, time_ms: int, log_end: int, broker: Version
    ) -> Iterator[RemoteSegment]:
        """Yield the remote segments in which a broker may look a time up, in its order (W5)."""
        first = self.epoch_at(self.log_start)
        lineage = with_messages(self.epochs)
        for epoch, _ in self.epochs if first is not None and self.log is not None else ():
            if first is None or epoch < first or self.log is None:
                continue
            for segment in self.log.in_epoch(epoch):
                finished = segment.state == COPY_FINISHED
                if (
                    segment.max_timestamp_ms >= time_ms
                    and segment.end_offset >= self.log_start
                    and is_within(segment, log_end, lineage)
                    and (finished or not has(broker, v.REMOTE_STATE_CHECKED))
                ):
                    yield segment


def with_messages(epochs: list[EpochStart]) -> dict[int, int]:
    """Return the starts of leader epochs without those that a later one replaces at once."""
    following = [one.start_offset for one in epochs[1:]]
    kept = zip(epochs, [*following, None], strict=True)
    return {one.epoch: one.start_offset for one, after in kept if one.start_offset != after}


def is_within(segment: RemoteSegment, log_end: int, lineage: Mapping[int, int]) -> bool:
    """Whether a remote segment is of this log, by the leader epochs of both (W8)."""
    own = with_messages(list(segment.leader_epochs))
    if not own or not lineage or segment.end_offset >= log_end:
        return False
    rising = sorted(lineage)
    last, lowest = max(own), rising[0]
    if not lowest <= last <= rising[-1]:
        return False
    first = min(epoch for epoch in own if epoch >= lowest)
    for epoch in sorted(own):
        if epoch < first:
            continue
        if epoch not in lineage:
            return False
        if epoch == first and epoch > lowest and own[epoch] < lineage[epoch]:
            return False
        after = next(((one, lineage[one]) for one in rising if one > epoch), None)
        if epoch == last:
            if after is not None and segment.end_offset > after[1] - 1:
                return False
        elif after != next((one, own[one]) for one in sorted(own) if one > epoch):
            return False
    return True

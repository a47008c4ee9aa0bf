"""Say as the log cleaner does how much of a log is dirty, and whether it would be cleaned (K4).

All of it follows from the checkpoint, the last stable offset and a few facts of each segment; no
log is walked. A partition that is named at the moment of a choice is taken for the only one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError
from kdump.storage import names
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.partition import PartitionView
    from kdump.broker.retention import LogFacts
    from kdump.broker.segment import Segment
    from kdump.broker.settings import Settings

# What keeps a dirty part from being cleaned.
OPEN_TRANSACTION, LAG, ACTIVE_SEGMENT = "open-transaction", "lag", "active-segment"
CORRUPT_BATCH, NONE = "corrupt-batch", "none"


class Facts(NamedTuple):
    """What the cleaner asks of a segment; the largest timestamp is its file's where it has none.

    `first_timestamp_ms` is the largest of the first batch, -1 without one.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    first_timestamp_ms: int


class Choice(NamedTuple):
    """What the cleaner makes of a log at one moment.

    `forced`: the checkpoint did not fit the log, and is set anew. A round goes up to `end_offset`,
    where a segment begins. `cleanable`: it would be cleaned now. `by_age`: for
    `max.compaction.lag.ms` alone it would be, at any ratio.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    end_offset: int
    forced: bool
    clean_bytes: int
    dirty_bytes: int
    cleanable: bool
    by_age: bool

    @property
    def dirty_ratio(self) -> float:
        """How much of what could be cleaned is dirty; 0 where there is nothing."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class CleanerLog(NamedTuple):
    """A log as the cleaner sees it; the last of `segments` is the active one.

    `corrupt` is the segment whose first batch the cleaner cannot read, with the exception's words.
    """

    segments: Sequence[Facts]
    checkpoint: int | None
    log_start: int
    log_end: int
    last_stable_offset: int
    corrupt: tuple[int, str] | None = None

    def first_dirty(self) -> tuple[int, bool]:
        """Where cleaning goes on, and whether the checkpoint does not fit the log."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return self.log_start, False
        if self.log_start <= checkpoint <= self.log_end:
            return checkpoint, False
        return self.log_start, True

    def segments_from(self, offset: int) -> Sequence[Facts]:
        """The segments from the one with an offset on that are not the active one."""
        if not self.segments or offset > self.segments[-1].base_offset:
            return ()
        return self.segments[max(0, _floor(self.segments, offset)) : -1]

    def young_from(self, settings: Settings, now_ms: int) -> int | None:
        """The base of the first dirty segment that `min.compaction.lag.ms` holds back, if any."""
        lag = settings.min_compaction_lag_ms
        if lag <= 0:
            return None
        closed = self.segments_from(self.first_dirty()[0])
        young = (one for one in closed if one.largest_timestamp_ms > now_ms - lag)
        return next((one.base_offset for one in young), None)

    def choice(self, settings: Settings, now_ms: int) -> Choice:
        """Choose as the cleaner does at a moment (K4)."""
        first, forced = self.first_dirty()
        if not self.segments:
            return Choice(first, first, first, forced, 0, 0, cleanable=False, by_age=False)
        bounds = [self.last_stable_offset, self.segments[-1].base_offset]
        young = self.young_from(settings, now_ms)
        uncleanable = max(first, min(bounds if young is None else [*bounds, young]))
        beyond = self.segments_from(uncleanable)
        end = (beyond[0] if beyond else self.segments[-1]).base_offset
        clean = sum(one.size_bytes for one in self.segments if one.base_offset < first)
        dirty = sum(one.size_bytes for one in self.segments_between(first, end))
        oldest = self._oldest(first)
        late = oldest is not None and oldest < now_ms - settings.max_compaction_lag_ms
        choice = Choice(
            first,
            uncleanable,
            end,
            forced,
            clean,
            dirty,
            cleanable=False,
            by_age=late and dirty > 0,
        )
        by_ratio = choice.dirty_ratio > settings.min_cleanable_dirty_ratio
        sound = self.corrupt is None
        return choice._replace(cleanable=sound and (by_ratio or choice.by_age))

    def segments_between(self, first: int, end: int) -> Sequence[Facts]:
        """The segments from the one with offset `first` on that begin below `end`."""
        if first >= end:
            return ()
        start = max(0, _floor(self.segments, first))
        return [one for one in self.segments[start:] if one.base_offset < end]

    def _oldest(self, first: int) -> int | None:
        stamps = [one.first_timestamp_ms for one in self.segments_from(first)]
        return min((stamp for stamp in stamps if stamp > 0), default=None)

    def due_ms(self, settings: Settings, now_ms: int) -> int | None:
        """When the log will be cleaned as it lies; None where time alone does not bring that."""
        moments = {now_ms}
        first, _ = self.first_dirty()
        oldest = self._oldest(first)
        if oldest is not None:
            moments.add(oldest + settings.max_compaction_lag_ms + 1)
        for one in self.segments_from(first) if settings.min_compaction_lag_ms > 0 else ():
            moments.add(one.largest_timestamp_ms + settings.min_compaction_lag_ms)
        later = sorted(moment for moment in moments if now_ms <= moment <= _FAR_MS)
        # What time does is only to let more be cleaned, so what is cleanable stays so.
        at = bisect_left(later, True, key=lambda moment: self.choice(settings, moment).cleanable)
        return later[at] if at < len(later) else None

    def find_block(self, settings: Settings, now_ms: int) -> str:
        """Name what keeps the log from being cleaned now; `none` also where too little is dirty."""
        if self.corrupt is not None:
            return CORRUPT_BATCH
        if not self.segments or self.choice(settings, now_ms).cleanable:
            return NONE
        active = self.segments[-1]
        all_closed = self._replace(
            segments=[*self.segments, Facts(self.log_end, 0, -1, -1)],
            last_stable_offset=self.log_end,
        )
        if not all_closed.choice(settings._replace(min_compaction_lag_ms=0), now_ms).cleanable:
            return NONE
        young = self.young_from(settings, now_ms)
        if self.last_stable_offset < (active.base_offset if young is None else young):
            return OPEN_TRANSACTION
        return ACTIVE_SEGMENT if young is None else LAG


_FAR_MS = (1 << 63) - 1


def _floor(segments: Sequence[Facts], offset: int) -> int:
    return bisect_right(segments, offset, key=attrgetter("base_offset")) - 1


def cleaner_log(partition: PartitionView, log: LogFacts) -> CleanerLog:
    """Take what the cleaner asks for from a partition that is read as it lies and for committed
    data; of the closed dirty segments the first header is read."""
    target, directory = partition.target, partition.view.directory
    checkpoint = None
    if directory is not None:
        checkpoint = directory.offset(names.CLEANER_CHECKPOINT, target.topic, target.partition)
    stable = partition.visible_below(log.log_end)
    facts = [Facts(one.base_offset, one.size_bytes, one.time_ms, -1) for one in log.segments]
    found = CleanerLog(facts, checkpoint, log.log_start, log.log_end, stable)
    first = len(facts) - 1 - len(found.segments_from(found.first_dirty()[0]))
    for number in range(first, len(facts) - 1):
        segment = partition.segments[number]
        try:
            facts[number] = facts[number]._replace(first_timestamp_ms=_first_timestamp(segment))
        except RefusalError as error:
            return found._replace(corrupt=(segment.base_offset, str(error)))
    return found


def _first_timestamp(segment: Segment) -> int:
    with segment.entries() as entries:
        for rows in entries.as_is(segment.start):
            return rows.max_timestamp(0)
    return -1

"""Decide which offsets of a log to believe: their neighbours tell, no checksum covers them.

An offset is believed where it rises above those before it, lies within its segment, and is not
given the lie by what follows: where offsets go on below it, it was the one too high. So nothing
that is said of a gap, how many records are lost and where to read on, rests on one batch's word.
A jump alone is no lie, for compaction leaves gaps in the offsets.

`believed` cannot serve here: it judges at once, which a search has to, and so may be wrong for a
while; what is said of a gap waits for what follows, and takes back what that gives the lie.

What one segment's offsets may be, and what bears a base offset out, which no checksum covers,
both go by: the search behind damage (`believed`) and what is said of losses here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.record.layout import MAX_INT32
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap


#: What an index entry can hold, relative to its segment; brokers roll a segment before that.
RELATIVE_MAX = MAX_INT32
RELATIVE_OFFSETS = RELATIVE_MAX + 1  # so many offsets an index of a segment can name


def end_of(base_offset: int | None, next_base: int | None) -> int:
    """The offset that no batch of a segment reaches; `next_base` None: it is the newest.

    That a segment which is not the newest holds no more than its index can is not asked: cleaners
    of old once joined segments further apart. `base_offset` None: a metadata snapshot, from 0 on.
    """
    if next_base is not None:
        return next_base
    return min((base_offset or 0) + RELATIVE_OFFSETS, OFFSET_MAX)


def joins_on(last_offset: int, first_offset: int) -> bool:
    """Whether an entry goes on just where the one before ends: then not both are wrong."""
    return first_offset == last_offset + 1


#: So many batches in a row may have offsets that are too high and be found out by what follows.
ASTRAY_IN_A_ROW = 3
#: Of a wrapper: gzip makes one byte of 1,032, and a message takes 26.
MESSAGES_A_BYTE = 40
_HELD = 16  # gaps that wait at one time


class ResolvedGap(NamedTuple):
    """A gap, now that it is known where offsets go on.

    `last_offset` is the last believed before it, `next_offset` the first believed behind it, None
    where nothing follows; `spared` offsets between the two belong to batches whose records can be
    read, though what these say of their own offsets cannot be right. No offset reaches `end`.
    """

    gap: Gap
    last_offset: int
    next_offset: int | None
    spared: int
    end: int


class _Row(NamedTuple):
    """A batch: `first` exactly, as far as it is known; `span` 0: not known."""

    first: int
    last: int
    span: int
    wrapper: bool


class _Jump(NamedTuple):
    """A believed batch that does not join on to the offset `before` it."""

    before: int
    row: _Row


class _PendingGap:
    """A gap that waits for its next good offset; `rows` are the believed ones behind it."""

    def __init__(self, gap: Gap, last_offset: int, spared: int, end: int) -> None:
        self.gap = gap
        self.end = end
        self.last_offset = last_offset
        self.spared = spared
        self.following: _Row | None = None
        self.rows = 0

    def release(self, next_offset: int | None) -> ResolvedGap:
        if self.following is not None:
            next_offset = self.following.first
        return ResolvedGap(self.gap, self.last_offset, next_offset, self.spared, self.end)


class Offsets:
    """Follows the offsets of one segment, and holds its gaps until it is sure where they end.

    `last` is the last believed offset so far, `end` what none of the segment reaches.
    """

    def __init__(self, last: int, end: int) -> None:
        self.last = last
        self.end = end
        self._jumps: list[_Jump] = []  # the last believed batches, which may yet prove too high
        self._below: list[_Row] = []  # batches not believed, that rise among themselves
        self._held: list[_PendingGap] = []
        self._spared = 0  # offsets of batches that were not believed, since the last that was
        self._recent: RecordBatches | None = None  # believed as a whole, the last rows as jumps too

    @property
    def has_gap(self) -> bool:
        """Whether a gap waits."""
        return bool(self._held)

    def add_gap(self, gap: Gap) -> Iterator[ResolvedGap]:
        """Take up a gap; where too many wait the first is let go."""
        self._look_back()
        self._release_rejected()
        if len(self._held) >= _HELD:
            yield self._held.pop(0).release(None)
        self._held.append(_PendingGap(gap, self.last, self._spared, self.end))

    def take(
        self, batches: RecordBatches, first_of: Callable[[int], int] | None = None
    ) -> Iterator[ResolvedGap]:
        """Follow some batches, and yield the gaps of which is known now where they end.

        `first_of` gives the first offset of a row exactly, where a header does not say it.
        """
        count = batches.count
        if not self._held and count > ASTRAY_IN_A_ROW and self._rises(batches):
            self.last = batches.last_offset(count - 1)
            self._recent = batches
            self._below.clear()
            self._spared = 0
            return
        self._look_back()
        for row in range(count):
            self._take(_row(batches, row, first_of if self._held else None))
            while self._held and self._held[0].rows > ASTRAY_IN_A_ROW:
                yield self._held.pop(0).release(None)

    def follow(self, batches: RecordBatches) -> None:
        """Follow some batches where no gap waits, or nothing is to be said of one."""
        for _ in self.take(batches):
            pass

    def release(self, next_offset: int | None) -> Iterator[ResolvedGap]:
        """Yield the gaps that still wait; what follows the log begins at `next_offset`."""
        self._release_rejected()
        while self._held:
            yield self._held.pop(0).release(next_offset)

    def believes(self, first: int, last: int) -> bool:
        """Whether a batch may follow what was believed so far."""
        return self.last < first <= last < self.end

    def _rises(self, batches: RecordBatches) -> bool:
        if batches.flags & c.OFFSET_NOT_RISING or batches.known_offset(0) <= self.last:
            return False
        return batches.last_offset(batches.count - 1) < self.end

    def _look_back(self) -> None:
        """Take the last rows of what was believed as a whole: they alone can yet be found out."""
        batches, self._recent = self._recent, None
        if batches is None:
            return
        start = batches.count - ASTRAY_IN_A_ROW
        self.last = batches.last_offset(start - 1)
        self._jumps.clear()
        for row in range(start, batches.count):
            self._believe(_row(batches, row, None))

    def _take(self, row: _Row) -> None:
        if self.believes(row.first, row.last):
            self._release_rejected()
            self._believe(row)
            return
        if self._below and row.first <= self._below[-1].last:
            self._release_rejected()
        self._below.append(row)
        if row.first <= row.last < self.end:
            self._take_back()
        if len(self._below) > ASTRAY_IN_A_ROW:
            self._release_rejected()

    def _believe(self, row: _Row) -> None:
        joined = joins_on(self.last, row.first) and not row.wrapper
        if joined:
            self._jumps.clear()  # two that join on to each other are not both wrong
        else:
            self._jumps = [*self._jumps[1 - ASTRAY_IN_A_ROW :], _Jump(self.last, row)]
        for held in self._held:
            if held.following is None:
                held.following = row
            elif joined:
                held.rows = ASTRAY_IN_A_ROW
            held.rows += 1
        self.last, self._spared = row.last, 0

    def _take_back(self) -> None:
        """Believe no more what was too high, once no fewer batches show that it was."""
        for number, jump in enumerate(self._jumps):
            too_high = self._jumps[number:]
            if jump.before >= self._below[0].first or len(too_high) > len(self._below):
                continue
            self.last = jump.before
            spared = sum(each.row.span for each in too_high)
            for held in self._held:
                if held.last_offset > self.last:
                    held.last_offset = self.last
                    held.spared += spared
                elif held.following is not None and held.following.last > self.last:
                    held.following, held.rows = None, 0
                    held.spared += spared
            del self._jumps[number:]
            below, self._below = self._below, []
            for row in below:
                self._believe(row)
            return

    def _release_rejected(self) -> None:
        """What was not believed stays so, but its records can be read."""
        spared = sum(row.span for row in self._below)
        for held in self._held:
            if held.following is None:
                held.spared += spared
        self._spared += spared
        self._below.clear()


def _row(batches: RecordBatches, row: int, first_of: Callable[[int], int] | None) -> _Row:
    first, last = batches.known_offset(row), batches.last_offset(row)
    if not batches.flags_of(row) & c.WRAPPER:
        return _Row(first, last, max(last - first + 1, 0), wrapper=False)
    exact = first if first_of is None else first_of(row)
    return _Row(exact if 0 <= exact <= last else first, last, 0, wrapper=True)

"""Read the replicas of one partition side by side, in the order of their offsets.

Where all have the same headers (offsets, size, checksum, leader epoch), whole stretches of columns
are compared at once and nothing is opened: a checksum stands for the bytes below it. Where they
have not, the least run of batches that overlap each other is handed on to be compared record by
record. Held of each log is one block of headers, however far apart the logs are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kdump.engine.compare.replica import Block, Replica, UnusableRange, first_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.findings.rows import Place
    from kdump.kernels.columns import RecordBatches

#: Batches of one replica that are compared with others at once; more are cut off.
_CLUSTER_BATCHES = 4096


class Entry(NamedTuple):
    """One batch of a replica."""

    place: Place
    batches: RecordBatches
    row: int
    first: int  # at the earliest, for a wrapper
    holes: tuple[UnusableRange, ...] = ()  # between it and the batch before

    @property
    def last(self) -> int:
        """Its last offset, as the header says."""
        return self.batches.last_offset(self.row)

    @property
    def identity(self) -> tuple[int, ...]:
        """What tells it from others."""
        return (*self.without_epoch, self.leader_epoch)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch under which it was appended."""
        return self.batches.leader_epoch(self.row)

    @property
    def without_epoch(self) -> tuple[int, ...]:
        """What tells it from others, but for the leader epoch."""
        one, row = self.batches, self.row
        # The size: two checksums of other lengths may well be equal.
        return (
            one.last_offset(row), one.crc(row), one.size_bytes(row), one.base_offset(row),
            one.layout(row),
        )  # fmt: skip


class Absence(NamedTuple):
    """Why a replica has nothing at some offsets: `why` is one of the words below."""

    cursor: Cursor
    why: str


START, END, HOLE, INSIDE = "start", "end", "hole", "inside"


class Cursor:
    """How far one replica was read.

    `holes` are those between the batch before and the one at hand; `told` says that what lies in
    them was accounted for.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.holes: list[UnusableRange] = []
        self.told = False
        self.done = False
        self.last_offset = replica.start - 1
        self._items: Iterator[Block | UnusableRange] = replica.blocks()
        self._place: Place | None = None
        self._batches: RecordBatches | None = None
        self._row = 0
        if replica.segments:
            self.last_offset = replica.segments[0].base_offset - 1

    def fill(self) -> bool:
        """Make sure that there is a batch at hand; False at the end of the log."""
        while self._batches is None and not self.done:
            item = next(self._items, None)
            if item is None:
                self.done = True
            elif isinstance(item, UnusableRange):
                self.holes.append(item)
            else:
                self._place, self._batches, self._row = item.place, item.batches, 0
        return not self.done

    @property
    def first(self) -> int:
        """The first offset of the batch at hand."""
        assert self._batches is not None
        return first_offset(self._batches, self._row, self.last_offset)

    @property
    def at_hand(self) -> tuple[RecordBatches, int]:
        """The block at hand, and the row in it."""
        assert self._batches is not None
        return self._batches, self._row

    def entry(self) -> Entry:
        """Return the batch at hand."""
        assert self._batches is not None
        assert self._place is not None
        return Entry(self._place, self._batches, self._row, self.first, tuple(self.holes))

    def below(self, bound: int | None) -> int:
        """Count the batches of this block that end below an offset."""
        assert self._batches is not None
        if bound is None:
            return self._batches.count - self._row
        lasts = self._batches.last_offsets
        return bisect_left(lasts, bound, self._row) - self._row

    def take(self, count: int) -> None:
        """Go past some batches of this block."""
        assert self._batches is not None
        self._row += count
        self.last_offset = self._batches.last_offset(self._row - 1)
        self.holes, self.told = [], False
        if self._row == self._batches.count:
            self._batches = None

    def absent(self, first: int) -> Absence:
        """Say why there is nothing at an offset before the batch at hand."""
        replica = self.replica
        if first < replica.start:
            return Absence(self, START)
        if self.done and first >= replica.end:
            return Absence(self, END)
        return Absence(self, HOLE if self.holes else INSIDE)


class Listener(Protocol):
    """Who takes what a walk finds, in the order of the offsets."""

    def equal(self) -> None:
        """Some batches are the same in all replicas."""

    def only(self, present: Sequence[Cursor], count: int, absences: Sequence[Absence]) -> None:
        """The next `count` batches are in these replicas, and in the others are none."""

    def cluster(
        self, present: Sequence[tuple[Cursor, list[Entry]]], absences: Sequence[Absence]
    ) -> None:
        """These batches overlap each other, and are not the same."""

    def passed(self, cursor: Cursor) -> None:
        """A replica is about to leave its holes behind, or has ended with some."""


def walk(cursors: Sequence[Cursor], listener: Listener) -> None:
    """Read all logs to their ends."""
    while True:
        live = [cursor for cursor in cursors if cursor.fill()]
        if not live:
            break
        first = min(cursor.first for cursor in live)
        group = [cursor for cursor in live if cursor.first == first]
        absences = [cursor.absent(first) for cursor in cursors if cursor not in group]
        bound = _bound(first, group, live, absences)
        count = min(cursor.below(bound) for cursor in group)
        if len(group) > 1:
            count = _same(group, count)
        if not count:
            _cluster(cursors, live, first, listener)
            continue
        if absences:
            listener.only(group, count, absences)
        else:
            listener.equal()
        for cursor in group:
            _leave(cursor, listener)
            cursor.take(count)
    for cursor in cursors:
        _leave(cursor, listener)


def _bound(
    first: int, group: Sequence[Cursor], live: Sequence[Cursor], absences: Sequence[Absence]
) -> int | None:
    """The offset below which nothing changes in who has what."""
    bounds = [cursor.first for cursor in live if cursor not in group]
    for absence in absences:
        replica = absence.cursor.replica
        if absence.why == START:
            bounds.append(replica.start)
        elif absence.cursor.done and first < replica.end:
            bounds.append(replica.end)
    return min(bounds, default=None)


def _leave(cursor: Cursor, listener: Listener) -> None:
    if cursor.holes:
        listener.passed(cursor)


def _same(group: Sequence[Cursor], most: int) -> int:
    """Count the batches from here on that are the same in all of the group, `most` at most."""
    (batches, row), *others = (cursor.at_hand for cursor in group)
    for other, at in others:
        same, step = 0, 1
        while same < most and step:
            step = min(step, most - same)
            if _equal(batches, row + same, other, at + same, step):
                same += step
                step *= 4
            elif step == 1:
                break
            else:
                most = same + step  # the first that differs is among these
                step = max(1, step // 4)
        most = same
    return most


def _equal(one: RecordBatches, row: int, other: RecordBatches, at: int, count: int) -> bool:
    return all(
        left[row : row + count] == right[at : at + count]
        for left, right in (
            (one.last_offsets, other.last_offsets),
            (one.crcs, other.crcs),
            (one.leader_epochs, other.leader_epochs),
            (one.sizes, other.sizes),
            (one.base_offsets, other.base_offsets),
            (one.layouts, other.layouts),
        )
    )


def _cluster(
    cursors: Sequence[Cursor], live: Sequence[Cursor], first: int, listener: Listener
) -> None:
    """Take the batches that overlap, from the lowest on, until all logs have a boundary there."""
    taken: dict[int, list[Entry]] = {}
    holders: list[Cursor] = []
    end, grew = first, True
    absences = {cursor.replica.number: cursor.absent(first) for cursor in cursors}
    while grew:
        grew = False
        for cursor in live:
            while cursor.fill() and cursor.first <= end:
                entries = taken.setdefault(cursor.replica.number, [])
                if len(entries) >= _CLUSTER_BATCHES:
                    break
                entry = cursor.entry()
                if not entries:
                    holders.append(cursor)
                    _leave(cursor, listener)
                entries.append(entry)
                end, grew = max(end, entry.last), True
                cursor.take(1)
    found = [
        (cursor, taken[cursor.replica.number])
        for cursor in sorted(holders, key=lambda cursor: cursor.replica.number)
    ]
    missing = [each for number, each in absences.items() if number not in taken]
    lists = [[entry.identity for entry in entries] for _, entries in found]
    if not missing and all(each == lists[0] for each in lists[1:]):
        listener.equal()
    else:
        listener.cluster(found, missing)

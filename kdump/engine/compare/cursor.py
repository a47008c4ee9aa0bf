"""How far each replica of a partition was read: its batch at hand, and the holes before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kdump.engine.compare.replica import Block, Replica, UnusableRange, first_offset
from kdump.findings.rows import Place
from kdump.kernels.columns import RecordBatches
from kdump.tuples import NamedTuple


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

    `holes` are those between the batch before and the one at hand; `reported` says that what lies
    in them was accounted for.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.holes: list[UnusableRange] = []
        self.reported = False
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
        return first_offset(*self.at_hand, self.last_offset)

    @property
    def last(self) -> int:
        """The last offset of the batch at hand."""
        batches, row = self.at_hand
        return batches.last_offset(row)

    @property
    def at_hand(self) -> tuple[RecordBatches, int]:
        """The block at hand, and the row in it."""
        assert self._batches is not None
        return self._batches, self._row

    def entry(self) -> Entry:
        """Return the batch at hand."""
        assert self._place is not None
        return Entry(self._place, *self.at_hand, self.first, tuple(self.holes))

    def below(self, bound: int | None) -> int:
        """Count the batches of this block that end below an offset."""
        batches, row = self.at_hand
        end = batches.count if bound is None else bisect_left(batches.last_offsets, bound, row)
        return end - row

    def take(self, count: int) -> None:
        """Go past some batches of this block."""
        batches, row = self.at_hand
        self._row = row + count
        self.last_offset = batches.last_offset(self._row - 1)
        self.holes, self.reported = [], False
        if self._row == batches.count:
            self._batches = None

    def absent(self, first: int) -> Absence:
        """Say why there is nothing at an offset before the batch at hand."""
        replica = self.replica
        if first < replica.start:
            return Absence(self, START)
        if self.done and first >= replica.end:
            return Absence(self, END)
        return Absence(self, HOLE if self.holes else INSIDE)

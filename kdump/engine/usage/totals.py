"""Total very many groups in bounded memory: exactly while there is room, then with a bound.

Each group has the numbers of `kernels.columns` (T_...), laid out in one array. When there are more
groups than may be kept, the smallest half is dropped, and `floor` is the largest total that any of
these may have had. A group that comes (back) later starts with that as its ERROR: what is counted
is surely there, and at most ERROR bytes more. This is Space-Saving with half the table given up at
a time, so that the work stays in proportion. While `floor` is 0 everything is exact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, compress, count
from operator import add

from kdump import kernels
from kdump.kernels import columns as c
from kdump.tuples import NamedTuple

WIDTH = c.TOTALS_WIDTH
_NEW = array("q", [0] * WIDTH)
_NEW[c.T_FIRST] = _NEW[c.T_LAST] = -1
_ADDED = (c.T_BATCHES, c.T_RECORDS, c.T_BYTES, c.T_CONTROL, c.T_UNOPENED, c.T_SEGMENTS)


class PackedTotals(NamedTuple):
    """Totals on their way from a worker."""

    keys: tuple[Hashable, ...]
    sums: bytes
    floor: int


class Totals:
    """Numbers by group; `slots` says which of `sums` are a group's."""

    def __init__(self, most: int) -> None:
        self.slots: dict[Hashable, int] = {}
        self.sums = array("q")
        self.floor = 0
        self._most = max(most, 2)  # half of it has to be something
        self._dropped = [0] * WIDTH

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def room(self) -> int:
        """For how many groups there is room before `make_room` has to be called."""
        return min(len(self.sums) // WIDTH, self._most)

    @classmethod
    def unpack(cls, packed: PackedTotals) -> Totals:
        """Take totals that a worker sent."""
        totals = cls(max(len(packed.keys), 1))
        totals.slots = {key: slot for slot, key in enumerate(packed.keys)}
        totals.sums.frombytes(packed.sums)
        totals.floor = packed.floor
        return totals

    def pack(self) -> PackedTotals:
        """Make them ready to be sent."""
        used = len(self.slots) * WIDTH
        return PackedTotals(tuple(self.slots), self.sums[:used].tobytes(), self.floor)

    def slot(self, key: Hashable) -> int:
        """Return a group's slot; a new group makes room for itself, and so may move all others."""
        slot = self.slots.get(key)
        if slot is None:
            self.make_room()
            at = self._append(key)
            self.sums[at + c.T_ERROR] = self.floor
            slot = at // WIDTH
        return slot

    def make_room(self) -> None:
        """See to it that there is a slot for one more group at least."""
        if len(self.slots) >= self._most:
            shrink([self], self._most - 1)
        room = len(self.sums) // WIDTH
        if len(self.slots) >= room:
            more = min(max(room, 4), self._most - room)
            self.sums.extend(_NEW * max(more, 1))

    def bounds(self) -> array[int]:
        """Give what each group may come to at most, in their order, which is that of the slots."""
        return kernels.bounds_of(self.sums, len(self.slots))

    def keep_above(self, threshold: int, ties: int) -> int:
        """Keep groups that may come to more than `threshold`, and so many that just may.

        The floor rises to the largest that is dropped. Returns how many ties are left to be kept.
        """
        tied = self.bounds().count(threshold)
        kept, floor, dropped = kernels.keep_largest(self.sums, len(self.slots), threshold, ties)
        self.floor = max(self.floor, floor)
        self.slots = dict(zip(compress(self.slots, kept), count(), strict=False))
        self._dropped = list(map(add, self._dropped, dropped))
        return max(ties - tied, 0)

    def merge(self, other: Totals) -> None:
        """Add other totals of the same groups, from elsewhere."""
        floor = self.floor
        if other.floor:
            for key, slot in self.slots.items():
                if key not in other.slots:
                    self.sums[slot * WIDTH + c.T_ERROR] += other.floor
        self.floor = floor + other.floor
        for key, slot in other.slots.items():
            mine = self.slots.get(key)
            if mine is None:
                at = self._append(key)
                self.sums[at + c.T_ERROR] = floor
            else:
                at = mine * WIDTH
            self._add(at, other.sums[slot * WIDTH : slot * WIDTH + WIDTH])

    def _append(self, key: Hashable) -> int:
        """Take up a group without making room; `shrink` is up to whoever merges."""
        at = len(self.slots) * WIDTH
        self.slots[key] = len(self.slots)
        if at >= len(self.sums):
            self.sums += _NEW
        else:
            self.sums[at : at + WIDTH] = _NEW
        return at

    def _add(self, at: int, numbers: Sequence[int]) -> None:
        sums = self.sums
        for number in _ADDED:
            sums[at + number] += numbers[number]
        sums[at + c.T_ERROR] += numbers[c.T_ERROR]
        first = numbers[c.T_FIRST]
        if first >= 0 and not 0 <= sums[at + c.T_FIRST] <= first:
            sums[at + c.T_FIRST] = first
        sums[at + c.T_LAST] = max(sums[at + c.T_LAST], numbers[c.T_LAST])

    def add(self, key: Hashable, numbers: Sequence[int]) -> None:
        """Add numbers to a group's."""
        self._add(self.slot(key) * WIDTH, numbers)

    def one_segment(self) -> None:
        """Say that all of this was one segment, read in pieces."""
        for at in range(c.T_SEGMENTS, len(self.slots) * WIDTH, WIDTH):
            self.sums[at] = min(self.sums[at], 1)

    def sum(self) -> tuple[int, ...]:
        """Give the sums of all groups, dropped ones among them."""
        return tuple(
            sum(self.column(number)) + self._dropped[number] if number in _ADDED else 0
            for number in range(WIDTH)
        )

    def column(self, number: int) -> Sequence[int]:
        """Give one number of each group, in their order."""
        return self.sums[number : len(self.slots) * WIDTH : WIDTH]

    def sizes(self, least: int = -1) -> Iterator[tuple[Hashable, int]]:
        """Yield each group of so many bytes with these."""
        for key, size in zip(self.slots, self.column(c.T_BYTES), strict=True):
            if size >= least:
                yield key, size

    def numbers(self, key: Hashable) -> Sequence[int]:
        """Give a group's numbers."""
        slot = self.slots[key]
        return self.sums[slot * WIDTH : slot * WIDTH + WIDTH]

    def items(self) -> Iterator[tuple[Hashable, Sequence[int]]]:
        """Yield each group with its numbers."""
        return ((key, self.numbers(key)) for key in self.slots)


def shrink(tables: Sequence[Totals], most: int) -> None:
    """Keep the largest half of the groups of several totals, where there are more than `most`."""
    if sum(map(len, tables)) <= most:
        return
    bounds = sorted(chain.from_iterable(table.bounds() for table in tables))
    kept = max(most // 2, 1)
    threshold = bounds[-kept]
    ties = kept - (len(bounds) - bisect_right(bounds, threshold))
    for table in tables:
        ties = table.keep_above(threshold, ties)

"""Bound the offsets at which an entry found behind damage is believed.

A right checksum proves an entry's bytes, not its place: a record's value may hold one, and a block
that was used before may hold an old one. And the base offset of the entry before is under no
checksum, so that one which flipped upwards must not make all that follows unbelievable.

`offsets` cannot serve here: it says what holds once more batches are known, while a search must
know bounds before it finds the next, wide enough for a log whose file name or neighbours are odd.
"""

from __future__ import annotations

from collections import deque

from kdump.kernels.columns import RecordBatches
from kdump.storage.names import OFFSET_MAX
from kdump.storage.offsets import RELATIVE_OFFSETS, joins_on
from kdump.tuples import NamedTuple

_RECENT = 16  # so many entries in a row are not all wrong the same way
_JOINED = 2
_HOLES = 16


class Bounds(NamedTuple):
    """Offsets that are believed, ends exclusive.

    Those from `low` to `high`, and in `holes`: what a gap before left out, for a block that belongs
    further behind may lie in the wrong place. Those from `wide_low` to `wide_high` if there are no
    others in the file: brokers before 1.1 wrote segments that reach further, and a file's name may
    be wrong.
    """

    low: int
    high: int
    wide_low: int
    wide_high: int
    holes: tuple[tuple[int, int], ...] = ()

    def admit(self, first: int, last: int) -> bool:
        """Whether an entry is believed at once."""
        return (self.low < first and last < self.high) or any(
            low < first and last < high for low, high in self.holes
        )

    def admit_wide(self, first: int, last: int) -> bool:
        """Whether an entry is believed where no other follows."""
        return self.wide_low < first and last < self.wide_high

    @property
    def lowest(self) -> int:
        """Nothing lower is believed at once."""
        return min([self.low, *(low for low, _ in self.holes)])


class BelievedOffsets:
    """What is believed behind the entries of a walk met so far.

    `base_offset` is that of the file's name, None where it says none, `next_base` the next
    segment's; `last_offset` that of the entry before the walk, -1 for none; `whole`: it began at
    the file's start.
    """

    def __init__(
        self, base_offset: int | None, next_base: int, last_offset: int, *, whole: bool
    ) -> None:
        self._base = base_offset
        self._next_base = next_base
        self._start = last_offset if base_offset is None else max(last_offset, base_offset - 1)
        self._anchored = base_offset is not None or last_offset >= 0
        self._whole = whole
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # first and last offsets
        self._met: list[RecordBatches] = []  # and not looked at yet
        self._bounds: Bounds | None = None
        self._holes: deque[tuple[int, int]] = deque(maxlen=_HOLES)
        self._hole: int | None = None  # where the one starts whose end is not known yet

    def gap(self) -> None:
        """Take up a gap."""
        self._hole = self.bounds().low

    def add(self, batches: RecordBatches) -> None:
        """Take up sound entries."""
        if self._hole is not None:
            first = batches.known_offset(0)
            if first > self._hole + 1:
                self._holes.append((self._hole, first))
            self._hole = None
        if batches.count >= _RECENT:
            self._met = [batches]
        else:
            self._met.append(batches)
            del self._met[:-_RECENT]
        self._bounds = None

    def bounds(self) -> Bounds:
        """Return what is believed of the next entry."""
        if self._bounds is None:
            self._bounds = self._judge()
        return self._bounds

    def _judge(self) -> Bounds:
        self._take_up()
        entries = list(self._recent)
        joined = _joins(entries) >= _JOINED
        if len(entries) < _RECENT:
            entries.insert(0, (self._start, self._start))
            joined = joined or (self._anchored and 0 < _joins(entries) == len(entries) - 1)
        last = entries[-1][1]
        cap = self._next_base
        if self._base is not None:
            cap = min(cap, self._base + RELATIVE_OFFSETS)
        lasts = [entry[1] for entry in entries]
        low = min([offset for offset in lasts if offset < cap] or lasts)
        if joined and last < cap:
            low = last
        next_base = self._next_base if low + 1 < self._next_base else OFFSET_MAX
        reach = max(low + 1, 0)
        if self._base is not None and low + 1 < self._base + RELATIVE_OFFSETS:
            reach = self._base
        high = min(next_base, reach + RELATIVE_OFFSETS)
        wide_low = -1 if self._whole and not self._recent else low
        return Bounds(low, high, wide_low, next_base, tuple(self._holes))

    def _take_up(self) -> None:
        for batches in self._met:
            for row in range(max(batches.count - _RECENT, 0), batches.count):
                self._recent.append((batches.known_offset(row), batches.last_offset(row)))
        self._met = []


def _joins(entries: list[tuple[int, int]]) -> int:
    """How often, from the newest back, an entry goes on where the one before it ends."""
    joins = 0
    for number in range(len(entries) - 1, 0, -1):
        if not joins_on(entries[number - 1][1], entries[number][0]):
            break
        joins += 1
    return joins

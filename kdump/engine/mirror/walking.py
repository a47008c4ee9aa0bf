"""Walk the pairs of records in order, and find the stretches in which both sides go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge

from kdump.engine.mirror.pairing import (
    ABORTED,
    COPY,
    MISSING,
    OFFSET,
    OPEN,
    OPEN_ABORTED,
    OPEN_COPY,
    PAIRED,
    TAKEN,
    at_place,
    read_place,
)
from kdump.engine.work.spool import Spool, merge_runs
from kdump.tuples import NamedTuple

#: Kinds of stretches.
MIRRORED, REORDERED, ONLY_SOURCE = "mirrored", "reordered", "only-source"
ONLY_TARGET, DUPLICATED = "only-target", "duplicated"
LEFT_OUT = "aborted"  # records of aborted transactions, which a mirror need not have
#: Where what only one side has lies, against what both have.
START, INSIDE, END = "start", "inside", "end"
_HEAD = 13


class Stretch(NamedTuple):
    """Records that follow each other, and have in common how they are mirrored.

    Offsets of a side that has none of them are None. `place` is of what only one side has.
    """

    kind: str
    first: int | None
    last: int | None
    target_first: int | None
    target_last: int | None
    records: int
    place: str | None = None


class Walk:
    """The walk over one pair of partitions.

    `wanted` are offsets of the source, rising: `found` has for each the offset of the target that
    stands for it: that of the next record which both sides have, else the one behind the last.
    """

    def __init__(self, wanted: list[int], scratch: str) -> None:
        self.found: dict[int, int] = {}
        self.paired = 0
        self.first_target: int | None = None
        self.last_target: int | None = None
        self._wanted = wanted
        self._taken = Spool(scratch)
        self._last_pair: tuple[int, int] | None = None
        #: Of records that several of the source may be, by the first: which are taken, and how many
        #: of the source are still to come.
        self._shared: dict[int, tuple[set[int], int]] = {}

    def sources(self, entries: Iterable[bytes]) -> Iterator[Stretch]:
        """Yield the stretches of the source's side."""
        held: Stretch | None = None
        waiting: Stretch | None = None  # what only the source has, until it is known what follows
        at = 0
        for entry in entries:
            _, offset, kind = read_place(entry)
            target = self._target(entry, offset, kind)
            if target is None:
                is_aborted = kind in (ABORTED, OPEN_ABORTED)
                # With what waits, all that is held are aborted ones behind it.
                if (
                    held is not None
                    and waiting is None
                    and (held.kind != LEFT_OUT or not is_aborted)
                ):
                    yield held
                    held = None
                if is_aborted:
                    held = _longer(held, Stretch(LEFT_OUT, offset, offset, None, None, 1))
                else:
                    waiting = _longer(waiting, Stretch(ONLY_SOURCE, offset, offset, None, None, 1))
                continue
            if waiting is not None:
                yield waiting._replace(place=INSIDE if self.paired else START)
                waiting = None
            self._note(offset, target, is_open=kind in (OPEN, OPEN_ABORTED))
            while at < len(self._wanted) and self._wanted[at] <= offset:
                self.found[self._wanted[at]] = target
                at += 1
            is_back = self.last_target is not None and target < self.last_target
            one = Stretch(REORDERED if is_back else MIRRORED, offset, offset, target, target, 1)
            longer = _longer(held, one)
            if longer is not None and held is not None and longer.records == held.records + 1:
                held = longer
            else:
                if held is not None:
                    yield held
                held = one
            self.last_target = max(target, self.last_target or target)
        if waiting is not None:
            yield waiting._replace(place=END)
        if held is not None:
            yield held
        if self.last_target is not None:
            for offset in self._wanted[at:]:
                self.found[offset] = self.last_target + 1

    def _note(self, offset: int, target: int, *, is_open: bool) -> None:
        self.paired += 1
        self._last_pair = offset, target
        if self.first_target is None or target < self.first_target:
            self.first_target = target
        if is_open:
            self._taken.add(at_place(0, target, TAKEN))

    def _target(self, entry: bytes, offset: int, kind: int) -> int | None:
        """Return which record of the target it is, of several the one at the shift so far."""
        if kind in (MISSING, ABORTED):
            return None
        found = [place for (place,) in OFFSET.iter_unpack(entry[_HEAD:])]
        if kind == PAIRED:
            return int(found[0])
        count, *places = found
        taken, left = self._shared.pop(places[0], (set[int](), count))
        free = [place for place in places if place not in taken]
        target = self._nearest(offset, free)
        if left > 1:
            self._shared[places[0]] = taken | ({target} if target is not None else set()), left - 1
        return target

    def _nearest(self, offset: int, free: list[int]) -> int | None:
        if self._last_pair is not None:
            expected = self._last_pair[1] + offset - self._last_pair[0]
            if expected in free:
                return expected
        behind = self.last_target
        return next((place for place in free if behind is None or place > behind), None)

    def targets(self, entries: Iterable[bytes]) -> Iterator[Stretch]:
        """Yield the stretches that only the target has, behind `sources`."""
        self._taken.flush()
        taken = merge_runs(self._taken.runs)
        held: Stretch | None = None
        last_taken: int | None = None
        for place, kind, first in merge(
            ((read_place(one)[1], TAKEN, 0) for one in taken), map(_of_target, entries)
        ):
            if kind == TAKEN:
                last_taken = place
                continue
            if kind == OPEN_COPY and place == last_taken:
                continue
            is_copy = kind in (COPY, OPEN_COPY)
            one = (
                Stretch(DUPLICATED, first, first, place, place, 1)
                if is_copy
                else Stretch(ONLY_TARGET, None, None, place, place, 1, self._place(place))
            )
            longer = _longer(held, one)
            if held is not None and longer is not None and longer.records == held.records + 1:
                held = longer
            else:
                if held is not None:
                    yield held
                held = one
        if held is not None:
            yield held

    def _place(self, target: int) -> str:
        if self.first_target is None or target < self.first_target:
            return START
        return END if target > (self.last_target or 0) else INSIDE


def _of_target(entry: bytes) -> tuple[int, int, int]:
    _, offset, kind = read_place(entry)
    return offset, kind, int(OFFSET.unpack_from(entry, _HEAD)[0])


def _longer(held: Stretch | None, one: Stretch) -> Stretch:
    """Return a stretch with one more record, or the one record where it does not go on."""
    if held is None or (held.kind, held.place) != (one.kind, one.place):
        return one
    if held.kind == ONLY_SOURCE:
        return held._replace(last=one.last, records=held.records + 1)
    if held.kind != ONLY_TARGET and shift_of(held) != shift_of(one):
        return one
    if held.kind in (ONLY_TARGET, DUPLICATED) and one.target_first != (held.target_last or 0) + 1:
        return one
    return held._replace(last=one.last, target_last=one.target_last, records=held.records + 1)


def shift_of(stretch: Stretch) -> int | None:
    """Return how much larger the target's offsets are; None where only one side has them."""
    if stretch.first is None or stretch.target_first is None:
        return None
    return stretch.target_first - stretch.first

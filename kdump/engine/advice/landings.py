"""Compare where lookups land behind damage with the sound batches that a walk finds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kdump.engine.advice.sound import Sound

#: So many lookups are made in one segment.
_ASKED_OF_ONE = 4096
#: So many index entries behind an answer are asked about: one that lies may come later.
_LOOKED_ON = 8


class Way(NamedTuple):
    """A way past damage: the first offset served again, None where none is.

    `skipped` counts the sound records that a seek there passes over, control records not among
    them; where nothing is served it counts all that follow.
    """

    served_from: int | None
    skipped: int


class _Point(NamedTuple):
    """An offset to be asked for: the index entry its lookup starts at, the row that holds it."""

    start: int
    offset: int
    row: int


class Landings:
    """The lookups for one segment's sound batches, as these come.

    `lands` says where in its log a fetch of an offset lands, None: in another, or it fails;
    `starts` are the offsets, in order, at which lookups in it begin to start elsewhere.
    `served` is the way found, as long as no later lookup belies it; `count` is how many sound
    records came so far.
    """

    def __init__(
        self, lands: Callable[[int], int | None], starts: Sequence[int], count: int, lowest: int
    ) -> None:
        self.served: Way | None = None
        self.count = count
        self._fetch_lands = lands
        self._lowest = lowest
        self._left = _ASKED_OF_ONE
        self._starts = starts
        self._fails: int | None = None  # the start from which no lookup gets anywhere
        self._gets_past: int | None = None  # the start from which the last one did
        self._borne_out = 0

    @property
    def settled(self) -> bool:
        """Whether enough lookups bear the way out."""
        return self.served is not None and self._borne_out >= _LOOKED_ON

    def take(self, sound: Sound) -> None:
        """Ask for the next batches."""
        points = self._points(sound)
        first = 0
        while first < len(points) and not self.settled:
            end = first + 1
            while end < len(points) and points[end].start == points[first].start:
                end += 1
            self._group(sound, points[first:end])
            first = end
        self.count += sound.count(len(sound.positions))

    def _points(self, sound: Sound) -> list[_Point]:
        """Give the first offset of each batch, and each that a lookup starts anew at."""
        offsets = [max(first, self._lowest) for first in sound.firsts]
        low = bisect_right(self._starts, offsets[0])
        high = bisect_right(self._starts, sound.lasts[-1])
        offsets += self._starts[low:high]
        points = []
        for offset in sorted(set(offsets)):
            row = bisect_left(sound.lasts, offset)
            points.append(_Point(bisect_right(self._starts, offset), offset, row))
        return points

    def _group(self, sound: Sound, points: list[_Point]) -> None:
        """Ask for offsets whose lookups start at one place: the higher ones get past."""
        first, last = points[0], points[-1]
        if self.served is not None:
            if first.start == self._gets_past or self._lands(sound, first):
                self._borne_out += first.start != self._gets_past
                self._gets_past = first.start
                return
            if sound.before_gap and first.row == len(sound.positions) - 1:
                return  # the next damage: since 4.1 a lookup reads what lies behind the batch
            self.served = None
        if first.start == self._fails:
            return
        lowest = 0
        if not self._lands(sound, first):
            if first is last or not self._lands(sound, last):
                return
            lowest = bisect_left(
                points, True, 0, len(points) - 1, key=lambda point: self._lands(sound, point)
            )
        self._gets_past = first.start
        self._found(sound, points[lowest])

    def _lands(self, sound: Sound, point: _Point) -> bool:
        if not self._left:
            return False
        self._left -= 1
        position = self._fetch_lands(point.offset)
        if position is None:
            self._fails = point.start
        return position == sound.positions[point.row]

    def _found(self, sound: Sound, point: _Point) -> None:
        """Keep a way; behind the first offset the record that a consumer is handed is named."""
        before, offset = self.count + sound.count(point.row), point.offset
        if offset > self._lowest:
            inside = sound.records(point.row)
            below = bisect_left(inside, offset)
            before += below
            offset = inside[below] if below < len(inside) else offset
        self._borne_out = 0
        self.served = Way(offset, before)

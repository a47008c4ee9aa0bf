"""When a clock was set, and how far it was ahead of the common one before and after that.

Each piece of evidence is a time that the clock showed, and the earliest and latest time that it can
have been then on the common clock. Where these two are close, they fix how far the clock was ahead.
Between two fixed points that agree, the clock was ahead by what they say; between two that differ,
by what one of them says. A time that fits neither is bounded by its own evidence alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from kdump.tuples import NamedTuple

#: Beyond every time: nothing bounds that side.
EVER = 1 << 62
#: How close a fixed point is: a clock that is set by twice as much never seems to stand.
_CLOSE_MS = 5_000
_MOST_ERAS = 256
Span = tuple[int, int]


class Point(NamedTuple):
    """A time that a clock showed, and between which times on the common clock that was."""

    shown_ms: int
    from_ms: int = -EVER
    to_ms: int = EVER


class Era(NamedTuple):
    """How far a clock was ahead, and between which times it was not yet known to be otherwise."""

    at_least_ms: int
    at_most_ms: int
    from_ms: int
    to_ms: int


class Eras:
    """What the points tell of a clock that was set.

    `set_back`: what it showed before and after it was set back, as far as a log shows that.
    """

    def __init__(self, points: Iterable[Point], set_back: Iterable[tuple[Point, Point]]) -> None:
        points = [p._replace(from_ms=min(p[1:3]), to_ms=max(p[1:3])) for p in points]
        points.sort(key=lambda one: (one.from_ms + one.to_ms, one))
        spans = _group_agreeing(one for one in points if one.to_ms - one.from_ms <= _CLOSE_MS)
        if len(spans) > _MOST_ERAS:
            spans = []
        self.eras: list[Era] = []
        self._fixed: list[Span] = []  # between which times on the common clock fixed points lie
        self._unknown: list[Span] = []
        self.is_complete = bool(spans)
        found = [
            [(max(p.from_ms, p.shown_ms - most), min(p.to_ms, p.shown_ms - least)) for p in span]
            for (least, most), span in spans
        ]
        for at, ((least, most), _) in enumerate(spans):
            from_ms = -EVER if not at else max(low for low, _ in found[at - 1])
            to_ms = EVER if at == len(spans) - 1 else min(high for _, high in found[at + 1])
            self.eras.append(Era(least, most, from_ms, to_ms))
            self._fixed += found[at]
        self._between = [(after.from_ms, before.to_ms) for before, after in pairwise(self.eras)]
        for before, after in set_back:
            first, then = self._able(before), self._able(after)
            if not first or not then or first[0] >= then[-1]:
                self.doubt(before._replace(to_ms=after.to_ms))
        self._backs = self._unknown[:]
        for point in points:
            if not self._able(point):
                self.doubt(point)

    @property
    def lead(self) -> Span | None:
        """By how much it was ahead, at least and at most; None where that is not clear.

        What it showed while it was set can have been beyond both, by as much as that may have taken
        and nothing would have been seen to go back.
        """
        if not self.is_complete:
            return None
        longest = max((high - low for low, high in self._between), default=0)
        least = min(one.at_least_ms for one in self.eras)
        return least - longest, max(one.at_most_ms for one in self.eras) + longest

    def is_odd(self, point: Point) -> bool:
        """Whether a point fits no era, and nothing of the clock alone shows that there was more."""
        if not self.eras or self._able(point):
            return False
        return not any(
            -EVER < low <= point.to_ms and point.from_ms <= high < EVER for low, high in self._backs
        )

    @property
    def goes_back(self) -> bool:
        """Whether it was ever set back, by more than it may have drifted."""
        pairs = pairwise(self.eras)
        return any(one.at_least_ms > then.at_most_ms + _CLOSE_MS for one, then in pairs)

    def times(self, point: Point, *, is_placed: bool = True) -> Span:
        """Say between which times on the common clock the clock showed what it did.

        `is_placed`: a log shows what lies before and behind it.
        """
        able = [self.eras[at] for at in self._able(point)]
        if not able:
            return point.from_ms, point.to_ms
        low = min(point.shown_ms - era.at_most_ms for era in able)
        high = max(point.shown_ms - era.at_least_ms for era in able)
        for from_ms, to_ms in self._unknown if is_placed else (*self._unknown, *self._between):
            if from_ms <= point.to_ms and point.from_ms <= to_ms:
                low, high = min(low, from_ms), max(high, to_ms)
        return max(low, point.from_ms), min(high, point.to_ms)

    def _able(self, point: Point) -> list[int]:
        """List the eras that a point may be of."""
        return [
            at
            for at, era in enumerate(self.eras)
            if max(point.shown_ms - era.at_most_ms, point.from_ms, era.from_ms)
            <= min(point.shown_ms - era.at_least_ms, point.to_ms, era.to_ms)
        ]

    def doubt(self, point: Point) -> None:
        """Take note that between the times of a point it may have shown what fits no era."""
        self.is_complete = False
        low = max((low for low, high in self._fixed if high <= point.from_ms), default=-EVER)
        high = min((high for low, high in self._fixed if low >= point.to_ms), default=EVER)
        if (low, high) not in self._unknown:
            self._unknown.append((low, high))


def _group_agreeing(points: Iterable[Point]) -> list[tuple[Span, list[Point]]]:
    """Gather points that agree with those before them."""
    found: list[tuple[Span, list[Point]]] = []
    for point in points:
        least, most = point.shown_ms - point.to_ms, point.shown_ms - point.from_ms
        if found and least <= found[-1][0][1] and most >= found[-1][0][0]:
            (low, high), before = found[-1]
            before.append(point)
            found[-1] = (max(least, low), min(most, high)), before
        else:
            found.append(((least, most), [point]))
    return found

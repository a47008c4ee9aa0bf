"""When a clock was set, and how far it was ahead of the common one before and after that."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

#: Beyond every time: nothing bounds that side.
EVER = 1 << 62
#: A clock that goes otherwise than before by less may just drift.
_LEAST_STEP_MS = 1_000
_Span = tuple[int, int]


class Point(NamedTuple):
    """What a tie says of a clock: what it showed, when that was, how far it was ahead then."""

    shown_ms: int
    common_ms: int
    at_least_ms: int = -EVER
    at_most_ms: int = EVER


class Era(NamedTuple):
    """How far a clock was ahead until it was set; all that it showed lies between two times."""

    at_least_ms: int
    at_most_ms: int
    from_ms: int
    to_ms: int


def eras(points: Iterable[Point]) -> list[Era]:
    """Split what is known of a clock where it was set; nothing where that is not clear.

    Ties that leave an era without a bound on one side say nothing of when that was: the clock of
    a tie may have been read long before, or long after.
    """
    points = sorted(points, key=lambda one: one.common_ms)
    sure = [kept for kept, span in _spans(points) if span[0] > -EVER and span[1] < EVER]
    bounds = [span for _, span in _spans([one for kept in sure for one in kept])]
    widest = max((high - low for low, high in bounds), default=0)
    step = min((max(c - b, a - d) for (a, b), (c, d) in pairwise(bounds)), default=0)
    if step < 4 * widest + _LEAST_STEP_MS:
        return []
    starts, ends = [-EVER] * len(bounds), [EVER] * len(bounds)
    for point in points:
        able = [at for at, span in enumerate(bounds) if not _is_beyond(point, span)]
        if not able:
            return []
        behind = point.shown_ms - max(bounds[at][1] for at in able)
        ahead = point.shown_ms - min(bounds[at][0] for at in able)
        for at in range(able[-1] + 1, len(bounds)):  # it was set for these later than that
            starts[at] = max(starts[at], behind)
        for at in range(able[0]):
            ends[at] = min(ends[at], ahead)
    return [
        Era(*span, start + span[0], end + span[1])
        for span, start, end in zip(bounds, starts, ends, strict=True)
    ]


def _spans(points: list[Point]) -> list[tuple[list[Point], _Span]]:
    """Gather points that agree with those before them."""
    found: list[tuple[list[Point], _Span]] = []
    for point in points:
        least, most = point.at_least_ms, point.at_most_ms
        if found and not _is_beyond(point, found[-1][1]):
            before, (low, high) = found[-1]
            before.append(point)
            found[-1] = before, (max(least, low), min(most, high))
        else:
            found.append(([point], (least, most)))
    return found


def _is_beyond(point: Point, span: _Span) -> bool:
    return point.at_least_ms > span[1] or point.at_most_ms < span[0]

"""Bound the clocks of brokers against each other, by times of which one was written first.

Where clock A wrote `a` before clock B wrote `b`, B is ahead of A by at most `b - a`. Such bounds
add up over a third broker, as lengths of ways do.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from kdump.engine.timeline.eras import Era, Point, eras
from kdump.engine.timeline.happening import Tie
from kdump.rows.timeline import ClockSkew

#: The kernel takes the time of a file from its tick, which lies behind the clock programs read.
FILE_TICK_MS = 10
_KEPT = 32  # of the closest ties of a pair by times of files
#: By how much a clock may seem to go back because appends overtake each other.
SET_BACK_MS = 5_000
#: Two clocks that nobody sets may yet differ by so much more or less after a while.
_DRIFT_MS = 1_000
_MOST_TIES = 4096  # of a pair by records
_Pair = tuple[int, int]
_Most = dict[_Pair, tuple[int, tuple[str, ...]]]


class Bounds(NamedTuple):
    """By how much a clock is ahead of the common one; None: nothing bounds it on that side."""

    at_least_ms: int | None
    at_most_ms: int | None


class Clocks:
    """The bounds that all ties give, in memory that does not grow with them."""

    def __init__(self) -> None:
        self._records: dict[_Pair, list[Tie]] = {}
        self._files: dict[_Pair, list[tuple[int, str]]] = {}
        self._set_back: set[int] = set()
        self._counts: dict[_Pair, int] = {}
        self._fixed: dict[int, int] = {}
        self._most: _Most = {}
        self._eras: dict[int, list[Era]] = {}
        self.common: int | None = None
        self.brokers: set[int] = set()

    def add(self, tie: Tie) -> None:
        """Take up a tie; a tie of a clock with itself shows that it was set back."""
        if tie.first == tie.second:
            if _gap(tie) < -SET_BACK_MS:
                self._set_back.add(tie.first)
            return
        pair = tie.first, tie.second
        self._counts[pair] = self._counts.get(pair, 0) + 1
        if tie.by_file:
            kept = self._files.setdefault(pair, [])
            insort(kept, (_gap(tie) + FILE_TICK_MS, tie.why))
            del kept[_KEPT:]
            return
        ties = self._records.setdefault(pair, [])
        ties.append(tie)
        if len(ties) > _MOST_TIES:
            ties.sort(key=lambda one: one.first_ms)
            ties[:] = [min(ties[at : at + 2], key=_gap) for at in range(0, len(ties), 2)]

    def named(self) -> set[int]:
        """Return the brokers that any tie names."""
        return {one for pair in self._counts for one in pair}

    def settle(self, brokers: Iterable[int], common: int | None, skew: Mapping[int, int]) -> None:
        """Draw the conclusions. `skew`: by how much clocks are ahead, as somebody knows."""
        self.brokers = self.named() | set(brokers)
        self.common = common
        self._fixed = dict(skew)
        direct: _Most = {}
        contradict: list[set[int]] = []
        set_meanwhile = {pair for pair in self._files for one in pair if one in self._set_back}
        for first, second in sorted({(min(pair), max(pair)) for pair in self._records}):
            there = self._records.get((first, second), [])
            back = self._records.get((second, first), [])
            steady = _steady(there, back)
            if len(steady) == 1 and self._set_back & {first, second}:
                continue  # the ties are of the time before that, or after
            for pair, way in (((first, second), 0), ((second, first), 1)):
                found = [_at_most(steady, at, way) for at in range(len(steady))]
                known = [one for one in found if one is not None]
                if len(known) == len(found):
                    direct[pair] = max(known)
                if len(steady) > 1:
                    set_meanwhile.add(pair)
                    contradict.append({first, second})
        self._most = _closed(direct, self.brokers)
        closer = dict(self._most)
        for (first, second), kept in self._files.items():
            back_most = self._most.get((second, first))
            for gap, why in () if (first, second) in set_meanwhile else kept:
                if back_most is None or gap + back_most[0] >= 0:  # else something touched that file
                    known_most = closer.get((first, second))
                    if known_most is None or gap < known_most[0]:
                        closer[first, second] = gap, (why,)
                    break
        closer = _closed(closer, self.brokers)
        if all(_agree(closer, first, second) for first, second in closer):
            self._most = closer
        # One clock was set if the contradictions are those of its ties, and of no other's.
        for broker in set[int].intersection(*contradict) if len(contradict) > 1 else ():
            self._eras[broker] = eras(self._points(broker))

    def _points(self, broker: int) -> Iterator[Point]:
        """Yield what the ties of a clock with others say of it, against the common one."""
        for (first, second), ties in self._records.items():
            least, most = self.of(second if first == broker else first)
            if broker in (first, second) and least is not None and most is not None:
                for tie in ties:
                    if first == broker:
                        shown, other, gap = tie.first_ms, tie.second_ms, least - _gap(tie)
                        yield Point(shown, other - (least + most) // 2, at_least_ms=gap)
                    else:
                        shown, other, gap = tie.second_ms, tie.first_ms, most + _gap(tie)
                        yield Point(shown, other - (least + most) // 2, at_most_ms=gap)

    def was_set(self, broker: int | None) -> bool:
        """Whether it is known what a clock showed before and after it was set."""
        return bool(self._eras.get(-1 if broker is None else broker))

    def when(self, broker: int | None, at_ms: int, since_ms: int | None = None) -> Bounds:
        """By how much a clock was ahead when it showed a time, which was not before another."""
        able = [
            era
            for era in self._eras.get(-1 if broker is None else broker, ())
            if era.from_ms <= at_ms <= era.to_ms
            and (since_ms is None or at_ms - era.at_least_ms >= since_ms)
        ]
        if not able or broker in self._fixed or broker == self.common:
            return self.of(broker)
        return Bounds(min(era.at_least_ms for era in able), max(era.at_most_ms for era in able))

    def of(self, broker: int | None) -> Bounds:
        """By how much the clock of a broker is ahead of the common one."""
        if broker is None:
            return Bounds(None, None)
        if broker in self._fixed:
            return Bounds(self._fixed[broker], self._fixed[broker])
        if broker == self.common:
            return Bounds(0, 0)
        if self.common is None or not _agree(self._most, self.common, broker):
            return Bounds(None, None)  # some clock was set, and nothing says which
        above = self._most.get((self.common, broker))
        below = self._most.get((broker, self.common))
        least = None if below is None else -below[0]
        return Bounds(least, None if above is None else above[0])

    def rows(self) -> list[ClockSkew]:
        """Make a row for each broker whose clock is bounded against the common one."""
        found = []
        for broker in sorted(self.brokers - {self.common}):
            bounds = self.of(broker)
            if self.common is None or bounds == (None, None):
                continue
            ways = [(self.common, broker), (broker, self.common)]
            why = [part for way in ways if way in self._most for part in self._most[way][1]]
            text = "as given" if broker in self._fixed else "; ".join(dict.fromkeys(why))
            pairs = sum(self._counts.get(way, 0) for way in ways)
            found.append(ClockSkew(broker, self.common, *bounds, pairs, text))
        return found


def _gap(tie: Tie) -> int:
    return tie.second_ms - tie.first_ms


def _steady(there: list[Tie], back: list[Tie]) -> list[list[Tie | None]]:
    """Give the closest ties of both directions for each span in which the clocks stood alike.

    There is one span unless a clock was set: then ties contradict each other. They are gone
    through as one of the two clocks has them; by that which was set they are mixed up.
    """
    both = [(0, tie) for tie in there] + [(1, tie) for tie in back]
    found: list[list[list[Tie | None]]] = []
    for other in (0, 1):
        spans: list[list[Tie | None]] = [[None, None]]
        for way, tie in sorted(
            both, key=lambda one: one[1].second_ms if one[0] != other else one[1].first_ms
        ):
            opposite, same = spans[-1][1 - way], spans[-1][way]
            if opposite is not None and _gap(opposite) + _gap(tie) < 0:
                spans.append([None, None])
                same = None
            if same is None or _gap(tie) < _gap(same):
                spans[-1][way] = tie
        found.append(spans)
    return min(found, key=len)


def _at_most(
    spans: list[list[Tie | None]], at: int, way: int
) -> tuple[int, tuple[str, ...]] | None:
    """Bound a span on one side; if no tie does and clocks only drifted, as the span beside it."""
    tie, opposite = spans[at][way], spans[at][1 - way]
    if tie is not None:
        return _gap(tie), (tie.why,)
    beside = spans[at - 1 if at else 1][way] if len(spans) > 1 else None
    if beside is None or opposite is None or _gap(beside) + _gap(opposite) < -_DRIFT_MS:
        return None
    return max(_gap(beside), -_gap(opposite)), (beside.why,)


def _agree(most: Mapping[_Pair, tuple[int, object]], first: int, second: int) -> bool:
    there, back = most.get((first, second)), most.get((second, first))
    return there is None or back is None or there[0] + back[0] >= 0


def _closed(most: _Most, brokers: Iterable[int]) -> _Most:
    """Add what follows by way of other brokers (Floyd and Warshall)."""
    found = dict(most)
    known = sorted(set(brokers) & {one for pair in most for one in pair})
    for over, first, second in product(known, repeat=3):
        if first == second or over in (first, second):
            continue
        one, other = found.get((first, over)), found.get((over, second))
        if one is not None and other is not None:
            gap = one[0] + other[0]
            present = found.get((first, second))
            if present is None or gap < present[0]:
                found[first, second] = gap, (*one[1], *other[1])
    return found

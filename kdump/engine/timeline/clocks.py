"""Bound the clocks of brokers against each other, by times of which one was written first.

Where clock A wrote `a` before clock B wrote `b`, B is ahead of A by at most `b - a`. Such bounds
add up over a third broker, as lengths of ways do.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple

from kdump.engine.timeline.happening import Tie
from kdump.rows.timeline import ClockSkew

#: The kernel takes the time of a file from its tick, which lies behind the clock programs read.
FILE_TICK_MS = 10
_KEPT = 32  # of the closest ties of a pair
_Pair = tuple[int, int]


class Bounds(NamedTuple):
    """By how much a clock is ahead of the common one; None: nothing bounds it on that side."""

    at_least_ms: int | None
    at_most_ms: int | None


class Clocks:
    """The bounds that all ties give, in memory that does not grow with them."""

    def __init__(self) -> None:
        self._ties: dict[tuple[bool, _Pair], list[tuple[int, str]]] = {}
        self._counts: dict[_Pair, int] = {}
        self._fixed: dict[int, int] = {}
        self._most: dict[_Pair, tuple[int, tuple[str, ...]]] = {}
        self.common: int | None = None
        self.brokers: set[int] = set()

    def add(self, tie: Tie) -> None:
        """Take up a tie."""
        if tie.first == tie.second:
            return
        pair = tie.first, tie.second
        self._counts[pair] = self._counts.get(pair, 0) + 1
        kept = self._ties.setdefault((tie.by_file, pair), [])
        gap = tie.second_ms - tie.first_ms + (FILE_TICK_MS if tie.by_file else 0)
        if len(kept) < _KEPT or gap < kept[-1][0]:
            insort(kept, (gap, tie.why))
            del kept[_KEPT:]

    def named(self) -> set[int]:
        """Return the brokers that any tie names."""
        return {one for _, pair in self._ties for one in pair}

    def settle(self, brokers: Iterable[int], common: int | None, skew: Mapping[int, int]) -> None:
        """Draw the conclusions. `skew`: by how much clocks are ahead, as somebody knows."""
        self.brokers = self.named() | set(brokers)
        self.common = common
        self._fixed = dict(skew)
        by_records = {
            pair: ((kept[0][0], (kept[0][1],)))
            for (by_file, pair), kept in self._ties.items()
            if not by_file
        }
        self._most = _closed(by_records, self.brokers)
        closer = dict(self._most)
        for (by_file, (first, second)), kept in self._ties.items():
            if not by_file:
                continue
            back = self._most.get((second, first))
            for gap, why in kept:
                if back is None or gap + back[0] >= 0:  # else that file was touched by something
                    known = closer.get((first, second))
                    if known is None or gap < known[0]:
                        closer[first, second] = gap, (why,)
                    break
        closer = _closed(closer, self.brokers)
        if all(_agree(closer, first, second) for first, second in closer):
            self._most = closer

    def of(self, broker: int | None) -> Bounds:
        """By how much the clock of a broker is ahead of the common one."""
        if broker is None:
            return Bounds(None, None)
        if broker in self._fixed:
            return Bounds(self._fixed[broker], self._fixed[broker])
        if broker == self.common:
            return Bounds(0, 0)
        above = self._most.get((self.common or 0, broker)) if self.common is not None else None
        below = self._most.get((broker, self.common or 0)) if self.common is not None else None
        least = None if below is None else -below[0]
        most = None if above is None else above[0]
        if least is not None and most is not None and least > most:
            return Bounds(most, least)  # the clock was set meanwhile: it was anywhere in between
        return Bounds(least, most)

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


def _agree(most: Mapping[_Pair, tuple[int, object]], first: int, second: int) -> bool:
    back = most.get((second, first))
    return back is None or most[first, second][0] + back[0] >= 0


def _closed(
    most: Mapping[_Pair, tuple[int, tuple[str, ...]]], brokers: Iterable[int]
) -> dict[_Pair, tuple[int, tuple[str, ...]]]:
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

"""Bound the clocks of brokers against each other, by times of which one was written first.

Where clock A wrote `a` before clock B wrote `b`, B is ahead of A by at most `b - a`. Such bounds
add up over a third broker, as lengths of ways do.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import pairwise, product

from kdump.engine.timeline.eras import EVER, Eras, Point
from kdump.engine.timeline.order import LogOrder
from kdump.engine.timeline.raw_event import Spot, Tie
from kdump.rows.timeline import ClockSkew
from kdump.tuples import NamedTuple

#: The kernel takes the time of a file from its tick, which lies behind the clock programs read.
FILE_TICK_MS = 10
_KEPT = 32  # of the closest ties of a pair by times of files
#: By how much a clock may seem to go back because appends overtake each other.
SET_BACK_MS = 5_000
#: Two clocks that nobody sets may yet differ by so much more or less after a while.
_DRIFT_MS = 1_000
_MOST_TIES = 4096  # of a pair by records
_MOST_BACKS = 1_000  # of a clock that was set back
_Pair = tuple[int, int]
_Most = dict[_Pair, tuple[int, tuple[str, ...]]]


class Bounds(NamedTuple):
    """By how much a clock is ahead of the common one; None: nothing bounds it on that side."""

    at_least_ms: int | None
    at_most_ms: int | None


class _TieEnd(NamedTuple):
    """One end of a tie: whose clock, where, and what it showed when."""

    broker: int
    spot: Spot | None
    point: Point


class Clocks:
    """The bounds that all ties give, in memory that does not grow with them."""

    def __init__(self) -> None:
        self._records: dict[_Pair, list[Tie]] = {}
        self._files: dict[_Pair, list[tuple[int, str]]] = {}
        self._set_back: dict[int, list[Tie]] = {}
        self._counts: dict[_Pair, int] = {}
        self._fixed: dict[int, int] = {}
        self._most: _Most = {}
        self._eras: dict[int, Eras] = {}
        self._order = LogOrder()
        self._was_set: set[int] = set()
        self.common: int | None = None
        self.brokers: set[int] = set()

    def add(self, tie: Tie) -> None:
        """Take up a tie; a tie of a clock with itself shows that it was set back."""
        if tie.first == tie.second:
            if _gap(tie) < -SET_BACK_MS:
                backs = self._set_back.setdefault(tie.first, [])
                backs += [tie][: _MOST_BACKS - len(backs)]
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

    def named_brokers(self) -> set[int]:
        """Return the brokers that any tie names."""
        return {one for pair in self._counts for one in pair}

    def settle(self, brokers: Iterable[int], common: int | None, skew: Mapping[int, int]) -> None:
        """Draw the conclusions. `skew`: by how much clocks are ahead, as somebody knows."""
        listed = list(brokers)
        self.brokers = self.named_brokers() | set(listed)
        self._fixed = dict(skew)
        spans = {
            pair: _steady(self._records.get(pair, []), self._records.get((pair[1], pair[0]), []))
            for pair in sorted({(min(pair), max(pair)) for pair in self._records})
        }
        contradict = [set(pair) for pair, found in spans.items() if _is_set(found)]
        was_set = self._was_set = self._may_be_set(contradict) - self._fixed.keys()
        others = (one for one in listed if one not in was_set)
        # All are given on a clock that was not set.
        self.common = next(others, common) if common in was_set else common
        left = [pair for pair in contradict if not pair & was_set]
        self._bound_steady(spans, [{one} for one in was_set] + left)
        is_told = not was_set or (was_set < self.brokers and self._bound_eras())
        if not is_told or (left and len(self.brokers) > 2):  # nothing says which clocks were set
            self._was_set = self.brokers - self._fixed.keys()
            self.common, self._order = common, LogOrder()
            self._eras = dict.fromkeys(self._was_set, Eras([], []))

    def _bound_steady(
        self, spans: Mapping[_Pair, list[list[Tie | None]]], set_meanwhile: list[set[int]]
    ) -> None:
        """Bound the clocks that were not set against each other."""
        self._most = _close(_direct(spans, self._was_set), self.brokers)
        closer = _close(self._closer(set_meanwhile), self.brokers)
        if all(_agree(closer, first, second) for first, second in closer):
            self._most = closer

    def _may_be_set(self, contradict: list[set[int]]) -> set[int]:
        """Say which clocks were set meanwhile, or may have been; `contradict`: one of each pair."""
        was_set = set(self._set_back)
        # One more was if the contradictions are those of its ties, and of no other's.
        left = [pair for pair in contradict if not pair & was_set]
        was_set |= set.intersection(*left) if len(left) > 1 else set()
        may_be = was_set.union(*(pair for pair in left if not pair & was_set))
        return may_be if self.brokers - may_be else was_set

    def _closer(self, set_meanwhile: list[set[int]]) -> _Most:
        """Add the bounds by times of files, but not of clocks that were set."""
        closer = dict(self._most)
        for (first, second), kept in self._files.items():
            back_most = self._most.get((second, first))
            for gap, why in kept:
                if any(one <= {first, second} for one in set_meanwhile):
                    break
                if back_most is None or gap + back_most[0] >= 0:  # else something touched that file
                    known_most = closer.get((first, second))
                    if known_most is None or gap < known_most[0]:
                        closer[first, second] = gap, (why,)
                    break
        return closer

    def _bound_eras(self) -> bool:
        """Date the change of each clock that was set; return whether no others must have been."""
        ties = [tie for found in self._records.values() for tie in found]
        for tie in ties:
            self._order_of(tie.first, tie.first_ms, tie.first_at, after=tie.second_at)
            self._order_of(tie.second, tie.second_ms, tie.second_at, before=tie.first_at)
        points_of: dict[int, list[Point]] = {broker: [] for broker in self._was_set}
        for one in (one for tie in ties for one in self._tie_ends(tie)):
            if one.broker in points_of:
                points_of[one.broker].append(one.point)
        for broker, points in points_of.items():
            backs = self._set_back.get(broker, [])
            eras = self._eras[broker] = Eras(
                points if len(backs) < _MOST_BACKS else [],
                [(one.point, two.point) for one, two in map(self._tie_ends, backs)],
            )
            if (
                any(one.from_ms > one.to_ms + _DRIFT_MS for one in points)
                or (not backs and eras.goes_back)
                or any(map(eras.is_odd, points))
            ):
                return False
        among = [tie for tie in ties if self._was_set >= {tie.first, tie.second}]
        for tie in [tie for tie in among if self._is_wrong(tie)]:
            for seen in self._tie_ends(tie):
                self._eras[seen.broker].doubt(seen.point)
        ties += [tie for backs in self._set_back.values() for tie in backs]
        known = [one for tie in ties for one in self._tie_ends(tie) if one.broker in self._was_set]
        for one in known:
            self._order.add(one.spot, *self._eras[one.broker].times(one.point))
        later = [one.point for tie in ties for one in self._tie_ends(tie)]
        return all(one.from_ms <= one.to_ms + _DRIFT_MS for one in later)

    def _order_of(
        self,
        broker: int,
        shown_ms: int,
        at: Spot | None,
        *,
        before: Spot | None = None,
        after: Spot | None = None,
    ) -> None:
        """Take note of when a record was written, by a clock that was not set, and another."""
        if broker not in self._was_set:
            low, high = self.between(broker, shown_ms, shown_ms)
            low, high = -EVER if low is None else low, EVER if high is None else high
            self._order.add(at, low, high)
            self._order.add(after, from_ms=low)
            self._order.add(before, to_ms=high)

    def _tie_ends(self, tie: Tie) -> tuple[_TieEnd, _TieEnd]:
        """Give what the order in logs says of the two times of a tie."""
        first = Point(tie.first_ms, *self._order.find_span(tie.first_at))
        second = Point(tie.second_ms, *self._order.find_span(tie.second_at))
        return (
            _TieEnd(tie.first, tie.first_at, first),
            _TieEnd(tie.second, tie.second_at, second),
        )

    def _is_wrong(self, tie: Tie) -> bool:
        """Whether a tie contradicts what is known of both its clocks, that were set."""
        first, second = (self._eras[one.broker].times(one.point) for one in self._tie_ends(tie))
        return first[0] > second[1]

    def between(
        self, broker: int | None, from_ms: int | None, to_ms: int | None, spot: Spot | None = None
    ) -> tuple[int | None, int | None]:
        """Say between which times on the common clock another showed something between two times.

        `spot` is the place of the record that it dated.
        """
        eras = None if broker is None else self._eras.get(broker)
        if eras is None:
            least, most = self.of(broker)
            earliest = None if from_ms is None or most is None else from_ms - most
            return earliest, None if to_ms is None or least is None else to_ms - least
        around, is_placed = self._order.find_span(spot), spot is not None
        times = partial(eras.times, is_placed=is_placed)
        low = -EVER if from_ms is None else times(Point(from_ms, *around))[0]
        high = EVER if to_ms is None else times(Point(to_ms, *around))[1]
        return None if low <= -EVER else low, None if high >= EVER else high

    def of(self, broker: int | None) -> Bounds:
        """By how much the clock of a broker is ahead of the common one."""
        if broker is None:
            return Bounds(None, None)
        if broker in self._fixed:
            return Bounds(self._fixed[broker], self._fixed[broker])
        if broker in self._was_set:
            eras = self._eras.get(broker)
            return Bounds(None, None) if eras is None or eras.lead is None else Bounds(*eras.lead)
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
        rows = []
        for broker in sorted(self.brokers - {self.common}):
            bounds = self.of(broker)
            if self.common is None or bounds == (None, None):
                continue
            ways = [(self.common, broker), (broker, self.common)]
            why = [part for way in ways if way in self._most for part in self._most[way][1]]
            if broker in self._was_set:
                why = [
                    tie.why
                    for pair, ties in self._records.items()
                    if broker in pair
                    for tie in ties
                ]
            text = "as given" if broker in self._fixed else "; ".join(dict.fromkeys(why))
            pairs = sum(self._counts.get(way, 0) for way in ways)
            rows.append(ClockSkew(broker, self.common, *bounds, pairs, text))
        return rows


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


def _direct(spans: Mapping[_Pair, list[list[Tie | None]]], was_set: set[int]) -> _Most:
    """Bound pairs of clocks that were not set by their ties."""
    direct: _Most = {}
    for (first, second), of_pair in spans.items():
        for pair, way in (((first, second), 0), ((second, first), 1)):
            found = [_at_most(of_pair, at, way) for at in range(len(of_pair))]
            known = [one for one in found if one is not None]
            if len(known) == len(found) and was_set.isdisjoint(pair):
                direct[pair] = max(known)
    return direct


def _is_set(spans: list[list[Tie | None]]) -> bool:
    """Whether two clocks differ otherwise from one span to the next, by more than they drift."""
    gaps = [[EVER if tie is None else _gap(tie) for tie in span] for span in spans]
    return any(min(a + d, b + c) < -_DRIFT_MS for (a, b), (c, d) in pairwise(gaps))


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


def _close(most: _Most, brokers: Iterable[int]) -> _Most:
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

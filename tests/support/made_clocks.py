"""Made brokers whose clocks are set now and then, their logs, and the ties that these show.

Three brokers append to logs that one of them leads at a time, and a controller says which. Records
are dated by the clock of the leader. Some are the steps of transactions, of which it is known what
came first, or only of some of them, and some of which take long. What is left to chance between two
moments when a clock is set may tie it, or not; only before the first and behind the last of these
there is always something that does. What clocks showed, and when, is kept.
"""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from kdump.engine.timeline.clocks import Clocks
from kdump.engine.timeline.headers import EpochTies
from kdump.engine.timeline.leaders import METADATA_ID, Term
from kdump.engine.timeline.raw_event import Spot, Tie

BROKERS = 3
METADATA = METADATA_ID, 0
_BEGAN_MS, _END_MS = 1_700_000_000_000, 400_000


class Stamp(NamedTuple):
    """A record: whose clock dated it, what that showed, where it lies, when it was."""

    broker: int
    shown_ms: int
    spot: Spot
    true_ms: int


class _Log:
    """A log: who leads it; it stands for the replica that its ties are read from."""

    def __init__(self, name: tuple[str, int]) -> None:
        self.name = name
        self.epoch, self.end = 0, 0
        self.terms: dict[int, Term] = {}
        self.ties = EpochTies(self)  # type: ignore[arg-type]

    def find_term(self, epoch: int) -> Term | None:
        return self.terms.get(epoch)

    def find_spot(self, offset: int, epoch: int) -> Spot:
        return Spot(self.name, offset, epoch)


class MadeClocks:
    """What happened, drawn by a seed: `set_at` has when which clock was set to be how far ahead."""

    def __init__(self, seed: int) -> None:
        draw = self._draw = random.Random(seed)
        self.ahead = [[(-1, _BEGAN_MS + draw.randrange(-100_000, 100_000))] for _ in range(BROKERS)]
        self.stamps: list[Stamp] = []
        self.ties: list[Tie] = []
        for broker in draw.choice(((1,), (1,), (1,), (1, 2), ())):
            self._set(broker)
        self._logs = [_Log(METADATA), *(_Log((f"log{at}", at)) for at in range(4))]
        self._todo: list[tuple[int, int, Callable[[int], Any]]] = []
        self._number = count()
        for log in self._logs:
            self._lead(log, 0)
        self._plan(0, self._some)
        for at_ms in (0, 20_000, _END_MS + 10_000, _END_MS + 40_000):
            self._plan(at_ms, self._all)
        while self._todo:
            at_ms, _, do = heapq.heappop(self._todo)
            do(at_ms)
        for log in self._logs:
            self.ties += log.ties.found

    def _set(self, broker: int) -> None:
        """Set a clock, once or several times, near to each other or not."""
        draw, since = self._draw, self.ahead[broker]
        at_ms = draw.randrange(60_000, 250_000)
        step = draw.choice((-1, 1)) * draw.choice((600_000, 1_800_000, 10_800_000))
        for _ in range(draw.choice((1, 2, 2, 2, 3))):
            since.append((at_ms, since[-1][1] + step))
            step = draw.choice((-step, -step, draw.randrange(7, 90) * 90_000))
            at_ms += draw.choice((1_000, 5_000, 20_000, 50_000))

    def ahead_at(self, broker: int, true_ms: int) -> int:
        return [ahead for since, ahead in self.ahead[broker] if since <= true_ms][-1]

    def were_set(self) -> set[int]:
        return {broker for broker in range(BROKERS) if len(self.ahead[broker]) > 1}

    def clocks(self, common: int) -> Clocks:
        clocks = Clocks()
        for tie in self.ties:
            clocks.add(tie)
        clocks.settle(range(BROKERS), common, {})
        return clocks

    def _plan(self, at_ms: int, do: Callable[[int], Any]) -> None:
        heapq.heappush(self._todo, (at_ms, next(self._number), do))

    def _append(self, log: _Log, at_ms: int) -> Stamp:
        leader = log.terms[log.epoch].leader
        stamp = Stamp(
            leader, at_ms + self.ahead_at(leader, at_ms), log.find_spot(log.end, log.epoch), at_ms
        )
        log.ties.batch(log.epoch, stamp.shown_ms, log.end)
        log.end += self._draw.choice((1, 1, 3))
        self.stamps.append(stamp)
        return stamp

    def _lead(self, log: _Log, at_ms: int, leader: int | None = None) -> None:
        """Let another lead a log; of other logs than its own the controller says so."""
        log.epoch += 1
        leader = self._draw.randrange(BROKERS) if leader is None else leader
        if log.name == METADATA:
            log.terms[log.epoch] = Term(log.epoch, leader, None, None)
            self._append(log, at_ms)
            return
        said = self._append(self._logs[0], at_ms)
        log.terms[log.epoch] = Term(log.epoch, leader, said.broker, said.shown_ms, said.spot)

    def _some(self, at_ms: int) -> None:
        draw = self._draw
        what = draw.random()
        if what < 0.5:
            self._append(draw.choice(self._logs), at_ms)
        elif what < 0.55:
            self._lead(draw.choice(self._logs), at_ms)
        else:
            coordinator, data = draw.sample(self._logs[1:], 2)
            late, known = draw.choice((300, 300, 300, 30_000)), draw.choice((3, 3, 1, 2))
            self._transaction(at_ms, coordinator, data, late, known)
        if at_ms < _END_MS:
            self._plan(at_ms + draw.choice((200, 2_000, 2_000, 6_000)), self._some)

    def _all(self, at_ms: int) -> None:
        """Each broker leads a log with a transaction of another: what is at both ends is known."""
        for log in self._logs:
            self._append(log, at_ms)
        for at, broker in enumerate(range(BROKERS)):
            self._lead(self._logs[1 + at], at_ms, broker)
        for one, other in ((1, 2), (2, 3), (3, 1)):
            self._transaction(at_ms, self._logs[one], self._logs[other], 300, 3)

    def _transaction(
        self, at_ms: int, coordinator: _Log, data: _Log, late: int, known: int
    ) -> None:
        """Decide one, which takes a while; `known`: which of its two ties are."""
        draw = self._draw
        prepared = self._append(coordinator, at_ms)

        def mark(at_ms: int) -> None:
            marked = self._append(data, at_ms)
            if known & 1:
                self._tie(prepared, marked)
            self._plan(at_ms + draw.randrange(late), lambda at_ms: complete(marked, at_ms))

        def complete(marked: Stamp, at_ms: int) -> None:
            completed = self._append(coordinator, at_ms)
            if known & 2:
                self._tie(marked, completed)

        self._plan(at_ms + draw.randrange(late), mark)

    def _tie(self, one: Stamp, other: Stamp) -> None:
        times = one.broker, one.shown_ms, other.broker, other.shown_ms, "made"
        self.ties.append(Tie(*times, first_at=one.spot, second_at=other.spot))


def check_bounds(made: MadeClocks) -> tuple[int, list[str]]:
    """Count the stamps that are bounded closely, and list what is wrong of any."""
    close, wrong = 0, []
    clocks = made.clocks(min({*range(BROKERS)} - made.were_set()))
    assert clocks.common is not None
    for stamp in made.stamps:
        then = stamp.true_ms + made.ahead_at(clocks.common, stamp.true_ms)
        for spot in (None, stamp.spot):
            times = clocks.between(stamp.broker, stamp.shown_ms, stamp.shown_ms, spot)
            low, high = _bounds_or_any(*times)
            if not low <= then <= high:
                wrong.append(f"{stamp}, at {spot}: {then - low}, {high - then}")
        close += high - low < 5_000
    for row in clocks.rows():
        low, high = _bounds_or_any(row.at_least_ms, row.at_most_ms)
        for at_ms in {one.true_ms for one in made.stamps if one.broker == row.broker_id}:
            ahead = made.ahead_at(row.broker_id, at_ms) - made.ahead_at(clocks.common, at_ms)
            if not low <= ahead <= high:
                wrong.append(f"{row}, but {ahead}")
                break
    return close, wrong


def _bounds_or_any(low: int | None, high: int | None) -> tuple[int, int]:
    return -(1 << 60) if low is None else low, 1 << 60 if high is None else high

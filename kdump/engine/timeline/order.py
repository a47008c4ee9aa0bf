"""What the order in logs says of when a record was written, whatever its own clock showed.

A log is only appended to. So a record was written after those that lie before it and before those
behind it, of which some were dated by clocks that can be relied on.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import NamedTuple

from kdump.engine.timeline.eras import EVER, Span
from kdump.engine.timeline.raw_event import Spot

#: How late a record may be appended behind the time that it bears.
OVERTAKEN_MS = 5_000


class _Log(NamedTuple):
    offsets: list[int]
    epochs: list[int]
    own: list[Span]
    since: list[int]  # what is before was written after this
    until: list[int]  # what is behind was written before this


class LogOrder:
    """Times of records on one common clock, by their places."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], dict[tuple[int, int], Span]] = {}
        self._logs: dict[tuple[str, int], _Log | None] = {}

    def add(self, spot: Spot | None, from_ms: int = -EVER, to_ms: int = EVER) -> None:
        """Take note of when a record was written."""
        if spot is not None:
            self._logs.pop(spot.log, None)
            known = self._known.setdefault(spot.log, {})
            low, high = known.get(spot[1:], (-EVER, EVER))
            known[spot[1:]] = max(low, from_ms), min(high, to_ms)

    def find_span(self, spot: Spot | None) -> Span:
        """Say between which times a record was written."""
        if spot is None or spot.log not in self._known:
            return -EVER, EVER
        if spot.log not in self._logs:
            self._logs[spot.log] = _sort(self._known[spot.log])
        log = self._logs[spot.log]
        if log is None:
            return -EVER, EVER
        at = bisect_left(log.offsets, spot.offset)
        after = at + (at < len(log.offsets) and log.offsets[at] == spot.offset)
        epochs = [*log.epochs[max(at - 1, 0) : at], spot.epoch, *log.epochs[after : after + 1]]
        if epochs != sorted(epochs) or log.epochs[at:after] not in ([], [spot.epoch]):
            return -EVER, EVER  # a replica that went another way has it
        low, high = log.own[at] if after > at else (-EVER, EVER)
        if at:
            low = max(low, log.since[at - 1] - OVERTAKEN_MS)
        if after < len(log.offsets):
            high = min(high, log.until[after] + OVERTAKEN_MS)
        return low, high


def _sort(known: dict[tuple[int, int], Span]) -> _Log | None:
    """Order what is known of a log; None where replicas went different ways."""
    places = sorted(known)
    if any(a[0] == b[0] or a[1] > b[1] for a, b in pairwise(places)):
        return None
    own = [known[one] for one in places]
    since = list(accumulate((low for low, _ in own), max))
    until = list(accumulate((high for _, high in reversed(own)), min))[::-1]
    return _Log([one for one, _ in places], [one for _, one in places], own, since, until)

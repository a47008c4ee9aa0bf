"""Put together the spans of a log that were appended under one leader epoch each."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.findings.rows import Place
from kdump.kernels.columns import RecordBatches
from kdump.tuples import NamedTuple

NO_EPOCH = -1
SPANS_KEPT = 50_000  # a log of more changes than this is not looked at
_NOWHERE = Place(None, None, None, "")


class Span(NamedTuple):
    """Consecutive batches of one leader epoch: `position` and `size_bytes` are of the first.

    `records_count` is 0 where nobody counts.
    """

    epoch: int
    first_offset: int
    last_offset: int
    batches: int
    records_count: int = 0
    place: Place = _NOWHERE
    position: int = 0
    size_bytes: int = 0
    doubtful: bool = False  # among batches whose offsets are not in order
    shown: bool = True  # not left out of a dump

    def join(self, behind: Span) -> Span:
        """This one with another of the same epoch behind it."""
        return self._replace(
            last_offset=behind.last_offset,
            batches=self.batches + behind.batches,
            records_count=self.records_count + behind.records_count,
            doubtful=self.doubtful or behind.doubtful,
        )


class EpochSpans:
    """The spans of one log, put together in its order.

    `rising`: only those that a broker notes, which takes no epoch that is not above the last (R2).
    """

    def __init__(self, *, rising: bool = False) -> None:
        self.spans: list[Span] = []
        self.too_many = False
        self._rising = rising

    def add(self, span: Span) -> None:
        """Take up what lies behind all before it."""
        latest = self.spans[-1].epoch if self.spans else NO_EPOCH
        if self.spans and span.epoch == latest:
            self.spans[-1] = self.spans[-1].join(span)
        elif self._rising:
            if span.epoch > latest:
                self.spans.append(span)
        elif len(self.spans) < SPANS_KEPT:
            self.spans.append(span)
        else:
            self.too_many = True


def spans_in(
    batches: RecordBatches, place: Place = _NOWHERE, *, doubtful: bool = False
) -> Iterator[Span]:
    """Yield the spans of some batches, whose records are not counted."""
    for epoch, start, stop in runs_of_epochs(batches):
        yield Span(
            epoch,
            batches.base_offset(start),
            batches.last_offset(stop - 1),
            stop - start,
            place=place,
            position=batches.position(start),
            size_bytes=batches.size_bytes(start),
            doubtful=doubtful,
        )


def runs_of_epochs(batches: RecordBatches) -> Iterator[tuple[int, int, int]]:
    """Yield (epoch, start, stop) of consecutive rows with one epoch; most batches have one run."""
    epochs, count = batches.leader_epochs, batches.count
    if not count:
        return
    if epochs.tobytes() == epochs[:1].tobytes() * count:
        yield epochs[0], 0, count
        return
    start = 0
    for row in range(1, count + 1):
        if row == count or epochs[row] != epochs[start]:
            yield epochs[start], start, row
            start = row

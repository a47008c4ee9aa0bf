"""Report batches of a dump whose leader epoch contradicts their neighbours'.

The field lies outside the checksum. Held against each other are batches that were read; `verify`
also knows the whole partition and its checkpoint, and reports more.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.broker.leader_epochs import NO_EPOCH, Span, runs_of_epochs
from kdump.engine.reading.damage import at_place
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.kernels.columns import RecordBatches


def is_apart(epoch: int, before: int, after: int) -> bool:
    """Whether the epoch of one batch is not between those around it, which do not fall."""
    return before <= after and not before <= epoch <= after


def wrong_epoch_finding(span: Span, before: Span | None, after: Span | None) -> Finding:
    """Say that a batch's epoch is not that of its place."""
    neighbors = [
        f"the batch {where} it has {one.epoch}"
        for one, where in ((before, "before"), (after, "after"))
        if one is not None
    ]
    but = f"; {' and '.join(neighbors)}" if neighbors else ""
    beside = before or after
    message = (
        f"The batch at offset {span.first_offset:,} has leader epoch {span.epoch}{but}. The "
        "checksum does not cover this field; the records are intact."
    )
    return at_place(
        "leader-epoch-odd",
        span.place,
        position=span.position,
        size_bytes=span.size_bytes,
        offset=span.first_offset,
        expected=None if beside is None else beside.epoch,
        actual=span.epoch,
        message=message,
    )


class EpochWatch:
    """Follows the epochs of one segment's batches; a change waits for the batch behind it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._before: Span | None = None
        self._held: Span | None = None  # the first of its epoch, until there is a second
        self._first: Span | None = None  # that of the log, where its epoch is above the next

    def run(self, batches: RecordBatches, admitted: bytearray | None) -> Iterator[Finding]:
        """Look at the epochs of some batches; most have the same."""
        for epoch, start, stop in runs_of_epochs(batches):
            for row in range(start, stop):
                if epoch == NO_EPOCH or self._continues(epoch):
                    break  # so does the rest of the run
                if not batches.has_leader_epoch(row):
                    continue
                batch = Span(
                    epoch,
                    batches.base_offset(row),
                    batches.last_offset(row),
                    1,
                    place=self._place,
                    position=batches.position(row),
                    size_bytes=batches.size_bytes(row),
                    shown=admitted is None or bool(admitted[row]),
                )
                yield from self._next(batch)

    def _continues(self, epoch: int) -> bool:
        """Whether nothing is pending for the batch after it, and the epoch is the last one's."""
        return self._held is None and self._before is not None and epoch == self._before.epoch

    def _next(self, batch: Span) -> Iterator[Finding]:
        before, held = self._before, self._held
        if held is None:
            if before is None or batch.epoch != before.epoch:
                self._held = batch
            return
        self._held = None
        first, self._first = self._first, None
        if batch.epoch == held.epoch:
            if first is not None and first.shown:
                yield wrong_epoch_finding(first, None, held)
            self._before = held
            return
        if before is not None and is_apart(held.epoch, before.epoch, batch.epoch):
            if held.shown:
                yield wrong_epoch_finding(held, before, batch)
        else:
            if before is None and held.epoch > batch.epoch:
                self._first = held
            self._before = before = held
        if batch.epoch != (before.epoch if before is not None else NO_EPOCH):
            self._held = batch

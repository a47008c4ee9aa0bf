"""Find where each leader epoch began in replicas, and how far their history is common.

A follower that meets a new leader asks where its own last epoch ended there, and cuts its log to
the smaller of both ends (KIP-101). So the largest epoch that all have, and the smallest of its
ends, say up to where replicas agree by their own account; what lies behind is lost to whoever
does not lead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump import kernels
from kdump.broker.elections import find_epoch_end
from kdump.broker.leader_epochs import NO_EPOCH, EpochSpans, Span, runs_of_epochs
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.rows.compare import EpochSpan


class Epochs(EpochSpans):
    """The leader epochs of one log and their records, fed with its headers in order."""

    def feed(self, batches: RecordBatches, before: int) -> None:
        """Take up headers; `before` is the last offset before them."""
        for epoch, start, stop in runs_of_epochs(batches):
            part = batches if stop - start == batches.count else batches.slice(start, stop)
            wrapper = part.flags_of(0) & c.WRAPPER
            first, last = (
                before + 1 if wrapper else part.base_offset(0),
                part.last_offset(part.count - 1),
            )
            self.add(Span(epoch, first, last, part.count, records_in(part, before)[0]))
            before = last


def span_fields(span: Span) -> EpochSpan:
    """The members of a JSON row."""
    epoch = None if span.epoch == NO_EPOCH else span.epoch
    return EpochSpan(
        leader_epoch=epoch,
        first_offset=span.first_offset,
        last_offset=span.last_offset,
        records_count=span.records_count,
    )


def records_in(batches: RecordBatches, before: int) -> tuple[int, int]:
    """Count records and wrappers; `before` is the last offset before these batches.

    A wrapper's header does not say how many it holds: as many as it has offsets, where none is
    missing.
    """
    records, wrappers, _, _ = kernels.tally(batches)
    if wrappers:
        for row, flags in enumerate(batches.row_flags):
            last = batches.last_offset(row)
            records += last - before if flags & c.WRAPPER else 0
            before = last
    return records, wrappers


def lineage(
    spans: Iterable[Span], written: Sequence[tuple[int, int]], end: int
) -> list[tuple[int, int]]:
    """Say which epochs a log has and where each began, rising.

    `written` are those of the checkpoint, which also knows epochs that have no record here; those
    that batches show count where both do. An epoch between two lower ones is a byte that changed:
    no checksum covers it.
    """
    kept: list[Span] = []
    for span in spans:
        if span.epoch == NO_EPOCH:
            continue
        while kept and kept[-1].epoch > span.epoch and kept[-1].batches < span.batches:
            kept.pop()
        if not kept or kept[-1].epoch < span.epoch:
            kept.append(span)
    known = [(span.epoch, span.first_offset) for span in kept]
    if not known:
        return [(epoch, start) for epoch, start in written if start <= end]
    first, last = known[0], (kept[-1].epoch, kept[-1].last_offset)
    before = [(epoch, start) for epoch, start in written if epoch < first[0] and start <= first[1]]
    after = [
        (epoch, start) for epoch, start in written if epoch > last[0] and last[1] < start <= end
    ]
    return [*before, *known, *after]


def common(logs: Sequence[tuple[Sequence[tuple[int, int]], int]]) -> tuple[int, int] | None:
    """Return the largest epoch of all logs, and the offset at which the first of them leaves it.

    `logs` are epochs and log end of each. None where they have no epoch in common.
    """
    shared = set.intersection(*({epoch for epoch, _ in epochs} for epochs, _ in logs))
    if not shared:
        return None
    epoch = max(shared)
    return epoch, min(find_epoch_end(epochs, epoch, end) for epochs, end in logs)


def cut_spans(spans: Iterable[Span], offset: int) -> list[Span]:
    """Cut spans to what lies at or behind an offset.

    Of a span that is cut the records are counted by offsets, which is one too many for each that
    is missing.
    """
    found = []
    for span in spans:
        if span.last_offset < offset:
            continue
        if span.first_offset < offset:
            count = min(span.records_count, span.last_offset - offset + 1)
            span = span._replace(first_offset=offset, records_count=count)
        found.append(span)
    return found

"""Decide which copy leads, and in which leader epoch each offset was written.

Within one epoch one leader gave out the offsets, so epoch and offset together name a record. The
copy that leads is the one that an election would choose: of the newest epoch, then the longest.
Where another copy has an offset from another epoch, that was cut off by the brokers, or would have
been (KIP-101); it has diverged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kdump.broker.leader_epochs import NO_EPOCH, Span
from kdump.engine.compare.epochs import lineage
from kdump.engine.salvage.copies import Batch
from kdump.engine.salvage.options import LONGEST, NEWEST_EPOCH
from kdump.engine.salvage.parallel_merge import merge_equal

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Copy
    from kdump.kernels.columns import RecordBatches

_SUSPECTS = 100_000


class History:
    """The epochs of a log, rising, each with the offset it began at."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self._spans: list[Span] = []

    def accepts(self, batch: Batch) -> bool:
        """Whether a batch was written in the epoch that its offset belongs to."""
        return self._accepts(batch.epoch, batch.first)

    def accepts_all(self, rows: RecordBatches) -> bool:
        """Whether batches of one epoch were all written in the epoch of their offsets."""
        if not rows.has_leader_epoch(0):
            return True
        epoch, last = rows.leader_epoch(0), rows.base_offset(rows.count - 1)
        return self._accepts(epoch, rows.base_offset(0)) and self._accepts(epoch, last)

    def _accepts(self, epoch: int, first: int) -> bool:
        if epoch == NO_EPOCH or not self.starts:
            return True
        at = bisect_right(self.starts, first, key=lambda entry: entry[1])
        if not at:
            return epoch < self.starts[0][0]
        return epoch == self.starts[at - 1][0]

    def lead(self, copy: Copy) -> None:
        """Take the history of the copy that leads."""
        self.starts = lineage(copy.spans, copy.written_epochs, copy.end)
        epochs = {epoch for epoch, _ in self.starts}
        self._spans = [span for span in copy.spans if span.epoch in epochs]
        self.follow(copy.written_epochs)

    def follow(self, entries: Sequence[tuple[int, int]]) -> None:
        """Take up what fits of another account: epochs not known yet, and earlier starts."""
        for epoch, start in entries:
            if epoch >= 0 and self._fits(epoch, start):
                known = dict(self.starts) | {epoch: start}
                self.starts = sorted(known.items())

    def _fits(self, epoch: int, start: int) -> bool:
        if any(
            span.last_offset >= start if span.epoch < epoch else span.first_offset < start
            for span in self._spans
        ):
            return False
        for other, begun in self.starts:
            if other == epoch and begun <= start:
                return False
            if (other < epoch and begun >= start) or (other > epoch and begun < start):
                return False
        return True

    def knows_all_before(self, copy: Copy) -> bool:
        """Whether the checkpoint of the copy that leads names each epoch of its log."""
        written = {epoch for epoch, _ in copy.written_epochs}
        return bool(written) and all(span.epoch in written for span in self._spans)


def survey(copies: Sequence[Copy]) -> None:
    """Read all copies side by side, and sort out leader epochs that cannot be right.

    No checksum covers an epoch. Where copies of one batch have several, and a copy has the epoch in
    that batch alone, the epoch of most of them counts, of as many the lowest.
    """
    bases = {base for copy in copies for base in copy.bases}
    for copy in copies:
        copy.missing = sorted(bases - {one.base_offset for one in copy.replica.segments})
    suspects: list[Batch] = []
    items = merge_equal([copy.items() for copy in copies])
    for _, same in groupby(items, key=lambda item: getattr(item, "identity", item)):
        group: list[Batch] = []
        for item in same:
            if isinstance(item, Batch):
                group.append(item)
                continue
            for stretch in item:
                stretch.copy.count_all(stretch, shared=len(item) > 1)
        for batch in group:
            batch.copy.count(batch, shared=len(group) > 1)
        epochs = Counter(batch.epoch for batch in group)
        if len(epochs) > 1 and len(suspects) < _SUSPECTS:
            sane = [epoch for epoch in epochs if epoch >= NO_EPOCH]
            right = max(sane, key=lambda epoch: (epochs[epoch], -epoch), default=None)
            suspects += (batch for batch in group if batch.epoch != right)
    ends = bases.union(end for copy in copies for end in copy.replica.claims.values())
    for copy in copies:
        copy.end_count(ends)
    for batch in suspects:
        batch.copy.forget_alone(batch)


def settle(copies: list[Copy], prefer: str | None) -> History:
    """Order the copies by who leads, and make one history of theirs."""

    def rank(copy: Copy) -> tuple[object, ...]:
        epochs = lineage(copy.spans, [], copy.end)
        newest = epochs[-1][0] if epochs else NO_EPOCH
        if prefer == LONGEST:
            return copy.end, newest
        if prefer in (None, NEWEST_EPOCH):
            return newest, copy.end
        return copy.fits(str(prefer)), newest, copy.end

    copies.sort(key=rank, reverse=True)
    history = History()
    for number, copy in enumerate(copies):
        copy.rank = number
        if number == 0:
            history.lead(copy)
            is_whole = history.knows_all_before(copy)
            continue
        entries = lineage(copy.spans, copy.written_epochs, copy.end)
        if is_whole:
            known = dict(history.starts)
            entries = [entry for entry in entries if entry[0] in known or entry[0] < min(known)]
        history.follow(entries)
    return history

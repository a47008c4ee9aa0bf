"""Check leader epochs in batches and in `leader-epoch-checkpoint` (F20, X2).

A batch's epoch lies outside its checksum, so that only its neighbours and the checkpoint tell a
changed one. Within one log epochs never fall (X16). The checkpoint lists where each began; it may
begin later than the log (trimmed, or cleared by batches of an old format, V28), name epochs
without a record, and reach beyond the log end.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from kdump.broker.leader_epochs import NO_EPOCH, EpochSpans, Span, spans_in
from kdump.engine.checks.ordering import in_order
from kdump.engine.checks.survey import problem_finding
from kdump.engine.reading.check import Check, Conditional, Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.engine.reading.epoch_watch import is_apart, wrong_epoch_finding
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.storage import checkpoints, names, places
from kdump.storage.names import Kind, Retirement
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.kernels.columns import RecordBatches
    from kdump.storage.checkpoints import EpochStart


class LeaderEpochs(Check):
    """Collects where the epoch changes; all else is judged at the end."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._read = False
        self._log = EpochSpans()

    def begin(self, segment: SegmentScan) -> Iterable[Reported]:
        """Note that there is a log to go by."""
        self._read = not self.partition.quick
        return ()

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Look for changes; most runs have none."""
        doubtful = not in_order(segment, batches)
        for span in spans_in(batches, segment.place, doubtful=doubtful):
            self._log.add(span)

    def end(self) -> Iterator[Reported]:
        """Judge the epochs by their neighbours and the checkpoint, and the checkpoint by them."""
        checkpoint = _Checkpoint(self.partition)
        yield from checkpoint.findings
        if not self._read or self._log.too_many:
            return
        spans: list[Span] = []
        found = [span for span in self._log.spans if span.epoch != NO_EPOCH]
        for span, after in zip_longest(found, found[1:]):
            before = spans[-1] if spans else None
            if _is_implausible(span, before, after, checkpoint):
                yield Conditional(wrong_epoch_finding(span, before, after), _rests_on(span))
            elif before is not None and before.epoch == span.epoch:
                spans[-1] = before.join(span)
            else:
                if before is not None and span.epoch < before.epoch:
                    yield _falls(span, before)
                spans.append(span)
        name = self.partition.log.name
        deleted = name is not None and name.retirement is Retirement.DELETE  # they are cleared
        if checkpoint.readable and not deleted:
            yield from self._against(spans, checkpoint)

    def _against(self, spans: list[Span], checkpoint: _Checkpoint) -> Iterator[Reported]:
        """Tell of the first span that the checkpoint has otherwise, and how many there are.

        What lies below the log start is trimmed away, or truncated to nothing (X2).
        """
        start, _ = self.partition.log_start()
        spans = [span for span in spans if span.last_offset >= start]
        if not spans:
            return
        if not checkpoint.entries:
            # With an old format in use there is none, nor beside a log that was copied away alone.
            newest = self._log.spans[-1].epoch
            if newest != NO_EPOCH and (checkpoint.path or _broker_keeps(self.partition)):
                there = (
                    "the checkpoint has no entry" if checkpoint.path else "there is no checkpoint"
                )
                span = spans[-1]
                none = _Wrong("leader-epochs-missing", span, span.first_offset, "none", there)
                yield self._mismatch(none, checkpoint)
            return
        sure = [span for span in spans if not span.doubtful]
        wrong = [
            found for span in sure if (found := _find_contradiction(span, checkpoint)) is not None
        ]
        if not wrong:
            return
        one = wrong[0]
        if len(wrong) > 1:
            one = one._replace(words=f"{one.words}; {len(wrong) - 1:,} more epochs are wrong")
        yield self._mismatch(one, checkpoint)

    def _mismatch(self, wrong: _Wrong, checkpoint: _Checkpoint) -> Conditional:
        span = wrong.span
        name = names.LEADER_EPOCH_CHECKPOINT
        reported = at_place(
            wrong.code,
            self.partition.place,
            path=checkpoint.path or os.path.join(self.partition.log.path, name),
            offset=wrong.offset,
            expected=f"epoch {span.epoch} at offset {wrong.offset}",
            actual=wrong.actual,
            message=(
                f"Leader epoch {span.epoch} has batches at offsets {span.first_offset:,}-"
                f"{span.last_offset:,}, but {wrong.words}."
            ),
        )
        return Conditional(reported, _rests_on(span))


class _Checkpoint:
    """What the partition's leader-epoch-checkpoint says, once loaded.

    `path` is None where there is no file; `readable`: a broker could read it, or there is none.
    """

    def __init__(self, partition: PartitionScan) -> None:
        self.findings: list[Finding] = []
        self.readable = True
        self.entries: list[EpochStart] = []
        self.path = next(
            (path for name, path in partition.log.others if name.kind is Kind.LEADER_EPOCHS), None
        )
        if self.path is not None:
            self._read(partition, self.path)
        self.starts = [entry.start_offset for entry in self.entries]
        self.epochs = {entry.epoch for entry in self.entries}

    def _read(self, partition: PartitionScan, path: str) -> None:
        try:
            read = checkpoints.parse_leader_epochs(read_whole(path, checkpoints.SIZE_LIMIT))
        except PathError as error:
            self.readable = False
            if places.lexists(path):
                partition.errors.append(error)
            return
        place = partition.place._replace(path=path)
        self.entries = checkpoints.load_epochs(read.entries)
        self.findings = [problem_finding(problem, place) for problem in read.problems]
        self.readable = not read.problems and self.entries == read.entries
        if not read.problems and not self.readable:
            kept = f"{len(self.entries)} of {len(read.entries)} entries"
            self.findings.append(
                at_place(
                    "leader-epochs-order",
                    place,
                    expected=f"{len(read.entries)} entries",
                    actual=f"{len(self.entries)} entries",
                    message=f"Epochs or start offsets do not increase: a broker keeps {kept}.",
                )
            )

    def floor(self, offset: int) -> EpochStart | None:
        """The entry an offset belongs to; None below the first."""
        slot = bisect_right(self.starts, offset) - 1
        return self.entries[slot] if slot >= 0 else None


def _is_implausible(
    span: Span, before: Span | None, after: Span | None, checkpoint: _Checkpoint
) -> bool:
    """Whether one batch's epoch contradicts its neighbors or the checkpoint."""
    epoch = span.epoch
    if epoch < NO_EPOCH:
        return True
    if span.batches != 1:
        return False
    if before is not None and after is not None:
        if is_apart(epoch, before.epoch, after.epoch):
            return True
    elif before is not None:
        if epoch < before.epoch:
            return True
    elif after is not None and epoch > after.epoch and after.batches > 1:
        return True
    if not checkpoint.readable or epoch in checkpoint.epochs:
        return False
    # An epoch is in the checkpoint before the first batch of it is in the log.
    floor = checkpoint.floor(span.first_offset)
    neighbours = {one.epoch for one in (before, after) if one is not None}
    return floor is not None and floor.epoch in neighbours


def _falls(span: Span, before: Span) -> Conditional:
    message = (
        f"At offset {span.first_offset:,}, the leader epoch falls from {before.epoch} to "
        f"{span.epoch}."
    )
    reported = at_place(
        "leader-epoch-falls",
        span.place,
        position=span.position,
        size_bytes=span.size_bytes,
        offset=span.first_offset,
        expected=before.epoch,
        actual=span.epoch,
        message=message,
    )
    return Conditional(reported, _rests_on(span))


def _rests_on(span: Span) -> RestsOn:
    end = span.position + span.size_bytes
    offset = span.first_offset
    return RestsOn(span.place.segment, span.position, end, offset, offset + 1)


class _Wrong(NamedTuple):
    """How the checkpoint contradicts a span: at which offset, what it says there, in words."""

    code: str
    span: Span
    offset: int
    actual: str
    words: str


def _broker_keeps(partition: PartitionScan) -> bool:
    """Whether other files that a broker with leader epochs keeps in the directory are there."""
    kinds = {name.kind for name, _ in partition.log.others}
    return bool(kinds & {Kind.PARTITION_METADATA, Kind.PRODUCER_SNAPSHOT})


def _find_contradiction(span: Span, checkpoint: _Checkpoint) -> _Wrong | None:
    """Hold the checkpoint against a span; None where it agrees, or does not reach."""
    first, last = checkpoint.floor(span.first_offset), checkpoint.floor(span.last_offset)
    if last is None or (first is not None and first.epoch == last.epoch == span.epoch):
        return None
    if first is None and last.epoch == span.epoch:
        return None  # trimmed in the midst of the epoch
    if span.epoch not in checkpoint.epochs:
        there = last if first is None else first
        words = f"the checkpoint has epoch {there.epoch} there instead"
        code = "leader-epochs-missing"
        return _Wrong(code, span, span.first_offset, f"epoch {there.epoch}", words)
    code = "leader-epochs-start"
    start = next(entry.start_offset for entry in checkpoint.entries if entry.epoch == span.epoch)
    if start > span.first_offset:
        return _Wrong(
            code, span, span.first_offset, str(start), f"in the checkpoint it starts at {start:,}"
        )
    words = f"in the checkpoint, epoch {last.epoch} starts at {last.start_offset:,}"
    return _Wrong(code, span, span.last_offset, str(last.start_offset), words)

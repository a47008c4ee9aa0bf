"""Replay producer state once for three checks: sequences, snapshots, transactions.

The replay (`broker/producer_state.py`) goes along with the scan. Each part that rests on it is an
object of its own, called for the events that concern it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from kdump.broker.producer_events import Ended, Event, Mixed, Opened, Unjoined, Unreadable
from kdump.broker.producer_state import ProducerStates
from kdump.engine.checks.ordering import in_order, in_parts
from kdump.engine.checks.producer_snapshots import SnapshotCheck
from kdump.engine.checks.transaction_index import TransactionIndexCheck
from kdump.engine.reading.check import Check, Conditional, Reported, Reports, RestsOn
from kdump.engine.reading.damage import BatchAt, at_place
from kdump.engine.reading.sequence_rules import (
    COORDINATED,
    DUPLICATE,
    GAP,
    ahead,
    first_words,
    judge,
)

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import About
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap, Oversize, Run

_DOUBT = " (If the log starts at its first segment: there is no checkpoint of log start offsets.)"


class Producers(Check):
    """Replays producer state, and holds everything beside the log that tells of it against it."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        start, known = partition.log_start()
        if not known:
            start = max(start, partition.trimmed_to())
        doubt = "" if known else _DOUBT
        self._states = ProducerStates()
        self._index = TransactionIndexCheck(partition, self._states, start, doubt)
        self._snapshots = SnapshotCheck(partition, self._states, start, doubt)
        self._sequences = partition.target.topic not in COORDINATED
        self._expiration_ms = partition.settings.producer_id_expiration_ms
        self._known = False  # whether the segment before was read
        self._broken = True  # whether what came before is not known

    def begin(self, segment: SegmentScan) -> Reports:
        """Open the segment's transaction index, and see to a snapshot at its base offset."""
        self._index.begin(segment)
        if self._broken:
            # As a broker does: from the snapshot taken here, if it can be read.
            self._states.load(self._snapshots.entries(segment.base_offset))
            self._index.known_again(segment.base_offset)
            self._broken = False
        self._known = True
        return self._snapshots.reached(segment.base_offset)

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Reported]:
        """Replay what is in order; batches that are not have some other offset in truth."""
        for part, ordered in in_parts(segment, run):
            if ordered:
                yield from self._replay(segment, part)
                continue
            self._forget(0)
            batches = part.batches
            behind = batches.end_position(batches.count - 1)
            self._index.unknown(segment, batches.position(0), behind)

    def oversize(self, segment: SegmentScan, one: Oversize) -> Reports:
        """Replay a batch that is too large to be held."""
        if in_order(segment, one.batches):
            return self._replay(segment, one)
        self._forget(segment.last_offset + 1)
        return None

    def _replay(self, segment: SegmentScan, item: Run | Oversize) -> Iterator[Reported]:
        """Replay batches, in pieces where a snapshot was taken in their midst."""
        batches = item.batches
        last = batches.last_offset(batches.count - 1)
        if self._states.next_offset < 0:
            self._index.known_again(batches.base_offset(0))
        start = 0
        while (stop := self._snapshots.next_offset(last)) is not None:
            for event in self._states.replay(item, start, stop):
                yield from self._event(segment, batches, event)
            yield from self._snapshots.reached(stop)
            start = stop
        for event in self._states.replay(item, start):
            yield from self._event(segment, batches, event)

    def _event(
        self, segment: SegmentScan, batches: RecordBatches, event: Event
    ) -> Iterator[Reported]:
        if isinstance(event, Ended):
            if not event.committed:
                self._index.aborted(segment, event)
        elif isinstance(event, Opened):
            self._index.opened(event.first_offset)
        elif isinstance(event, Mixed):
            if event.joined:
                yield _mixed(segment, batches, event)
        elif isinstance(event, Unreadable):
            pass  # ControlBatches reports it
        elif self._sequences:
            yield from _sequence(segment, batches, event, self._expiration_ms)

    def gap(self, segment: SegmentScan, gap: Gap) -> None:
        """Forget: markers may have been in it. What ends the log has nothing behind it."""
        if not (gap.to_end and segment.active):
            self._forget(segment.last_offset + 1)

    def finish(self, segment: SegmentScan) -> Iterator[Reported]:
        """Say what is wrong with the segment's transaction index."""
        yield from self._index.finish(segment)

    def skip(self, segment: SegmentScan) -> Iterator[Reported]:
        """Forget all: what was open may have ended there. The index alone can be looked at."""
        yield from self._index.leave(segment)
        self._forget(0)
        self._known = False

    def _forget(self, known_from: int) -> None:
        self._states.forget()
        self._index.known_again(known_from)
        self._broken = True

    def end(self) -> Iterator[Reported]:
        """Say which transactions are open at the log end, and look at the snapshots left over."""
        yield from self._snapshots.end()
        newest = self.partition.segments[-1] if self.partition.segments else None
        if newest is None or not self._known or not newest.complete:
            return
        if self._states.overflowed:
            yield at_place("producers-not-checked", newest.place)
        elif self._states.open:
            from kdump.engine.checks.open_transactions import open_transactions

            yield from open_transactions(self.partition, newest, self._states)


def _mixed(segment: SegmentScan, batches: RecordBatches, event: Mixed) -> Conditional:
    message = (
        f"Producer {event.producer_id} has a transaction open since offset "
        f"{event.first_offset:,}, and this batch of it is not transactional."
    )
    return _suspect(
        "transaction-mixed", segment, batches, event.row, event.first_offset, message=message
    )


def _sequence(
    segment: SegmentScan, batches: RecordBatches, event: Unjoined, expiration_ms: int
) -> Iterator[Conditional]:
    """Tell of a gap, or of numbers seen before, where neither has an innocent explanation."""
    before, row = event.previous, event.row
    judged = judge(event, batches, expiration_ms)
    whose = f"Producer {event.producer_id}, epoch {event.producer_epoch}: "
    if judged == DUPLICATE:
        message = whose + (
            f"sequence {event.base_sequence:,} is here again; the batch before it, up to offset "
            f"{before.last_offset:,}, ended at {before.last_sequence:,}."
        )
        code = "sequence-duplicate"
    elif judged == GAP and event.is_first:
        message = whose + first_words(event)
        code = "sequence-gap"
    elif judged == GAP:
        message = whose + (
            f"{ahead(event):,} sequence numbers are missing between offset "
            f"{before.last_offset:,} and {batches.base_offset(row):,}, and no offset is."
        )
        code = "sequence-gap"
    else:
        return
    yield _suspect(
        code, segment, batches, row, before.last_offset, message=message,
        expected=event.expected, actual=event.base_sequence,
    )  # fmt: skip


def _suspect(
    code: str,
    segment: SegmentScan,
    batches: RecordBatches,
    row: int,
    rests_on: int,
    **about: Unpack[About],
) -> Conditional:
    """A finding about a batch, which rests on the log from an earlier offset on."""
    offset, position = batches.base_offset(row), batches.position(row)
    end = batches.end_position(row)
    about["offset"] = offset
    reported = BatchAt(segment.place, batches, row).finding(code, **about)
    low = min(max(rests_on, 0), offset)
    return Conditional(reported, RestsOn(segment.base_offset, position, end, low, offset + 1))

"""Replay producer state once for three checks: sequences, snapshots, transactions.

The replay (`broker/producer_state.py`) goes along with the scan. Each part that rests on it is an
object of its own, called for the events that concern it.

Report transactions that are still open at the log end, and those that hang (L7).

How old one is, the log tells and not the clock: a copy of a directory may be years old, and where
a log simply ends nothing is old. Markers carry a broker's time. Where none follows, what was
written outside of transactions has to do; that time is a producer's, so it has to be twice as
long. Only where a broker runs is the time of the file held against today's: its batches were
there by then. Where the coordinators' topic lies under the same paths, what no coordinator awaits
hangs at any age (T4).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from kdump.broker.producer_events import (
    Event,
    MixedBatch,
    SequenceBreak,
    TransactionEnd,
    TransactionStart,
    Unreadable,
)
from kdump.broker.producer_state import ProducerStates
from kdump.broker.visibility import open_transaction_of, transaction_words
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
from kdump.findings.commands import abort_command, producer_command
from kdump.findings.moments import span_text
from kdump.findings.ranges import records_text
from kdump.findings.shell import format_command
from kdump.storage import lock, places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.producer_state import Producer
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import About
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap, Oversize, Run


_DOUBT = (
    " (This assumes that the log starts at its first segment: there is no checkpoint of log start "
    "offsets.)"
)


class Producers(Check):
    """Replays producer state, and holds everything beside the log that tells of it against it."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        start, known = partition.log_start()
        if not known:
            start = max(start, partition.epochs_start())
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
            self._index.end_unknown(segment.base_offset)
            self._broken = False
        self._known = True
        return self._snapshots.check_until(segment.base_offset)

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Reported]:
        """Replay what is in order; batches that are not have some other offset in truth."""
        for part, ordered in in_parts(segment, run):
            if ordered:
                yield from self._replay(segment, part)
                continue
            self._forget(0)
            batches = part.batches
            behind = batches.end_position(batches.count - 1)
            self._index.note_unknown(segment, batches.position(0), behind)

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
            self._index.end_unknown(batches.base_offset(0))
        start = 0
        while (stop := self._snapshots.next_offset(last)) is not None:
            for event in self._states.replay(item, start, stop):
                yield from self._event(segment, batches, event)
            yield from self._snapshots.check_until(stop)
            start = stop
        for event in self._states.replay(item, start):
            yield from self._event(segment, batches, event)

    def _event(
        self, segment: SegmentScan, batches: RecordBatches, event: Event
    ) -> Iterator[Reported]:
        if isinstance(event, TransactionEnd):
            if not event.committed:
                self._index.note_abort(segment, event)
        elif isinstance(event, TransactionStart):
            self._index.note_open(event.first_offset)
        elif isinstance(event, MixedBatch):
            if event.joined:
                yield _mixed_finding(segment, batches, event)
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
        self._index.end_unknown(known_from)
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
            from kdump.engine.checks.producers import open_transactions

            yield from open_transactions(self.partition, newest, self._states)


def _mixed_finding(segment: SegmentScan, batches: RecordBatches, event: MixedBatch) -> Conditional:
    message = (
        f"Producer {event.producer_id} has a transaction open since offset "
        f"{event.first_offset:,}, but this batch of the same producer is not transactional."
    )
    return _suspect(
        "transaction-mixed", segment, batches, event.row, event.first_offset, message=message
    )


def _sequence(
    segment: SegmentScan, batches: RecordBatches, event: SequenceBreak, expiration_ms: int
) -> Iterator[Conditional]:
    """Tell of a gap, or of numbers seen before, where neither has an innocent explanation."""
    before, row = event.previous, event.row
    judged = judge(event, batches, expiration_ms)
    whose = f"Producer {event.producer_id}, epoch {event.producer_epoch}: "
    if judged == DUPLICATE:
        message = whose + (
            f"this batch starts at sequence number {event.base_sequence:,}, although the batch "
            f"before it, which ends at offset {before.last_offset:,}, ended at sequence number "
            f"{before.last_sequence:,}."
        )
        code = "sequence-duplicate"
    elif judged == GAP and event.is_first:
        message = whose + first_words(event)
        code = "sequence-gap"
    elif judged == GAP:
        message = whose + (
            f"{ahead(event):,} sequence numbers are missing between its batch that ends at offset "
            f"{before.last_offset:,} and its next one, which starts at "
            f"offset {batches.base_offset(row):,}; the log has every offset in between."
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


_SHOWN = 100


class _Age(NamedTuple):
    """How old a transaction is at least, how old it may be, and by what that is known."""

    ms: int
    allowed_ms: int
    words: str

    @property
    def hangs(self) -> bool:
        """Whether it is older than any coordinator lets one become."""
        return self.ms > self.allowed_ms


def open_transactions(
    partition: PartitionScan, newest: SegmentScan, states: ProducerStates
) -> Iterator[Reported]:
    """Tell of each transaction that has no marker; the earliest holds readers back."""
    stable = states.last_stable_offset(newest.last_offset + 1)
    path = partition.log.path
    live = bool(states.open) and not places.is_uri(path) and bool(lock.is_held_around(path))
    name = partition.log.name
    retired = name is not None and name.retirement is not None  # no consumer reads there
    for producer_id, first in islice(states.open.items(), _SHOWN):
        producer = states.producers[producer_id]
        tail = newest.tail
        age = _by_log(partition, producer, states)
        if live and not age.hangs:
            by_file = _by_file(partition, first)
            age = by_file if by_file.hangs else age
        message = f"{transaction_words(producer_id, producer, first)}; {age.words}."
        is_left, words = partition.judge(open_transaction_of(states, producer_id), live)
        message += words
        # The marker may have been in what broke off.
        hangs = (age.hangs or (is_left and tail is None)) and not retired
        if age.hangs and hangs:
            message += f" {_limit_words(partition)}"
        if first == stable:
            message += _waiting_words(partition, newest, first)
        if hangs:
            message += _abort_words(newest, first)
        else:
            looks = producer_command(str(partition.log.path), producer_id, first)
            message += f" To see the transaction's batches: {format_command(looks)}"
        more = len(states.open) - _SHOWN
        if first == stable and more > 0:
            message += f" {more:,} more transactions are open."
        found = at_place(
            "transaction-hanging" if hangs else "transaction-open",
            newest.place,
            offset=first,
            actual=producer.since_ms,
            message=message,
        )
        if tail is not None and not hangs:
            yield Conditional(found, RestsOn(newest.base_offset, tail.position, tail.position + 1))
        else:
            yield found


def _by_log(partition: PartitionScan, producer: Producer, states: ProducerStates) -> _Age:
    """How long the log goes on behind a transaction's first batch."""
    allowed = partition.settings.transaction_max_timeout_ms
    if producer.stamped_ms >= 0:
        age, allowed = states.newest_marker_ms - producer.stamped_ms, allowed
    else:
        age, allowed = states.newest_ms - producer.since_ms, 2 * allowed
        if min(producer.since_ms, states.newest_ms) < 0:
            age = 0
    return _Age(age, allowed, f"the newest record of the partition is from {span_text(age)} later")


def _by_file(partition: PartitionScan, first: int) -> _Age:
    """How long ago the segment was last written that holds a transaction's first batch."""
    holds = [one for one in partition.segments if one.base_offset <= first]
    age = 0
    try:
        if holds:
            age = partition.now_ms - places.stat(holds[-1].path).st_mtime_ns // 1_000_000
    except OSError:
        pass  # it is gone: nothing holds readers back then
    words = f"a broker is running, and the segment was last written {span_text(age)} ago"
    return _Age(age, partition.settings.transaction_max_timeout_ms, words)


def _limit_words(partition: PartitionScan) -> str:
    settings = partition.settings
    stated = "transaction_max_timeout_ms" in settings.stated_fields
    whose = "from --server-properties" if stated else "Kafka's default"
    return (
        f"transaction.max.timeout.ms allows {span_text(settings.transaction_max_timeout_ms)} "
        f"({whose}), so the transaction is hanging."
    )


def _waiting_words(partition: PartitionScan, newest: SegmentScan, first: int) -> str:
    start = max(first, partition.segments[0].base_offset)
    count = max(0, newest.last_offset + 1 - start)
    return (
        f" read_committed consumers stop at offset {first:,}; at most {records_text(count)} from "
        "there on are withheld from them."
    )


def _abort_words(newest: SegmentScan, first: int) -> str:
    place = newest.place
    if place.topic is None or place.partition is None:
        return ""
    command = format_command(abort_command(place.topic, place.partition, first))
    return f" To end it on a running cluster: {command}"

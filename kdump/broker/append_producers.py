"""Check a set against the state of producers: sequence numbers, epochs, transactions (R20).

The state is that of a broker that starts on the partition: its newest snapshot, with what the log
has from there on (R8). So of a batch that lies below the snapshot only the last one of a producer
is known again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.append_set import ProducedSet, RefusedError
from kdump.broker.appending import Answer
from kdump.broker.versions import Version, has
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.kernels.members import MAX_SEQUENCE
from kdump.storage.file_records import FileRecords
from kdump.storage.producer_snapshot import ProducerState, sound_snapshot
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.partition import PartitionView

_NONE = -1
_BATCHES_KNOWN = 5
_OUT_OF_ORDER, _BAD_TXN = "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_TXN_STATE"
_SEVEN_DAYS_MS = 7 * 86_400_000


class Batch(NamedTuple):
    """A batch of a producer: its sequence numbers and offsets."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class KnownProducer:
    """What a broker knows of a producer."""

    def __init__(self) -> None:
        self.epoch = _NONE
        self.batches: list[Batch] = []  # of the epoch
        self.txn_offset = _NONE  # where its open transaction began
        self.last_ms = _NONE

    def take_epoch(self, epoch: int) -> None:
        """Forget the batches of another epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def take(self, rows: RecordBatches, row: int, first_offset: int) -> None:
        """Take a batch of the log, or of a set as it will be stored (R7)."""
        flags, epoch = rows.flags_of(row), rows.producer_epoch(row)
        span = rows.last_offset(row) - rows.base_offset(row)
        if flags & c.CONTROL:
            if rows.records_count(row):
                self.take_epoch(epoch)
                self.txn_offset = _NONE
            return
        self.take_epoch(epoch)
        first = rows.base_sequence(row)
        last = _NONE if first < 0 else (first + span) & MAX_SEQUENCE
        self.batches.append(Batch(first, last, first_offset, first_offset + span))
        del self.batches[:-_BATCHES_KNOWN]
        self.last_ms = max(self.last_ms, rows.max_timestamp(row))
        if flags & c.TRANSACTIONAL and self.txn_offset < 0:
            self.txn_offset = first_offset


def producers_of(sent: ProducedSet) -> set[int]:
    """Name the producers of a set."""
    ids = (rows.producer_id(row) for rows, row in sent.entries())
    return {one for one in ids if one >= 0}


def known_producers(
    view: PartitionView, ids: Iterable[int], now_ms: int
) -> dict[int, KnownProducer]:
    """Find what a broker that starts knows of some producers; those that it forgets are not in it.

    Raises BrokerError where the start fails.
    """
    found: dict[int, KnownProducer] = {one: KnownProducer() for one in ids}
    if not found:
        return {}
    seen = set()
    end = view.log_end
    start = view.log_start
    assert view.target.log is not None
    for offset, path in reversed(view.target.log.snapshots()):
        entries = sound_snapshot(path) if view.log_start < offset <= end else None
        if entries is None:
            continue
        for state in entries:
            if state.producer_id in found:
                seen.add(state.producer_id)
                _load(found[state.producer_id], state)
        start = offset
        break
    for segment in view.onward(max(view.floor(start), 0)):
        for rows in FileRecords(segment.log(), limit=view.limit).headers(
            segment.start, segment.end
        ):
            if found.keys().isdisjoint(rows.producer_ids):
                continue
            for row in range(rows.count):
                one = rows.producer_id(row)
                if one in found and rows.last_offset(row) >= start:
                    seen.add(one)
                    found[one].take(rows, row, rows.base_offset(row))
    limit = view.settings.producer_id_expiration_ms
    if "producer_id_expiration_ms" not in view.settings.stated_fields and not has(
        view.broker, v.PRODUCER_EXPIRATION
    ):
        limit = _SEVEN_DAYS_MS
    return {
        one: known
        for one, known in found.items()
        if one in seen and (known.txn_offset >= 0 or now_ms - known.last_ms < limit)
    }


def _load(known: KnownProducer, state: ProducerState) -> None:

    known.epoch = state.producer_epoch
    known.txn_offset = state.current_txn_first_offset
    known.last_ms = state.last_timestamp_ms
    if state.last_offset >= 0:
        first = state.last_sequence - state.offset_delta
        first = first if first >= 0 else first + MAX_SEQUENCE + 1
        start = state.last_offset - state.offset_delta
        known.batches.append(Batch(first, state.last_sequence, start, state.last_offset))


def check_producers(
    sent: ProducedSet,
    answer: Answer,
    known: dict[int, KnownProducer],
    broker: Version,
    *,
    follower: bool,
) -> None:
    """Check the batches of a set, in place of `answer` what a duplicate is answered with.

    Raises what they are refused with.
    """
    offset = answer.first_offset
    for rows, row in sent.entries():
        producer_id = rows.producer_id(row)
        first = rows.base_offset(row) if follower else offset
        offset = first + rows.last_offset(row) - rows.base_offset(row) + 1
        if producer_id < 0:
            continue
        one = known.setdefault(producer_id, KnownProducer())
        if rows.flags_of(row) & c.CONTROL:
            one.take(rows, row, first)
            continue
        if not follower:
            duplicate = _duplicate(one, rows, row, broker)
            if duplicate is not None:
                answer.duplicate_of = duplicate.first_offset, duplicate.last_offset
                words = f"producer {producer_id}'s batch is stored already, from offset "
                answer.note("duplicate", f"{words}{duplicate.first_offset:,}")
                return
            _check_epoch(one, rows, row)
            _check_sequence(one, rows, row, broker)
        if one.txn_offset >= 0 and not rows.flags_of(row) & c.TRANSACTIONAL:
            words = (
                f"producer {producer_id} has an open transaction, but this batch is not "
                "transactional"
            )
            raise RefusedError(_BAD_TXN, words)
        if rows.flags_of(row) & c.TRANSACTIONAL and one.txn_offset < 0 and not follower:
            _note_transaction(answer, producer_id, broker)
        one.take(rows, row, first)
        answer.note("producer", f"producer {producer_id}, epoch {one.epoch}: {_words(one)}")


def _note_transaction(answer: Answer, producer_id: int, broker: Version) -> None:
    asked = ", if its coordinator knows of it" if has(broker, v.TRANSACTIONS_VERIFIED) else ""
    answer.note("transaction", f"producer {producer_id} begins a transaction here{asked}")


def _words(one: KnownProducer) -> str:
    last = one.batches[-1]
    return f"sequence numbers {last.first_sequence} to {last.last_sequence} follow"


def _last_sequence(rows: RecordBatches, row: int) -> int:
    span = rows.last_offset(row) - rows.base_offset(row)
    return (rows.base_sequence(row) + span) & MAX_SEQUENCE


def _duplicate(one: KnownProducer, rows: RecordBatches, row: int, broker: Version) -> Batch | None:
    """Return the batch that this one repeats."""
    if rows.producer_epoch(row) != one.epoch:
        return None
    sequences = rows.base_sequence(row), _last_sequence(rows, row)
    recent = one.batches if has(broker, v.FIVE_BATCHES_KNOWN) else one.batches[-1:]
    return next((each for each in recent if each[:2] == sequences), None)


def _check_epoch(one: KnownProducer, rows: RecordBatches, row: int) -> None:
    epoch = rows.producer_epoch(row)
    if epoch < one.epoch:
        words = f"epoch {epoch} of producer {rows.producer_id(row)} is below {one.epoch}"
        raise RefusedError("INVALID_PRODUCER_EPOCH", words)


def _check_sequence(one: KnownProducer, rows: RecordBatches, row: int, broker: Version) -> None:
    sequence, producer = rows.base_sequence(row), rows.producer_id(row)
    if rows.producer_epoch(row) != one.epoch:
        if not sequence:
            return
        if one.epoch != _NONE:
            words = f"producer {producer} starts an epoch with sequence number {sequence}, not 0"
            raise RefusedError(_OUT_OF_ORDER, words)
        if not has(broker, v.ANY_FIRST_SEQUENCE):
            named = has(broker, v.FIVE_BATCHES_KNOWN)
            words = f"producer {producer} is unknown and starts with {sequence}, not 0"
            raise RefusedError("UNKNOWN_PRODUCER_ID" if named else _OUT_OF_ORDER, words)
        return
    last = one.batches[-1].last_sequence if one.batches else _NONE
    expected = 0 if last == MAX_SEQUENCE else last + 1
    if sequence != expected:
        if not one.batches and not has(broker, v.ANY_FIRST_SEQUENCE):
            words = (
                f"producer {producer} has no batches left in the log and sends {sequence}, not 0"
            )
            raise RefusedError("UNKNOWN_PRODUCER_ID", words)
        words = f"producer {producer} sends sequence number {sequence}, but {expected} is expected"
        raise RefusedError(_OUT_OF_ORDER, words)

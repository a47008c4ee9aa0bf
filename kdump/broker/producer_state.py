"""Replay producer state from the batches of a log as a broker does (R7, R8).

Feed the runs of a walk in log order. What a reader of the log must know of the past is in one
`ProducerStates`: for each producer id its last batch and its open transaction, and from when on
the offsets are without a hole. What comes back are the few events that matter to somebody: a
transaction opened or ended, sequence numbers that do not join, a marker no broker can read.

    states = ProducerStates()                    # or ProducerStates.from_snapshot(snapshot)
    for run in runs:                             # Oversize entries too: they are data batches
        for event in states.replay(run, start):  # `start`: batches below it are passed over
            if isinstance(event, Ended) and (entry := event.aborted()):
                entries.append(entry)            # as recovery writes it to the transaction index
    states.producers_at_end()                    # what a snapshot here would hold

A run without producer ids costs one comparison.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice

from kdump import kernels
from kdump.broker.control_batch import Control, read_control
from kdump.broker.producer_events import (
    Event,
    MixedBatch,
    SequenceBreak,
    TransactionEnd,
    TransactionStart,
    Unreadable,
)
from kdump.kernels import columns as c
from kdump.kernels.columns import Columns, RecordBatches
from kdump.kernels.members import MAX_SEQUENCE
from kdump.record import control
from kdump.record.frames import Oversize, Run
from kdump.record.layout import int64
from kdump.storage.file_records import BATCHES_A_RUN
from kdump.storage.names import OFFSET_MAX
from kdump.storage.producer_snapshot import ProducerState, sound_snapshot

PRODUCERS_KEPT = 200_000
_OTHERS_KEPT = 8
_FOLLOWED = 64  # of so few producers the kernel is given all before each run
_NO_EPOCH = -1
_NO_PRODUCER = array("q", [-1]) * BATCHES_A_RUN
_NOT_PLAIN = c.CONTROL | c.TRANSACTIONAL


class Producer:
    """What is known of one producer id; the first eight as in a snapshot's entry."""

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.last_sequence = -1
        self.last_offset = -1
        self.offset_delta = 0
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.first_offset = -1  # of the open transaction, -1: none
        self.last_seen = -1  # the offset of its last batch, marker or data; -1: from a snapshot
        self.last_marker = -1
        self.records_count = 0  # of the open transaction
        self.since_ms = -1  # its first batch's timestamp; out of a snapshot: the last one's
        self.stamped_ms = -1  # the next marker's, of any producer: a broker's clock
        self.joined_from = 0  # when it began; the largest offset of all: that is not known
        self.first_crc = -1  # of this epoch's batch that began at sequence 0
        self.is_new_epoch = False  # it had another, of a batch or a marker

    def state(self, producer_id: int) -> ProducerState:
        """The entry of a snapshot taken now."""
        return ProducerState(
            producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_offset,
            self.offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.first_offset,
        )

    def forget_batches(self, producer_epoch: int) -> None:
        """Take a new epoch, which makes the last batch unknown."""
        self.is_new_epoch = self.producer_epoch != _NO_EPOCH
        self.producer_epoch = producer_epoch
        self.last_sequence = self.last_offset = self.first_crc = -1
        self.offset_delta = 0


class ProducerStates:
    """The producers of one log up to where it was replayed.

    `open` holds the first offset of each open transaction by producer id, rising. `joined_from` is
    the offset from which on no offset is missing, `next_offset` the one behind the last batch (-1:
    nothing was seen). Of more than `limit` producers the longest idle are dropped, never one with
    an open transaction (`dropped` says that it happened); if that does not help, `overflowed` is
    set and nothing more is tracked.

    A broker takes every batch of a log for the producer's last. One that `is_repeat` says was there
    before leaves that as it was, so that each of several such is reported, and what follows is not.
    """

    def __init__(
        self,
        limit: int = PRODUCERS_KEPT,
        *,
        is_repeat: Callable[[SequenceBreak, Columns], bool] | None = None,
    ) -> None:
        self.producers: dict[int, Producer] = {}
        self.open: dict[int, int] = {}
        self.joined_from = 0
        self.next_offset = -1
        self.is_whole = True  # from offset 0 on
        self.newest_ms = -1  # the highest of data of no transaction while one was open
        self.newest_marker_ms = -1  # the last marker's
        self.dropped = False
        self.overflowed = False
        self._limit = limit
        self._is_repeat = is_repeat
        self._unstamped: list[Producer] = []  # that opened since the last marker

    @classmethod
    def from_snapshot(
        cls, entries: Iterable[ProducerState], limit: int = PRODUCERS_KEPT
    ) -> ProducerStates:
        """Start from the entries of a snapshot: what its file's name says lies behind it."""
        states = cls(limit)
        states.load(entries)
        return states

    @classmethod
    def from_file(cls, path: str) -> ProducerStates | None:
        """Start from a snapshot file; None where it is gone, or not sound."""
        snapshot = sound_snapshot(path)
        return None if snapshot is None else cls.from_snapshot(snapshot)

    def load(self, entries: Iterable[ProducerState]) -> None:
        """Begin anew with what a snapshot says; of its transactions the batches are not known."""
        is_new = self.is_whole and self.next_offset < 0
        self.forget()
        opened: list[tuple[int, int]] = []
        for entry in entries:
            first = entry.current_txn_first_offset
            if len(self.producers) >= self._limit:
                if len(opened) >= self._limit:
                    self.overflowed = True
                    break
                self.dropped = True
                if first < 0:
                    continue
            producer = self.producers[entry.producer_id] = Producer(entry.producer_epoch)
            producer.last_sequence = entry.last_sequence
            producer.last_offset = entry.last_offset
            producer.offset_delta = entry.offset_delta
            producer.last_timestamp_ms = producer.since_ms = entry.last_timestamp_ms
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.first_offset = first
            if first >= 0:
                opened.append((first, entry.producer_id))
                producer.joined_from = OFFSET_MAX
                self._unstamped.append(producer)
        self.open.update((producer_id, first) for first, producer_id in sorted(opened))
        self.is_whole = is_new and not self.producers

    def forget(self) -> None:
        """Begin anew: what lies between the batches before and those to come is not known."""
        self.producers.clear()
        self.open.clear()
        self._unstamped.clear()
        self.is_whole = False
        self.next_offset = self.newest_ms = self.newest_marker_ms = -1

    def reload(self) -> None:
        """Forget producers without any batch, as a load of the snapshot taken now does (R10)."""
        for producer_id, one in list(self.producers.items()):
            if one.producer_epoch == _NO_EPOCH:
                del self.producers[producer_id]

    def producers_at_end(self) -> list[ProducerState]:
        """The entries of a snapshot taken now, by producer id; none is left out for its age."""
        return [self.producers[one].state(one) for one in sorted(self.producers)]

    def last_stable_offset(self, end: int) -> int:
        """The offset up to which everything is decided, `end` if no transaction is open (L7)."""
        return next(iter(self.open.values()), end)

    def replay(
        self,
        item: Run | Oversize,
        start: int = 0,
        stop: int = OFFSET_MAX,
        *,
        read: Callable[[Run, int], Control] = read_control,
    ) -> list[Event]:
        """Take up the batches of a run that end in [start, stop), and say what happened.

        An entry too large to be held is a data batch: no marker is. Where the state at `stop` is
        asked for, call again for the rest. `read` reads the control batch of a row.
        """
        batches = item.batches
        if self.overflowed or not batches.count:
            return []
        low, high = 0, batches.count
        if start > 0 or stop < OFFSET_MAX:
            # Of legacy wrappers the last offset alone is known; they have no producers.
            lasts = batches.last_offsets
            low, high = bisect_left(lasts, start), bisect_left(lasts, stop)
        if low >= high:
            return []
        if no_producers(batches, low, high):
            self._pass(batches, low, high)
            return []
        if self._plain(batches):
            low = self._follow(batches, low, high)
        return self._replay(item, low, high, read)

    def _plain(self, batches: RecordBatches) -> bool:
        """Whether these may well be the next batches of the producers known, and no more."""
        decides = batches.flags & (c.TRANSACTIONAL | c.CONTROL)
        return not self.open and not decides and 0 < len(self.producers) <= _FOLLOWED

    def _follow(self, batches: RecordBatches, low: int, high: int) -> int:
        """Let the kernel go ahead as far as nothing happens; return the first row it left."""
        table = array("q")
        for producer_id, one in self.producers.items():
            table.extend((
                producer_id, one.producer_epoch, one.last_sequence, one.last_offset,
                one.offset_delta, one.last_timestamp_ms,
            ))  # fmt: skip
        row, self.next_offset = kernels.follow_producers(
            batches, low, high, self.next_offset, table
        )
        for at, one in enumerate(self.producers.values()):
            _, _, sequence, last, delta, timestamp = table[
                at * c.PRODUCER_WIDTH : (at + 1) * c.PRODUCER_WIDTH
            ]
            if last != one.last_offset:
                one.last_sequence, one.offset_delta, one.last_timestamp_ms = (
                    sequence, delta, timestamp,
                )  # fmt: skip
                one.last_offset = one.last_seen = last
        return row

    def _pass(self, batches: RecordBatches, low: int, high: int) -> None:
        """Go over batches without producers: only holes between offsets, and time, matter."""
        first = batches.base_offset(low)
        bases = batches.base_offsets[low:high]
        lasts = batches.last_offsets[low:high]
        end = lasts[-1] + 1
        if self.producers or self.is_whole:
            joins = sum(lasts) - sum(bases) + high - low == end - first
            self.is_whole = self.is_whole and joins and first == max(self.next_offset, 0)
            if not joins or first != self.next_offset:
                self.joined_from = _find_joined_start(bases, lasts)
        if not self.producers:
            self.joined_from = end
        self.next_offset = end
        if self.open:
            self.newest_ms = max(self.newest_ms, max(batches.max_timestamps[low:high]))

    def _replay(
        self, item: Run | Oversize, low: int, high: int, read: Callable[[Run, int], Control]
    ) -> list[Event]:
        batches = item.batches
        events: list[Event] = []
        producers = self.producers
        expected_offset, joined_from = self.next_offset, self.joined_from
        columns = (
            batches.producer_ids, batches.base_offsets, batches.last_offsets, batches.row_flags,
            batches.producer_epochs, batches.base_sequences, batches.max_timestamps,
        )  # fmt: skip
        rows = zip(*(column[low:high] for column in columns), strict=True)
        row = low - 1
        for producer_id, base, last, flags, epoch, sequence, timestamp in rows:
            row += 1
            if base != expected_offset:
                self.is_whole = self.is_whole and expected_offset < 0 and not base
                # Of a wrapper the first offset is not known; what overlaps joins nothing.
                joined_from = base if base > expected_offset else max(joined_from, last + 1)
            expected_offset = last + 1
            if timestamp > self.newest_ms and self.open and not flags & _NOT_PLAIN:
                self.newest_ms = timestamp
            if producer_id < 0:
                continue
            if flags & c.CONTROL:
                if isinstance(item, Run):
                    self.joined_from = joined_from
                    self._control(item, row, read(item, row), events)
                    joined_from = self.joined_from
                continue
            producer = producers.get(producer_id)
            if producer is None:
                producer = self._add(producer_id, epoch)
                if producer is None:
                    return events
                if sequence > 0 and self.is_whole:
                    events.append(_first(row, producer_id, epoch, sequence, producer))
            elif producer.producer_epoch != epoch:
                before = producer.state(producer_id)
                producer.forget_batches(epoch)
                if _is_late(producer, sequence, joined_from):
                    first = _first(row, producer_id, epoch, sequence, producer)
                    events.append(first._replace(previous=before))
            elif _is_late(producer, sequence, joined_from):
                events.append(_first(row, producer_id, epoch, sequence, producer))
            elif (
                sequence >= 0
                and sequence != (producer.last_sequence + 1) & MAX_SEQUENCE
                and producer.last_sequence >= 0
            ):
                events.append(
                    SequenceBreak(
                        row, producer_id, epoch, (producer.last_sequence + 1) & MAX_SEQUENCE,
                        sequence, producer.state(producer_id), joined_from <= producer.last_offset,
                        not sequence and producer.first_crc == batches.crc(row),
                    )
                )  # fmt: skip
            delta = last - base
            if self._is_repeat and events and _repeats(events[-1], row, batches, self._is_repeat):
                producer.last_seen = last
            else:
                producer.last_sequence = (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else -1
                producer.last_offset = producer.last_seen = last
                producer.offset_delta = delta
                producer.last_timestamp_ms = timestamp
                if not sequence:
                    producer.first_crc = batches.crc(row)
            if flags & c.TRANSACTIONAL:
                if producer.first_offset < 0:
                    producer.first_offset = self.open[producer_id] = base
                    producer.since_ms, producer.records_count = timestamp, 0
                    producer.joined_from = joined_from
                    producer.stamped_ms = -1
                    self._unstamped.append(producer)
                    events.append(TransactionStart(row, producer_id, base))
                producer.records_count += batches.records_count(row)
            elif producer.first_offset >= 0:
                joined = joined_from == producer.joined_from
                events.append(MixedBatch(row, producer_id, producer.first_offset, joined))
        self.next_offset, self.joined_from = expected_offset, joined_from
        return events

    def _control(self, run: Run, row: int, marker: Control, events: list[Event]) -> None:
        batches = run.batches
        producer_id = batches.producer_id(row)
        epoch = batches.producer_epoch(row)
        offset = batches.base_offset(row)
        if not marker.ends_transaction:
            if marker.kind is not None or marker.problem:
                problem = marker.problem or "type"
                events.append(Unreadable(row, producer_id, problem, marker.kind))
            elif producer_id not in self.producers:
                self._add(producer_id, _NO_EPOCH)
            # An empty one says nothing (F29); the epoch it once set is no longer known.
            self.joined_from = offset + 1
            return
        producer = self.producers.get(producer_id)
        last_data_offset = -1 if producer is None else producer.last_seen
        if producer is None:
            producer = self._add(producer_id, epoch)
            if producer is None:
                return
        elif producer.producer_epoch != epoch:
            producer.forget_batches(epoch)
        first = producer.first_offset
        others = self._others(producer_id)
        events.append(
            TransactionEnd(
                batches.position(row), producer_id, epoch, offset,
                marker.kind == control.COMMIT, first,
                others[0] if others else int64(offset + 1), others, producer.records_count,
                last_data_offset, self.joined_from, producer.joined_from,
                producer.last_marker,
            )
        )  # fmt: skip
        self.newest_marker_ms = marker.timestamp_ms
        for opened in self._unstamped:
            opened.stamped_ms = marker.timestamp_ms
        self._unstamped.clear()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = marker.timestamp_ms
        producer.last_marker = producer.last_seen = batches.last_offset(row)
        if first >= 0:
            producer.first_offset = -1
            del self.open[producer_id]
            if not self.open:
                self.newest_ms = -1

    def _others(self, producer_id: int) -> tuple[int, ...]:
        """First offsets of the few earliest transactions that are open beside this producer's."""
        firsts = (first for one, first in self.open.items() if one != producer_id)
        return tuple(islice(firsts, _OTHERS_KEPT))

    def _add(self, producer_id: int, epoch: int) -> Producer | None:
        if len(self.producers) >= self._limit:
            self._drop_idle()
            if self.overflowed:
                return None
        producer = self.producers[producer_id] = Producer(epoch)
        return producer

    def _drop_idle(self) -> None:
        """Drop the longest idle half of the producers, as a broker does with those of yesterday."""
        self.dropped = True
        idle = [one for one, producer in self.producers.items() if producer.first_offset < 0]
        idle.sort(key=lambda one: self.producers[one].last_seen)
        if len(idle) < self._limit // 4:
            self.overflowed = True
            self.producers.clear()
            self.open.clear()
            return
        for one in idle[: max(1, len(idle) // 2)]:
            del self.producers[one]


def _is_late(producer: Producer, sequence: int, joined_from: int) -> bool:
    """Whether the first batch of a new epoch has not the first number, and none can be missing."""
    is_first = producer.is_new_epoch and producer.last_offset < 0
    return sequence > 0 and is_first and joined_from <= producer.last_seen


def _first(
    row: int, producer_id: int, epoch: int, sequence: int, producer: Producer
) -> SequenceBreak:
    previous = producer.state(producer_id)
    return SequenceBreak(row, producer_id, epoch, 0, sequence, previous, joined=True, is_first=True)


def no_producers(batches: RecordBatches, low: int, high: int) -> bool:
    """Whether none of the rows has a producer id."""
    ids = batches.producer_ids[low:high]
    return high - low <= BATCHES_A_RUN and ids == memoryview(_NO_PRODUCER)[: high - low]


def _repeats(
    event: Event,
    row: int,
    batches: RecordBatches,
    is_repeat: Callable[[SequenceBreak, Columns], bool],
) -> bool:
    return isinstance(event, SequenceBreak) and event.row == row and is_repeat(event, batches)


def _find_joined_start(bases: memoryview, lasts: memoryview) -> int:
    """The offset behind the last hole or overlap; bases and last offsets of consecutive batches."""
    row = len(bases) - 1
    while row and bases[row] == lasts[row - 1] + 1:
        row -= 1
    hole = bases[row] >= 0 and (not row or bases[row] > lasts[row - 1])
    return int(bases[row]) if hole else int(lasts[-1]) + 1

"""Keep the producers' state while a start loads or recovers a log (R8), as far as it can stop it.

A replay knows no sequence checks, and an epoch that falls is only logged (from 2.4 on; brokers
from 0.11 to 2.3 refuse it, which is not followed here). What stops it is a
transaction that does not add up: a plain batch inside one, a marker for one that is not open, an
aborted one that is not later than the last. So of a snapshot only open transactions are kept, and
what can neither begin nor end one is passed over, whether producers are expired or not (R10).
"""

from __future__ import annotations

from collections.abc import Iterable

from kdump.broker.control_batch import Control, read_control
from kdump.broker.log_reader import CorruptRecordError, Entries, RefusalError, UnknowableError
from kdump.broker.producer_events import (
    Event,
    MixedBatch,
    TransactionEnd,
    TransactionStart,
    Unreadable,
)
from kdump.broker.producer_state import ProducerStates
from kdump.broker.versions import SHORT_MARKERS_RAISE, has
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Run
from kdump.storage.producer_snapshot import SIZE_LIMIT, VERSION, ProducerSnapshot, ProducerState
from kdump.storage.source import read_whole

_SHORT = "a marker without a coordinator epoch"
_UNREADABLE = {
    "record": "a control batch that cannot be read",
    "key": "a control record without a type",
    "value": "a marker of a negative version",
    "short": _SHORT,
}


class Snapshots:
    """The snapshot files of a partition while it is being loaded.

    Each is a path, not yet read, or the open transactions that a step of the start wrote.
    """

    def __init__(self, files: Iterable[tuple[int, str]]) -> None:
        self.kept: dict[int, str | list[ProducerState]] = dict(files)

    def forget(self, offsets: Iterable[int]) -> None:
        """Forget those at `offsets`."""
        for offset in list(offsets):
            self.kept.pop(offset, None)

    def remove_strays(self, bases: list[int]) -> None:
        """Keep those at a segment's base, and the newest other one above all of them (R9)."""
        strays = sorted(set(self.kept) - set(bases))
        if strays and not (bases and strays[-1] < max(bases)):
            strays.pop()
        self.forget(strays)

    def newest(self) -> tuple[int, list[ProducerState]] | None:
        """Load the newest that can be loaded; those that cannot be are deleted (R8)."""
        while self.kept:
            offset = max(self.kept)
            found = self.kept[offset]
            loaded = _load(found) if isinstance(found, str) else found
            if loaded is not None:
                self.kept[offset] = loaded
                return offset, loaded
            del self.kept[offset]
        return None


def _load(path: str) -> list[ProducerState] | None:
    """The producers with an open transaction; None where a broker would drop the file."""
    try:
        snapshot = ProducerSnapshot(read_whole(path, SIZE_LIMIT))
    except PathError:
        return None
    if snapshot.version != VERSION or snapshot.crc != snapshot.computed_crc:
        return None
    if snapshot.declared is None or len(snapshot) != snapshot.declared:
        return None
    return [state for state in snapshot if state.current_txn_first_offset >= 0]


class Producers:
    """The state that is built up while one segment is recovered, or the log is loaded.

    `ongoing` holds the first offsets of open transactions as a broker counts them, `completed`
    those of the ones that ended in a replay.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self.snapshots = snapshots
        self.end_offset = 0
        self.snapshot_offset = 0
        self.states = ProducerStates()
        self.ongoing: set[int] = set()
        self.completed: set[int] = set()
        self.last_aborted: int | None = None

    def reload(self, log_start: int, end_offset: int) -> None:
        """Start from the newest snapshot in (log_start, end_offset] (`truncateAndReload`)."""
        kept = self.snapshots
        kept.forget(at for at in list(kept.kept) if at > end_offset or at <= log_start)
        if end_offset == self.end_offset:
            return
        offset, states = kept.newest() or (log_start, [])
        self.end_offset = self.snapshot_offset = offset
        self.states.load(states)
        self.ongoing = set(self.states.open.values())

    def take_snapshot(self) -> None:
        """Write a snapshot, if there is anything new."""
        if self.end_offset > self.snapshot_offset:
            self.snapshots.kept[self.end_offset] = self._open_producers()
            self.snapshot_offset = self.end_offset

    def _open_producers(self) -> list[ProducerState]:
        """The producers with an open transaction."""
        states = self.states
        return [states.producers[producer].state(producer) for producer in states.open]

    def recover(self, entries: Entries, rows: RecordBatches, start: int, stop: int) -> None:
        """Replay some entries of a segment under recovery, one by one."""
        if stop <= start:
            return
        mark = self._open_producers()
        rows, events = self._events(entries, rows, start, stop)
        for event in events:
            try:
                _raise_refusal(entries, rows, event)
            except CorruptRecordError as error:
                # The batch was counted as good before its marker was looked at.
                assert isinstance(event, Unreadable)
                row = event.row
                error.end_position = rows.end_position(row)
                self.end_offset = rows.base_offset(row)
                self.states.load(mark)
                self._events(entries, rows, 0, row)
                raise
            if isinstance(event, TransactionStart):
                self.ongoing.add(event.first_offset)
            elif isinstance(event, TransactionEnd) and event.first_offset >= 0:
                if not event.committed:
                    self._index(event.offset)
                self._complete(event)
        self.end_offset = rows.last_offset(rows.count - 1) + 1

    def replay(self, entries: Entries, blocks: Iterable[RecordBatches]) -> None:
        """Replay entries when the log is loaded: what they start is put in before what they end."""
        ended: list[TransactionEnd] = []
        for rows in blocks:
            for event in self._events(entries, rows, 0, rows.count)[1]:
                _raise_refusal(entries, rows, event)
                if isinstance(event, TransactionStart):
                    self.ongoing.add(event.first_offset)
                elif isinstance(event, TransactionEnd) and event.first_offset >= 0:
                    ended.append(event)
        for event in ended:
            self._complete(event)

    def _events(
        self, entries: Entries, rows: RecordBatches, start: int, stop: int
    ) -> tuple[RecordBatches, list[Event]]:
        """Take up some entries; give them, and what happens in them."""
        states = self.states
        if stop - start < rows.count:
            rows = rows.slice(start, stop)
        if not (rows.flags & (c.CONTROL | c.TRANSACTIONAL) or states.open):
            return rows, []  # no transaction begins or ends here

        def read(run: Run, row: int) -> Control:
            return _control(entries, run.batches, row)

        events = states.replay(Run(bytearray(), 0, rows), read=read)
        if states.overflowed:
            raise UnknowableError("too many open transactions")
        return rows, events

    def _index(self, offset: int) -> None:
        if self.last_aborted is not None and self.last_aborted >= offset:
            raise RefusalError(
                f"IllegalArgumentException: the abort at {offset} is not later than the "
                f"one at {self.last_aborted}"
            )
        self.last_aborted = offset

    def first_unstable(self) -> int | None:
        """The first offset of a transaction that is open, or ended in what was replayed."""
        return min((*self.ongoing, *self.completed), default=None)

    def _complete(self, ended: TransactionEnd) -> None:
        first = ended.first_offset
        self.completed.add(first)
        if first not in self.ongoing:
            raise RefusalError(
                f"IllegalArgumentException: the transaction of producer {ended.producer_id} that "
                f"began at {first} was not started"
            )
        self.ongoing.discard(first)


def _control(entries: Entries, rows: RecordBatches, row: int) -> Control:
    """Read a control batch, whose header alone is there."""
    position, size = rows.position(row), rows.size_bytes(row)
    if size > entries.limit:
        raise UnknowableError(f"a control batch of {size} bytes")
    data = bytearray(entries.source.read(position, size))
    return read_control(Run(data, position, rows.slice(row, row + 1)), 0)


def _raise_refusal(entries: Entries, rows: RecordBatches, event: Event) -> None:
    """Raise what a broker raises at an event; CorruptRecordError ends a recovery (R7)."""
    if isinstance(event, MixedBatch):
        offset = rows.base_offset(event.row)
        raise RefusalError(
            f"InvalidTxnStateException: producer {event.producer_id} writes at offset {offset} "
            f"outside the transaction it opened at {event.first_offset}"
        )
    if not isinstance(event, Unreadable):
        return
    if event.problem == "type":
        raise RefusalError(
            f"IllegalArgumentException: control type {event.kind} is neither ABORT nor COMMIT"
        )
    if event.problem == "short" and has(entries.broker, SHORT_MARKERS_RAISE):
        raise RefusalError(f"BufferUnderflowException: {_SHORT}")
    reason = _control(entries, rows, event.row).reason
    if reason in (reasons.OVER_LIMIT, reasons.CODEC_MISSING):
        raise UnknowableError("a control batch that is not opened")
    if reason == reasons.CODEC_FAILED:
        raise RefusalError("KafkaException: a control batch that cannot be decompressed")
    raise CorruptRecordError(f"InvalidRecordException: {_UNREADABLE[event.problem]}")

"""Keep the producers' state while a start loads or recovers a log (R8), as far as it can stop it.

A replay knows no sequence checks, and an epoch that falls is only logged (from 2.4 on; brokers
from 0.11 to 2.3 refuse it, which is not followed here). What stops it is a
transaction that does not add up: a plain batch inside one, a marker for one that is not open, an
aborted one that is not later than the last. So of a snapshot only open transactions are kept, and
what can neither begin nor end one is passed over, whether producers are expired or not (R10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.control_batch import read_control
from kdump.broker.log_reader import CorruptRecordError, RefusalError, UnknowableError
from kdump.broker.producer_state import Ended, Event, Mixed, Opened, ProducerStates, Unreadable
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.frames import Run
from kdump.storage.producer_snapshot import SIZE_LIMIT, VERSION, ProducerSnapshot, ProducerState
from kdump.storage.source import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.broker.log_reader import Entries
    from kdump.kernels.columns import RecordBatches

_UNREADABLE = {
    "record": "a control batch that cannot be read",
    "key": "a control record without a type",
    "value": "a marker without a coordinator epoch, or of a negative version",
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
        snapshot = ProducerSnapshot(whole(path, SIZE_LIMIT))
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
            known = self.states.producers
            opened = [known[producer].state(producer) for producer in self.states.open]
            self.snapshots.kept[self.end_offset] = opened
            self.snapshot_offset = self.end_offset

    def recover(self, entries: Entries, rows: RecordBatches, start: int, stop: int) -> None:
        """Replay some entries of a segment under recovery, one by one."""
        if stop <= start:
            return
        for row, event in self._events(entries, rows, start, stop):
            try:
                _raise_refusal(entries, rows, row, event)
            except CorruptRecordError as error:
                # The batch was counted as good before its marker was looked at.
                error.end_position = rows.end_position(row)
                self.end_offset = rows.base_offset(row)
                raise
            if isinstance(event, Opened):
                self.ongoing.add(event.first_offset)
            elif isinstance(event, Ended) and event.first_offset >= 0:
                if not event.committed:
                    self._index(event.offset)
                self._complete(event)
        self.end_offset = rows.last_offset(stop - 1) + 1

    def replay(self, entries: Entries, blocks: Iterable[RecordBatches]) -> None:
        """Replay entries when the log is loaded: what they start is put in before what they end."""
        ended: list[Ended] = []
        for rows in blocks:
            for row, event in self._events(entries, rows, 0, rows.count):
                _raise_refusal(entries, rows, row, event)
                if isinstance(event, Opened):
                    self.ongoing.add(event.first_offset)
                elif isinstance(event, Ended) and event.first_offset >= 0:
                    ended.append(event)
        for event in ended:
            self._complete(event)

    def _events(
        self, entries: Entries, rows: RecordBatches, start: int, stop: int
    ) -> Iterator[tuple[int, Event]]:
        """Yield what happens in some entries, and in which row.

        A control batch is replayed apart: one that ends a recovery has changed nothing, and of
        headers alone its bytes have yet to be read.
        """
        states = self.states
        while start < stop:
            if not (rows.flags & (c.CONTROL | c.TRANSACTIONAL) or states.open):
                return  # no transaction begins or ends here
            end = _next_control(rows, start, stop)
            if start < end:
                for event in states.replay(Run(bytearray(), 0, rows.slice(start, end))):
                    yield _row_of(event) + start, event
            if end < stop:
                for event in states.replay(_held(entries, rows, end)):
                    yield end, event
            if states.overflowed:
                raise UnknowableError("more open transactions than are kept")
            start = end + 1

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

    def _complete(self, ended: Ended) -> None:
        first = ended.first_offset
        self.completed.add(first)
        if first not in self.ongoing:
            raise RefusalError(
                f"IllegalArgumentException: the transaction of producer {ended.producer_id} that "
                f"began at {first} was not started"
            )
        self.ongoing.discard(first)


def _next_control(rows: RecordBatches, start: int, stop: int) -> int:
    """The first control batch of a producer from a row on, else `stop`."""
    if not rows.flags & c.CONTROL:
        return stop
    flags, ids = rows.row_flags, rows.producer_ids
    return next(
        (row for row in range(start, stop) if flags[row] & c.CONTROL and ids[row] >= 0), stop
    )


def _held(entries: Entries, rows: RecordBatches, row: int) -> Run:
    """One entry with its bytes."""
    position, size = rows.position(row), rows.size_bytes(row)
    if size > entries.limit:
        raise UnknowableError(f"a control batch of {size} bytes")
    data = bytearray(entries.source.read(position, size))
    return Run(data, position, rows.slice(row, row + 1))


def _row_of(event: Event) -> int:
    return 0 if isinstance(event, Ended) else event.row


def _raise_refusal(entries: Entries, rows: RecordBatches, row: int, event: Event) -> None:
    """Raise what a broker raises at an event; CorruptRecordError ends a recovery (R7)."""
    if isinstance(event, Mixed):
        raise RefusalError(
            f"InvalidTxnStateException: producer {event.producer_id} writes at offset "
            f"{rows.base_offset(row)} outside the transaction it opened at {event.first_offset}"
        )
    if not isinstance(event, Unreadable):
        return
    if event.problem == "type":
        raise RefusalError(
            f"IllegalArgumentException: control type {event.kind} is no end of anything"
        )
    reason = read_control(_held(entries, rows, row), 0).reason
    if reason in (reasons.OVER_LIMIT, reasons.CODEC_MISSING):
        raise UnknowableError("a control batch that is not opened")
    if reason == reasons.CODEC_FAILED:
        raise RefusalError("KafkaException: a control batch that cannot be decompressed")
    raise CorruptRecordError(f"InvalidRecordException: {_UNREADABLE[event.problem]}")

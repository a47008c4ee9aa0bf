"""Replay producer state as far as it can stop a start: open transactions (R7, R8).

A replay knows no sequence checks, and an epoch that falls is only logged (from 2.4 on; brokers
from 0.11 to 2.3 refuse it, which is not followed here). What stops it is a
transaction that does not add up: a plain batch inside one, a marker for one that is not open, an
aborted one that is not later than the last. So only open transactions are kept, and producers
without one need not be, whether expired or not (R10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.log_reader import CorruptRecordError, RefusalError, UnknowableError
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.control import ABORT, COMMIT, control_type
from kdump.storage.producer_snapshot import SIZE_LIMIT, VERSION, ProducerSnapshot
from kdump.storage.source import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.broker.log_reader import Entries
    from kdump.kernels.columns import RecordBatches

_MARKER_BYTES = 6  # version and coordinator epoch


class _Completed(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Snapshots:
    """The snapshot files of a partition while it is being loaded.

    Each is a path, not yet read, or the open transactions that a step of the start wrote.
    """

    def __init__(self, files: Iterable[tuple[int, str]]) -> None:
        self.kept: dict[int, str | dict[int, int]] = dict(files)

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

    def newest(self) -> tuple[int, dict[int, int]] | None:
        """Load the newest that can be loaded; those that cannot be are deleted (R8)."""
        while self.kept:
            offset = max(self.kept)
            found = self.kept[offset]
            loaded = _load(found) if isinstance(found, str) else found
            if loaded is not None:
                self.kept[offset] = loaded
                return offset, dict(loaded)
            del self.kept[offset]
        return None


def _load(path: str) -> dict[int, int] | None:
    """Open transactions by producer id; None where a broker would drop the file."""
    try:
        snapshot = ProducerSnapshot(whole(path, SIZE_LIMIT))
    except PathError:
        return None
    if snapshot.version != VERSION or snapshot.crc != snapshot.computed_crc:
        return None
    if snapshot.declared is None or len(snapshot) != snapshot.declared:
        return None
    return {
        state.producer_id: state.current_txn_first_offset
        for state in snapshot
        if state.current_txn_first_offset >= 0
    }


class Producers:
    """The state that is built up while one segment is recovered, or the log is loaded."""

    def __init__(self, snapshots: Snapshots) -> None:
        self.snapshots = snapshots
        self.end_offset = 0
        self.snapshot_offset = 0
        self.open: dict[int, int] = {}  # producer id -> first offset
        self.ongoing: dict[int, int] = {}  # first offset -> producer id
        self.completed: set[int] = set()  # first offsets of those that ended in a replay
        self.last_aborted: int | None = None

    def reload(self, log_start: int, end_offset: int) -> None:
        """Start from the newest snapshot in (log_start, end_offset] (`truncateAndReload`)."""
        kept = self.snapshots
        kept.forget(at for at in list(kept.kept) if at > end_offset or at <= log_start)
        if end_offset == self.end_offset:
            return
        self.open.clear()
        self.ongoing.clear()
        found = kept.newest()
        self.end_offset = self.snapshot_offset = log_start if found is None else found[0]
        if found is not None:
            self.open = found[1]
            self.ongoing = {first: producer for producer, first in self.open.items()}

    def take_snapshot(self) -> None:
        """Write a snapshot, if there is anything new."""
        if self.end_offset > self.snapshot_offset:
            self.snapshots.kept[self.end_offset] = dict(self.open)
            self.snapshot_offset = self.end_offset

    def recover(self, entries: Entries, rows: RecordBatches, start: int, stop: int) -> None:
        """Replay some entries of a segment under recovery, one by one."""
        if stop <= start:
            return
        if not self._cannot_stop(rows, start, stop):
            flags = rows.row_flags
            ids = rows.producer_ids
            for number in range(start, stop):
                kind = flags[number] & (c.CONTROL | c.TRANSACTIONAL)
                if (kind == c.TRANSACTIONAL) == (ids[number] in self.open) and not kind & c.CONTROL:
                    continue  # goes on with the transaction, or without one
                if ids[number] >= 0 and rows.has_producer_fields(number):
                    self._recover_one(entries, rows, number)
        self.end_offset = rows.last_offset(stop - 1) + 1

    def _recover_one(self, entries: Entries, rows: RecordBatches, number: int) -> None:
        producer = rows.producer_id(number)
        try:
            first, done = _append(entries, rows, number, self.open.get(producer, -1), self.ongoing)
        except CorruptRecordError as error:
            # The batch was counted as good before its marker was looked at.
            error.end_position = rows.position(number) + rows.size_bytes(number)
            self.end_offset = rows.base_offset(number)
            raise
        _keep(self.open, producer, first)
        if done is not None:
            if done.aborted:
                self._index(done)
            self._complete(done)

    def _cannot_stop(self, rows: RecordBatches, start: int, stop: int) -> bool:
        """Whether nothing in these entries can start, end or offend a transaction."""
        if not rows.flags & (c.CONTROL | c.TRANSACTIONAL) and not self.open:
            return True
        return max(rows.producer_ids[start:stop]) < 0

    def replay(self, entries: Entries, rows: Iterable[RecordBatches]) -> None:
        """Replay entries when the log is loaded: what they start is put in before what they end."""
        loaded: dict[int, int] = {}
        started: dict[int, int] = {}
        completed: list[_Completed] = []
        for columns in rows:
            if max(columns.producer_ids) < 0:
                continue
            for number, producer in enumerate(columns.producer_ids):
                if producer < 0 or not columns.has_producer_fields(number):
                    continue
                first = loaded.get(producer, self.open.get(producer, -1))
                first, done = _append(entries, columns, number, first, started)
                loaded[producer] = first
                if done is not None:
                    completed.append(done)
        for producer, first in loaded.items():
            _keep(self.open, producer, first)
        self.ongoing.update(started)
        for done in completed:
            self._complete(done)

    def _index(self, done: _Completed) -> None:
        if self.last_aborted is not None and self.last_aborted >= done.last_offset:
            raise RefusalError(
                f"IllegalArgumentException: the abort at {done.last_offset} is not later than the "
                f"one at {self.last_aborted}"
            )
        self.last_aborted = done.last_offset

    def first_unstable(self) -> int | None:
        """The first offset of a transaction that is open, or ended in what was replayed."""
        return min((*self.ongoing, *self.completed), default=None)

    def _complete(self, done: _Completed) -> None:
        self.completed.add(done.first_offset)
        if self.ongoing.pop(done.first_offset, None) is None:
            raise RefusalError(
                f"IllegalArgumentException: the transaction of producer {done.producer_id} that "
                f"began at {done.first_offset} was not started"
            )


def _keep(opened: dict[int, int], producer: int, first: int) -> None:
    if first < 0:
        opened.pop(producer, None)
    else:
        opened[producer] = first


def _append(
    entries: Entries, rows: RecordBatches, number: int, first: int, started: dict[int, int]
) -> tuple[int, _Completed | None]:
    """Take one batch: (first offset of the open transaction or -1, the one it completed) (R7)."""
    flags = rows.flags_of(number)
    producer = rows.producer_id(number)
    offset = rows.base_offset(number)
    if flags & c.CONTROL:
        kind = _marker(entries, rows, number)
        if kind is None:
            return first, None
        done = _Completed(producer, first, offset, kind == ABORT) if first >= 0 else None
        return -1, done
    if first >= 0 and not flags & c.TRANSACTIONAL:
        raise RefusalError(
            f"InvalidTxnStateException: producer {producer} writes at offset {offset} outside the "
            f"transaction it opened at {first}"
        )
    if first < 0 and flags & c.TRANSACTIONAL:
        started[offset] = producer
        return offset, None
    return first, None


def _marker(entries: Entries, rows: RecordBatches, number: int) -> int | None:
    """The type of a marker; None for a control batch without a record."""
    if rows.records_count(number) == 0:
        return None
    position, size = rows.position(number), rows.size_bytes(number)
    if size > entries.limit:
        raise UnknowableError(f"a control batch of {size} bytes")
    data = entries.source.read(position, size)
    piece = next(iter(read_batch(data, position, rows, number, limit=entries.limit)))
    if not piece.records.count:
        if piece.reason in (reasons.OVER_LIMIT, reasons.CODEC_MISSING):
            raise UnknowableError(f"a control batch that is not opened: {piece.detail}")
        if piece.reason == reasons.CODEC_FAILED:
            raise RefusalError("KafkaException: a control batch that cannot be decompressed")
        raise CorruptRecordError("InvalidRecordException: a control batch that cannot be read")
    key, value = piece.records.key(piece.data, 0), piece.records.payload(piece.data, 0)
    kind = control_type(key)
    if kind is None or int.from_bytes((key or b"")[:2], "big", signed=True) < 0:
        raise CorruptRecordError("InvalidRecordException: a control record without a type")
    if kind not in (ABORT, COMMIT):
        raise RefusalError(f"IllegalArgumentException: control type {kind} is no end of anything")
    if value is None or len(value) < _MARKER_BYTES:
        raise CorruptRecordError("InvalidRecordException: a marker without a coordinator epoch")
    if int.from_bytes(value[:2], "big", signed=True) < 0:
        raise CorruptRecordError("InvalidRecordException: a marker of a negative version")
    return kind

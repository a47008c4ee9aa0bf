"""What a consumer would be handed: from the log start to the high watermark or the last stable
offset, as far as disk alone can tell; and which records of aborted transactions it would skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.engine.findings import Finding, finding
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.record import control
from kdump.record.batch import read_batch
from kdump.record.frames import Oversize, Run
from kdump.storage import names
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.producer_snapshot import SIZE_LIMIT, ProducerSnapshot
from kdump.storage.source import Source
from kdump.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from kdump.engine.targets import Target
    from kdump.storage.local_log import LocalLog
    from kdump.storage.transaction_index import AbortedTransaction

# The high watermark is written every 5 s; a log touched later than this after it has moved on.
STALE_CHECKPOINT_SECONDS = 10


class View:
    """The offsets a consumer is handed: from `log_start` up to, not including, `end`.

    `end` is None where the log end serves. `findings` say what could not be known.
    """

    def __init__(self, target: Target, *, committed: bool, limit: int) -> None:
        self.findings: list[Finding] = []
        self._target = target
        assert target.log is not None
        log = target.log
        logs = log.logs
        first = logs[0].base_offset if logs else 0
        directory = target.log_dir()
        starts = directory.offsets(names.LOG_START_CHECKPOINT) if directory else {}
        if starts is None:
            self._note("log-start-unknown")
            starts = {}
        key = (target.topic or "", target.partition or 0)
        self.log_start = max(first, starts.get(key, 0))
        marks = directory.offsets(names.REPLICATION_CHECKPOINT) if directory else {}
        mark = (marks or {}).get(key)
        why = self._why_unknown(mark, log)
        if why and logs and not logs[-1].is_pre08:
            self._note("high-watermark-unknown", actual=mark, message=why)
        self.end: int | None = None if why else mark
        self.aborted: list[AbortedTransaction] = []
        if committed and logs:
            stable = last_stable_offset(log, self.log_start, self.end, limit)
            if stable is not None:
                self.end = stable
            self.aborted = aborted_transactions(log)

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach an offset, as a fetch from there lists them (L8).

        One that ended before must not be in the filter: its marker may lie in a segment that is
        not read, and what its producer wrote later is no part of it.
        """
        return [entry for entry in self.aborted if entry.last_offset >= offset]

    def _why_unknown(self, mark: int | None, log: LocalLog) -> str:
        """Say why the checkpointed high watermark cannot serve; empty if it can."""
        if mark is None:
            return "No high watermark is on disk for this partition; the log end serves."
        if mark < self.log_start:
            return f"The high watermark {mark} is below the log start; the log end serves."
        directory = self._target.log_dir()
        written = directory.checkpoint_time(names.REPLICATION_CHECKPOINT) if directory else None
        active = log.logs[-1].log if log.logs else None
        if written is not None and active is not None:
            try:
                modified = os.stat(active).st_mtime
            except OSError:
                return ""
            if modified > written + STALE_CHECKPOINT_SECONDS:
                return (
                    f"The high watermark {mark} was written {modified - written:.0f} s before the "
                    "log's last change; the log end serves."
                )
        return ""

    def _note(self, code: str, *, actual: object = None, message: str | None = None) -> None:
        self.findings.append(
            finding(
                code,
                path=self._target.path,
                topic=self._target.topic,
                partition=self._target.partition,
                actual=actual,
                message=message,
            )
        )


def aborted_transactions(log: LocalLog) -> list[AbortedTransaction]:
    """Collect the aborted transactions of all segments, by first offset (L8).

    As a broker serves them: what a missing or torn index does not name is not skipped.
    """
    found: list[AbortedTransaction] = []
    for segment in log.segments:
        path = segment.files.get(Kind.TRANSACTION_INDEX)
        if path is None:
            continue
        try:
            with Source(path) as source:
                found.extend(TransactionIndex(source, segment.base_offset).readable())
        except PathError:
            continue
    return sorted(found, key=lambda entry: (entry.first_offset, entry.last_offset))


def last_stable_offset(
    log: LocalLog, log_start: int, high_watermark: int | None, limit: int
) -> int | None:
    """Replay producer state to the offset below which every transaction is decided (L7, R7).

    None where no transaction is open, and the high watermark (None: the log end) stands.
    """
    state = Transactions()
    start = log_start
    for offset, path in reversed(log.snapshots()):
        if offset <= log_start or (high_watermark is not None and offset > high_watermark):
            continue
        if not any(segment.base_offset == offset for segment in log.logs):
            # Only one taken at a segment's base is proved to be no later than the log's end.
            continue
        try:
            with Source(path) as source:
                snapshot = ProducerSnapshot(source.whole(SIZE_LIMIT))
        except PathError:
            continue
        if snapshot.problems():
            continue
        for producer in snapshot:
            if producer.current_txn_first_offset >= 0:
                state.open[producer.producer_id] = producer.current_txn_first_offset
        start = offset
        break
    for number, segment in enumerate(log.logs):
        following = log.logs[number + 1].base_offset if number + 1 < len(log.logs) else None
        if (following is not None and following <= start) or segment.log is None:
            continue
        try:
            with Source(segment.log) as source:
                records = FileRecords(source, limit=limit, next_base=following)
                for item in records.walk():
                    if isinstance(item, Run):
                        state.replay(item, start)
                    elif isinstance(item, Oversize):
                        state.note(item.batches, 0, start)
        except PathError:
            continue
    return state.stable(high_watermark)


class Transactions:
    """Which transactions are open, by producer id, and which were decided lately."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self._decided: list[tuple[int, int]] = []  # first offset, marker's offset

    def replay(self, run: Run, start: int) -> None:
        """Go over a run's headers from offset `start` on; most runs have nothing to look at."""
        batches = run.batches
        if not batches.flags & c.TRANSACTIONAL:
            return
        for row, flags in enumerate(batches.column(c.B_FLAGS)):
            if not flags & c.TRANSACTIONAL:
                continue
            if flags & c.CONTROL:
                if batches.value(c.B_BASE_OFFSET, row) >= start and marker_of(run, row) is not None:
                    first = self.open.pop(batches.value(c.B_PRODUCER_ID, row), None)
                    if first is not None:
                        self._decided.append((first, batches.value(c.B_BASE_OFFSET, row)))
            else:
                self.note(batches, row, start)

    def note(self, batches: c.Columns, row: int, start: int) -> None:
        """Note a data batch: a producer's first transactional one opens a transaction."""
        if batches.value(c.B_FLAGS, row) & c.CONTROL:
            return
        base = batches.value(c.B_BASE_OFFSET, row)
        if base >= start and batches.value(c.B_FLAGS, row) & c.TRANSACTIONAL:
            self.open.setdefault(batches.value(c.B_PRODUCER_ID, row), base)

    def stable(self, high_watermark: int | None) -> int | None:
        """The last stable offset, or None where the high watermark stands."""
        bounds = list(self.open.values())
        if high_watermark is not None:
            bounds += [first for first, marker in self._decided if marker >= high_watermark]
            bounds.append(high_watermark)
        return min(bounds, default=None)


def marker_of(run: Run, row: int) -> int | None:
    """Return the type of a control batch's first record if it ends a transaction, else None."""
    for piece in read_batch(run.data, run.base, run.batches, row, limit=1 << 20, max_records=1):
        if not piece.records.count:
            return None
        at, size = piece.records.value(c.R_KEY, 0), piece.records.value(c.R_KEY_SIZE, 0)
        kind = control.control_type(bytes(memoryview(piece.data)[at : at + max(size, 0)]))
        return kind if kind in (control.ABORT, control.COMMIT) else None
    return None


class AbortFilter:
    """Which batches a read_committed consumer skips, fed in log order (L9)."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._active: set[int] = set()

    def skips(self, run: Run, row: int) -> bool:
        """Whether the batch in this row holds aborted data. Call for each batch, in order."""
        batches = run.batches
        producer = batches.value(c.B_PRODUCER_ID, row)
        if batches.value(c.B_LAYOUT, row) != 2 or producer < 0:
            return False
        last = batches.value(c.B_LAST_OFFSET, row)
        while self._waiting and self._waiting[-1].first_offset <= last:
            self._active.add(self._waiting.pop().producer_id)
        flags = batches.value(c.B_FLAGS, row)
        if flags & c.CONTROL:
            if marker_of(run, row) == control.ABORT:
                self._active.discard(producer)
            return False
        return bool(flags & c.TRANSACTIONAL) and producer in self._active

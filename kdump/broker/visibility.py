"""Compute what a consumer may read: from the log start to the high watermark or last stable
offset, as far as disk can show; and which records of aborted transactions it would skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Run
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.names import OFFSET_MAX, Kind
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.producer_events import TransactionEnd
    from kdump.broker.producer_state import Producer, ProducerStates
    from kdump.broker.remote_log import Tier
    from kdump.storage.log_dir import LogDir
    from kdump.storage.targets import Target
    from kdump.storage.transaction_index import AbortedTransaction


def log_start(
    first_base: int, directory: LogDir | None, topic: str | None, partition: int | None
) -> int:
    """The log start offset: the first segment's base, or the checkpoint's where that is above it.

    Without a data directory, or with a checkpoint that no broker could read, the base (L16, X3).
    """
    if directory is None:
        return first_base
    return max(first_base, directory.offset(names.LOG_START_CHECKPOINT, topic, partition) or 0)


# The high watermark is written every 5 s; a log touched later than this after it has moved on.
STALE_CHECKPOINT_SECONDS = 10


class View:
    """The offsets a consumer is handed: from `log_start` up to, not including, `end`.

    `end` is None where the log end serves, as is `mark`, the high watermark. `findings` say what
    could not be known. `directory` is the data directory around the partition, None where it cannot
    be listed. `held` tells of the open transaction before which readers of committed data stop, for
    whoever comes to it.
    """

    def __init__(self, target: Target, *, committed: bool, limit: int) -> None:
        self.findings: list[Finding] = []
        self._target = target
        assert target.log is not None
        log = target.log
        logs = log.logs
        first = logs[0].base_offset if logs else 0
        directory = self.directory = target.log_dir()
        if directory and directory.offsets(names.LOG_START_CHECKPOINT) is None:
            self.findings.append(self._finding("log-start-unknown"))
        tier = self.tier = self._tier()
        self.log_start = log_start(first, directory, target.topic, target.partition)
        if tier is not None:
            self.log_start = tier.log_start
        place = (names.REPLICATION_CHECKPOINT, target.topic, target.partition)
        mark = directory.offset(*place) if directory else None
        why = self._why_unknown(mark, log)
        if why and logs and not logs[-1].is_pre08:
            self.findings.append(self._finding("high-watermark-unknown", actual=mark, message=why))
        self.mark: int | None = None if why else mark
        self.end = self.mark
        self.held: Finding | None = None
        self.aborted: list[AbortedTransaction] = []
        if committed and logs:
            stable, states = last_stable_offset(log, self.log_start, self.mark, limit)
            if stable is not None:
                self.end = stable
                self.held = self._blocking_finding(stable, states)
            remote = tier.local_files() if tier else []
            self.aborted = aborted_transactions([*remote, *log.segments])

    def _tier(self) -> Tier | None:
        if self._target.tier is None:
            return None
        from kdump.broker.remote_log import tier_of

        return tier_of(self._target)

    def list_aborted(self, offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach an offset, as a fetch from there lists them (L8).

        One that ended before must not be in the filter: its marker may lie in a segment that is
        not read, and what its producer wrote later is no part of it.
        """
        return [entry for entry in self.aborted if entry.last_offset >= offset]

    def _why_unknown(self, mark: int | None, log: LocalLog) -> str:
        """Say why the checkpointed high watermark cannot serve; empty if it can."""
        if mark is None:
            return (
                "The high watermark of this partition is not on disk, or cannot be read; the log "
                "end is used instead."
            )
        if mark < self.log_start:
            return f"The high watermark {mark} is below the log start; the log end is used."
        directory = self.directory
        written = directory.checkpoint_time(names.REPLICATION_CHECKPOINT) if directory else None
        active = log.logs[-1].log if log.logs else None
        if written is not None and active is not None and places.keeps_times(active):
            try:
                modified = places.stat(active).st_mtime
            except OSError:
                return ""
            if modified > written + STALE_CHECKPOINT_SECONDS:
                from kdump.findings.moments import span_text

                age_ms = round((modified - written) * 1000)
                return (
                    f"The high watermark {mark} was written {span_text(age_ms)} before the "
                    "log's last change; the log end is used."
                )
        return ""

    def _blocking_finding(self, stable: int, states: ProducerStates) -> Finding | None:
        """Tell of the earliest transaction, if it is the one that sets the last stable offset."""
        producer_id, first = next(iter(states.open.items()), (-1, -1))
        if max(first, self.log_start) != stable or producer_id not in states.producers:
            return None
        from kdump.broker.visibility import transaction_words

        words = transaction_words(producer_id, states.producers[producer_id], first)
        return self._finding(
            "read-committed-stops",
            offset=first,
            message=f"{words}: read_committed consumers receive nothing from there on.",
        )

    def _finding(self, code: str, **members: Any) -> Finding:
        target = self._target
        return finding(
            code, path=target.path, topic=target.topic, partition=target.partition, **members
        )


def aborted_transactions(segments: Iterable[LogSegment]) -> list[AbortedTransaction]:
    """Collect the aborted transactions of some segments, by first offset (L8).

    As a broker serves them: what a missing or torn index does not name is not skipped.
    """
    from kdump.storage.transaction_index import TransactionIndex

    found: list[AbortedTransaction] = []
    for segment in segments:
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
    log: LocalLog,
    log_start: int,
    high_watermark: int | None,
    limit: int,
    *,
    counted: bool = False,
    until_ms: int | None = None,
    unread: set[str] | None = None,
) -> tuple[int | None, ProducerStates]:
    """Replay producer state to the offset below which every transaction is decided (L7, R7).

    None where no transaction is open, and the high watermark (None: the log end) stands. With it
    comes the state at the log end; `counted`: with the batches of each open transaction, which a
    snapshot does not know. Batches with a timestamp above `until_ms` are passed over. Why
    some of the log cannot be read goes into `unread`; zeros at its end are no part of it.
    """
    from kdump.broker.producer_state import ProducerStates

    states, start = ProducerStates(), log_start
    if until_ms is None:  # how much of a snapshot is later than a time it does not say
        states, start = _load_newest(log, log_start, high_watermark)
    earliest = next(iter(states.open.values()), start)
    if counted and log_start <= earliest < start:
        states, start = ProducerStates(), earliest  # none that is open at `start` began before
    bounds = [] if high_watermark is None else [high_watermark]
    for segment, following in with_next_base(log.logs):
        if (following is not None and following <= start) or segment.log is None:
            continue
        decided = _find_ends(segment.log, following, states, start, limit, until_ms, unread)
        bounds.extend(
            ended.first_offset
            for ended in decided
            if high_watermark is not None and ended.offset >= high_watermark  # not replicated yet
        )
    bounds.extend(states.open.values())
    return max(log_start, min(bounds)) if bounds else None, states


def producers_at_end(log: LocalLog, log_start: int, limit: int) -> ProducerStates:
    """Replay producer state to the log end (R7); none is left out for its age."""
    from kdump.storage.file_records import walk

    states, start = _load_newest(log, log_start, None)
    for segment, following in with_next_base(log.logs):
        if (following is None or following > start) and segment.log is not None:
            with suppress(PathError):
                for item in walk(segment.log, limit=limit, next_base=following):
                    if not isinstance(item, Gap):
                        states.replay(item, start)
    return states


def _load_newest(log: LocalLog, log_start: int, bound: int | None) -> tuple[ProducerStates, int]:
    """Give the state of the newest sound snapshot up to an offset, and where it was taken."""
    from kdump.broker.producer_state import ProducerStates

    for offset, path in reversed(log.snapshots()):
        if offset <= log_start or (bound is not None and offset > bound):
            continue
        if not any(segment.base_offset == offset for segment in log.logs):
            # Only one taken at a segment's base is proved to be no later than the log's end.
            continue
        known = ProducerStates.from_file(path)
        if known is not None:
            return known, offset
    # A start replays the segment around the log start whole, or has a snapshot of its end (R8).
    bases = [segment.base_offset for segment in log.logs if segment.base_offset <= log_start]
    return ProducerStates(), bases[-1] if bases else log_start


def _find_ends(
    path: str,
    next_base: int | None,
    states: ProducerStates,
    start: int,
    limit: int,
    until_ms: int | None,
    unread: set[str] | None,
) -> Iterator[TransactionEnd]:
    """Replay a segment from offset `start` on, and yield the transactions that end in it."""
    from kdump.broker.producer_events import TransactionEnd
    from kdump.storage.file_records import walk

    try:
        for item in walk(path, limit=limit, next_base=next_base):
            if isinstance(item, Gap):
                if unread is not None and not (item.to_end and item.reason == "zeros"):
                    unread.add(item.reason)
                continue
            if not item.batches.flags & c.TRANSACTIONAL:
                continue
            for low, high in _ranges_until(until_ms, item.batches):
                for event in states.replay(item, max(start, low), high):
                    if isinstance(event, TransactionEnd) and event.first_offset >= 0:
                        yield event
    except PathError as error:
        if unread is not None:
            unread.add(error.reason)


def _ranges_until(until_ms: int | None, batches: RecordBatches) -> Iterator[tuple[int, int]]:
    """Give the ranges of last offsets of batches whose timestamps are not above a time."""
    if until_ms is None or max(batches.max_timestamps) <= until_ms:
        yield 0, OFFSET_MAX
        return
    low = 0
    for last, time_ms in zip(batches.last_offsets, batches.max_timestamps, strict=True):
        if time_ms > until_ms:
            if low < last:
                yield low, last
            low = last + 1
    yield low, OFFSET_MAX


class AbortFilter:
    """Which batches a read_committed consumer skips, fed in log order (L9)."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._active: set[int] = set()

    def skips(self, run: Run, row: int) -> bool:
        """Whether the batch in this row holds aborted data. Call for each batch, in order."""
        batches = run.batches
        producer = batches.producer_id(row)
        if not batches.has_producer_fields(row) or producer < 0:
            return False
        last = batches.last_offset(row)
        while self._waiting and self._waiting[-1].first_offset <= last:
            self._active.add(self._waiting.pop().producer_id)
        flags = batches.flags_of(row)
        if flags & c.CONTROL:
            from kdump.broker.control_batch import read_control
            from kdump.record import control

            if read_control(run, row).kind == control.ABORT:
                self._active.discard(producer)
            return False
        return bool(flags & c.TRANSACTIONAL) and producer in self._active


def transaction_words(producer_id: int, producer: Producer, first: int) -> str:
    """Say whose transaction is open, and since when; a snapshot does not know how much is in it."""
    from kdump.findings.moments import time_text

    since = time_text(producer.since_ms)
    when = f" ({since})" if since else ""
    count = producer.records_count
    records = f", with {count:,} record{'s' * (count != 1)}" if count else ""
    return (
        f"Producer {producer_id}, epoch {producer.producer_epoch}, has a transaction open since "
        f"offset {first:,}{when}{records}"
    )


class OpenTransaction(NamedTuple):
    """A transaction without a marker, in one partition.

    `since_ms` is the time of its first batch, as its producer has it; `records_count` None: its
    first batches are gone, and only a snapshot knows of them. `newest_ms` is the newest time that
    markers and records outside of transactions have, -1 for none: the log goes at least so far.
    `marker_offset` is where its ABORT marker was, by the transaction index; it cannot be read.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    since_ms: int | None
    records_count: int | None
    newest_ms: int
    marker_offset: int | None = None


class OpenTransactions(NamedTuple):
    """The open transactions of a partition, by first offset, and the last stable offset.

    `newest_marker_ms` is the time of the last marker that was read, a broker's clock; `newest_ms`
    that of records, producers' clocks; both -1 where there is none. `unread`: part of the log
    cannot be read. `overflowed`: so many are open that none is named.
    """

    transactions: tuple[OpenTransaction, ...]
    last_stable_offset: int | None
    newest_marker_ms: int
    newest_ms: int
    unread: bool
    overflowed: bool


def open_transactions(target: Target, limit: int, until_ms: int | None = None) -> OpenTransactions:
    """Replay a whole partition's producers, from its newest snapshot on, or up to a time."""
    assert target.log is not None
    view = View(target, committed=False, limit=limit)
    unread: set[str] = set()
    stable, states = last_stable_offset(
        target.log,
        view.log_start,
        view.end if until_ms is None else None,
        limit,
        counted=True,
        until_ms=until_ms,
        unread=unread,
    )
    aborted: dict[tuple[int, int], int] = {}
    if states.open and until_ms is None:
        aborted = {
            (entry.producer_id, entry.first_offset): entry.last_offset
            for entry in aborted_transactions(target.log.segments)
        }
    return OpenTransactions(
        tuple(
            open_transaction_of(states, one)._replace(marker_offset=aborted.get((one, first)))
            for one, first in states.open.items()
        ),
        stable,
        states.newest_marker_ms,
        states.newest_ms,
        bool(unread),
        states.overflowed,
    )


def open_transaction_of(states: ProducerStates, producer_id: int) -> OpenTransaction:
    """Return the open transaction of a producer."""
    producer = states.producers[producer_id]
    is_counted = producer.joined_from != OFFSET_MAX
    return OpenTransaction(
        producer_id,
        producer.producer_epoch,
        states.open[producer_id],
        None if producer.since_ms < 0 else producer.since_ms,
        producer.records_count if is_counted else None,
        max(states.newest_ms, states.newest_marker_ms),
    )

"""Check producer snapshots against a replay of the log up to their offset (X9, R8 to R10).

A snapshot may lawfully know less than the log: producers idle for a day are left out, and after
a clean start without any snapshot all are (R8, R10). It may know more where compaction or the
log start has taken away what it speaks of. So an entry is held against the log only as far as no
offset is missing behind what it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from kdump.engine.checks.survey import problem_finding
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.storage.names import Retirement
from kdump.storage.producer_snapshot import (
    ProducerSnapshot,
    ProducerState,
    check_snapshot,
    sound_snapshot,
)

if TYPE_CHECKING:
    from kdump.broker.producer_state import Producer, ProducerStates
    from kdump.engine.reading.partition_scan import PartitionScan
    from kdump.findings.finding import About, Finding


class SnapshotCheck:
    """Looks at each snapshot when the replay has come to its offset.

    `log_start`: brokers drop snapshots at or below it; `doubt` are words on how sure it is.
    """

    def __init__(
        self, partition: PartitionScan, states: ProducerStates, log_start: int, doubt: str
    ) -> None:
        self._doubt = doubt
        self._partition = partition
        self._states = states
        self._log_start = log_start
        self._due = partition.log.snapshots()[::-1]  # the next one last
        self._had_any = bool(self._due)
        self._at_end = False
        self._producers_below = False  # below the newest segment, in the end

    def next_offset(self, last_offset: int) -> int | None:
        """The next snapshot's offset, if it is at or below a last offset."""
        return self._due[-1][0] if self._due and self._due[-1][0] <= last_offset else None

    def entries(self, offset: int) -> list[ProducerState]:
        """What the snapshot of an offset says; none where there is none that can be read."""
        snapshots = self._partition.log.snapshots()
        path = next((path for at, path in snapshots if at == offset), None)
        return [] if path is None else list(sound_snapshot(path) or ())

    def check_until(self, offset: int) -> Iterator[Finding | Conditional]:
        """Look at the snapshots up to an offset, all batches below which were replayed."""
        self._producers_below = bool(self._states.producers)
        while self._due and self._due[-1][0] <= offset:
            at, path = self._due.pop()
            yield from self._check_snapshot(at, path, comparable=at == offset)

    def end(self) -> Iterator[Finding | Conditional]:
        """Look at those that lie behind the last batch."""
        end = self._states.next_offset
        self._at_end = bool(self._partition.segments) and self._partition.segments[-1].complete
        while self._due:
            at, path = self._due.pop()
            yield from self._check_snapshot(at, path, comparable=at == end)
        yield from self._check_absence()

    def _check_snapshot(
        self, offset: int, path: str, *, comparable: bool
    ) -> Iterator[Finding | Conditional]:
        try:
            snapshot = check_snapshot(path)
        except PathError as error:
            self._partition.note_unread(error)
            return
        problems = snapshot.problems()
        for problem in problems:
            yield problem_finding(problem, self._partition.place._replace(path=path))
        yield from self._stray(offset, path)
        if problems or not comparable or self._states.overflowed:
            return
        if self._states.next_offset == offset:
            yield from self._compare(snapshot, offset, path)

    def _stray(self, offset: int, path: str) -> Iterator[Finding | Conditional]:
        """Tell of one that a start deletes: of below the first segment, or beyond the log end."""
        segments = self._partition.segments
        tiered = self._partition.settings.tiered  # those of segments that are remote stay
        if segments and offset < segments[0].base_offset and not tiered:
            yield self._finding("snapshot-stray", path, offset=offset)
        elif self._at_end:
            newest = segments[-1]
            end = max(newest.base_offset, newest.last_offset + 1)
            if offset > end:
                # What broke the end of the log explains it.
                tail = max(0, newest.end_position - 1)
                touches = RestsOn(newest.base_offset, tail, tail + 1, end, offset)
                reported = self._finding("snapshot-stray", path, offset=offset, expected=end)
                yield Conditional(reported, touches)

    def _compare(
        self, snapshot: ProducerSnapshot, offset: int, path: str
    ) -> Iterator[Finding | Conditional]:
        wrong = 0
        first: tuple[ProducerState, str, object, object] | None = None
        for entry in snapshot:
            difference = self._difference(entry)
            if difference is not None:
                wrong += 1
                first = first or (entry, *difference)
        if first is None:
            return
        entry, what, expected, actual = first
        message = (
            f"Producer {entry.producer_id}: its {what} is {actual} according to the snapshot, but "
            f"{expected} according to the log below offset {offset:,}."
        )
        if wrong > 1:
            message += f" {wrong - 1:,} more producers differ."
        message += self._doubt
        reported = self._finding(
            "snapshot-differs",
            path,
            offset=offset,
            expected=f"{what} {expected}",
            actual=f"{what} {actual}",
            message=message,
        )
        yield Conditional(reported, RestsOn(offset=self._states.joined_from, end_offset=offset))

    def _difference(self, entry: ProducerState) -> tuple[str, object, object] | None:
        """Say in what an entry contradicts the log: what, the log's value, the entry's."""
        states = self._states
        # A start replays no more than what lies behind the log start (R8).
        joined = max(states.joined_from, self._log_start)
        producer = states.producers.get(entry.producer_id)
        if producer is None and states.dropped:
            return None  # it may have been one of the idle
        if producer is None:
            # None of its batches lies where no offset is missing.
            for what, offset in (
                ("last offset", entry.last_offset),
                ("open transaction", entry.current_txn_first_offset),
            ):
                if offset >= joined:
                    return (what, "no batch from it", offset)
            return None
        if joined > producer.last_seen:
            return None
        return _contradiction(entry, producer, joined)

    def _check_absence(self) -> Iterator[Finding]:
        """No snapshot is there, though producers wrote below the newest segment (X16)."""
        segments = self._partition.segments
        name = self._partition.log.name
        if name is not None and name.retirement is Retirement.DELETE:
            return
        if self._had_any or len(segments) < 2 or not segments[-1].complete:
            return
        base = segments[-1].base_offset
        if base <= self._log_start or self._states.overflowed:
            return
        if self._producers_below:
            yield self._finding("snapshot-missing", self._partition.log.path, offset=base)

    def _finding(self, code: str, path: str, **about: Unpack[About]) -> Finding:
        return at_place(code, self._partition.place, path=path, **about)


def _contradiction(
    entry: ProducerState, producer: Producer, joined: int
) -> tuple[str, object, object] | None:
    """Hold an entry against a producer whose last batch lies where no offset is missing."""
    if entry.producer_epoch != producer.producer_epoch:
        return ("epoch", producer.producer_epoch, entry.producer_epoch)
    if producer.last_offset >= joined:
        for what, expected, actual in (
            ("last offset", producer.last_offset, entry.last_offset),
            ("last sequence", producer.last_sequence, entry.last_sequence),
            ("offset delta", producer.offset_delta, entry.offset_delta),
        ):
            if expected != actual:
                return (what, expected, actual)
    elif entry.last_offset >= joined:
        return ("last offset", f"none from {joined} on", entry.last_offset)
    first = producer.first_offset
    said = entry.current_txn_first_offset
    if first >= joined:
        differs = said != first and (said < 0 or said >= producer.joined_from)
    else:
        differs = first < 0 <= said
    if differs:
        return ("open transaction", first, said)
    return None

"""Replay the sequence numbers that a partition is sent, and make rows of what does not join."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.producer_events import SequenceBreak
from kdump.broker.producer_state import ProducerStates, no_producers
from kdump.engine.reading import sequence_rules as rules
from kdump.engine.reading.sequence_rules import DUPLICATE, GAP
from kdump.findings.finding import CATALOGUE
from kdump.kernels.members import sequence_at
from kdump.rows.sequences import SequenceDuplicate, SequenceGap
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.rows import Place, Row
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Oversize, Run

_ROWS_KEPT = 10_000  # of one partition
_EPOCHS_KEPT = 200_000
_MEMBERS = {
    GAP: "gaps",
    DUPLICATE: "duplicates",
    rules.REMOVED: "removed",
    rules.EXPIRED: "expired",
    rules.RESTARTED: "restarted",
}


class SequenceSums(NamedTuple):
    """What the summary adds up. `producers` are ids, `epochs` ids with epochs, by partition;
    `first_gaps` those gaps that are first numbers above 0.

    Coordinators write 0 each time, so that nothing follows from their numbers. Not followed are
    partitions with too many producers at once.
    """

    partitions: int = 0
    producers: int = 0
    epochs: int = 0
    batches: int = 0
    batches_with_sequences: int = 0
    gaps: int = 0
    first_gaps: int = 0
    missing_count: int = 0
    duplicates: int = 0
    repeated_count: int = 0
    removed: int = 0
    expired: int = 0
    restarted: int = 0
    rows_not_listed: int = 0
    partitions_damaged: int = 0
    partitions_of_coordinators: int = 0
    partitions_not_followed: int = 0

    def plus(self, other: SequenceSums) -> SequenceSums:
        """Add two of them."""
        return SequenceSums(*map(sum, zip(self, other, strict=True)))


class SequenceReplay:
    """Replays the sequence numbers that a partition is sent; what does not join becomes a row.

    `sent`: as requests have them, instead of as a log does.
    """

    def __init__(
        self, topic: str | None, expiration_ms: int, *, explained: bool, sent: bool
    ) -> None:
        self.rows: list[Row] = []
        self._explained = explained
        self._sent = sent
        self._expiration_ms = expiration_ms
        self._states = ProducerStates(
            is_repeat=partial(rules.is_repeat, expiration_ms=self._expiration_ms)
        )
        self._followed = topic not in rules.COORDINATED
        self._counts: Counter[str] = Counter(partitions=1)  # by the members of the sums
        self._epochs: set[tuple[int, int]] = set()

    def sums(self) -> SequenceSums:
        """What this partition adds to the summary."""
        states = self._states
        lost_sight = states.dropped or states.overflowed or len(self._epochs) >= _EPOCHS_KEPT
        return SequenceSums(
            **self._counts,
            producers=len({producer_id for producer_id, _ in self._epochs}),
            epochs=len(self._epochs),
            partitions_of_coordinators=int(not self._followed),
            partitions_not_followed=int(lost_sight),
        )

    def counts(self, batches: RecordBatches) -> bool:
        """Count batches, and say whether they are to be followed."""
        self._counts["batches"] += batches.count
        if self._followed:
            self._count_producers(batches)
        return self._followed

    def forget(self, *, damaged: bool = True) -> None:
        """Forget: batches were in between."""
        self._states.forget()
        if damaged:
            self._counts["partitions_damaged"] = 1

    def _count_producers(self, batches: RecordBatches) -> None:
        if no_producers(batches, 0, batches.count):
            return
        ids, epochs, numbers = (
            batches.producer_ids, batches.producer_epochs, batches.base_sequences
        )  # fmt: skip
        self._counts["batches_with_sequences"] += sum(map((-1).__lt__, numbers))
        if len(self._epochs) < _EPOCHS_KEPT:
            pairs = zip(ids, epochs, numbers, strict=True)
            self._epochs |= {(one, epoch) for one, epoch, number in pairs if number >= 0}

    def take(self, place: Place, item: Run | Oversize) -> None:
        """Take up batches in the order of their offsets."""
        for event in self._states.replay(item):
            if isinstance(event, SequenceBreak):
                self._add_break(place, item.batches, event)

    def _add_break(self, place: Place, batches: RecordBatches, event: SequenceBreak) -> None:
        kind = rules.judge(event, batches, self._expiration_ms)
        self._counts[_MEMBERS[kind]] += 1
        if kind == GAP:
            self._counts["first_gaps"] += event.is_first
            self._counts["missing_count"] += rules.ahead(event)
        elif kind == DUPLICATE:
            self._counts["repeated_count"] += rules.count_old(event, batches)
        elif not self._explained:
            return
        if len(self.rows) >= _ROWS_KEPT:
            self._counts["rows_not_listed"] += 1
            return
        words = (rules.sent_words if self._sent else _explanation)(event, batches, kind)
        self.rows.append(_row(place, batches, event, kind, words))


def _row(
    place: Place, batches: RecordBatches, event: SequenceBreak, kind: str, explanation: str
) -> Row:
    row = event.row
    base, last = batches.base_offset(row), batches.last_offset(row)
    made = SequenceDuplicate if kind == DUPLICATE else SequenceGap
    count: int | None = None
    if kind == DUPLICATE:
        count = rules.count_old(event, batches)
    elif kind != rules.RESTARTED and not rules.is_behind(event):
        count = rules.ahead(event)
    return made(
        topic=place.topic,
        partition=place.partition,
        segment=place.segment,
        kind=kind,
        severity=CATALOGUE[f"sequence-{kind}"].severity.value if kind in (GAP, DUPLICATE) else None,
        producer_id=event.producer_id,
        producer_epoch=event.producer_epoch,
        expected_sequence=event.expected,
        base_sequence=event.base_sequence,
        last_sequence=sequence_at(event.base_sequence, last - base),
        sequences_count=count,
        previous_offset=_or_none(event.previous.last_offset),
        offset=base,
        last_offset=last,
        position=batches.position(row),
        size_bytes=batches.size_bytes(row),
        previous_timestamp_ms=_or_none(event.previous.last_timestamp_ms),
        timestamp_ms=batches.max_timestamp(row),
        explanation=explanation,
        path=place.path,
    )


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


def _explanation(event: SequenceBreak, batches: RecordBatches, kind: str) -> str:
    before = event.previous.last_offset
    base = batches.base_offset(event.row)
    if event.is_first and kind == GAP:
        return rules.first_words(event)
    if kind == GAP:
        return (
            f"{rules.ahead(event):,} sequence numbers are missing between offsets {before:,} and "
            f"{base:,}, but no offsets are: records sent in between were not stored."
        )
    if kind == DUPLICATE:
        again = "the first batch of this epoch" if event.known_first else "numbers used before"
        return (
            f"{again} again: consumers receive {rules.count_old(event, batches):,} records twice."
        )
    if kind == rules.REMOVED:
        return (
            f"offsets are also missing between {before:,} and {base:,}: compaction removed them, "
            "or they are lost (see kdump verify)."
        )
    if kind == rules.EXPIRED:
        return (
            "the producer was idle for so long that the broker may have forgotten it, and a broker "
            "accepts any number from an unknown producer."
        )
    return "starts at 0 again, as clients before 2.5 do when the broker has forgotten them."

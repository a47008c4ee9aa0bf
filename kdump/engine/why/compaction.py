"""Say what the cleaner makes of a compacted partition: whether it is cleaned, or why it is not.

With `--cleaner` the log is read as a cleaning now would read it: what would go, and how many bytes;
an entry at which the cleaner fails; and whether the last cleanings did what they are there for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.broker import cleaner
from kdump.broker import versions as v
from kdump.broker.cleaner import Choice, CleanerLog, cleaner_log
from kdump.broker.cleaning import CleaningRound, FailedError, Repeats
from kdump.broker.partition import PartitionView
from kdump.broker.versions import Version, has
from kdump.engine.why.fates import length_text, minute_text
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.replay.releases import with_oldest
from kdump.rows import why as rows
from kdump.rows.why import FailsAt
from kdump.storage.offsets import RELATIVE_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.retention import LogFacts, Policy
    from kdump.broker.settings import Settings
    from kdump.engine.why.options import WhyOptions
    from kdump.storage.targets import Target

#: Members in which two releases are compared.
_COMPARED = ("cleanable", "blocked_by", "dead_records", "tombstones_removable", "fails_at")
_POLICIES = {True: "compact,delete", False: "compact"}


class RemovedRecords(NamedTuple):
    """What a cleaning removes of a segment or of all; None where none is tried."""

    dead_records: int | None = None
    dead_bytes: int | None = None
    tombstones: int | None = None
    tombstones_removable: int | None = None


NOT_CLEANED = RemovedRecords()


class Compaction(NamedTuple):
    """The row of a compacted partition, and what was found of it.

    `segments` has, with `--cleaner`, by base offset what a round removes of a segment.
    """

    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    segments: Mapping[int, RemovedRecords] = {}

    def with_oldest(self, broker: Version, older: Compaction) -> Compaction:
        """Add what the oldest release does that can have written the partition."""
        pairs = zip(self.rows, older.rows, strict=False)
        rows = tuple(with_oldest(row, broker, old, _COMPARED) for row, old in pairs)
        return self._replace(rows=(*rows, *self.rows[len(rows) :]))


def compaction_of(
    target: Target,
    facts: LogFacts,
    policy: Policy,
    settings: Settings,
    options: WhyOptions,
    broker: Version,
) -> Compaction:
    """Give the row of a compacted partition; none of another."""
    assert target.log is not None
    if not policy.compacts or not facts.segments or target.log.logs[0].is_pre08:
        return Compaction()
    partition = PartitionView(
        target,
        isolation="read_committed",
        as_is=True,
        broker=broker,
        settings=settings,
        limit=options.decompress_limit,
    )
    try:
        return _judge(partition, facts, policy, settings, options)
    finally:
        partition.close()


def _judge(
    partition: PartitionView,
    facts: LogFacts,
    policy: Policy,
    settings: Settings,
    options: WhyOptions,
) -> Compaction:
    target, now_ms = partition.target, options.now_ms
    log = cleaner_log(partition, facts)
    choice = log.choice(settings, now_ms)
    failure: FailsAt | None = None
    if log.corrupt is not None:
        base, why = log.corrupt
        failure = _failure(partition.segment_at(base).path, 0, why)
    removed, at_least = NOT_CLEANED, None
    findings: list[Finding] = []
    words: list[str] = []
    segments: dict[int, RemovedRecords] = {}
    if options.cleaner and failure is None:
        repeats = None
        if log.checkpoint is not None and not choice.forced:
            repeats = Repeats(log.log_start, choice.first_dirty_offset)
        cleaning = CleaningRound(partition, choice, settings, now_ms, repeats=repeats)
        try:
            removed = _clean(cleaning, partition.broker, words, segments)
            at_least = cleaning.is_lower_bound
        except FailedError as error:
            failure = _failure(*error.args)
        if repeats is not None and repeats.count:
            findings.append(_repeats_finding(target, repeats))
    if choice.forced and log.checkpoint is not None:
        outside = "beyond the log end" if log.checkpoint > log.log_end else "below the log start"
        words.append(
            f"the cleaner's checkpoint, {log.checkpoint:,}, is {outside}: the next run starts "
            f"over from {choice.first_dirty_offset:,}"
        )
    blocked_by = cleaner.CORRUPT_BATCH if failure else log.find_block(settings, now_ms)
    due_ms = log.due_ms(settings, now_ms) if policy.runs and failure is None else None
    cleanable = choice.cleanable and policy.runs and failure is None
    text = _text(log, choice, blocked_by, due_ms, policy, settings, failure, partition.broker)
    row = rows.Compaction(
        topic=target.topic,
        partition=target.partition,
        policy=_POLICIES[policy.deletes],
        first_dirty_offset=choice.first_dirty_offset,
        first_uncleanable_offset=choice.first_uncleanable_offset,
        clean_bytes=choice.clean_bytes,
        dirty_bytes=choice.dirty_bytes,
        dirty_ratio=round(choice.dirty_ratio, 6),
        min_dirty_ratio=settings.min_cleanable_dirty_ratio,
        cleanable=cleanable,
        due_ms=due_ms,
        blocked_by=blocked_by,
        dead_records=removed.dead_records,
        dead_bytes=removed.dead_bytes,
        tombstones=removed.tombstones,
        tombstones_removable=removed.tombstones_removable,
        at_least=at_least,
        fails_at=failure,
        text="; ".join([text, *words]),
    )
    return Compaction((row,), tuple(findings), segments)


def _clean(
    cleaning: CleaningRound,
    broker: Version,
    words: list[str],
    segments: dict[int, RemovedRecords],
) -> RemovedRecords:
    """Clean, in thought; return what goes, and add to what is said of it."""
    dead: Counter[int] = Counter()
    dropped: Counter[int] = Counter()
    sealed = 0
    for batch in cleaning.batches():
        dead[batch.segment] += 0 if batch.control else len(batch.dead)
        dropped[batch.segment] += batch.size_before - batch.size_bytes
        sealed += batch.sealed
    for base, (tombstones, removed) in cleaning.of_segments.items():
        segments[base] = RemovedRecords(dead[base], dropped[base], tombstones, removed)
    if cleaning.bad_checksums:
        words.append(
            f"{cleaning.bad_checksums:,} batches there have a wrong checksum, which cleaners do "
            f"not check: {sealed:,} of them would get a valid checksum although they are damaged"
        )
    ends = "cleaners from 0.10.2 to 1.1 fail on it"
    if has(broker, v.OVERFLOW_SPLIT):
        ends = f"the cleaner splits it first ({ends})"
    words += (
        f"segment {base} has offsets more than {RELATIVE_MAX:,} above its base: {ends}"
        for base in cleaning.too_wide
    )
    if cleaning.map.full:
        words.append(f"more keys than fit in its map: this run ends at {cleaning.map.end:,}")
    return RemovedRecords(
        dead.total(), dropped.total(), cleaning.tombstones, cleaning.tombstones_removed
    )


def _failure(path: str, position: int, why: str) -> FailsAt:
    return {"path": path, "position": position, "why": why}


def _repeats_finding(target: Target, repeats: Repeats) -> Finding:
    first, again = repeats.example
    return finding(
        "cleaned-key-twice",
        path=target.path,
        topic=target.topic,
        partition=target.partition,
        offset=first,
        actual=again,
        message=f"Offsets {first:,} and {again:,} have the same key, and both are below the "
        f"cleaner's checkpoint, {repeats.end:,}; {repeats.count:,} such pairs in total.",
    )


def _text(
    log: CleanerLog,
    choice: Choice,
    blocked_by: str,
    due_ms: int | None,
    policy: Policy,
    settings: Settings,
    failure: FailsAt | None,
    broker: Version,
) -> str:
    """Say in a line what comes of the dirty part, and why."""
    if failure is not None:
        after = "leaves the partition alone until the broker starts again"
        if not has(broker, v.CLEANER_GOES_ON):
            after = "its thread ends: no partition is cleaned until the broker starts again"
        return (
            f"not cleaned: the cleaner fails at position {failure['position']:,} of "
            f"{failure['path']} ({failure['why']}), and {after}"
        )
    ratio = f"dirty ratio {choice.dirty_ratio:.2f}"
    least = f"min.cleanable.dirty.ratio={settings.min_cleanable_dirty_ratio:g}"
    if not policy.runs:
        return f"not cleaned: log.cleaner.enable=false ({ratio})"
    if choice.cleanable:
        why = f"{ratio}, above {least}"
        if choice.by_age and choice.dirty_ratio <= settings.min_cleanable_dirty_ratio:
            why = f"max.compaction.lag.ms={length_text(settings.max_compaction_lag_ms)} is exceeded"
        return f"due now, up to offset {choice.end_offset:,}: {why}"
    if blocked_by == cleaner.OPEN_TRANSACTION:
        held = f"records above {log.last_stable_offset:,} are undecided or not replicated"
    elif blocked_by == cleaner.LAG:
        lag = length_text(settings.min_compaction_lag_ms)
        held = f"records younger than min.compaction.lag.ms={lag} are not compacted"
    elif blocked_by == cleaner.ACTIVE_SEGMENT:
        held = f"{ratio} without the active segment, which is not compacted until it is rolled"
    else:
        held = f"{ratio}, not above {least}"
    until = "" if due_ms is None else f"; due {minute_text(due_ms)}"
    return f"not cleaned: {held}{until}"

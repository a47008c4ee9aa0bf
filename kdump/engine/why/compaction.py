"""Say what the cleaner makes of a compacted partition: whether it is cleaned, or why it is not.

With `--cleaner` the log is read as a cleaning now would read it: what would go, and how many bytes;
an entry at which the cleaner fails; and whether the last cleanings did what they are there for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.broker import cleaner
from kdump.broker import versions as v
from kdump.broker.cleaner import Choice, CleanerLog, cleaner_log
from kdump.broker.cleaning import Cleaning, FailedError, Repeats
from kdump.broker.partition import PartitionView
from kdump.broker.versions import Version, has
from kdump.engine.why.fates import length_text, minute_text
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.rows import why as rows
from kdump.storage.segment_range import RELATIVE_MAX

if TYPE_CHECKING:
    from kdump.broker.retention import LogFacts, Policy
    from kdump.broker.settings import Settings
    from kdump.engine.why.options import WhyOptions
    from kdump.storage.targets import Target

#: What a segment's row has of a cleaning, None without one.
CLEANED_MEMBERS = ("dead_records", "dead_bytes", "tombstones", "tombstones_removable")
_POLICIES = {True: "compact,delete", False: "compact"}


class _Failure(NamedTuple):
    """The entry at which the cleaner gives up; `position` is in the log at `path`."""

    path: str
    position: int
    why: str


class Compaction(NamedTuple):
    """The row of a compacted partition, and what was found of it.

    `segments` has, with `--cleaner`, by base offset what a round removes of a segment.
    """

    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    segments: dict[int, dict[str, Any]] = {}  # noqa: RUF012


def compaction_of(
    target: Target, facts: LogFacts, policy: Policy, settings: Settings, options: WhyOptions
) -> Compaction:
    """Give the row of a compacted partition; none of another."""
    assert target.log is not None
    if not policy.compacts or not facts.segments or target.log.logs[0].is_pre08:
        return Compaction()
    partition = PartitionView(
        target,
        isolation="read_committed",
        as_is=True,
        broker=options.broker_version,
        settings=settings,
        limit=options.decompress_limit,
    )
    try:
        return _judged(partition, facts, policy, settings, options)
    finally:
        partition.close()


def _judged(
    partition: PartitionView,
    facts: LogFacts,
    policy: Policy,
    settings: Settings,
    options: WhyOptions,
) -> Compaction:
    target, now_ms = partition.target, options.now_ms
    log = cleaner_log(partition, facts)
    choice = log.choice(settings, now_ms)
    failure = None
    if log.corrupt is not None:
        base, why = log.corrupt
        failure = _Failure(partition.segment_at(base).path, 0, why)
    cleaned: dict[str, Any] = dict.fromkeys(
        ("dead_records", "dead_bytes", "tombstones", "tombstones_removable", "at_least")
    )
    findings: list[Finding] = []
    words: list[str] = []
    segments: dict[int, dict[str, Any]] = {}
    if options.cleaner and failure is None:
        repeats = None
        if log.checkpoint is not None and not choice.forced:
            repeats = Repeats(log.log_start, choice.first_dirty_offset)
        cleaning = Cleaning(partition, choice, settings, now_ms, repeats=repeats)
        try:
            cleaned |= _cleaned(cleaning, options.broker_version, words, segments)
        except FailedError as error:
            failure = _Failure(*error.args)
        if repeats is not None and repeats.count:
            findings.append(_repeated(target, repeats))
    if choice.forced and log.checkpoint is not None:
        outside = "beyond the log end" if log.checkpoint > log.log_end else "below the log start"
        words.append(
            f"the cleaner's checkpoint, {log.checkpoint:,}, is {outside}: the next round starts "
            f"over from {choice.first_dirty_offset:,}"
        )
    blocked_by = cleaner.CORRUPT_BATCH if failure else log.blocked_by(settings, now_ms)
    due_ms = log.due_ms(settings, now_ms) if policy.runs and failure is None else None
    cleanable = choice.cleanable and policy.runs and failure is None
    text = _text(log, choice, blocked_by, due_ms, policy, settings, failure, options.broker_version)
    fields: dict[str, Any] = {
        "topic": target.topic,
        "partition": target.partition,
        "policy": _POLICIES[policy.deletes],
        "first_dirty_offset": choice.first_dirty_offset,
        "first_uncleanable_offset": choice.first_uncleanable_offset,
        "clean_bytes": choice.clean_bytes,
        "dirty_bytes": choice.dirty_bytes,
        "dirty_ratio": round(choice.dirty_ratio, 6),
        "min_dirty_ratio": settings.min_cleanable_dirty_ratio,
        "cleanable": cleanable,
        "due_ms": due_ms,
        "blocked_by": blocked_by,
        **cleaned,
        "fails_at": None if failure is None else failure._asdict(),
        "text": "; ".join([text, *words]),
    }
    return Compaction((rows.Compaction(**fields),), tuple(findings), segments)


def _cleaned(
    cleaning: Cleaning,
    broker: Version,
    words: list[str],
    segments: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    """Clean, in thought; return members of the row, and add to what is said of it."""
    dead: Counter[int] = Counter()
    dropped: Counter[int] = Counter()
    sealed = 0
    for batch in cleaning.batches():
        dead[batch.segment] += 0 if batch.control else len(batch.dead)
        dropped[batch.segment] += batch.size_before - batch.size_bytes
        sealed += batch.sealed
    for base, (tombstones, removed) in cleaning.of_segments.items():
        values = dead[base], dropped[base], tombstones, removed
        segments[base] = dict(zip(CLEANED_MEMBERS, values, strict=True))
    if cleaning.bad_checksums:
        words.append(
            f"{cleaning.bad_checksums:,} batches there have a wrong checksum, which no cleaner "
            f"looks at: {sealed:,} of them would get a right one around what is damaged"
        )
    ends = "cleaners from 0.10.2 to 1.1 fail on it"
    if has(broker, v.OVERFLOW_SPLIT):
        ends = f"the cleaner splits it first ({ends})"
    words += (
        f"segment {base} has offsets more than {RELATIVE_MAX:,} above its base: {ends}"
        for base in cleaning.too_wide
    )
    if cleaning.map.full:
        words.append(f"more keys than its map holds: this round ends at {cleaning.map.end:,}")
    return {
        "dead_records": dead.total(),
        "dead_bytes": dropped.total(),
        "tombstones": cleaning.tombstones,
        "tombstones_removable": cleaning.tombstones_removed,
        "at_least": cleaning.at_least,
    }


def _repeated(target: Target, repeats: Repeats) -> Finding:
    first, again = repeats.example
    return finding(
        "cleaned-key-twice",
        path=target.path,
        topic=target.topic,
        partition=target.partition,
        offset=first,
        actual=again,
        message=f"Offsets {first:,} and {again:,} have the same key, and both lie below the "
        f"cleaner's checkpoint, {repeats.end:,}; {repeats.count:,} such in all.",
    )


def _text(
    log: CleanerLog,
    choice: Choice,
    blocked_by: str,
    due_ms: int | None,
    policy: Policy,
    settings: Settings,
    failure: _Failure | None,
    broker: Version,
) -> str:
    """Say in a line what comes of the dirty part, and why."""
    if failure is not None:
        after = "leaves the partition alone until the broker starts again"
        if not has(broker, v.CLEANER_GOES_ON):
            after = "its thread ends: no partition is cleaned until the broker starts again"
        return (
            f"not cleaned: the cleaner fails at position {failure.position:,} of {failure.path} "
            f"({failure.why}), and {after}"
        )
    ratio = f"dirty ratio {choice.dirty_ratio:.2f}"
    least = f"min.cleanable.dirty.ratio={settings.min_cleanable_dirty_ratio:g}"
    if not policy.runs:
        return f"not cleaned: log.cleaner.enable=false ({ratio})"
    if choice.cleanable:
        why = f"{ratio}, above {least}"
        if choice.by_age and choice.dirty_ratio <= settings.min_cleanable_dirty_ratio:
            why = f"max.compaction.lag.ms={length_text(settings.max_compaction_lag_ms)} is passed"
        return f"due now, up to offset {choice.end_offset:,}: {why}"
    if blocked_by == cleaner.OPEN_TRANSACTION:
        held = f"nothing above {log.last_stable_offset:,} is decided or replicated"
    elif blocked_by == cleaner.LAG:
        lag = length_text(settings.min_compaction_lag_ms)
        held = f"what is younger than min.compaction.lag.ms={lag} is not cleaned"
    elif blocked_by == cleaner.ACTIVE_SEGMENT:
        held = f"{ratio} without the active segment, which is not cleaned before it is rolled"
    else:
        held = f"{ratio}, not above {least}"
    until = "" if due_ms is None else f"; due {minute_text(due_ms)}"
    return f"not cleaned: {held}{until}"

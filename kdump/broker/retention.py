"""Say what one retention pass would delete of a log, by which rule, and what keeps the rest.

A pass (K1, K7) is worked out from a few facts of each segment; `segment_facts` reads those. Nothing
here reads a file, so that a pass at another time, or with other settings, costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.versions import Version, has
from kdump.storage import names
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings

LOG_START, BY_SIZE, BY_TIME = "log-start", "retention.bytes", "retention.ms"
DELETE, COMPACT = "delete", "compact"
#: Topics that brokers make compacted, whatever the broker's own policy (K3).
_COMPACTED = ("__consumer_offsets", "__transaction_state")
#: Those that they make without any limit.
_UNLIMITED = ("__share_group_state",)


class SegmentFacts(NamedTuple):
    """What a pass asks of a segment. The size is that of its log, as all sizes of the rules.

    `largest_timestamp_ms` is that of the records, -1 where none has one, and then the time at which
    the file was modified counts. `largest_at` is the last offset of the batch that has it.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    largest_at: int
    modified_ms: int
    time_source: str = "timeindex"

    @property
    def time_ms(self) -> int:
        """The time that retention goes by."""
        found = self.largest_timestamp_ms
        return found if found >= 0 else self.modified_ms


class LogFacts(NamedTuple):
    """A log's segments, rising, and its offsets; a high watermark of None: the log end serves."""

    segments: tuple[SegmentFacts, ...]
    log_start: int
    log_end: int
    high_watermark: int | None = None
    copied_to: int | None = None  # the highest offset in remote storage; None: not known

    def find_end(self, number: int) -> int:
        """The offset behind a segment: the next one's base, or the log end."""
        following = number + 1
        return (
            self.segments[following].base_offset if following < len(self.segments) else self.log_end
        )

    def below_high_watermark(self, number: int) -> bool:
        """Whether all of a segment is; what is not is never deleted."""
        return self.high_watermark is None or self.high_watermark >= self.find_end(number)

    def waits_for_copy(self, number: int) -> bool:
        """Whether a segment stays because remote storage does not have all of it (W12)."""
        end = self.find_end(number)
        return self.copied_to is not None and end - 1 > self.copied_to and end >= self.log_start


class Policy(NamedTuple):
    """Which rules hold for a topic; -1: no limit. `runs`: something carries them out (K3)."""

    deletes: bool
    compacts: bool
    runs: bool
    retention_ms: int
    retention_bytes: int
    by_file_time: bool = False  # before 0.10.1 no other time counts
    tiered: bool = False  # what was not copied yet stays, and which that is no file says
    file_time_ahead: bool = False  # KAFKA-20609
    log_start_first: bool = True  # KAFKA-12177
    by_snapshots: bool = False  # the log of the cluster's metadata (X15)

    def time_of(self, segment: SegmentFacts, now_ms: int) -> int:
        """The time by which a segment is judged at a moment."""
        return segment.modified_ms if self.why_file_time(segment, now_ms) else segment.time_ms

    def why_file_time(self, segment: SegmentFacts, now_ms: int) -> str:
        """Return why the time of the file judges a segment; empty where that of a record does."""
        if self.by_file_time:
            return "brokers before 0.10.1 use only file times"
        if segment.largest_timestamp_ms < 0:
            return "no record has a timestamp"
        if self.file_time_ahead and segment.time_ms > now_ms:
            return "its records have future timestamps"
        return ""


class DeletedSegment(NamedTuple):
    """A segment that a pass deletes, and the rule."""

    base_offset: int
    rule: str


class RetentionPass(NamedTuple):
    """What one pass does: `rolled` says that all segments go, so that an empty one is made."""

    deleted: tuple[DeletedSegment, ...]
    rolled: bool
    log_start: int


def policy_of(settings: Settings, topic: str | None, broker: Version) -> Policy:
    """Return the rules of a topic by its settings."""
    from kdump.broker.settings import OPTION, TOPIC

    words = {word.strip() for word in settings.cleanup_policy.split(",")}
    own = settings.source("cleanup_policy") in (TOPIC, OPTION)
    retention_ms, retention_bytes = settings.retention_ms, settings.retention_bytes
    if topic in _COMPACTED and not own:
        words = {COMPACT}
    if topic in _UNLIMITED and settings.source("retention_ms") not in (TOPIC, OPTION):
        retention_ms = -1
    by_snapshots = topic == names.CLUSTER_METADATA_TOPIC
    if by_snapshots:
        words = set()
    tiered = settings.tiered and not settings.remote_copy_disabled
    if tiered:
        # -2 stands for the limit of the whole log (KIP-405).
        if settings.local_retention_ms != -2:
            retention_ms = settings.local_retention_ms
        if settings.local_retention_bytes != -2:
            retention_bytes = settings.local_retention_bytes
    compacts = COMPACT in words
    return Policy(
        DELETE in words or (tiered and not words),
        compacts,
        settings.cleaner_enabled or not compacts,
        retention_ms,
        retention_bytes,
        not has(broker, v.TIME_INDEX),
        tiered,
        tiered and has(broker, v.FUTURE_SEGMENTS_BY_FILE_TIME),
        has(broker, v.LOG_START_GOES_FIRST),
        by_snapshots,
    )


def retention_pass(log: LogFacts, policy: Policy, now_ms: int) -> RetentionPass:
    """Work out one pass (K1)."""
    if not policy.runs:
        return RetentionPass((), rolled=False, log_start=log.log_start)
    left = _OldestFirst(log, tiered=policy.tiered)
    rules = (left.take_below_start, left.take_by_size, left.take_by_time)
    for take in rules if policy.log_start_first else reversed(rules):
        take(policy, now_ms)
    gone = len(left.deleted)
    return RetentionPass(
        tuple(left.deleted),
        gone == len(log.segments) and gone > 0,
        max(log.log_start, log.find_end(gone - 1)) if gone else log.log_start,
    )


def is_past(segment: SegmentFacts, policy: Policy, now_ms: int) -> bool:
    """Whether a segment is older than the limit, and not just as old."""
    return now_ms - policy.time_of(segment, now_ms) > policy.retention_ms


class _OldestFirst:
    """Takes segments from the oldest on, rule by rule; the first that stays ends a rule."""

    def __init__(self, log: LogFacts, *, tiered: bool) -> None:
        self.deleted: list[DeletedSegment] = []
        self._log = log
        self._tiered = tiered

    def has_next(self, number: int) -> bool:
        return number + 1 < len(self._log.segments)

    def take(self, rule: str, goes: Callable[[int], bool]) -> None:
        segments = self._log.segments
        for number in range(len(self.deleted), len(segments)):
            segment = segments[number]
            is_empty_end = not self.has_next(number) and segment.size_bytes == 0
            if is_empty_end or not self._log.below_high_watermark(number) or not goes(number):
                return
            if self._tiered and self._log.waits_for_copy(number):
                return
            self.deleted.append(DeletedSegment(segment.base_offset, rule))

    def take_below_start(self, policy: Policy, now_ms: int) -> None:
        """Take what ends at the log start or below, whatever the policy and the time."""
        del policy, now_ms
        log = self._log
        self.take(LOG_START, lambda at: self.has_next(at) and log.find_end(at) <= log.log_start)

    def take_by_size(self, policy: Policy, now_ms: int) -> None:
        """Take what is over the limit of the size, while all of the segment is."""
        del now_ms
        if not policy.deletes or policy.retention_bytes < 0:
            return
        left = self._log.segments[len(self.deleted) :]
        excess = sum(segment.size_bytes for segment in left) - policy.retention_bytes

        def goes(number: int) -> bool:
            nonlocal excess
            excess -= self._log.segments[number].size_bytes
            return excess >= 0

        self.take(BY_SIZE, goes)

    def take_by_time(self, policy: Policy, now_ms: int) -> None:
        """Take what is older than the limit."""
        if policy.deletes and policy.retention_ms >= 0:
            self.take(BY_TIME, lambda at: is_past(self._log.segments[at], policy, now_ms))


class RetentionHold(NamedTuple):
    """What keeps a segment that a pass leaves, as far as time goes.

    `pin` is the number of the segment with the latest time from the first that stays up to this
    one: the first that stays ends the walk, so its time counts for all behind it. `due_ms` is when
    a pass takes this one by time, if nothing is written until then; None: never.
    """

    pin: int
    due_ms: int | None


def holdings(log: LogFacts, policy: Policy, first: int, now_ms: int) -> list[RetentionHold]:
    """Say of each segment from number `first` on, which a pass leaves, what keeps it."""
    found: list[RetentionHold] = []
    latest, pin = -1, first
    limited = policy.runs and policy.deletes and policy.retention_ms >= 0
    segments: Sequence[SegmentFacts] = log.segments
    for number in range(first, len(segments)):
        time_ms = policy.time_of(segments[number], now_ms)
        if number == first or time_ms > latest:
            latest, pin = time_ms, number
        found.append(RetentionHold(pin, latest + policy.retention_ms + 1 if limited else None))
    return found

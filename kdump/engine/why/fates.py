"""Say of each segment of a partition whether it goes, when, and what keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.lookup_records import BrokerError, headers_of, records_at
from kdump.broker.retention import (
    BY_SIZE,
    BY_TIME,
    LOG_START,
    LogFacts,
    Policy,
    RetentionPass,
    holdings,
    is_past,
    retention_pass,
)
from kdump.broker.segment import Segment
from kdump.errors import PathError
from kdump.findings.moments import beyond_text, time_text
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.retention import SegmentFacts
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version
    from kdump.rows.why import PinnedBy
    from kdump.storage.local_log import LogSegment


DELETABLE, KEPT, PINNED, ACTIVE = "deletable", "kept", "pinned", "active"
NOT_DELETED = "not-deleted-by-policy"
VERDICTS = (ACTIVE, DELETABLE, KEPT, NOT_DELETED, PINNED)
NO_RULE = "none"
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Fate(NamedTuple):
    """What becomes of a segment: the members of a `segment-fate` row that say so."""

    verdict: str
    rule: str
    deletable_at_ms: int | None
    pinned_by: Pin | None
    text: str
    kept_by: str | None = None  # a few words for what keeps it; None where it goes


def length_text(ms: int) -> str:
    """Write a length of time as settings are spoken of: 7d, 36h, 1500ms."""
    for unit, word in _UNITS:
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit}{word}"
    return f"{ms}ms"


def about_text(ms: int) -> str:
    """Write a length of time in its largest unit."""
    for unit, word in _UNITS:
        if ms >= unit:
            return f"{ms // unit:,} {word}"
    return f"{ms} ms"


def minute_text(ms: int | None) -> str:
    """Write a moment to the minute, as people do."""
    text = "" if ms is None else time_text(ms)
    return f"{text[:10]} {text[11:16]}" if text else "?" if ms is None else beyond_text(ms)


class Fates:
    """Judges the segments of one partition at one moment; `pin_of` reads the record of a pin."""

    def __init__(
        self,
        log: LogFacts,
        policy: Policy,
        settings: Settings,
        now_ms: int,
        pin_of: Callable[[int], Pin],
    ) -> None:
        self.log = log
        self.policy = policy
        self.settings = settings
        self._now_ms = now_ms
        self._pin_of = pin_of
        self._pins: dict[int, Pin] = {}
        self.next_pass: RetentionPass = retention_pass(log, policy, now_ms)

    def fates(self) -> list[Fate]:
        """Judge all segments, in their order."""
        deleted = self.next_pass.deleted
        gone = len(deleted)
        by_time = next((at for at, one in enumerate(deleted) if one.rule == BY_TIME), gone)
        since = holdings(self.log, self.policy, by_time, self._now_ms)
        found = [self._deleted_fate(number, self._now_ms) for number in range(by_time)]
        for number in range(by_time, gone):
            since_ms = since[number - by_time].due_ms
            found.append(self._deleted_fate(number, self._now_ms if since_ms is None else since_ms))
        for number, held in enumerate(holdings(self.log, self.policy, gone, self._now_ms), gone):
            found.append(self._held_fate(number, held.pin, held.due_ms))
        return found

    def _deleted_fate(self, number: int, since_ms: int) -> Fate:
        rule = self.next_pass.deleted[number].rule
        policy, segment = self.policy, self.log.segments[number]
        if rule == LOG_START:
            why = f"the log starts at {self.log.log_start:,}"
        elif rule == BY_SIZE:
            why = f"retention.bytes={policy.retention_bytes:,}{self._source('retention_bytes')}"
        else:
            when = minute_text(policy.time_of(segment, self._now_ms))
            by_file = policy.why_file_time(segment, self._now_ms)
            what = f"its file was changed at {when} ({by_file})"
            why = f"{what if by_file else f'its last record is from {when}'}, {self._time_rule()}"
        text = f"deleted by the next retention pass: {why}"
        if policy.compacts:
            text += "; the cleaner thread deletes it"
        if policy.tiered and rule != LOG_START:
            unknown = "only after remote storage has a copy, which local files do not show"
            text += f"; {unknown if self.log.copied_to is None else 'remote storage has a copy'}"
        return Fate(DELETABLE, rule, since_ms, None, text)

    def _held_fate(self, number: int, pin_number: int, due_ms: int | None) -> Fate:
        is_last = number == len(self.log.segments) - 1
        if not self.policy.runs or not self.policy.deletes:
            kept_by, text = self._never()
            verdict = ACTIVE if is_last else NOT_DELETED
            return Fate(verdict, NO_RULE, None, None, text, kept_by)
        if due_ms is None:
            return self._timeless_fate(is_last=is_last)
        is_empty = self.log.segments[number].size_bytes == 0
        waits = self.policy.tiered and not is_empty and self.log.waits_for_copy(number)
        if waits and due_ms <= self._now_ms:
            text = "kept: past the limit, but not completely copied to remote storage"
            verdict = ACTIVE if is_last else KEPT
            return Fate(verdict, NO_RULE, None, None, text, "remote storage")
        pin = self._pin(number, pin_number)
        verdict = ACTIVE if is_last else PINNED if pin is not None else KEPT
        if not self.log.below_high_watermark(number):
            text = f"kept: it extends beyond the high watermark, {self.log.high_watermark:,}"
            return Fate(verdict, BY_TIME, None, pin, text, "the high watermark")
        if due_ms <= self._now_ms:  # an empty active segment, or one behind the high watermark
            text = "kept: an empty active segment is not deleted"
            return Fate(verdict, BY_TIME, None, pin, text, "empty active segment")
        kept_by = self._time_rule()
        text = f"kept until {minute_text(due_ms)} by {self._time_rule()}"
        if by_file := self.policy.why_file_time(self.log.segments[pin_number], self._now_ms):
            text += f", based on its file time ({by_file})"
            kept_by += ", file time"
        if pin is not None:
            text += f", pinned by {self._pin_words(pin, pin_number, number)}"
            kept_by = f"record {pin.offset}" if pin.offset is not None else "the time of a file"
        return Fate(verdict, BY_TIME, due_ms, pin, text, kept_by)

    def _timeless_fate(self, *, is_last: bool) -> Fate:
        most = self.policy.retention_bytes
        if most < 0:
            text = "never deleted: retention.ms and retention.bytes are -1"
            verdict = ACTIVE if is_last else NOT_DELETED
            return Fate(verdict, NO_RULE, None, None, text, "no limit")
        source = self._source("retention_bytes")
        text = (
            f"kept until more is written: without it, the log is smaller than "
            f"retention.bytes={most:,}{source}"
        )
        kept_by = f"retention.bytes={most:,}{source}"
        return Fate(ACTIVE if is_last else KEPT, BY_SIZE, None, None, text, kept_by)

    def _never(self) -> tuple[str, str]:
        """Say what keeps a segment that no rule deletes, in a few words and in a sentence."""
        if self.policy.by_snapshots:
            words = (
                "kept until a snapshot covers it: snapshots decide retention of the metadata log"
            )
            return "metadata snapshots", words
        if not self.policy.compacts:
            return "cleanup.policy", "never deleted: cleanup.policy does not contain delete"
        if not self.policy.runs:
            words = "never deleted: the cleaner would do it, but log.cleaner.enable=false"
            return "log.cleaner.enable=false", words
        source = self._source("cleanup_policy")
        words = f"never deleted: cleanup.policy=compact{source}; the cleaner drops records"
        return f"cleanup.policy=compact{source}", words

    def _pin(self, number: int, pin_number: int) -> Pin | None:
        """Give what pins a segment: a record ahead of the clock, or a younger segment before it."""
        pinning = self.log.segments[pin_number]
        own = self.log.segments[number]
        is_ahead = self.policy.time_of(pinning, self._now_ms) > self._now_ms
        is_behind = pin_number != number and is_past(own, self.policy, self._now_ms)
        if not (is_ahead or is_behind):
            return None
        if pin_number not in self._pins:
            self._pins[pin_number] = self._pin_of(pin_number)
        return self._pins[pin_number]

    def _pin_words(self, pin: Pin, pin_number: int, number: int) -> str:
        where = ""
        if pin_number != number:
            where = f" of segment {self.log.segments[pin_number].base_offset}"
        ahead = pin.timestamp_ms - self._now_ms
        when = f"{about_text(abs(ahead))} {'ahead' if ahead > 0 else 'old'}"
        if pin.offset is None:
            return f"the file time{where}, which is {when}"
        return f"record {pin.offset}{where}, whose timestamp is {when}"

    def _time_rule(self) -> str:
        policy = self.policy
        name = "retention.ms"
        if policy.tiered and self.settings.local_retention_ms != -2:
            name = "local.retention.ms"
        source = self._source(name.replace(".", "_"))
        return f"{name}={length_text(policy.retention_ms)}{source}"

    def _source(self, field: str) -> str:
        source = self.settings.source(field)
        return "" if source == "topic" else f" ({source})"


#: So much of a segment is looked through for records ahead of the clock; beyond they are not told.
_MOST_BYTES = 64 << 20


class Pin(NamedTuple):
    """The record; where no record has a time, that of the file alone.

    `records_ahead` counts the records of its segment whose time is ahead of the clock; None where
    that would take reading much of it.
    """

    offset: int | None
    timestamp_ms: int
    producer_id: int | None = None
    records_ahead: int | None = None

    def to_member(self) -> PinnedBy:
        """The pin as a member of a row."""
        return {
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "producer_id": self.producer_id,
            "records_ahead": self.records_ahead,
        }


def read_pin(
    segment: LogSegment, facts: SegmentFacts, now_ms: int, broker: Version, settings: Settings
) -> Pin:
    """Find the record that has the largest timestamp of a segment."""
    if facts.largest_timestamp_ms < 0:
        return Pin(None, facts.modified_ms)
    pin = Pin(facts.largest_at, facts.largest_timestamp_ms)
    opened = Segment(segment.base_offset, segment.files, broker, settings, running=True)
    try:
        return _find_pin(opened, facts, now_ms) or pin
    except (BrokerError, PathError, RefusalError, UnknowableError):
        return pin  # damage: the index says what it said
    finally:
        opened.close()


def _find_pin(segment: Segment, facts: SegmentFacts, now_ms: int) -> Pin | None:
    latest = facts.largest_timestamp_ms
    position = segment.position_of(facts.largest_at)
    for rows in headers_of(segment, position):
        if max(rows.max_timestamps) < latest:
            continue
        row = next(row for row, time_ms in enumerate(rows.max_timestamps) if time_ms >= latest)
        producer_id = rows.producer_id(row) if rows.has_producer_fields(row) else -1
        offset = rows.last_offset(row)
        for at, time_ms in records_at(segment, rows.position(row), streaming=True):
            if time_ms == latest:
                offset = at
                break
        ahead = _records_ahead(segment, now_ms) if latest > now_ms else 0
        return Pin(offset, latest, None if producer_id < 0 else producer_id, ahead)
    return None


def _records_ahead(segment: Segment, now_ms: int) -> int | None:
    """Count records whose time is ahead; up to the last time entry before that there are none."""
    times = segment.time_index()
    slots = range(times.entries)
    ahead = next((slot for slot in slots if times.raw(slot)[0] > now_ms), len(slots))
    before = times.entry(ahead - 1).offset if ahead else segment.base_offset
    position = segment.position_of(before)
    if segment.end - position > _MOST_BYTES:
        return None
    found = 0
    for rows in headers_of(segment, position):
        for row, latest in enumerate(rows.max_timestamps):
            if latest > now_ms:
                records = records_at(segment, rows.position(row), streaming=True)
                found += sum(time_ms > now_ms for _, time_ms in records)
    return found

"""Say of each segment of a partition whether it goes, when, and what keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

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
from kdump.findings.moments import time_text

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.why.pins import Pin

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
            return f"{ms // unit} {word}"
    return f"{ms} ms"


def minute_text(ms: int | None) -> str:
    """Write a moment to the minute, as people do; a number where no calendar has it."""
    text = "" if ms is None else time_text(ms)
    return f"{text[:10]} {text[11:16]}" if text else f"@{ms}ms"


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
        found = [self._deleted(number, self._now_ms) for number in range(by_time)]
        for number in range(by_time, gone):
            since_ms = since[number - by_time].due_ms
            found.append(self._deleted(number, self._now_ms if since_ms is None else since_ms))
        for number, held in enumerate(holdings(self.log, self.policy, gone, self._now_ms), gone):
            found.append(self._held(number, held.pin, held.due_ms))
        return found

    def _deleted(self, number: int, since_ms: int) -> Fate:
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
            why = f"{what if by_file else f'its last record is of {when}'}, {self._time_rule()}"
        text = f"goes with the next pass: {why}"
        if policy.compacts:
            text += "; the cleaner's thread does it"
        if policy.tiered and rule != LOG_START:
            text += "; only once a copy is in the remote tier, which no file here tells"
        return Fate(DELETABLE, rule, since_ms, None, text)

    def _held(self, number: int, pin_number: int, due_ms: int | None) -> Fate:
        is_last = number == len(self.log.segments) - 1
        if not self.policy.runs or not self.policy.deletes:
            kept_by, text = self._never()
            verdict = ACTIVE if is_last else NOT_DELETED
            return Fate(verdict, NO_RULE, None, None, text, kept_by)
        if due_ms is None:
            return self._held_without_time(is_last=is_last)
        pin = self._pin(number, pin_number)
        verdict = ACTIVE if is_last else PINNED if pin is not None else KEPT
        if not self.log.below_high_watermark(number):
            text = f"kept: it reaches past the high watermark, {self.log.high_watermark:,}"
            return Fate(verdict, BY_TIME, None, pin, text, "the high watermark")
        if due_ms <= self._now_ms:  # an empty active segment, or one behind the high watermark
            text = "kept: an empty active segment stays"
            return Fate(verdict, BY_TIME, None, pin, text, "empty active segment")
        kept_by = self._time_rule()
        text = f"kept until {minute_text(due_ms)} by {self._time_rule()}"
        if by_file := self.policy.why_file_time(self.log.segments[pin_number], self._now_ms):
            text += f", from the time of its file on ({by_file})"
            kept_by += ", file time"
        if pin is not None:
            text += f", pinned by {self._pin_words(pin, pin_number, number)}"
            kept_by = f"record {pin.offset}" if pin.offset is not None else "the time of a file"
        return Fate(verdict, BY_TIME, due_ms, pin, text, kept_by)

    def _held_without_time(self, *, is_last: bool) -> Fate:
        most = self.policy.retention_bytes
        if most < 0:
            text = "never deleted: retention.ms and retention.bytes are -1"
            verdict = ACTIVE if is_last else NOT_DELETED
            return Fate(verdict, NO_RULE, None, None, text, "no limit")
        source = self._source("retention_bytes")
        text = f"kept until more is written: retention.bytes={most:,}{source} is not passed by it"
        kept_by = f"retention.bytes={most:,}{source}"
        return Fate(ACTIVE if is_last else KEPT, BY_SIZE, None, None, text, kept_by)

    def _never(self) -> tuple[str, str]:
        """Say what keeps a segment that no rule deletes, in a few words and in a sentence."""
        if self.policy.by_snapshots:
            words = "kept until a snapshot covers it: the metadata log is retained by its snapshots"
            return "metadata snapshots", words
        if not self.policy.compacts:
            return "cleanup.policy", "never deleted: cleanup.policy has no delete"
        if not self.policy.runs:
            words = "never deleted: log.cleaner.enable=false, and the cleaner would do it"
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
            return f"the time of the file{where}, which is {when}"
        return f"record {pin.offset}{where} whose timestamp is {when}"

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

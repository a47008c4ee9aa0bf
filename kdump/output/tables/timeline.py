"""The table of `timeline`: events in order, runs of what is alike on one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from kdump.output.amounts import count_text, time_text
from kdump.output.column_widths import Column, folding_column
from kdump.output.row_tables import Summaries, Tables
from kdump.output.sink import ForwardingSink, Sink
from kdump.rows.row import Row
from kdump.rows.timeline import ClockSkew, Event

if TYPE_CHECKING:
    from kdump.output.sink import Item

#: What comes in numbers: alike within so long it is one line.
_CONDENSED = frozenset(
    "clean commit config delete epoch feature file-created isr leader member rebalance retention"
    " roll tier-copy tier-delete topic-create topic-delete transaction-begin"
    " transaction-commit".split()
)
_WITHIN_MS = 5_000
#: What one broker or group does is not thrown together with what another does.
_BY_SUBJECT = frozenset(("commit", "config", "member", "rebalance"))
_SUBJECTS_SHOWN, _HELD = 3, 1000
#: What makes a generated member id too long for a column, after its first eight digits.
_UUID_TAIL = re.compile(r"(?<=-[0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
#: What is of the disk of one broker, which nothing else in its line says.
_OF_A_DISK = frozenset("clean damage delete file-changed gap retention".split())


class Line(Row, kind="timeline-line"):
    """What a line of the table says."""

    time: Annotated[str, "when"]
    what: Annotated[str, "what happened"]
    subject: Annotated[str, "to what"]
    text: Annotated[str, "in words"]


class CondensingSink(ForwardingSink):
    """Makes lines of events, and of those that are alike and near each other one."""

    def __init__(self, sink: Sink, *, detail: bool) -> None:
        super().__init__(sink)
        self._detail = detail
        self._groups: dict[tuple[str, str], list[Event]] = {}
        self._more: dict[tuple[str, str], int] = {}
        self._began: int | None = None
        self._before: Event | None = None
        self._day = ""
        self.settle = self._settle  # type: ignore[method-assign]
        self.finish = self._finish  # type: ignore[method-assign]

    def write(self, item: Item) -> None:
        """Take one row."""
        if not isinstance(item, Event):
            self._sink.write(item)
            return
        at_ms = middle(item)
        if self._detail or item.what not in _CONDENSED:
            self._flush()
            self._line([item], 1)
            return
        if self._began is not None and (at_ms is None or at_ms - self._began > _WITHIN_MS):
            self._flush()
        if self._began is None:
            self._began = at_ms
        key = item.what, item.subject if item.what in _BY_SUBJECT else _grave(item)
        kept = self._groups.setdefault(key, [])
        self._more[key] = self._more.get(key, 0) + 1
        if len(kept) < _HELD:
            kept.append(item)

    def _settle(self) -> None:
        self._flush()
        self._sink.settle()

    def _finish(self) -> None:
        self._flush()
        self._sink.finish()

    def _flush(self) -> None:
        groups, self._groups, self._began = self._groups, {}, None
        counts, self._more = self._more, {}
        lines: dict[tuple[str, ...], tuple[list[Event], int]] = {}
        for key, events in groups.items():
            of = key if counts[key] > 1 else (key[0], "", events[0].text)  # the same of several
            kept, count = lines.get(of, ([], 0))
            lines[of] = kept + events, count + counts[key]
        for events, count in lines.values():
            self._line(events, count)

    def _line(self, events: list[Event], count: int) -> None:
        first = events[0]
        at_ms = middle(first)
        shown = "-" if at_ms is None else time_text(at_ms)
        if shown[10:11] == "T":
            if shown[:10] != self._day:
                self._day = shown[:10]
                self._sink.write(Line(self._day, "", "", ""))
            mark = "" if _is_behind(self._before, first) else "≈"
            shown = mark + shown[11:23]
        self._before = first
        subject, text = first.subject, event_text(first)
        if count > 1:
            subjects = list(dict.fromkeys(one.subject for one in events))
            subject = ", ".join(subjects[:_SUBJECTS_SHOWN])
            if len(subjects) > _SUBJECTS_SHOWN:
                subject += f" and {len(subjects) - _SUBJECTS_SHOWN} more"
            texts = {one.text for one in events}
            text = first.text.partition("; ")[0] + " …" if len(texts) > 1 else first.text
            text = f"{count_text(count, 'event')}: {text}"
        text = text if self._detail else _UUID_TAIL.sub("…", text)
        self._sink.write(Line(shown, first.what, subject, text))


def _grave(event: Event) -> str:
    """Keep apart what must not be lost among what is alike."""
    return next((word for word in ("no leader", "unclean") if word in event.text), "")


def event_text(event: Event) -> str:
    """Say what an event was, and on whose disk where it is of one alone."""
    is_of_one = event.what in _OF_A_DISK and event.broker_id is not None
    return f"broker {event.broker_id}: {event.text}" if is_of_one else event.text


def middle(event: Event) -> int | None:
    """Give the time that is shown: the middle of what it may be on the common clock."""
    earliest, latest = event.at_earliest_ms, event.at_latest_ms
    if earliest is None or latest is None:
        return event.at_ms if earliest is None and latest is None else earliest or latest
    return (earliest + latest) // 2


def _is_behind(before: Event | None, event: Event) -> bool:
    """Whether an event is surely not before the one above it."""
    if before is None:
        return event.at_earliest_ms is not None
    if event.clock_of is not None and event.clock_of == before.clock_of:
        return True
    if event.offset is not None and before.offset is not None:
        place, other = (event.topic, event.partition), (before.topic, before.partition)
        if place == other and event.offset > before.offset and event.topic is not None:
            return True
    latest, earliest = before.at_latest_ms, event.at_earliest_ms
    return latest is not None and earliest is not None and latest <= earliest


def skew_text(row: ClockSkew) -> str:
    """Say how far a clock is ahead or behind."""
    low, high = (None if one is None else one / 1000 for one in (row.at_least_ms, row.at_most_ms))
    against = f"that of broker {row.against_broker_id}"
    if high is not None and high <= 0:
        by = f"behind {against} by {_seconds(high)} to {_seconds(low)} s"
    elif low is not None and low < 0:
        by = f"between {_seconds(low)} s behind and {_seconds(high)} s ahead of {against}"
    else:
        by = f"ahead of {against} by {_seconds(low)} to {_seconds(high)} s"
    return f"the clock of broker {row.broker_id} is {by} (evidence: {row.from_})"


def _seconds(value: float | None) -> str:
    return "?" if value is None else f"{abs(value):,.3f}"


def _clock(row: Event) -> str:
    return row.clock if row.clock_of is None else f"{row.clock} {row.clock_of}"


_EVENTS: tuple[Column[Event], ...] = (
    Column("time", lambda row: "-" if (at := middle(row)) is None else time_text(at)),
    Column("what", lambda row: row.what),
    folding_column("subject", lambda row: row.subject, 12),
    folding_column("text", lambda row: row.text, 20),
    folding_column("clock", _clock, 8, rank=1),
)
_LINES: tuple[Column[Line], ...] = (
    Column("time", lambda row: row.time),
    Column("what", lambda row: row.what),
    folding_column("subject", lambda row: row.subject, 12),
    folding_column("text", lambda row: row.text, 20),
)
TABLES: Tables = {Event: _EVENTS, Line: _LINES}
SUMMARIES: Summaries = {ClockSkew: lambda row: [skew_text(row)]}

"""Print what `why` found for a person: what holds the disk, what keeps it, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kdump.broker.segment_facts import FROM_FILE
from kdump.findings.moments import beyond_text
from kdump.output.amounts import count_text, second_cell, size_text
from kdump.output.column_widths import Column, amount, folding_column, short, wrap
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.report import Page, TextReport
from kdump.output.row_tables import name_of, oldest_text
from kdump.rows.why import (
    Compaction,
    DataDirectory,
    PinnedSegments,
    PlanStep,
    SegmentFate,
    TierSpace,
    TopicSpace,
    WhySummary,
)
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.output.sink import Item

#: Topics that are listed, and sentences; the rest is in `--format jsonl`.
_TOPICS = 20
_SENTENCES = 10
#: The end of a step that deletes records.
_PASS = "deleted by the next "
#: Segments of so many are listed unasked where all of them are of one partition; and asked.
_SEGMENTS, _SEGMENTS_ASKED = 40, 200
_PARTITIONS = 50
_LABEL = 12
_STUCK = ("open-transaction", "uncleanable-mark", "corrupt-batch")


class _Share(NamedTuple):
    """A line of the table of topics."""

    topic: TopicSpace
    total: int


class WhyTable(TextReport):
    """Adds rows up by topic, and prints them when all have come."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        super().__init__(page, quiet=quiet)
        self._topics: list[TopicSpace] = []
        self._pinned: list[PinnedSegments] = []
        self._steps: list[PlanStep] = []
        self._listed: list[SegmentFate] = []
        self._unlisted = 0
        self._compacted: list[Compaction] = []
        self._directories: list[DataDirectory] = []
        self._tiers: list[TierSpace] = []
        self._explained: set[str] = set()

    def write(self, item: Item) -> None:
        """Take one row."""
        if isinstance(item, SegmentFate):
            self._segment(item)
        elif isinstance(item, TopicSpace):
            self._topics.append(item)
        elif isinstance(item, PinnedSegments):
            self._pinned.append(item)
        elif isinstance(item, Compaction):
            self._compacted.append(item)
        elif isinstance(item, DataDirectory):
            self._directories.append(item)
        elif isinstance(item, TierSpace):
            self._tiers += [item] if item.segments else []
        elif isinstance(item, PlanStep):
            self._steps.append(item)
        elif isinstance(item, WhySummary):
            self._lines(self._report(item))

    def finding(self, finding: Finding) -> None:
        """Print a finding at once: rows come when all of them are known.

        What was reported for another directory in the same words is not explained again.
        """
        word = finding.severity.value.upper()
        message, directory = finding.message, os.path.dirname(finding.path)
        explained = message.replace(directory, "") if directory else message
        if explained in self._explained:
            message = f"the same for {directory}"
        self._explained.add(explained)
        self._lines(self._sentence(word, f"{finding.code}: {message}"))

    def _segment(self, row: SegmentFate) -> None:
        if len(self._listed) < _SEGMENTS_ASKED:
            self._listed.append(row)
        elif row.rolled_by not in (None, "active") or row.dead_records is not None:
            self._unlisted += 1

    def _report(self, row: WhySummary) -> Iterator[str]:
        yield from self._table(row.apparent_bytes - row.reserved_index_bytes)
        segments = self._select_segments()
        if segments:
            yield from self._segment_tables(segments)
        is_cleaned = any(
            one.dead_records is not None or one.fails_at is not None for one in self._compacted
        )
        if is_cleaned or (self._compacted and segments):
            yield ""
            yield from self._compaction_table()
        yield ""
        allocated = row.allocated_bytes
        on_disk = "" if allocated is None else f", {size_text(allocated)} on disk"
        yield from wrap(
            f"total {size_text(row.apparent_bytes)}{on_disk}: "
            f"{count_text(row.partitions, 'partition')}, "
            f"{count_text(row.segments, 'segment')}, as of {second_cell(row.now_ms)}"
            f"{self._release()}",
            self._width,
        )
        yield from self._sums(row)
        yield from self._remote()
        yield from self._sentences()
        if len(self._directories) > 1 or row.plans is not None:
            yield ""
            yield from self._draw(_DIRECTORIES, self._directories)
        if row.plans is not None:
            yield from self._plan(row)

    def _release(self) -> str:
        """Name the releases whose retention and cleaner are meant."""
        releases = dict.fromkeys(one.broker_version for one in self._directories)
        return f", according to Kafka {' or '.join(releases)}" if releases else ""

    def _table(self, total: int) -> Iterator[str]:
        topics = self._topics
        rows = [_Share(topic, total) for topic in topics[:_TOPICS]]
        columns = [
            column
            for column, verdict in _COLUMNS
            if not verdict or any(row.topic.bytes_by_verdict.get(verdict) for row in rows)
        ]
        yield from self._draw(columns, rows)
        if len(topics) > _TOPICS:
            left = sum(topic.size_bytes for topic in topics[_TOPICS:])
            yield f"and {count_text(len(topics) - _TOPICS, 'topic')} more, {size_text(left)}"

    def _draw(self, columns: Sequence[Column[Any]], rows: Sequence[Any]) -> Iterator[str]:
        yield from table_lines(columns, rows, self._width, colour=self._colour)

    def _select_segments(self) -> list[SegmentFate]:
        """Return the segments that have a line each: by --rolls, --cleaner, or of one partition."""
        listed = self._listed
        if any(one.rolled_by not in (None, "active") for one in listed):
            return listed
        if len(listed) <= _SEGMENTS and len({name_of(one) for one in listed}) == 1:
            return listed
        cleaned = {name_of(one) for one in listed if one.dead_records is not None}
        return [one for one in listed if name_of(one) in cleaned]

    def _segment_tables(self, segments: list[SegmentFate]) -> Iterator[str]:
        """Draw a table for each partition."""
        columns = [
            column
            for column, member in _SEGMENT
            if not member or any(one[member] not in (None, "active") for one in segments)
        ]
        for name, rows in groupby(segments, name_of):
            yield ""
            yield from wrap(visible(name), self._width)
            yield from self._draw(columns, list(rows))
        if self._unlisted:
            yield f"and {count_text(self._unlisted, 'segment')} more, in --format jsonl"

    def _compaction_table(self) -> Iterator[str]:
        found = sorted(self._compacted, key=lambda one: -(one.dead_bytes or 0))
        yield from self._draw(_COMPACTION, found[:_PARTITIONS])
        if len(found) > _PARTITIONS:
            yield f"and {count_text(len(found) - _PARTITIONS, 'partition')} more, in --format jsonl"
        alike: dict[str, list[str]] = {}
        for row in found[:_SENTENCES]:
            if row.blocked_by not in _STUCK:
                alike.setdefault(row.text, []).append(name_of(row))
        for text, partitions in alike.items():
            yield from wrap(visible(f"{', '.join(partitions)}: {text}"), self._width)
        for row in found[:_SENTENCES]:
            if row.oldest is not None:
                text = f"{name_of(row)}: {oldest_text(row.oldest)}"
                yield from wrap(visible(text), self._width)

    def _sums(self, row: WhySummary) -> Iterator[str]:
        sizes = row.bytes_by_verdict
        said = {
            "deletable": "deleted by the next retention pass",
            "pinned": "kept by a record, see below",
            "kept": f"the next is deleted after {second_cell(row.next_deletable_ms)}"
            if row.next_deletable_ms is not None
            else "until more is written",
            "not-deleted-by-policy": "never deleted by retention",
            "active": "active segments",
        }
        for verdict, words in said.items():
            if sizes.get(verdict):
                many = count_text(row.segments_by_verdict[verdict], "segment")
                label = verdict.replace("not-deleted-by-policy", "not deleted")
                yield from self._amount(label, sizes[verdict], f"{many}: {words}")
        for label, size, words in (
            ("retired", row.retired_bytes, "waiting for deletion, or stray"),
            (
                "reserved",
                row.reserved_index_bytes,
                "preallocated index space, not included above",
            ),
        ):
            if size:
                yield from self._amount(label, size, words)

    def _amount(self, label: str, size_bytes: int, words: str) -> Iterator[str]:
        start = f"  {label:{_LABEL}} {size_text(size_bytes):>10}  "
        for line in wrap(words, self._width - len(start)):
            yield start + line
            start = " " * len(start)

    def _remote(self) -> Iterator[str]:
        """Draw what remote storage has of each partition, the largest first."""
        if not self._tiers:
            return
        found = sorted(self._tiers, key=lambda one: -(one.object_bytes or one.size_bytes))
        yield ""
        yield from self._draw(_TIERS, found[:_TOPICS])
        if len(found) > _TOPICS:
            yield f"and {count_text(len(found) - _TOPICS, 'partition')} more, in --format jsonl"
        wasted = sum(one.wasted_bytes for one in found)
        known = all(one.object_bytes is not None for one in found)
        text = f"wasted in remote storage: {size_text(wasted)}, incomplete copies and orphans"
        text += "" if known else "; add --tier URI to find objects without metadata, too"
        yield from wrap(text, self._width)

    def _sentences(self) -> Iterator[str]:
        waiting = sorted(self._pinned, key=lambda one: -one.size_bytes)
        stuck = [row for row in self._compacted if row.blocked_by in _STUCK]
        if waiting or stuck:
            yield ""
        for one in waiting[:_SENTENCES]:
            many = f"{count_text(one.segments, 'segment')}, {size_text(one.size_bytes)}"
            text = f"{name_of(one)} from {one.segment} on: {many}, {one.text}"
            yield from self._sentence("PINNED", text)
        if len(waiting) > _SENTENCES:
            yield f"and {count_text(len(waiting) - _SENTENCES, 'pin')} more"
        for row in stuck[:_SENTENCES]:
            yield from self._sentence("STUCK", f"{name_of(row)}: {row.text}")

    def _sentence(self, word: str, text: str) -> Iterator[str]:
        for number, line in enumerate(wrap(visible(text), self._width - 8)):
            mark = " " * 8 if number else f"{self._word(word, 'note')}{' ' * (8 - len(word))}"
            yield mark + line

    def _plan(self, row: WhySummary) -> Iterator[str]:
        steps = {step.order: step for step in self._steps}
        free_bytes = {one.path: one.free_bytes for one in self._directories}
        for plan in row.plans or ():
            where = ", ".join(map(visible, plan["directories"]))
            yield ""
            yield from wrap(
                f"To free {size_text(plan['asked_bytes'])} in {where}, cheapest first:",
                self._width,
            )
            yield from self._steps_of(
                [steps[order] for order in plan["steps"]], names_them=len(plan["directories"]) > 1
            )
            free = free_bytes.get(plan["directories"][0]) or 0
            if free >= plan["asked_bytes"]:
                yield f"Before the first step, {size_text(free)} is already free there."
            missing = plan["asked_bytes"] - plan["planned_bytes"]
            if missing > 0:
                yield from wrap(
                    f"The plan is {size_text(missing)} short: all else is active segments, "
                    "compacted topics, and internal topics.",
                    self._width,
                )
        yield "Deleted files leave the disk after file.delete.delay.ms (default: 1 minute)."

    def _steps_of(self, steps: Sequence[PlanStep], *, names_them: bool) -> Iterator[str]:
        """Write the steps, with what is the same for all of them once at the end."""
        clauses = {
            step.order: one
            for step in steps
            for one in step.text.split("; ")
            if one.startswith(_PASS)
        }
        is_shared = len(clauses) > 1 and len({*clauses.values()}) == 1
        shared = next(iter(clauses.values())) if is_shared else None
        for step in steps:
            size = size_text(step.frees_bytes)
            until = step.loses_to_ms
            last = "" if until is None else f"; the newest record deleted is from {_moment(until)}"
            where = f"{step.directory}: " if names_them and step.directory is not None else ""
            own = step.text.replace(f"; {shared}", "")
            text = visible(where + own + last)
            for number, line in enumerate(wrap(text, self._width - 17)):
                yield f"{step.order:3}  {size:>10}  {line}" if not number else " " * 17 + line
            if step.command is not None:
                yield f"     → {visible(step.command)}"
            if step.undo is not None:
                yield f"     and back: {visible(step.undo)}"
        if shared is not None:
            orders = ", ".join(map(str, clauses))
            yield from wrap(f"The segments of steps {orders} are {shared}.", self._width)


def _of(name: str, verdict: str, rank: int = 0) -> tuple[Column[_Share], str]:
    def cell(row: _Share) -> str:
        size = row.topic.bytes_by_verdict.get(verdict)
        return size_text(size) if size else "-"

    return amount(name, cell, rank), verdict


def _topic_name(row: TopicSpace) -> str:
    name = "(other files)" if row.topic is None else row.topic
    return f"{name} (-{row.retired})" if row.retired else name


def _moment(timestamp_ms: int) -> str:
    """Write a time to the second, also one that no calendar has."""
    text = second_cell(timestamp_ms)
    return beyond_text(timestamp_ms) if text.lstrip("-").isdigit() else text


def _deletion_text(row: SegmentFate) -> str:
    """Write when a segment goes, in a few words, and when it does in the oldest release."""
    until = _until_newest(row)
    return until if row.oldest is None else f"{until}; {oldest_text(row.oldest)}"


def _until_newest(row: SegmentFate) -> str:
    if row.verdict == "deletable":
        by_file = row.rule == "retention.ms" and row.time_source == FROM_FILE
        return f"next pass, by {row.rule}{', file time' if by_file else ''}"
    if row.deletable_at_ms is not None:
        return _moment(row.deletable_at_ms)
    return {"retention.bytes": "more is written", "none": "never"}.get(row.rule, "-")


def _next_remote(row: TierSpace) -> str:
    if row.bytes_by_verdict.get("deletable"):
        return "next pass"
    return "-" if row.next_deletable_ms is None else second_cell(row.next_deletable_ms)


def _size_or_dash(size: int | None) -> str:
    return "-" if size is None else size_text(size)


def _tombstones(row: SegmentFate | Compaction) -> str:
    if row.tombstones is None:
        return "-"
    return f"{row.tombstones:,} ({row.tombstones_removable:,} due)"


def _removes(row: SegmentFate | Compaction) -> str:
    """Write what the next pass of the cleaner removes."""
    if row.dead_records is None or row.dead_bytes is None:
        return "-"
    least = "at least " if isinstance(row, Compaction) and row.at_least else ""
    if not least and not row.dead_records:
        return "nothing"
    return f"{least}{count_text(row.dead_records, 'record')}, {size_text(row.dead_bytes)}"


_WAITS_FOR = {
    "active-segment": "once the active segment is rolled",
    "open-transaction": "once its transaction ends",
    "corrupt-batch": "never: a batch stops the cleaner",
    "none": "once more is written",
}


def _next_cleaning(row: Compaction) -> str:
    if row.cleanable:
        return "due now"
    if row.due_ms is not None:
        return second_cell(row.due_ms)
    return _WAITS_FOR.get(row.blocked_by, row.blocked_by)


_COLUMNS: tuple[tuple[Column[_Share], str], ...] = (
    (folding_column("topic", lambda row: _topic_name(row.topic), 14), ""),
    (amount("size", lambda row: size_text(row.topic.size_bytes)), ""),
    (amount("share", lambda row: f"{row.topic.size_bytes / max(row.total, 1):.1%}", 1), ""),
    _of("deletable", "deletable"),
    _of("pinned", "pinned"),
    _of("kept", "kept"),
    _of("never_deleted", "not-deleted-by-policy"),
    _of("active", "active", rank=2),
)
#: Columns, each with the member that has to be there.
_SEGMENT: tuple[tuple[Column[SegmentFate], str], ...] = (
    (amount("segment", lambda row: str(row.segment)), ""),
    (amount("size", lambda row: size_text(row.size_bytes - row.reserved_index_bytes)), ""),
    (short("ended by", lambda row: row.rolled_by or "-"), "rolled_by"),
    (folding_column("kept by", lambda row: row.kept_by or "-", 12), ""),
    (folding_column("until", _deletion_text, 12), ""),
    (short("tombstones", _tombstones, 2), "tombstones"),
    (folding_column("next pass removes", _removes, 10, 1), "dead_records"),
)
_COMPACTION: tuple[Column[Compaction], ...] = (
    folding_column("compacted", name_of, 12),
    amount("dirty_ratio", lambda row: f"{row.dirty_ratio:.2f}"),
    amount("dirty_bytes", lambda row: _size_or_dash(row.dirty_bytes), 3),
    short("tombstones", _tombstones, 2),
    folding_column("next pass removes", _removes, 10, 1),
    folding_column("next cleaning", _next_cleaning, 12),
)
_DIRECTORIES: tuple[Column[DataDirectory], ...] = (
    folding_column("data_directory", lambda row: row.path, 14),
    amount("Kafka_files", lambda row: _size_or_dash(row.apparent_bytes), 1),
    amount("disk_size", lambda row: _size_or_dash(row.size_bytes)),
    amount("used", lambda row: _size_or_dash(row.used_bytes)),
    amount("free", lambda row: _size_or_dash(row.free_bytes)),
    amount("plan_frees", lambda row: _size_or_dash(row.planned_bytes), 2),
)
_TIERS: tuple[Column[TierSpace], ...] = (
    folding_column("remote storage", name_of, 14),
    amount("segments", lambda row: f"{row.segments:,}", 2),
    amount("size", lambda row: size_text(row.object_bytes or row.size_bytes)),
    amount("only_remote", lambda row: _size_or_dash(row.only_remote_bytes or None)),
    amount("deletable", lambda row: _size_or_dash(row.bytes_by_verdict.get("deletable"))),
    amount("wasted", lambda row: _size_or_dash(row.wasted_bytes or None)),
    folding_column("next deletion", _next_remote, 12),
)

"""Print what `why` found for a person: what holds the disk, what keeps it, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kdump.findings.rows import Row
from kdump.output.amounts import counted, second_cell, size_text
from kdump.output.cell_text import wrap
from kdump.output.column_widths import Column, amount, folded
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.row_tables import name_of
from kdump.output.text_report import Page, TextReport

if TYPE_CHECKING:
    from kdump.output.items import Item

    Fields = dict[str, Any]

#: Topics that are listed, and sentences; the rest is in `--format jsonl`.
_TOPICS = 20
_SENTENCES = 10
_LABEL = 12
_STUCK = ("open-transaction", "uncleanable-mark", "corrupt-batch")
_AROUND = "(around)"


class _Topic:
    """What is added up of one topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size_bytes = 0
        self.by_verdict: Counter[str] = Counter()


class _Waiting:
    """Segments of one partition that one record keeps."""

    def __init__(self, first: Fields) -> None:
        self.first = first
        self.segments = 0
        self.size_bytes = 0

    def add(self, fields: Fields) -> None:
        self.segments += 1
        self.size_bytes += fields["size_bytes"]


class WhyTable(TextReport):
    """Adds rows up by topic, and prints them when all have come."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        super().__init__(page, quiet=quiet)
        self._topics: dict[str, _Topic] = {}
        self._segments: Counter[str] = Counter()
        self._pinned: dict[tuple[object, ...], _Waiting] = {}
        self._stuck: list[Fields] = []
        self._steps: list[Fields] = []

    def write(self, item: Item) -> None:
        """Take one row."""
        if not isinstance(item, Row):
            return
        fields: Fields = item.fields
        if item.row == "segment-fate":
            self._segment(fields)
        elif item.row == "partition-space":
            self._topic(fields).size_bytes += fields["apparent_bytes"]
        elif item.row == "compaction" and fields["blocked_by"] in _STUCK:
            self._stuck.append(fields)
        elif item.row == "plan-step":
            self._steps.append(fields)
        elif item.row == "why-summary":
            self._lines(self._report(fields))

    def _topic(self, fields: Fields) -> _Topic:
        name = _AROUND if fields["topic"] is None else str(fields["topic"])
        if fields.get("retired"):
            name = f"{name} (-{fields['retired']})"
        return self._topics.setdefault(name, _Topic(name))

    def _segment(self, fields: Fields) -> None:
        verdict = fields["verdict"]
        self._topic(fields).by_verdict[verdict] += fields["size_bytes"]
        self._segments[verdict] += 1
        pin = fields["pinned_by"]
        if verdict == "pinned":
            key = fields["topic"], fields["partition"], pin["offset"], pin["timestamp_ms"]
            self._pinned.setdefault(key, _Waiting(fields)).add(fields)

    def _report(self, fields: Fields) -> Iterator[str]:
        yield from self._table(fields["apparent_bytes"])
        yield ""
        allocated = fields["allocated_bytes"]
        on_disk = "" if allocated is None else f", {size_text(allocated)} on disk"
        yield from wrap(
            f"in all {size_text(fields['apparent_bytes'])}{on_disk}: "
            f"{counted(fields['partitions'], 'partition')}, "
            f"{counted(fields['segments'], 'segment')}, as of {second_cell(fields['now_ms'])}",
            self._width,
        )
        yield from self._sums(fields)
        yield from self._sentences()
        if "asked_bytes" in fields:
            yield from self._plan(fields)

    def _table(self, total: int) -> Iterator[str]:
        topics = sorted(self._topics.values(), key=lambda one: (-one.size_bytes, one.name))
        rows = [{"topic": topic, "total": total} for topic in topics[:_TOPICS]]
        yield from table_lines(_COLUMNS, rows, self._width, colour=self._colour)
        if len(topics) > _TOPICS:
            left = sum(topic.size_bytes for topic in topics[_TOPICS:])
            yield f"and {counted(len(topics) - _TOPICS, 'topic')} more, {size_text(left)}"

    def _sums(self, fields: Fields) -> Iterator[str]:
        sizes = fields["bytes_by_verdict"]
        said = {
            "deletable": "deleted by the next retention pass",
            "pinned": "held by a record, see below",
            "kept": f"next: {second_cell(fields['next_deletable_ms'])}"
            if fields["next_deletable_ms"] is not None
            else "no time is known at which they go",
            "not-deleted-by-policy": "never deleted by retention",
            "active": "the segments that are written to",
        }
        for verdict, words in said.items():
            if sizes.get(verdict):
                many = counted(self._segments[verdict], "segment")
                label = verdict.replace("not-deleted-by-policy", "not deleted")
                yield _line(label, sizes[verdict], f"{many}: {words}")
        for label, size, words in (
            ("retired", fields["retired_bytes"], "on the way out, or set aside"),
            ("reserved", fields["reserved_index_bytes"], "room in indexes that takes no disk"),
        ):
            if size:
                yield _line(label, size, words)

    def _sentences(self) -> Iterator[str]:
        waiting = sorted(self._pinned.values(), key=lambda one: -one.size_bytes)
        if waiting or self._stuck:
            yield ""
        for one in waiting[:_SENTENCES]:
            many = f"{counted(one.segments, 'segment')}, {size_text(one.size_bytes)}"
            first = one.first
            yield from self._told(
                "PINNED", f"{name_of(first)} from {first['segment']} on: {many}, {first['text']}"
            )
        if len(waiting) > _SENTENCES:
            yield f"and {counted(len(waiting) - _SENTENCES, 'pin')} more"
        for fields in self._stuck[:_SENTENCES]:
            yield from self._told("STUCK", f"{name_of(fields)}: {fields['text']}")

    def _told(self, word: str, text: str) -> Iterator[str]:
        for number, line in enumerate(wrap(visible(text), self._width - 8)):
            mark = " " * 8 if number else f"{self._word(word, 'note')}{' ' * (8 - len(word))}"
            yield mark + line

    def _plan(self, fields: Fields) -> Iterator[str]:
        asked, planned = fields["asked_bytes"], fields["planned_bytes"]
        yield ""
        yield f"To free {size_text(asked)}, cheapest first:"
        for step in self._steps:
            size = size_text(step["frees_bytes"])
            until = step["loses_to_ms"]
            last = "" if until is None else f"; the last is of {second_cell(until)}"
            for number, line in enumerate(wrap(visible(step["text"] + last), self._width - 17)):
                yield f"{step['order']:3}  {size:>10}  {line}" if not number else " " * 17 + line
            if step["command"] is not None:
                yield f"     → {visible(step['command'])}"
            if step["undo"] is not None:
                yield f"     and back: {visible(step['undo'])}"
        yield "Files are removed file.delete.delay.ms, a minute unless set, after their pass."
        if planned < asked:
            missing = size_text(asked - planned)
            yield f"{missing} short: what is left is active, compacted or of the cluster itself."


def _line(label: str, size_bytes: int, words: str) -> str:
    return f"  {label:{_LABEL}} {size_text(size_bytes):>10}  {words}"


def _of(name: str, *verdicts: str, rank: int = 0) -> Column:
    def cell(row: Fields) -> str:
        size = sum(row["topic"].by_verdict[verdict] for verdict in verdicts)
        return size_text(size) if size else "-"

    return amount(name, cell, rank)


_COLUMNS = (
    folded("topic", lambda row: row["topic"].name, 14),
    amount("size", lambda row: size_text(row["topic"].size_bytes)),
    amount("share", lambda row: f"{row['topic'].size_bytes / max(row['total'], 1):.1%}", 1),
    _of("deletable", "deletable"),
    _of("pinned", "pinned"),
    _of("kept", "kept", "not-deleted-by-policy"),
    _of("active", "active", rank=2),
)

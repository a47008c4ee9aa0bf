"""Print what `why` found for a person: what holds the disk, what keeps it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.rows import Row
from kdump.output.amounts import counted, size_text
from kdump.output.column_widths import Column, amount, folded
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.text_report import TextReport

if TYPE_CHECKING:
    from kdump.output.items import Item
    from kdump.output.text_report import Page

    Fields = dict[str, Any]

#: Topics of the table, and sentences about what keeps segments; the rest is in `--format jsonl`.
_TOPICS = 40
_SENTENCES = 20


class _Topic:
    """What is added up of one topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes = 0
        self.by_verdict: dict[str, int] = {}
        self.waiting: dict[str, tuple[int, int]] = {}  # what keeps them -> segments, bytes


class WhyTable(TextReport):
    """Adds rows up by topic, and prints them when all have come."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        super().__init__(page, quiet=quiet)
        self._topics: dict[str, _Topic] = {}

    def write(self, item: Item) -> None:
        """Take one row."""
        if not isinstance(item, Row):
            return
        fields: Fields = item.fields
        if item.row == "segment-fate":
            self._segment(fields)
        elif item.row == "partition-space":
            self._topic(fields).bytes += fields["apparent_bytes"]
        elif item.row == "why-summary":
            self._summary(fields)

    def _topic(self, fields: Fields) -> _Topic:
        name = "(data directory)" if fields["topic"] is None else str(fields["topic"])
        if fields.get("retired"):
            name = f"{name} -{fields['retired']}"
        return self._topics.setdefault(name, _Topic(name))

    def _segment(self, fields: Fields) -> None:
        topic = self._topic(fields)
        verdict, size = fields["verdict"], fields["size_bytes"]
        topic.by_verdict[verdict] = topic.by_verdict.get(verdict, 0) + size

    def _summary(self, fields: Fields) -> None:
        topics = sorted(self._topics.values(), key=lambda topic: (-topic.bytes, topic.name))
        rows = [{"topic": topic} for topic in topics[:_TOPICS]]
        self._lines(table_lines(_COLUMNS, rows, self._width, colour=self._colour))
        if len(topics) > _TOPICS:
            self._line(f"and {counted(len(topics) - _TOPICS, 'topic')} more")
        self._line()
        self._line(f"in all {size_text(fields['apparent_bytes'])}")


def _of(verdict: str) -> Column:
    def cell(row: Fields) -> str:
        size = row["topic"].by_verdict.get(verdict, 0)
        return size_text(size) if size else "-"

    return amount(verdict.partition("-")[0], cell)


_COLUMNS = (
    folded("topic", lambda row: visible(row["topic"].name), 14),
    amount("size", lambda row: size_text(row["topic"].bytes)),
    _of("deletable"),
    _of("pinned"),
    _of("kept"),
)

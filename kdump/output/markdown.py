"""Write rows as tables of Markdown, as GitHub and most wikis draw them: for a postmortem.

Under a heading for each place and kind. Nothing is cut or left out but of long values, whose start
is shown as in a table. What Markdown or HTML would interpret is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.findings.rows import BatchChunk, BatchRow, HexText, Place, RecordChunk, RecordRow
from kdump.output import table_columns as columns_of
from kdump.output.column_widths import Columns, cells_of
from kdump.output.escape import visible
from kdump.output.row_tables import summary_lines
from kdump.output.sink import Sink
from kdump.output.table import title_of
from kdump.rows.row import Row

if TYPE_CHECKING:
    from kdump.output.sink import Item

#: What Markdown, or HTML in it, gives a meaning.
_ESCAPED = {ord(mark): f"\\{mark}" for mark in "\\`*_{}[]<>#|~$"} | {ord("&"): "&amp;"}


class Markdown(Sink):
    """Writes tables, one after the other, as the rows come; none is held."""

    def __init__(self, write: Callable[[bytes], object], mode: int) -> None:
        self._write_bytes = write
        self._mode = mode
        self._table: tuple[Place | None, str, tuple[str, ...]] = (None, "", ())
        self._started = False

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, RecordChunk):
            self._records(item.place, item.iter_records())
        elif isinstance(item, BatchChunk):
            self._batches(item.place, item.iter_batches())
        elif isinstance(item, RecordRow):
            self._records(Place(item.topic, item.partition, item.segment, ""), (item,))
        elif isinstance(item, BatchRow):
            self._batches(Place(item.topic, item.partition, item.segment, ""), (item,))
        elif isinstance(item, Row):
            self._row(item)
        elif isinstance(item, HexText):
            self._heading(item.place, "", ())
            self._line("\n".join(("```", *map(visible, item.lines), "```", "")))

    def _records(self, place: Place, records: Iterable[RecordRow]) -> None:
        self._heading(place, "records", columns_of.RECORD_COLUMNS)
        for record in records:
            self._cells(columns_of.record_cells(record, self._mode, columns_of.VALUE_WIDTH))

    def _batches(self, place: Place, batches: Iterable[BatchRow]) -> None:
        self._heading(place, "batches", columns_of.BATCH_COLUMNS)
        for batch in batches:
            self._cells(columns_of.batch_cells(batch))

    def _row(self, row: Row) -> None:
        if (summary := summary_lines(row)) is not None:
            self._heading(None, row.row, ())
            for line in summary:
                self._line(f"{_escape(line)}\n")
            self._table = None, "", ()  # what follows has a heading of its own
            return
        columns = columns_of.row_columns(row, self._mode)
        self._heading(columns_of.place_of_row(row), row.row, columns)
        self._cells(cells_of(columns, row))

    def _heading(self, place: Place | None, kind: str, columns: Columns) -> None:
        """Begin a table, unless that which was begun goes on."""
        names = tuple(column.name.replace("_", " ") for column in columns)
        if (place, kind, names) == self._table and names:
            return
        self._table = place, kind, names
        title = title_of(place, kind) if place is not None else kind
        self._line("" if self._started else None)
        self._started = True
        if title:
            self._line(f"### {_escape(visible(title))}\n")
        if names:
            self._cells(names)
            marks = ("--:" if column.right else "---" for column in columns)
            self._line(f"| {' | '.join(marks)} |")

    def _cells(self, cells: Sequence[str]) -> None:
        self._line(f"| {' | '.join(map(_escape, cells))} |")

    def _line(self, text: str | None) -> None:
        if text is not None:
            self._write_bytes(text.encode("utf-8", "backslashreplace") + b"\n")


def _escape(text: str) -> str:
    return text.translate(_ESCAPED).replace("\n", "<br>")

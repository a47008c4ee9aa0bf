"""Tables on a terminal, drawn row by row.

Rich says what the terminal can do and how a style looks on it; it does not draw the rows. A
`rich.table.Table` holds every row before it draws the first and measures every cell: about 650 µs a
row. Here a row is padded to widths found once and written, and nothing is held but the first rows
of a chunk.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, TextIO

from kdump.engine.rows import (
    BatchChunk,
    BatchRow,
    HexText,
    Place,
    Pre08Row,
    RecordChunk,
    RecordRow,
    Row,
)
from kdump.output import table_columns as columns_of
from kdump.output.cells import cut, pad, width_of
from kdump.output.escape import visible
from kdump.output.layout import Column, Layout, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.output.sink import Item

#: Rows looked at before the first is drawn.
_SAMPLE = 64
_STYLES = {
    "heading": "bold cyan",
    "columns": "bold",
    "rule": "dim",
    "nothing": "dim",
    "control": "magenta",
    "bad": "bold red",
    "good": "green",
}
_NOTHINGS = frozenset((columns_of.NULL, columns_of.EMPTY, columns_of.ABSENT, columns_of.UNREADABLE))


def terminal_styles(file: TextIO) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the width of the terminal behind a file, and what to write around styled text.

    NO_COLOR, FORCE_COLOR, TERM=dumb and COLUMNS are heeded as rich does.
    """
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style

    console = Console(file=file)
    system = ColorSystem[console.color_system.upper()] if console.color_system else None
    around = {}
    for name, words in _STYLES.items():
        style = Style.parse(words)
        if console.no_color:
            style = style.without_color
        before, _, after = style.render("\0", color_system=system).partition("\0")
        around[name] = (before, after)
    return console.width, around


class Table:
    """Draws records, batches and entries as fixed-width rows under a heading for each segment."""

    def __init__(self, write: Callable[[bytes], object], file: TextIO, mode: int) -> None:
        self._write_bytes = write
        self._encoding = getattr(file, "encoding", None) or "utf-8"
        self._mode = mode
        self._width, self._around = terminal_styles(file)
        self._columns: tuple[Column, ...] = ()
        self._layout = Layout((), [], "")
        self._place: Place | None = None
        self._started = False

    def write(self, item: Item) -> None:
        """Draw one item."""
        if isinstance(item, RecordChunk):
            self._draw_records(item.place, item.iter_records())
        elif isinstance(item, BatchChunk):
            self._draw_batches(item.place, item.iter_batches())
        elif isinstance(item, (RecordRow, Pre08Row)):
            self._draw_records(_place_of(item), iter((item,)))
        elif isinstance(item, BatchRow):
            self._draw_batches(_place_of(item), iter((item,)))
        elif isinstance(item, Row):
            self._draw_entry(item)
        elif isinstance(item, HexText):
            self._draw_hex(item)

    def finish(self) -> None:
        """Nothing is held back."""

    def _draw_records(self, place: Place, records: Iterator[RecordRow | Pre08Row]) -> None:
        mode, width = self._mode, self._width
        rows = (columns_of.record_cells(record, mode, width) for record in records)
        self._draw(place, columns_of.RECORD_COLUMNS, rows)

    def _draw_batches(self, place: Place, batches: Iterator[BatchRow]) -> None:
        self._draw(place, columns_of.BATCH_COLUMNS, map(columns_of.batch_cells, batches))

    def _draw_entry(self, row: Row) -> None:
        fields = row.fields
        heading = None
        if columns_of.is_heading(row):
            topic, partition = fields.get("topic"), fields.get("partition")
            segment = fields.get("segment")
            heading = Place(
                topic if isinstance(topic, str) else None,
                partition if isinstance(partition, int) else None,
                segment if isinstance(segment, int) else None,
                "",
            )
        cells = iter((columns_of.row_cells(row, self._mode),))
        self._draw(heading, columns_of.row_columns(row), cells, row.row)

    def _draw_hex(self, item: HexText) -> None:
        self._line("")
        self._line(self._styled("heading", visible(_title(item.place, ""))))
        for line in item.lines:
            text = visible(line)
            self._line(self._styled("bad", text) if "✗" in text else text)

    def _draw(
        self,
        place: Place | None,
        columns: tuple[Column, ...],
        rows: Iterator[tuple[str, ...]],
        kind: str = "",
    ) -> None:
        if place != self._place or not self._same(columns):
            sample = list(islice(rows, _SAMPLE))
            if not sample:
                return
            self._begin(place, columns, sample, kind)
            rows = chain(sample, rows)
        for cells in rows:
            self._line(self._row(cells))

    def _same(self, columns: tuple[Column, ...]) -> bool:
        return [column.name for column in columns] == [column.name for column in self._columns]

    def _begin(
        self,
        place: Place | None,
        columns: tuple[Column, ...],
        sample: Sequence[tuple[str, ...]],
        kind: str,
    ) -> None:
        """Draw the heading of a new place, and the column names where they are not the same."""
        if self._started:
            self._line("")
        self._started = True
        if place is not None and (title := _title(place, kind)):
            self._line(self._styled("heading", visible(title)))
        self._place, self._columns = place, columns
        self._layout = fit(columns, sample, self._width)
        names = [
            pad(columns[index].name, width, right=columns[index].right)
            for index, width in zip(self._layout.shown, self._layout.widths, strict=True)
        ]
        self._line(self._styled("columns", self._layout.gap.join(names).rstrip()))
        rules = self._layout.gap.join("─" * width for width in self._layout.widths)
        self._line(self._styled("rule", rules))

    def _row(self, cells: Sequence[str]) -> str:
        shown, widths, gap = self._layout
        around, columns = self._around, self._columns
        control = "ctl" in cells[2] if columns is columns_of.RECORD_COLUMNS else False
        texts = []
        for at, index in enumerate(shown):
            column, text, width = columns[index], cells[index], widths[at]
            if column.cuts:
                text = cut(text, width)
            elif (needed := width_of(text)) > width:
                widths[at] = width = needed
            padded = pad(text, width, right=column.right)
            if text in _NOTHINGS:
                before, after = around["nothing"]
            elif text == "✗":
                before, after = around["bad"]
            elif control and column.cuts:
                before, after = around["control"]
            else:
                texts.append(padded)
                continue
            texts.append(f"{before}{padded}{after}")
        return gap.join(texts).rstrip()

    def _styled(self, name: str, text: str) -> str:
        before, after = self._around[name]
        return f"{before}{text}{after}"

    def _line(self, text: str) -> None:
        self._write_bytes(text.encode(self._encoding, "backslashreplace") + b"\n")


def _place_of(row: RecordRow | Pre08Row | BatchRow) -> Place:
    return Place(row.topic, row.partition, row.segment, "")


def _title(place: Place, kind: str) -> str:
    parts = []
    if place.topic is not None:
        parts.append(f"{place.topic}-{place.partition}")
    if place.segment is not None:
        parts.append(f"segment {place.segment}")
    if kind:
        parts.append(kind)
    return " · ".join(parts) or place.path

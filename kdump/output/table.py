"""Draw tables on a terminal, row by row.

Rich says what the terminal can do and how a style looks on it; it does not draw the rows. A
`rich.table.Table` holds every row before it draws the first and measures every cell: about 650 µs a
row. Here a row is padded to widths found once and written, and nothing is held but the first rows
of a chunk.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, TextIO

from kdump.findings.rows import (
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
from kdump.output.cells import cut, fitted, pad, width_of
from kdump.output.escape import visible
from kdump.output.layout import Column, Layout, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.output.items import Item

#: Rows looked at before the first is drawn.
_SAMPLE = 64
#: With --wide: cells of one value; memory is bounded.
_WIDEST = 1 << 20
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

_MARKS = _NOTHINGS | {"✗"}


def terminal_styles(file: TextIO) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the width of the terminal behind a file, and what to write around styled text.

    NO_COLOR, FORCE_COLOR, TERM=dumb and COLUMNS are heeded as rich does.
    """
    from rich.console import COLOR_SYSTEMS, Console
    from rich.style import Style

    console = Console(file=file)
    system = COLOR_SYSTEMS[console.color_system] if console.color_system else None
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

    def __init__(
        self,
        write: Callable[[bytes], object],
        file: TextIO,
        mode: int,
        *,
        headers_among_records: bool = False,
        wide: bool = False,
    ) -> None:
        self._write_bytes = write
        self._wide = wide
        self._left_out: dict[str, None] = {}  # columns, in the order in which they had no room
        self._among_records = headers_among_records
        self._encoding = getattr(file, "encoding", None) or "utf-8"
        self._mode = mode
        self._width, self._around = terminal_styles(file)
        self._columns: tuple[Column, ...] = ()
        self._layout = Layout((), [], "")
        self._place: Place | None = None
        self._held: list[Row] = []
        self._started = False

    def write(self, item: Item) -> None:
        """Draw one item."""
        if self._held and not isinstance(item, Row):
            self.settle()
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

    def settle(self) -> None:
        """Draw the entries held back to find their widths."""
        held, self._held = self._held, []
        if held:
            value = _WIDEST if self._wide else columns_of.VALUE_WIDTH
            cells = (columns_of.row_cells(row, self._mode, value) for row in held)
            place = columns_of.place_of_row(held[0])
            self._draw(place, columns_of.row_columns(held[0]), cells, held[0].row)

    def finish(self) -> None:
        """Draw what was held back, and say which columns had no room."""
        self.settle()
        self._tell_left_out()

    def _tell_left_out(self) -> None:
        left_out, self._left_out = self._left_out, {}
        if left_out:
            self._line("")
            told = f"No room for: {', '.join(left_out)}. --wide shows every column."
            self._line(self._styled("rule", told))

    def _draw_records(self, place: Place, records: Iterator[RecordRow | Pre08Row]) -> None:
        mode, width = self._mode, _WIDEST if self._wide else self._width
        rows = (columns_of.record_cells(record, mode, width) for record in records)
        self._draw(place, columns_of.RECORD_COLUMNS, rows)

    def _draw_batches(self, place: Place, batches: Iterator[BatchRow]) -> None:
        if self._among_records:  # the header of a batch whose records cannot be read
            rows = map(columns_of.damaged_cells, batches)
            self._draw(place, columns_of.RECORD_COLUMNS, rows)
            return
        self._draw(place, columns_of.BATCH_COLUMNS, map(columns_of.batch_cells, batches))

    def _draw_explained(self, row: Row) -> None:
        """Draw a lookup that explains itself: the answer, then numbered steps."""
        from kdump.output.explained import answer_line, step_lines

        if self._started:
            self._line("")
        self._started = True
        self._line(self._styled("columns", answer_line(row)))
        self._line("")
        for line in step_lines(row, self._width):
            self._line(line)

    def _draw_entry(self, row: Row) -> None:
        """Hold an entry until there are enough to see how wide they are, or others come."""
        if "steps" in row.fields:
            self.settle()
            self._draw_explained(row)
            return
        if row.row in columns_of.SUMMARIES:
            self.settle()
            self._tell_left_out()
            self._line("")
            for line in columns_of.SUMMARIES[row.row](row):
                self._line(line)
            return
        held = self._held
        if held and (
            held[0].row != row.row
            or columns_of.place_of_row(held[0]) != columns_of.place_of_row(row)
        ):
            self.settle()
        self._held.append(row)
        if len(self._held) >= _SAMPLE:
            self.settle()

    def _draw_hex(self, item: HexText) -> None:
        self._begin(item.place, "")
        self._line(
            "\n".join(
                self._styled("bad", visible(line)) if "✗" in line else visible(line)
                for line in item.lines
            )
        )

    def _draw(
        self,
        place: Place | None,
        columns: tuple[Column, ...],
        rows: Iterator[tuple[str, ...]],
        kind: str = "",
    ) -> None:
        same = [column.name for column in columns] == [column.name for column in self._columns]
        if not same or place != self._place:
            sample = list(islice(rows, _SAMPLE))
            if not sample:
                return
            self._begin(place, kind)
            if not same or not self._layout.holds(columns, sample):
                self._lay_out(columns, sample)
            rows = chain(sample, rows)
        for cells in rows:
            if not self._has_room(cells):
                before = [""] * len(columns)
                for index, width in zip(self._layout.shown, self._layout.widths, strict=True):
                    before[index] = " " * width
                self._lay_out(columns, (before, cells))
            self._line(self._row(cells))

    def _lay_out(self, columns: tuple[Column, ...], sample: Sequence[Sequence[str]]) -> None:
        """Find the widths, and draw the names; what has no room is said at the end."""
        self._columns = columns
        self._layout = fit(columns, sample, None if self._wide else self._width)
        shown = self._layout.shown
        left_out = (column.name for at, column in enumerate(columns) if at not in shown)
        self._left_out.update(dict.fromkeys(left_out))
        self._draw_names()

    def _has_room(self, cells: Sequence[str]) -> bool:
        """Let columns grow for a row, at the cost of those that may be cut; say if that is enough.

        A row that would still be wider than the terminal needs another layout.
        """
        shown, widths, gap = self._layout
        grown = False
        for at, index in enumerate(shown):
            text = cells[index]
            if len(text) > widths[at] and not self._columns[index].cuts:
                needed = width_of(text)
                grown = grown or needed > widths[at]
                widths[at] = max(widths[at], needed)
        if not grown or self._wide:
            return True
        excess = sum(widths) + len(gap) * (len(shown) - 1) - self._width
        for at in reversed(range(len(shown))):
            column = self._columns[shown[at]]
            if column.cuts and excess > 0:
                given = min(excess, max(widths[at] - column.least, 0))
                widths[at] -= given
                excess -= given
        return excess <= 0 or all(self._columns[index].rank == 0 for index in shown)

    def _begin(self, place: Place | None, kind: str) -> None:
        """Draw the heading of a new place."""
        if self._started:
            self._line("")
        self._started = True
        self._place = place
        if place is not None and (title := _title(place, kind)):
            self._line(self._styled("heading", visible(title)))

    def _draw_names(self) -> None:
        """Draw the column names, on two lines where one is too long, and a rule."""
        layout = self._layout
        titles = [self._columns[index].title() for index in layout.shown]
        for line in (0, 1):
            if any(title[line] for title in titles):
                names = [
                    pad(cut(title[line], width), width, right=self._columns[index].right)
                    for index, title, width in zip(layout.shown, titles, layout.widths, strict=True)
                ]
                self._line(self._styled("columns", layout.gap.join(names).rstrip()))
        rules = layout.gap.join("─" * width for width in layout.widths)
        self._line(self._styled("rule", rules))

    def _row(self, cells: Sequence[str]) -> str:
        shown, widths, gap = self._layout
        columns = self._columns
        note = cells[2] if columns is columns_of.RECORD_COLUMNS else ""
        marked = note.endswith(("ctl", "✗"))
        last = len(shown) - 1
        texts = []
        for at, index in enumerate(shown):
            column, text, width = columns[index], cells[index], widths[at]
            if self._wide and len(text) > width:
                width = min(max(width, width_of(text)), _WIDEST)
            if marked or text in _MARKS:
                text = self._marked(text, width, column, note)
            else:
                text = fitted(text, width, right=column.right, last=at == last)
            texts.append(text)
        return gap.join(texts).rstrip()

    def _marked(self, text: str, width: int, column: Column, note: str) -> str:
        """Fit and style a cell that stands for nothing, for something bad, or for a marker."""
        text = cut(text, width)
        padded = pad(text, width, right=column.right)
        if text == "✗" or (column.cuts and note == "✗"):
            return self._within("bad", padded, text)
        if text in _NOTHINGS and not (column.cuts and text == columns_of.ABSENT):
            return self._within("nothing", padded, text)
        if column.cuts and note.endswith("ctl"):
            return self._within("control", padded, text)
        return padded

    def _within(self, name: str, padded: str, text: str) -> str:
        """Style a cell's text and leave the spaces around it alone."""
        return padded.replace(text, self._styled(name, text), 1)

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
    if not parts and place.path:
        parts.append(place.path)
    if kind:
        parts.append(kind)
    return " · ".join(parts)

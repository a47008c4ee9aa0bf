"""Draw rows as tables of rich, and the endless streams of `dump` with a printer of their own.

Rows that come to an end are held, a page at a time, and drawn by `rich.table.Table`, at some 2,000
a second. Records, batches and index entries come by the million and are padded to widths found once
and written, under the same heading, some 50,000 a second. Of records the kernel writes the lines
that need no more, millions a second; it leaves what grows a column, is not ASCII or is marked.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

from kdump import kernels
from kdump.findings.rows import (
    BatchChunk,
    BatchRow,
    HexText,
    Place,
    RecordChunk,
    RecordRow,
    Row,
)
from kdump.kernels.text_form import MOST_SHOWN, TABLE, Cell, TextForm
from kdump.output import table_columns as columns_of
from kdump.output.amounts import times_are_utc
from kdump.output.column_widths import (
    Column,
    Columns,
    Layout,
    cells_of,
    cut,
    fit,
    fit_text,
    join,
    pad,
    width_of,
    wrap,
)
from kdump.output.copy_names import CopyNames
from kdump.output.escape import encode, encoding_of, terminal_columns, visible, wants_colour
from kdump.output.grid import grid
from kdump.output.row_tables import (
    are_in_one_table,
    copies_in,
    name_of,
    own_title,
    summary_lines,
)
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.output.sink import Item

#: Rows looked at before the first is drawn.
_SAMPLE = 64
#: Records handed to the kernel at once; those that it leaves are drawn one by one, or some.
_WRITTEN = 1 << 10
#: Rows of one of rich's tables: it holds them all, and longer ones go on in another.
_PAGE = 1000
#: With --wide: cells of one value; memory is bounded.
_WIDEST = 1 << 20
#: Replaces a text that repeats the row above, from this many characters on.
_ECHO, _ECHOED = "as above", 40
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


class Table(Sink):
    """Draws rows under a heading for each segment, partition or file."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        file: TextIO,
        mode: int,
        *,
        headers_among_records: bool = False,
        wide: bool = False,
    ) -> None:
        from rich.console import COLOR_SYSTEMS, Console, ConsoleDimensions
        from rich.style import Style

        self._write_bytes = write
        self._wide = wide
        self._left_out: dict[str, None] = {}  # columns, in the order in which they had no room
        self._among_records = headers_among_records
        self._encoding = encoding_of(file)
        self._is_utf8 = self._encoding.lower() == "utf-8"
        self._mode = mode
        console = self._console = Console(
            file=file, color_system="auto" if wants_colour(file) else None
        )  # heeds TERM and COLUMNS
        if console.is_dumb_terminal:  # for which rich has one width
            console.size = ConsoleDimensions(terminal_columns(), 25)
        self._width = console.width
        self._system = COLOR_SYSTEMS[console.color_system] if console.color_system else None
        self._styles = {name: Style.parse(words) for name, words in _STYLES.items()}
        self._columns: Columns = ()
        self._layout = Layout((), [], "")
        self._place: Place | None = None
        self._held: list[Row] = []
        self._copies = CopyNames()
        self._started = False

    def write(self, item: Item) -> None:
        """Draw one item."""
        if self._held and not isinstance(item, Row):
            self.settle()
        if isinstance(item, RecordChunk):
            self._draw_chunk(item)
        elif isinstance(item, BatchChunk):
            self._draw_batches(item.place, item.iter_batches())
        elif isinstance(item, RecordRow):
            self._draw_records(_place_of(item), iter((item,)))
        elif isinstance(item, BatchRow):
            self._draw_batches(_place_of(item), iter((item,)))
        elif isinstance(item, Row):
            self._draw_entry(item)
        elif isinstance(item, HexText):
            self._draw_hex(item)

    def settle(self) -> None:
        """Draw the rows held back, as a table of their own."""
        held, self._held = self._held, []
        if not held:
            return
        value = _WIDEST if self._wide else columns_of.VALUE_WIDTH
        columns = columns_of.row_columns(held[0], self._mode, value)
        cells = [cells_of(columns, row) for row in held]
        place = columns_of.place_of_row(held[0])
        if held[0].streamed:
            self._draw(place, columns, iter(cells), held[0].row)
            return
        self._begin(place, held[0].row)
        if title := own_title(held):
            self._line(self._style("heading", title))
        columns, cells, shared = (
            (columns, cells, []) if self._wide else _extract_shared(columns, cells)
        )
        cells = self._with_letters(held, cells)
        cells = cells if self._wide else _without_echoes(columns, cells)
        layout = fit(columns, cells, None if self._wide else self._width)
        self._left_out.update(dict.fromkeys(layout.without(columns)))
        self._columns = ()  # the names of a stream that goes on have to be drawn again
        if self._wide:
            self._console.size = (_WIDEST, 25)
        self._lines(grid(self._console, columns, cells, layout))
        for line in shared:
            self._lines(wrap(line, self._width))

    def _with_letters(
        self, rows: Sequence[Row], cells: list[tuple[str, ...]]
    ) -> list[tuple[str, ...]]:
        """Write a letter for each directory of copies, and in the cells the letters."""
        paths = [copies_in(row) for row in rows]
        if not any(paths):
            return cells
        self._lines(self._copies.introduce(chain.from_iterable(paths)))
        return [
            tuple(self._copies.replace_paths(text, named, name_of(row)) for text in line)
            for row, named, line in zip(rows, paths, cells, strict=True)
        ]

    def finish(self) -> None:
        """Draw what was held back, and say which columns had no room."""
        self.settle()
        self._tell_left_out()

    def _tell_left_out(self) -> None:
        left_out, self._left_out = self._left_out, {}
        if left_out:
            self._line("")
            hint = f"Columns left out: {', '.join(left_out)}. --wide shows all."
            self._lines(self._style("rule", line) for line in wrap(hint, self._width))

    def _draw_chunk(self, chunk: RecordChunk) -> None:
        """Draw records: by the kernel as far as they are plain and fit into their columns."""
        shortens = chunk.is_decoded and not self._wide
        if shortens or chunk.controls is not None or not (self._is_utf8 and times_are_utc()):
            self._draw_records(chunk.place, chunk.iter_records())
            return
        if chunk.format:  # single rows lie among them, which know no path
            chunk = copy(chunk)
            chunk.place = chunk.place._replace(path="")
        rows = array("q", range(len(chunk))) if chunk.rows is None else chunk.rows
        at, step = 0, _SAMPLE
        while at < len(rows):
            form = self._form(chunk.place)
            if form is not None:
                part, columns = rows[at : at + _WRITTEN], (chunk.batches, chunk.records)
                done = kernels.format_records(self._write_bytes, chunk.data, *columns, part, form)
                at += done
                # Where the kernel leaves many, asking it costs more than it saves.
                step = 1 if done else min(2 * step, _SAMPLE)
                if done == len(part):
                    continue
            left = copy(chunk)
            left.rows = rows[at : at + step]
            self._draw_records(chunk.place, left.iter_records())
            at += step

    def _form(self, place: Place) -> TextForm | None:
        """Return the layout as the kernel takes it; None where there is none for these records."""
        shown, widths, gap, *_ = self._layout
        columns = columns_of.RECORD_COLUMNS
        if place != self._place or self._columns is not columns or sum(widths) > MOST_SHOWN:
            return None
        cells: list[Cell] = []
        for index, width in zip(shown, widths, strict=True):
            column, before = columns[index], gap if cells else ""
            marks = (columns_of.NULL, columns_of.EMPTY) if column.cuts else (columns_of.ABSENT,)
            null, *empty = (before + self._mark(text, width, column, "") for text in marks)
            cell = Cell(column.name, before.encode(), "".join(empty).encode(), null.encode(), width)
            if column.cuts:
                cell = cell._replace(most=_WIDEST if self._wide else width)
            cells.append(cell)
        cells[-1] = cells[-1]._replace(width=0)
        return TextForm(TABLE, self._mode, tuple(cells), tuple(cells), (), (), shown=True)

    def _draw_records(self, place: Place, records: Iterator[RecordRow]) -> None:
        mode, width = self._mode, _WIDEST if self._wide else self._width
        if not self._wide:
            records = (columns_of.shorten(record, width) for record in records)
        rows = (columns_of.record_cells(record, mode, width) for record in records)
        self._draw(place, columns_of.RECORD_COLUMNS, rows)

    def _draw_batches(self, place: Place, batches: Iterator[BatchRow]) -> None:
        if self._among_records:  # the header of a batch whose records cannot be read
            rows = map(columns_of.damaged_cells, batches)
            self._draw(place, columns_of.RECORD_COLUMNS, rows)
            return
        self._draw(place, columns_of.BATCH_COLUMNS, map(columns_of.batch_cells, batches))

    def _draw_explanation(self, row: Row) -> None:
        """Draw a lookup that explains itself: the answer, then numbered steps."""
        from kdump.output.row_tables import answer_parts, release_title, step_lines

        self._begin(None, "")
        first, *more = join(answer_parts(row), self._width, "   ")
        answer = [first, *(f"  {line}" for line in more)]
        self._lines(self._style("columns", line) for line in answer)
        self._line(release_title([row]))
        self._lines(step_lines(row, self._width))

    def _draw_entry(self, row: Row) -> None:
        """Hold a row until there is a page of them, or others come."""
        if "steps" in row.fields:
            self.settle()
            self._draw_explanation(row)
            return
        if (summary := summary_lines(row)) is not None:
            self.settle()
            self._tell_left_out()
            if self._started or not row.leads:
                self._line("")
            self._started = True
            for line in summary:
                self._lines(wrap(line, self._width))
            return
        held = self._held
        if held and (
            not are_in_one_table(held[0], row)
            or columns_of.place_of_row(held[0]) != columns_of.place_of_row(row)
        ):
            self.settle()
        self._held.append(row)
        if len(self._held) >= (_SAMPLE if self._wide or row.streamed else _PAGE):
            self.settle()

    def _draw_hex(self, item: HexText) -> None:
        self._begin(item.place, "")
        for line in map(visible, item.lines):
            self._line(self._style("bad", line) if "✗" in line else line)

    def _draw(
        self,
        place: Place | None,
        columns: Columns,
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

    def _lay_out(self, columns: Columns, sample: Sequence[Sequence[str]]) -> None:
        """Find the widths of a stream, and draw the names; what has no room is said at the end."""
        self._columns = columns
        self._layout = fit(columns, sample, None if self._wide else self._width, more=True)
        self._left_out.update(dict.fromkeys(self._layout.without(columns)))
        self._draw_names()

    def _has_room(self, cells: Sequence[str]) -> bool:
        """Let columns grow for a row, at the cost of those that may be cut; say if that is enough.

        A row that would still be wider than the terminal needs another layout.
        """
        shown, widths, gap, *_ = self._layout
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
        if place is not None and (title := title_of(place, kind)):
            lines = join(visible(title).split(" · "), self._width)
            self._lines(self._style("heading", line) for line in lines)

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
                self._line(self._style("columns", layout.gap.join(names).rstrip()))
        rule = "─" * (sum(layout.widths) + len(layout.gap) * (len(layout.widths) - 1))
        self._line(self._style("rule", rule))

    def _row(self, cells: Sequence[str]) -> str:
        shown, widths, gap, *_ = self._layout
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
                text = self._mark(text, width, column, note)
            else:
                text = fit_text(text, width, right=column.right, last=at == last)
            texts.append(text)
        return gap.join(texts).rstrip()

    def _mark(self, text: str, width: int, column: Column[Any], note: str) -> str:
        """Fit and style a cell that stands for nothing, for something bad, or for a marker."""
        text = cut(text, width)
        padded = pad(text, width, right=column.right)
        if text == "✗" or (note.endswith("✗") and (column.cuts or text == note)):
            return self._within("bad", padded, text)
        if text in _NOTHINGS and not (column.cuts and text == columns_of.ABSENT):
            return self._within("nothing", padded, text)
        if column.cuts and note.endswith("ctl"):
            return self._within("control", padded, text)
        return padded

    def _within(self, name: str, padded: str, text: str) -> str:
        """Style a cell's text and leave the spaces around it alone."""
        return padded.replace(text, self._style(name, text), 1)

    def _style(self, name: str, text: str) -> str:
        return self._styles[name].render(text, color_system=self._system)

    def _lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._line(text)

    def _line(self, text: str) -> None:
        self._write_bytes(encode(text, self._encoding) + b"\n")


def _extract_shared(
    columns: Columns, cells: list[tuple[str, ...]]
) -> tuple[Columns, list[tuple[str, ...]], list[str]]:
    """Take out the columns whose one value is written below the table instead."""
    same = {
        at: f"Same {column.name} for all: {cells[0][at]}"
        for at, column in enumerate(columns)
        if column.shares and len({row[at] for row in cells}) == 1 < len(cells)
    }
    kept = [at for at in range(len(columns)) if at not in same]
    rows = [tuple(row[at] for at in kept) for row in cells]
    shared = [line for at, line in same.items() if cells[0][at] != "-"]
    return tuple(columns[at] for at in kept), rows, shared


def _without_echoes(columns: Columns, cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Replace cells that repeat a long text of the row above, or a name within a group."""
    if not any(column.echoes or column.continues for column in columns):
        return cells
    above: tuple[str, ...] = ("",) * len(columns)
    replaced = []
    for line in cells:
        replaced.append(
            tuple(
                _echo(column, text, continues=not line[0]) if text == before else text
                for column, text, before in zip(columns, line, above, strict=True)
            )
        )
        above = line
    return replaced


def _echo(column: Column[Any], text: str, *, continues: bool) -> str:
    """Write a cell that is the same as the one above it; `continues`: so does the group."""
    if column.continues and continues:
        return ""
    return _ECHO if column.echoes and len(text) > _ECHOED else text


def _place_of(row: RecordRow | BatchRow) -> Place:
    return Place(row.topic, row.partition, row.segment, "")


def title_of(place: Place, kind: str) -> str:
    """Write the heading of the rows of a place."""
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

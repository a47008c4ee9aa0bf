"""Tables of bounded length, drawn by rich.

`column_widths.fit` says which columns have room and how wide each is, which rich has no rule for:
rich would narrow numbers. Cells are `rich.text.Text`, never markup, and already `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kdump.output.column_widths import Column, Layout, cells_of, fit, fold, wrap

if TYPE_CHECKING:
    from rich.console import Console


#: Before a text that goes below its row.
_INDENT = "    "
#: How a cell that is one of these looks.
MARKS = {"∅": "dim", "''": "dim", "-": "dim", "?": "dim", "✗": "bold red"}


def table_lines(
    columns: Sequence[Column[Any]],
    rows: Sequence[Any],
    width: int,
    *,
    colour: bool = False,
    marks: Mapping[str, str] = MARKS,
) -> Iterator[str]:
    """Yield the lines of a table `width` cells wide, and name the columns that have no room."""
    from io import StringIO

    from rich.console import Console

    system: Literal["standard"] | None = "standard" if colour else None
    console = Console(file=StringIO(), width=width, color_system=system)
    cells = [cells_of(columns, row) for row in rows]
    layout = fit(columns, cells, width)
    yield from grid(console, columns, cells, layout, marks)
    if unseen := layout.without(columns):
        yield from wrap(f"Columns left out: {', '.join(unseen)}. --format jsonl has all.", width)


def grid(
    console: Console,
    columns: Sequence[Column[Any]],
    rows: Sequence[Sequence[str]],
    layout: Layout,
    marks: Mapping[str, str] = MARKS,
) -> Iterator[str]:
    """Yield the lines of a table; what is too long for its column goes on below, or is cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown, widths, gap, _, below = layout
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        padding=(0, len(gap) - 1, 0, 0),  # the box draws the rest of the gap
        header_style="none",  # which would reach over the padding
        border_style="dim",
    )
    for index, width in zip(shown, widths, strict=True):
        column = columns[index]
        table.add_column(
            Text().append("\n".join(filter(None, column.title())), "bold"),
            justify="right" if column.right else "left",
            width=width,
        )
    heights = []
    for cells in rows:
        texts = []
        height = 1
        for index, width in zip(shown, widths, strict=True):
            whole = columns[index].folds or not columns[index].cuts
            text = Text(no_wrap=not whole, overflow="fold" if whole else "ellipsis")
            lines = fold(cells[index], width) if whole else [cells[index]]
            height = max(height, len(lines))
            texts.append(text.append("\n".join(lines), marks.get(cells[index])))
        table.add_row(*texts)
        heights.append(height)
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if below is None:
        yield from lines
        return
    at = len(lines) - sum(heights)
    yield from lines[:at]
    for cells, height in zip(rows, heights, strict=True):
        yield from lines[at : at + height]
        at += height
        if cells[below]:
            folded = fold(cells[below], console.width - len(_INDENT))
            yield from (f"{_INDENT}{line}" for line in folded)

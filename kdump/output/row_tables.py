"""The tables of rows that have one of their own, which lie in `tables/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

from kdump.findings.ranges import range_cell
from kdump.findings.rows import Row
from kdump.output.column_widths import Columns

#: Writes a key or value.
BytesCell: TypeAlias = Callable[[bytes | None], str]
#: Kind of row -> its columns, or what makes them for a row.
Tables: TypeAlias = Mapping[type[Row], Columns | Callable[[Any, BytesCell], Columns]]
#: Kind of row -> what shows it as lines, without a table.
Summaries: TypeAlias = Mapping[type[Row], Callable[[Any], list[str]]]


@cache
def _own(kind: type[Row]) -> tuple[Any, Any]:
    """Return the columns and the lines that a kind of row has of its own."""
    name = f"{__package__}.tables.{kind.__module__.rpartition('.')[2]}"
    if find_spec(name) is None:
        return None, None
    own = import_module(name)
    return own.TABLES.get(kind), getattr(own, "SUMMARIES", {}).get(kind)


def has_own_columns(row: Row) -> bool:
    """Say whether a row has columns of its own, with the name of its partition among them."""
    return _own(type(row))[0] is not None


def own_columns(row: Row, bytes_cell: BytesCell) -> Columns | None:
    """Return the columns of a row that has some of its own; `bytes_cell` writes a key."""
    columns = _own(type(row))[0]
    made: Columns | None = columns(row, bytes_cell) if callable(columns) else columns
    return made


def summary_lines(row: Row) -> list[str] | None:
    """Return the lines that a row is shown in that has no table."""
    lines = _own(type(row))[1]
    return None if lines is None else lines(row)


def name_of(row: Any) -> str:
    """Name the partition of a row."""
    return "?" if row["topic"] is None else f"{row['topic']}-{row['partition']}"


def span_text(first: int | None, last: int | None) -> str:
    """Write the first and the last offset of a batch; that of a closed wrapper is not known."""
    if last is None:
        return "-"
    return range_cell("?" if first is None else first, last)

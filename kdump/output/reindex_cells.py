"""The table cells of `kdump reindex`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.progress import size_text
from kdump.output.values import number_cell

if TYPE_CHECKING:
    from kdump.findings.rows import Row

REINDEX_COLUMNS = (
    Column("segment", right=True),
    Column("file"),
    Column("entries", right=True),
    Column("rebuilt", right=True),
    Column("to read", right=True, rank=1),
    Column("action"),
    Column("why", cuts=True, folds=True, least=24),
)


def reindex_cells(row: Row) -> tuple[str, ...]:
    """Return the cells of one row, in the order of REINDEX_COLUMNS."""
    fields = row.fields
    size_bytes = fields["bytes_to_read"]
    why = str(fields["reason"])
    if difference := _difference(fields["first_difference"]):
        why = f"{why}; {difference}"
    if fields["written"] is not None:
        why = f"{fields['written']}: {why}"
    return (
        number_cell(fields["segment"]),
        str(fields["kind"]),
        number_cell(fields["entries_before"]),
        number_cell(fields["entries_after"]),
        size_text(size_bytes) if isinstance(size_bytes, int) and size_bytes else "",
        str(fields["action"]),
        visible(why),
    )


def _difference(difference: object) -> str:
    if not isinstance(difference, dict):
        return ""
    before, after = (_entry(difference[side]) for side in ("before", "after"))
    return f"entry {difference['slot']}: {before} for {after}"


def _entry(entry: object) -> str:
    if not isinstance(entry, dict):
        return "nothing" if entry is None else str(entry)
    numbers = [str(number) for name, number in entry.items() if name != "version"]
    return f"({', '.join(numbers)})"

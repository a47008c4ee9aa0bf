"""Print the groups of `verify --summary-by` as a table, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kdump.output.amounts import number_text, size_text
from kdump.output.column_widths import Column, Columns, amount, folded
from kdump.output.escape import visible
from kdump.output.grid import table_lines

if TYPE_CHECKING:
    from kdump.findings.rows import Row

_SHOWN = 40
_TAIL = 24  # of a data directory's path
_SEVERITIES = ("damage", "rebuild", "note")


def _broker(fields: dict[str, Any]) -> str:
    name = visible(fields["broker"])
    if len(name) > _TAIL:  # what tells paths apart stands at their end
        name = "…" + name[1 - _TAIL :]
    return name if fields["node_id"] is None else f"{visible(fields['node_id'])}: {name}"


def _codes(fields: dict[str, Any]) -> str:
    codes = fields["codes"].items()
    return ", ".join(code if count == 1 else f"{count:,} {code}" for code, count in codes)


def _found(word: str) -> Column[Any]:
    return amount(word, lambda fields: number_text(fields["findings"][word] or None, "-"))


_COLUMNS: Columns = (
    Column("broker", _broker, cuts=True, folds=True, least=_TAIL + 3),
    folded("topic", lambda fields: "-" if fields["topic"] is None else fields["topic"], 12),
    amount("partitions", lambda fields: number_text(fields["partitions"]), 1),
    amount("size", lambda fields: size_text(fields["bytes"]), 2),
    *map(_found, _SEVERITIES),
    folded("codes", _codes, 12, rank=3),
)


def group_lines(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield a compact table of the groups; of very many the worst, and how many there are."""
    if not rows:
        return
    other = {"broker", "topic"} - set(rows[0].fields)
    columns = [column for column in _COLUMNS if column.name not in other]
    ordered = sorted((row.fields for row in rows), key=_badness, reverse=True)
    yield from table_lines(columns, ordered[:_SHOWN], width)
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN:,} more, none worse; --format jsonl lists them"


def _badness(fields: dict[str, Any]) -> tuple[int, ...]:
    return tuple(fields["findings"][word] for word in _SEVERITIES)

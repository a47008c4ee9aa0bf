"""Print the groups of `verify --summary-by` as a table, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.output.amounts import number_text, size_text
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.escape import visible
from kdump.output.grid import table_lines

if TYPE_CHECKING:
    from kdump.rows.verify import SummaryBy

_SHOWN = 40
_TAIL = 24  # of a data directory's path
_SEVERITIES = ("damage", "rebuild", "note")


def _broker(row: SummaryBy) -> str:
    name = visible(row.broker or "")
    if len(name) > _TAIL:  # what tells paths apart stands at their end
        name = "…" + name[1 - _TAIL :]
    return name if row.node_id is None else f"{visible(row.node_id)}: {name}"


def _codes(row: SummaryBy) -> str:
    codes = row.codes.items()
    return ", ".join(code if count == 1 else f"{count:,} {code}" for code, count in codes)


def _count_column(word: str) -> Column[SummaryBy]:
    return amount(word, lambda row: number_text(row.findings[word] or None, "-"))


_COLUMNS: tuple[Column[SummaryBy], ...] = (
    Column("broker", _broker, cuts=True, folds=True, least=_TAIL + 3),
    folding_column("topic", lambda row: "-" if row.topic is None else row.topic, 12),
    amount("partitions", lambda row: number_text(row.partitions), 1),
    amount("size", lambda row: size_text(row.bytes), 2),
    *map(_count_column, _SEVERITIES),
    folding_column("codes", _codes, 12, rank=3),
)


def group_lines(rows: Sequence[SummaryBy], width: int) -> Iterator[str]:
    """Yield a compact table of the groups; of very many the worst, and how many there are."""
    if not rows:
        return
    other = {"broker", "topic"} - set(rows[0].fields)
    columns = [column for column in _COLUMNS if column.name not in other]
    ordered = sorted(rows, key=_badness, reverse=True)
    yield from table_lines(columns, ordered[:_SHOWN], width)
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN:,} more, none worse; --format jsonl lists them"


def _badness(row: SummaryBy) -> tuple[int, ...]:
    return tuple(row.findings[word] for word in _SEVERITIES)

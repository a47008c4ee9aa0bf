"""Print the groups of `verify --summary-by` as a table, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.grid import grid_lines
from kdump.output.progress import size_text

if TYPE_CHECKING:
    from kdump.findings.rows import Row

_SHOWN = 40
_TAIL = 24  # of a data directory's path
_LEAST = {"broker": _TAIL + 3, "topic": 12}
_SEVERITIES = ("damage", "rebuild", "note")


def group_lines(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield a compact table of the groups; of very many the worst, and how many there are."""
    if not rows:
        return
    words = [word for word in ("broker", "topic") if word in rows[0].fields]
    columns = [
        *(Column(word, cuts=True, folds=True, least=_LEAST[word]) for word in words),
        Column("partitions", right=True, rank=1),
        Column("size", right=True, rank=2),
        *(Column(word, right=True) for word in _SEVERITIES),
        Column("codes", cuts=True, folds=True, least=12, rank=3),
    ]
    ordered = sorted(rows, key=_badness, reverse=True)[:_SHOWN]
    cells = [_cells(row.fields, words) for row in ordered]
    yield from grid_lines(columns, cells, width)
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN:,} more, none worse; --format jsonl lists them"


def _badness(row: Row) -> tuple[int, ...]:
    found: Any = row.fields["findings"]
    return tuple(found[word] for word in _SEVERITIES)


def _cells(fields: dict[str, Any], words: Sequence[str]) -> tuple[str, ...]:
    found, codes = fields["findings"], fields["codes"]
    names = ["-" if fields[word] is None else visible(fields[word]) for word in words]
    if "broker" in words:
        if len(names[0]) > _TAIL:  # what tells paths apart stands at their end
            names[0] = "…" + names[0][1 - _TAIL :]
        if fields["node_id"] is not None:
            names[0] = f"{visible(fields['node_id'])}: {names[0]}"
    return (
        *names,
        f"{fields['partitions']:,}",
        size_text(fields["bytes"]),
        *(f"{found[word]:,}" if found[word] else "-" for word in _SEVERITIES),
        ", ".join(code if count == 1 else f"{count:,} {code}" for code, count in codes.items()),
    )

"""The table of findings as rows."""

from __future__ import annotations

from kdump.output.column_widths import Column, folding_column, number
from kdump.output.row_tables import Tables
from kdump.rows.finding import FindingRow


def _place(row: FindingRow) -> str:
    at = [str(row.topic) + f"-{row.partition}"] if row.topic is not None else [row.path]
    at += [f"segment {row.segment}"] if row.segment is not None else []
    at += [f"position {row.position}"] if row.position is not None else []
    return ", ".join(at)


_FINDING: tuple[Column[FindingRow], ...] = (
    Column("severity", lambda row: row.severity),
    Column("code", lambda row: row.code),
    folding_column("where", _place, 16),
    number("offset", rank=1),
    folding_column("message", lambda row: row.message, 24),
)
TABLES: Tables = {FindingRow: _FINDING}

"""The table of `schema`."""

from __future__ import annotations

from kdump.output.column_widths import Column, folding_column
from kdump.output.row_tables import Tables
from kdump.rows.schema import SchemaField

_SCHEMA: tuple[Column[SchemaField], ...] = (
    Column("kind", lambda row: row.kind),
    Column("member", lambda row: row.field),
    Column("type", lambda row: f"{row.type} {row.unit}".rstrip()),
    Column("null", lambda row: "may be" if row.null else "", rank=1),
    folding_column("meaning", lambda row: row.meaning, 24),
)
TABLES: Tables = {SchemaField: _SCHEMA}

"""The tables of what the topics of a registry and of Connect add up to."""

from __future__ import annotations

from kdump.findings.escape import json_text
from kdump.output.column_widths import Columns, folding_column, number, short
from kdump.output.row_tables import Tables
from kdump.rows.by_schema import ConnectorOffsetRow, ConnectorRow, SchemaRow, TaskRow


def _references(row: SchemaRow) -> str:
    return ", ".join(f"{one['subject']} {one['version']}" for one in row.references)


def _of_connector(row: ConnectorRow) -> str:
    parts = ["deleted"] if row.deleted else []
    if isinstance(row.config, dict):
        parts.append(str(row.config.get("connector.class", "")).rpartition(".")[2])
    return ": ".join((*parts, row.trace.partition("\n")[0]) if row.trace else parts)


_SCHEMA: Columns = (
    folding_column("subject", lambda row: row.subject, 16),
    number("version"),
    number("id"),
    short("type", lambda row: row.type),
    short("state", lambda row: row.state),
    number("offset", rank=2),
    folding_column("refers to", _references, 12, 1),
)
_CONNECTOR: Columns = (
    folding_column("connector", lambda row: row.connector, 12),
    short("state", lambda row: row.state or "-"),
    short("asked for", lambda row: row.target_state or "", 2),
    short("worker", lambda row: row.worker_id or "-", 1),
    number("tasks", absent="-"),
    folding_column("note", _of_connector, 20),
)
_TASK: Columns = (
    folding_column("connector", lambda row: row.connector, 12),
    number("task"),
    short("state", lambda row: row.state or "-"),
    short("worker", lambda row: row.worker_id or "-", 1),
    folding_column("note", lambda row: (row.trace or "").partition("\n")[0], 20),
)
_OFFSET: Columns = (
    folding_column("connector", lambda row: row.connector, 12),
    folding_column("part of the source", lambda row: json_text(row.source_partition), 20),
    folding_column("offset", lambda row: json_text(row.source_offset), 12),
)
TABLES: Tables = {
    SchemaRow: _SCHEMA,
    ConnectorRow: _CONNECTOR,
    TaskRow: _TASK,
    ConnectorOffsetRow: _OFFSET,
}

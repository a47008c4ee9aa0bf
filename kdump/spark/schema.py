"""The views of the data source and their columns, as Spark's DDL has them.

`records` begins as Spark's own Kafka source does, names and types, so that a query written for a
topic reads a directory. What Spark's source does not have follows, under the names of our rows.
"""

from __future__ import annotations

from kdump.findings.schema import BATCH, PRE08, RECORD, SAID, types_of

#: Types of rows -> types of Spark's SQL.
_SQL = {
    "dictionary": "string",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint32": "bigint",
    "bool": "boolean",
    "headers": "array<struct<key:string,value:binary>>",
}
_AS_KAFKA = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
_MADE = {"timestamp": "timestamp", "timestampType": "int"}
_FINDINGS = """
    code string, severity string, path string, topic string, partition int, segment bigint,
    position bigint, size_bytes bigint, offset bigint, expected string, actual string,
    message string, consequences array<string>, lost_at_least bigint, lost_at_most bigint,
    next_offset bigint, engine_version string, served_from bigint, skipped_by_seek bigint,
    served_by string
"""
_INDEX_ENTRIES = """
    row string, topic string, partition int, segment bigint, slot bigint, offset bigint,
    position bigint, timestamp_ms bigint, path string
"""


def _records() -> str:
    kinds = types_of((*RECORD, *PRE08))
    names = (*_AS_KAFKA, *(name for name in kinds if name not in _AS_KAFKA))
    return ", ".join(f"{name} {_MADE.get(name) or _sql(kinds[name])}" for name in names)


def _sql(kind: str) -> str:
    return _SQL.get(kind, kind)


def _batches() -> str:
    return ", ".join(f"{field.name} {_sql(field.type)}" for field in BATCH)


#: View -> DDL.
VIEWS = {
    "records": f"{_records()}, path string",
    "batches": f"{_batches()}, path string",
    "findings": " ".join(_FINDINGS.split()),
    "index-entries": " ".join(_INDEX_ENTRIES.split()),
}

#: What `records` has beside where internal topics are decoded.
SAID_COLUMNS = "".join(f", {field.name} {_sql(field.type)}" for field in SAID)

#: Columns that are made of a column of our rows.
MADE_OF = {"timestamp": "timestamp_ms", "timestampType": "timestamp_type"}


def ddl_of(view: str, *, decode: bool = False) -> str:
    """Return the columns of a view in Spark's DDL."""
    return VIEWS[view] + (SAID_COLUMNS if decode and view == "records" else "")


def columns_of(view: str, *, decode: bool = False) -> dict[str, str]:
    """Return the columns of a view with their types, as Spark abbreviates them."""
    types = {}
    for column in ddl_of(view, decode=decode).split(", "):
        name, kind = column.split(" ", 1)
        types[name] = kind
    return types

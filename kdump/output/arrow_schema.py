"""The columns of each kind of row in Parquet and Arrow files, from the schema of rows.

`control` is JSON text. Import of PyArrow happens here only when a function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.schema import BATCH, PRE08, RECORD, SAID
from kdump.rows.field import types_of
from kdump.rows.row import LooseRow

if TYPE_CHECKING:
    from kdump.rows.row import Row

RECORD_TYPES = types_of((*RECORD, *PRE08))
#: Where keys and values of internal topics are said and not given as bytes.
DECODED_TYPES = RECORD_TYPES | types_of(SAID)
BATCH_TYPES = types_of(BATCH)
#: What Parquet and Spark's table have of records as Spark's Kafka source names it: each is made of
#: one of our columns, so that a query written for a topic runs on a dump.
AS_KAFKA = {"timestamp": "timestamp_ms", "timestampType": "timestamp_type"}
AS_KAFKA_TYPES = {"timestamp": "milliseconds", "timestampType": "int32"}

#: Members of entry rows that are text; `property` and checkpoint rows have some. All else is int64.
_OF_ALL = ("topic", "partition", "segment")
_TEXT = frozenset(("name", "value", "file", "path", "key", "topic_id", "source"))


def arrow_type(word: str) -> Any:
    """Return the PyArrow type behind a word of the tables above."""
    import pyarrow as pa

    if word == "dictionary":
        return pa.dictionary(pa.int32(), pa.string())
    if word == "headers":
        pair = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
        return pa.list_(pa.field("element", pa.struct(pair), nullable=False))
    if word == "bool":
        return pa.bool_()
    if word == "json":
        return pa.string()
    if word.startswith("list<"):
        return pa.list_(arrow_type(word[5:-1]))
    if word == "milliseconds":
        return pa.timestamp("ms", tz="UTC")
    return getattr(pa, word)()


def schema_of(types: dict[str, str]) -> Any:
    """Return the PyArrow schema for a table of types."""
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(word)) for name, word in types.items()])


def entry_types(row: Row) -> dict[str, str]:
    """Return the types of a row's members: as its kind declares them, else by names and values."""
    if not isinstance(row, LooseRow):
        from kdump.rows.declared import members

        return types_of(members(type(row)))
    types = {}
    for name, value in row.fields.items():
        if name in _OF_ALL:
            types[name] = RECORD_TYPES[name]
        elif isinstance(value, bool):
            types[name] = "bool"
        elif name in _TEXT or isinstance(value, (str, bytes, dict, list, tuple)):
            types[name] = "string"
        else:
            types[name] = "int64"
    return types

"""The columns of each kind of row in Parquet and Arrow files, from the schema of rows.

`control` is JSON text. Import of PyArrow happens here only when a function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.schema import BATCH, MARKS, PRE08, RECORD, SAID
from kdump.rows.declarations import Field, types_of

if TYPE_CHECKING:
    from kdump.rows.row import Row

RECORD_TYPES = types_of((*RECORD, *PRE08, *MARKS))
#: Where keys and values of internal topics are said and not given as bytes.
DECODED_TYPES = RECORD_TYPES | types_of(SAID)
BATCH_TYPES = types_of(BATCH)
#: What Parquet and Spark's table have of records as Spark's Kafka source names it: each is made of
#: one of our columns, so that a query written for a topic runs on a dump.
AS_KAFKA = {"timestamp": "timestamp_ms", "timestampType": "timestamp_type"}
AS_KAFKA_TYPES = {"timestamp": "milliseconds", "timestampType": "int32"}

#: Members with one dictionary for all rows of a file.
_CLOSED = ("topic", "codec", "timestamp_type", "format")


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


def types_of_kind(kind: type[Row]) -> dict[str, str]:
    """Return the types of the members of a kind of row.

    Texts out of few are plain texts, but for those whose words are known: an Arrow file has one
    dictionary for a column, and rows come in batches.
    """
    from kdump.rows.declarations import members

    return {field.name: "string" if _is_open(field) else field.type for field in members(kind)}


def _is_open(field: Field) -> bool:
    return field.type == "dictionary" and field.name not in _CLOSED

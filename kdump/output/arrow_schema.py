"""The columns of each kind of row in Parquet and Arrow files, and their types.

Types are the narrowest that hold the format's own field; a member that may be null in JSON is null
here. Times stay integer milliseconds. `control` is JSON text. Import of PyArrow happens here only
when a function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.findings.rows import Row

_PLACE = {"topic": "dictionary", "partition": "int32", "segment": "int64"}

RECORD_TYPES = _PLACE | {
    "position": "int64",
    "magic": "int8",
    "codec": "dictionary",
    "offset": "int64",
    "timestamp_ms": "int64",
    "timestamp_type": "dictionary",
    "leader_epoch": "int32",
    "producer_id": "int64",
    "producer_epoch": "int16",
    "sequence": "int32",
    "transactional": "bool",
    "control": "string",
    "key": "binary",
    "value": "binary",
    "headers": "headers",
    "format": "dictionary",
    "next_offset": "int64",
}

BATCH_TYPES = _PLACE | {
    "position": "int64",
    "size_bytes": "int64",
    "magic": "int8",
    "codec": "dictionary",
    "base_offset": "int64",
    "last_offset": "int64",
    "records_count": "int32",
    "crc": "uint32",
    "crc_valid": "bool",
    "timestamp_type": "dictionary",
    "base_timestamp_ms": "int64",
    "max_timestamp_ms": "int64",
    "leader_epoch": "int32",
    "producer_id": "int64",
    "producer_epoch": "int16",
    "base_sequence": "int32",
    "last_sequence": "int32",
    "transactional": "bool",
    "control": "bool",
    "delete_horizon_ms": "int64",
}

#: Members of entry rows that are text; `property` and checkpoint rows have some. All else is int64.
_TEXT = frozenset(("topic", "name", "value", "file", "path", "key", "topic_id", "source"))


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
    return getattr(pa, word)()


def schema_of(types: dict[str, str]) -> Any:
    """Return the PyArrow schema for a table of types."""
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(word)) for name, word in types.items()])


def entry_types(row: Row) -> dict[str, str]:
    """Return the types of an entry row's members, going by their names and values."""
    types = {}
    for name, value in row.fields.items():
        if name in _PLACE:
            types[name] = _PLACE[name]
        elif isinstance(value, bool):
            types[name] = "bool"
        elif name in _TEXT or isinstance(value, (str, bytes, dict, list, tuple)):
            types[name] = "string"
        else:
            types[name] = "int64"
    return types

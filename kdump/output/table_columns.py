"""The columns of each table, and the cells of each row.

Four nothings stay four: null is `∅`, empty is `''`, what this format version does not have is `-`,
and what could not be read is `?`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kdump.findings.rows import BatchRow, JsonText, Place, RecordRow, Row
from kdump.output.amounts import time_cell
from kdump.output.column_widths import Column, Columns, member_of
from kdump.output.escape import visible, visible_bytes
from kdump.output.row_tables import has_own_columns, own_columns, span_text
from kdump.output.values import AUTO, bytes_text
from kdump.rows.reindex import Reindex

#: Cells of a key or value of which no more than a part has room.
VALUE_WIDTH = 256
NULL, EMPTY, ABSENT, UNREADABLE = "∅", "''", "-", "?"
#: A text is not cut or broken to less; the last columns are left out instead.
_NARROWEST = 16

RECORD_COLUMNS: Columns = (
    Column("offset", right=True),
    Column("time"),
    Column("note", rank=1),
    Column("key", cuts=True, least=8),
    Column("value", cuts=True, least=16),
)
BATCH_COLUMNS: Columns = (
    Column("offsets", right=True),
    Column("position", right=True),
    Column("size", right=True),
    Column("count", right=True),
    Column("codec", rank=2),
    Column("v", right=True, rank=4),
    Column("crc"),
    Column("producer", rank=3),
    Column("note", rank=1),
    Column("latest time", rank=5),
)


def cell_bytes(data: bytes | None, mode: int, width: int) -> str:
    """Write a key or a value for a cell `width` wide; what cannot be seen is not looked at."""
    if data is None:
        return NULL
    if not data:
        return EMPTY
    start = data if len(data) <= 4 * width + 8 else data[: 4 * width + 8]
    as_text = mode == AUTO or isinstance(data, JsonText)
    text = visible_bytes(start) if as_text else visible(bytes_text(start, mode))
    # A value that looks like one of our own marks is quoted, so that it is not taken for it.
    return f'"{text}"' if text in (NULL, EMPTY) else text


def shorten(record: RecordRow, width: int) -> RecordRow:
    """Replace JSON by what has room: of internal topics key fields, type and value fields.

    Of what was written by a schema the data, or why there is none.
    """
    value, kind = record.value, ""
    if (data := _data_by_schema(record.key)) is not None:
        record = record._replace(key=data)
    if (data := _data_by_schema(value)) is not None:
        return record._replace(value=data)
    if (typed := _type_and_fields(record.key, width)) is not None:
        kind, fields = typed
        record = record._replace(key=_shown_text(map(_plain, fields.values())))
    if value is None and kind:
        return record._replace(value=_shown_text((kind, NULL)))
    if (typed := _type_and_fields(value, width)) is not None:
        kind, fields = typed
        parts = (f"{name}={_plain(field)}" for name, field in fields.items())
        return record._replace(value=_shown_text((kind, *parts)))
    return record


def _data_by_schema(text: bytes | None) -> JsonText | None:
    found: Any = text.value() if isinstance(text, JsonText) else None
    if not isinstance(found, dict) or not found.keys() & {"schema", "why"}:
        return None
    if "why" in found:
        return _shown_text(("✗", str(found["why"])))
    return _shown_text((_plain(found["data"]),)) if "data" in found else None


def _type_and_fields(text: bytes | None, width: int) -> tuple[str, dict[str, Any]] | None:
    found: Any = text.value() if isinstance(text, JsonText) else None
    if not isinstance(found, dict) or not isinstance(kind := found.pop("type", None), str):
        return None  # bytes, or JSON of another decoder
    found.pop("version", None)
    data = found.pop("data", {})
    # The types of group records differ only after the first 15 characters.
    kind = kind.replace("_group_", "_") if width < 100 else kind
    return kind, {**(data if isinstance(data, dict) else {"data": data}), **found}


def _shown_text(parts: Iterable[str]) -> JsonText:
    return JsonText(visible(" ".join(parts)).encode())


def record_cells(record: RecordRow, mode: int, width: int) -> tuple[str, ...]:
    """Return the cells of one record, in the order of RECORD_COLUMNS."""
    notes = []
    if record.transactional:
        notes.append("txn")
    if record.headers:
        notes.append(f"{len(record.headers)}h")
    if record.crc_valid is not None:
        notes.append("crc")
    if record.inner_codec is not None:
        notes.append("nested")
    if record.crc_valid is not None or record.inner_codec is not None:
        notes.append("✗")
    control = record.control
    if control is not None:
        notes.append("ctl")
        key = str(control.get("type", UNREADABLE))
        value = " ".join(
            f"{name}={_plain(value)}"
            for name, value in control.items()
            if name not in ("type", "version")
        )
        if record.producer_id is not None and record.producer_id >= 0:
            value = f"producer {record.producer_id}/{record.producer_epoch} {value}"
        key, value = visible(key), visible(value)
    else:
        key = cell_bytes(record.key, mode, width)
        value = cell_bytes(record.value, mode, width)
    time = time_cell(record.timestamp_ms)
    return (str(record.offset), time, " ".join(notes), key, value)


def batch_cells(batch: BatchRow) -> tuple[str, ...]:
    """Return the cells of one batch header, in the order of BATCH_COLUMNS."""
    first, last = batch.base_offset, batch.last_offset
    notes = []
    if batch.transactional:
        notes.append("txn")
    if batch.control:
        notes.append("ctl")
    if batch.delete_horizon_ms is not None:
        notes.append("horizon")
    producer = ABSENT
    if batch.producer_id is not None:
        producer = f"{batch.producer_id}/{batch.producer_epoch}" if batch.producer_id >= 0 else ""
    return (
        span_text(first, last),
        str(batch.position),
        str(batch.size_bytes),
        UNREADABLE if batch.records_count is None else str(batch.records_count),
        batch.codec,
        str(batch.magic),
        "ok" if batch.crc_valid else "✗",
        producer,
        " ".join(notes),
        time_cell(batch.max_timestamp_ms),
    )


def damaged_cells(batch: BatchRow) -> tuple[str, ...]:
    """Return the cells of a batch whose records cannot be read, among records."""
    count = UNREADABLE if batch.records_count is None else batch.records_count
    what = f"✗ {count} records in {batch.size_bytes:,} bytes at position {batch.position:,}"
    if not batch.crc_valid:
        what += f", stored crc {batch.crc:08x} is wrong"
    return (batch_cells(batch)[0], time_cell(batch.max_timestamp_ms), "✗", UNREADABLE, what)


#: Shown once above the rows, not in each of them.
_PLACE = ("topic", "partition", "segment")


def place_of_row(row: Row) -> Place | None:
    """Return the place that goes above an entry row: its file, or its partition and segment."""
    if isinstance(row, Reindex):
        return Place(row.topic, row.partition, None, "" if row.topic else row.path)
    if has_own_columns(row):  # with the name of the partition among them
        return None
    fields: dict[str, Any] = row.fields
    if isinstance(fields.get("file"), str):
        return Place(None, None, None, fields["file"])
    topic, partition, segment = map(fields.get, _PLACE)
    return Place(topic, partition, segment, "") if "topic" in fields else None


def row_columns(row: Row, mode: int, width: int = VALUE_WIDTH) -> Columns:
    """Return the columns of an entry row: its own members, numbers to the right, the first stay.

    What is cut is cut later; `width` says how much of a value can be seen at all.
    """
    columns = own_columns(row, lambda key: cell_bytes(key, mode, width))
    if columns is not None:
        return columns
    above = ("file",) if "file" in row.fields else _PLACE
    return tuple(
        _member_column(name, value, mode, width)._replace(rank=rank)
        for rank, (name, value) in enumerate(
            (name, value) for name, value in row.fields.items() if name not in above
        )
    )


def _member_column(name: str, value: object, mode: int, width: int) -> Column[Any]:
    is_time = name.endswith("_ms")
    is_text = value is not None and not isinstance(value, int)

    def cell(row: Any) -> str:
        value = member_of(row, name)
        if is_time and (value is None or isinstance(value, int)):
            return time_cell(value)
        return _value_cell(value, mode, width)

    return Column(
        name.removesuffix("_ms"),
        cell,
        right=not is_text and not is_time,
        cuts=is_text,
        folds=True,
        least=_NARROWEST,
    )


def _value_cell(value: object, mode: int, width: int) -> str:
    if isinstance(value, bytes):
        return cell_bytes(value, mode, width)
    return NULL if value is None else visible(_plain(value)) or EMPTY


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list, tuple)):
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return "" if value is None else str(value)

"""The columns of each table, and the cells of each row: what a person is shown of a record.

Four nothings stay four: null is `∅`, empty is `''`, what this format version does not have is `-`,
and what could not be read is `?`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.escape import visible, visible_bytes
from kdump.output.layout import Column
from kdump.output.times import time_text
from kdump.output.values import AUTO, bytes_text

if TYPE_CHECKING:
    from kdump.engine.rows import BatchRow, Pre08Row, RecordRow, Row

NULL, EMPTY, ABSENT, UNREADABLE = "∅", "''", "-", "?"

RECORD_COLUMNS = (
    Column("offset", right=True),
    Column("time"),
    Column("note", rank=1),
    Column("key", cuts=True, least=8),
    Column("value", cuts=True, least=16),
)
BATCH_COLUMNS = (
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
    return visible_bytes(start) if mode == AUTO else visible(bytes_text(start, mode))


def _time_cell(timestamp_ms: int | None) -> str:
    return ABSENT if timestamp_ms is None else time_text(timestamp_ms)


def record_cells(record: RecordRow | Pre08Row, mode: int, width: int) -> tuple[str, ...]:
    """Return the cells of one record, in the order of RECORD_COLUMNS."""
    notes = []
    if record.transactional:
        notes.append("txn")
    if record.headers:
        notes.append(f"{len(record.headers)}h")
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
    time = _time_cell(record.timestamp_ms)
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
        f"{last}"
        if first == last
        else f"{UNREADABLE if first is None else first}\N{EN DASH}{last}",
        str(batch.position),
        str(batch.size_bytes),
        UNREADABLE if batch.records_count is None else str(batch.records_count),
        batch.codec,
        str(batch.magic),
        "ok" if batch.crc_valid else "✗",
        producer,
        " ".join(notes),
        _time_cell(batch.max_timestamp_ms),
    )


#: Shown once above the rows, not in each of them.
_PLACE = ("topic", "partition", "segment")


def row_columns(row: Row) -> tuple[Column, ...]:
    """Return the columns of an entry row: its own members, numbers to the right."""
    return tuple(
        Column(
            name.removesuffix("_ms") if name.endswith("_ms") else name,
            right=isinstance(value, int),
            cuts=not isinstance(value, int),
            least=8,
        )
        for name, value in row.fields.items()
        if not (name in _PLACE and is_heading(row))
    )


def is_heading(row: Row) -> bool:
    """Say whether a row's place goes into a heading: it is about one file of one partition."""
    return "topic" in row.fields and row.row != "checkpoint-offset"


def row_cells(row: Row, mode: int) -> tuple[str, ...]:
    """Return the cells of an entry row, in the order of its `row_columns`."""
    skip = is_heading(row)
    return tuple(
        _time_cell(value)
        if name.endswith("_ms") and (value is None or isinstance(value, int))
        else _value_cell(value, mode)
        for name, value in row.fields.items()
        if not (name in _PLACE and skip)
    )


def _value_cell(value: object, mode: int) -> str:
    if isinstance(value, bytes):
        return cell_bytes(value, mode, 64)
    return NULL if value is None else visible(_plain(value)) or EMPTY


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list, tuple)):
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return "" if value is None else str(value)

"""The columns of each table, and the cells of each row.

Four nothings stay four: null is `∅`, empty is `''`, what this format version does not have is `-`,
and what could not be read is `?`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.rows import Place
from kdump.output.column_widths import Column
from kdump.output.escape import visible, visible_bytes
from kdump.output.reindex_cells import REINDEX_COLUMNS, reindex_cells
from kdump.output.sequence_cells import (
    SEQUENCE_COLUMNS,
    SEQUENCE_ROWS,
    sequence_cells,
    sequence_summary,
)
from kdump.output.times import time_text
from kdump.output.usage_cells import usage_cells, usage_columns, usage_summary
from kdump.output.values import AUTO, bytes_text, number_cell

if TYPE_CHECKING:
    from kdump.findings.rows import BatchRow, Pre08Row, RecordRow, Row

#: Cells of a key or value of which no more than a part has room.
VALUE_WIDTH = 256
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


_LOOKUP_COLUMNS = (
    Column("partition", cuts=True, folds=True, least=14),
    Column("offset", right=True),
    Column("time"),
    Column("segment", right=True),
    Column("position", right=True, rank=1),
)
LOOKUP_COLUMNS = {
    "offset-lookup": (
        *_LOOKUP_COLUMNS,
        Column("batch", right=True, rank=2),
        Column("note", cuts=True, folds=True, least=20),
    ),
    "time-lookup": (
        *_LOOKUP_COLUMNS,
        Column("epoch", right=True, rank=2),
        Column("note", cuts=True, folds=True, least=20),
    ),
}


#: Rows that are shown in lines, not in a table.
SUMMARIES = {"usage-summary": usage_summary, "sequence-summary": sequence_summary}


def lookup_cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a lookup, in the order of LOOKUP_COLUMNS."""
    fields = row.fields
    offset, last = fields["offset"], fields.get("last_offset")
    notes = []
    if fields.get("error"):
        notes.append(str(fields["error"]))
    if "scan_offset" in fields and fields["scan_offset"] != offset:
        scanned = fields["scan_offset"]
        notes.append(f"a scan finds {'none' if scanned is None else scanned}")
    if fields.get("next_offset") is not None:
        served = fields["served_from"]
        where = "not served behind it" if served is None else f"served again from {served}"
        notes.append(f"damage: on disk again from {fields['next_offset']}, {where}")
    offsets = fields.get("offsets")
    if isinstance(offsets, list) and len(offsets) > 1:
        notes.append("then " + " ".join(map(str, offsets[1:])))
    time_ms = fields["timestamp_ms"]
    first = fields.get("base_offset")
    return (
        visible(partition_text(row)),
        "none" if offset is None else str(offset),
        _time_cell(time_ms if isinstance(time_ms, int) else None),
        number_cell(fields["segment"]),
        number_cell(fields["position"]),
        number_cell(fields["leader_epoch"])
        if row.row == "time-lookup"
        else ABSENT
        if last is None
        else f"{UNREADABLE if first is None else first}\N{EN DASH}{last}",
        visible("; ".join(notes)),
    )


def partition_text(row: Row) -> str:
    """Name a row's partition."""
    topic = row.fields["topic"]
    return UNREADABLE if topic is None else f"{topic}-{row.fields['partition']}"


def cell_bytes(data: bytes | None, mode: int, width: int) -> str:
    """Write a key or a value for a cell `width` wide; what cannot be seen is not looked at."""
    if data is None:
        return NULL
    if not data:
        return EMPTY
    start = data if len(data) <= 4 * width + 8 else data[: 4 * width + 8]
    text = visible_bytes(start) if mode == AUTO else visible(bytes_text(start, mode))
    # A value that looks like one of our own marks is quoted, so that it is not taken for it.
    return f'"{text}"' if text in (NULL, EMPTY) else text


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


def damaged_cells(batch: BatchRow) -> tuple[str, ...]:
    """Return the cells of a batch whose records cannot be read, among records."""
    count = UNREADABLE if batch.records_count is None else batch.records_count
    what = f"✗ {count} records in {batch.size_bytes:,} bytes at position {batch.position:,}"
    if not batch.crc_valid:
        what += f", stored crc {batch.crc:08x} is wrong"
    return (batch_cells(batch)[0], _time_cell(batch.max_timestamp_ms), "✗", UNREADABLE, what)


#: Shown once above the rows, not in each of them.
_PLACE = ("topic", "partition", "segment")


def place_of_row(row: Row) -> Place | None:
    """Return the place that goes above an entry row: its file, or its partition and segment."""
    fields = row.fields
    if row.row in LOOKUP_COLUMNS or row.row == "usage" or row.row in SEQUENCE_ROWS:
        return None
    if row.row == "reindex":
        place = place_of_fields(fields)
        return place._replace(segment=None, path="" if place.topic else str(fields["path"]))
    file = fields.get("file")
    if isinstance(file, str):
        return Place(None, None, None, file)
    return place_of_fields(fields) if "topic" in fields else None


def place_of_fields(fields: dict[str, object]) -> Place:
    """Return the partition and segment that a row names."""
    topic, partition, segment = (fields.get(name) for name in _PLACE)
    return Place(
        topic if isinstance(topic, str) else None,
        partition if isinstance(partition, int) else None,
        segment if isinstance(segment, int) else None,
        "",
    )


def _shown(row: Row) -> list[tuple[str, object]]:
    """Return the members that stand in the row itself."""
    above = ("file",) if "file" in row.fields else _PLACE
    return [(name, value) for name, value in row.fields.items() if name not in above]


def row_columns(row: Row) -> tuple[Column, ...]:
    """Return the columns of an entry row: its own members, numbers to the right."""
    if row.row in LOOKUP_COLUMNS:
        return LOOKUP_COLUMNS[row.row]
    if row.row == "reindex":
        return REINDEX_COLUMNS
    if row.row == "usage":
        return usage_columns(row)
    if row.row in SEQUENCE_ROWS:
        return SEQUENCE_COLUMNS
    columns = []
    for name, value in _shown(row):
        text = value is not None and not isinstance(value, int)
        time = name.endswith("_ms")
        columns.append(
            Column(
                name.removesuffix("_ms"),
                right=not text and not time,
                cuts=text,
                folds=True,
                least=8,
            )
        )
    return tuple(columns)


def row_cells(row: Row, mode: int, width: int = VALUE_WIDTH) -> tuple[str, ...]:
    """Return the cells of an entry row, in the order of its `row_columns`.

    What is cut is cut later; `width` says how much of a value can be seen at all.
    """
    if row.row in LOOKUP_COLUMNS:
        return lookup_cells(row)
    if row.row == "reindex":
        return reindex_cells(row)
    if row.row == "usage":
        return usage_cells(row, lambda key: cell_bytes(key, mode, width))
    if row.row in SEQUENCE_ROWS:
        return sequence_cells(row)
    return tuple(
        _time_cell(value)
        if name.endswith("_ms") and (value is None or isinstance(value, int))
        else _value_cell(value, mode, width)
        for name, value in _shown(row)
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

"""The table of requests and responses in a capture."""

from __future__ import annotations

from kdump.output.amounts import count_text, number_text, size_text, time_cell
from kdump.output.column_widths import Column, amount, folding_column, number
from kdump.output.row_tables import Tables, name_of
from kdump.rows.frames import Frame

_WAYS = {"request": "→", "response": "←"}


def _partition(row: Frame) -> str:
    if row.partition is None:
        return ""
    return name_of(row) if row.topic is not None else f"{row.topic_id or '?'}-{row.partition}"


def _client(row: Frame) -> str:
    end = row.source if row.direction == "request" else row.destination
    return row.client_id or end or ""


def _content(row: Frame) -> str:
    """Write what a frame says of its partition."""
    words = []
    if row.error is not None:
        words.append(row.error)
    if row.acks is not None:
        words.append(f"acks {'all' if row.acks == -1 else row.acks}")
    if row.offset is not None and row.offset >= 0:
        words.append(f"offset {row.offset:,}")
    for name, value in (
        ("time", row.timestamp_ms),
        ("high watermark", row.high_watermark),
        ("at most", row.max_bytes),
    ):
        if value is not None and value != -1:
            words.append(f"{name} {value:,}")
    if row.offsets:
        words.append(f"offsets {', '.join(map(str, row.offsets))}")
    if row.records_bytes:
        batches = "" if row.batches is None else f"{count_text(row.batches, 'batch')}, "
        words.append(f"{batches}{size_text(row.records_bytes)}")
    if row.cut_bytes:
        words.append(f"cut: {row.cut_bytes:,}")
    return " · ".join(words)


TABLES: Tables = {
    Frame: (
        number("frame", "number"),
        Column("time", lambda row: time_cell(row.at_ms), rank=4),
        folding_column("client", _client, 16, rank=2),
        Column("", lambda row: _WAYS.get(row.direction, "?")),
        Column("api", lambda row: row.api or "?"),
        amount("version", lambda row: number_text(row.version, "-"), rank=3),
        amount("id", lambda row: number_text(row.correlation_id, "-"), rank=3),
        folding_column("partition", _partition, 16),
        folding_column("content", _content, 24),
        amount("bytes", lambda row: number_text(row.size_bytes), rank=5),
    )
}

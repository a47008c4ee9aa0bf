"""The table of what a broker answers to batches that are sent to it."""

from __future__ import annotations

from kdump.output.amounts import number_text, time_cell
from kdump.output.column_widths import Column, Columns, amount, folding_column, number
from kdump.output.row_tables import Tables, name_of, oldest_text, release_title, span_text
from kdump.rows.verify import Append


def answer_text(row: Append) -> str:
    """Write the answer in a word."""
    if row.duplicate:
        return "duplicate"
    return "accepted" if row.accepted else row.error or "refused"


def _each(name: str, row: Append) -> str:
    values = dict.fromkeys(str(one.get(name)) for one in row.batches or ())
    return ", ".join(value for value in values if value != "None") or "-"


def _note(row: Append) -> str:
    notes = [] if row.frame is None else [f"frame {number_text(row.frame)}"]
    if row.reason:
        notes.append(row.reason)
    if row.rewritten:
        notes.append("written anew")
    if row.valid_bytes is not None and row.valid_bytes < row.sent_bytes:
        notes.append(f"{number_text(row.sent_bytes - row.valid_bytes)} bytes at the end dropped")
    if row.oldest:
        notes.append(oldest_text(row.oldest))
    return "; ".join(notes)


_APPEND: Columns = (
    folding_column("partition", name_of, 14),
    Column("answer", answer_text),
    amount("offsets", lambda row: span_text(row.first_offset, row.last_offset), 2),
    number("entries"),
    number("bytes", "size_bytes"),
    Column("magic", lambda row: _each("magic", row)),
    Column("codec", lambda row: _each("codec", row)),
    Column("timestamps", lambda row: _each("timestamp_type", row), rank=1),
    Column("append time", lambda row: time_cell(row.log_append_ms), rank=1),
    folding_column("note", _note, 20),
)
TABLES: Tables = {Append: _APPEND}
TITLES = dict.fromkeys(TABLES, release_title)

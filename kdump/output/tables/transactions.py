"""The table of `transactions`: whose they are, where they are open, and which hang."""

from __future__ import annotations

from kdump.findings.moments import span_text
from kdump.output.amounts import count_text, second_cell
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.row_tables import Tables
from kdump.rows.transactions import OpenIn, Transaction

_HANGS = {True: "yes", None: "?", False: ""}


def _producer(row: Transaction) -> str:
    return "-" if row.producer_id is None else f"{row.producer_id}/{row.producer_epoch}"


def _place(one: OpenIn) -> str:
    """Write where a transaction is open, and how long and large it is, as far as that is known."""
    parts = [f"{one['topic']}-{one['partition']} from {one['first_offset']}"]
    if one["records_count"] is not None:
        parts.append(count_text(one["records_count"], "record"))
    if one["age_ms"] is not None:
        parts.append(f"for {span_text(one['age_ms'])}")
    return ", ".join(parts)


_TRANSACTIONS: tuple[Column[Transaction], ...] = (
    folding_column(
        "id", lambda row: "-" if row.transactional_id is None else row.transactional_id, 8
    ),
    amount("producer", _producer),
    folding_column("state", lambda row: row.state or "-", 13),
    Column("hangs", lambda row: _HANGS[row.hanging]),
    folding_column("open in", lambda row: "; ".join(map(_place, row.open_in)) or "-", 14),
    Column("started", lambda row: second_cell(row.start_ms), rank=2),
    folding_column("why", lambda row: row.cause or "", 16, rank=1),
)
TABLES: Tables = {Transaction: _TRANSACTIONS}

"""The table of `transactions`: whose they are, where they are open, and which hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.moments import span_text
from kdump.output.amounts import counted, second_cell
from kdump.output.column_widths import Column, Columns, amount, folded

if TYPE_CHECKING:
    Fields = dict[str, Any]

_HANGS = {True: "yes", None: "?", False: ""}


def _name(fields: Fields) -> str:
    return "-" if fields["transactional_id"] is None else str(fields["transactional_id"])


def _producer(fields: Fields) -> str:
    if fields["producer_id"] is None:
        return "-"
    return f"{fields['producer_id']}/{fields['producer_epoch']}"


def _place(one: Fields) -> str:
    """Write where a transaction is open, and how long and large it is, as far as that is known."""
    parts = [f"{one['topic']}-{one['partition']} from {one['first_offset']}"]
    if one["records_count"] is not None:
        parts.append(counted(one["records_count"], "record"))
    if one["age_ms"] is not None:
        parts.append(span_text(one["age_ms"]))
    return ", ".join(parts)


COLUMNS: dict[str, Columns] = {
    "transaction": (
        folded("id", _name, 8),
        amount("producer", _producer),
        folded("state", lambda row: str(row["state"] or "-"), 13),
        Column("hangs", lambda row: _HANGS[row["hanging"]]),
        folded("open in", lambda row: "; ".join(map(_place, row["open_in"])) or "-", 14),
        Column("started", lambda row: second_cell(row["start_ms"]), rank=2),
        folded("why", lambda row: row["cause"] or "", 16, rank=1),
    )
}

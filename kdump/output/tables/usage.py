"""The table of `usage`: groups by size, and the lines below it."""

from __future__ import annotations

from kdump.output.amounts import count_text, number_text, second_cell, size_text
from kdump.output.column_widths import Column, Columns, amount, folding_column, number, partly
from kdump.output.row_tables import BytesCell, Summaries, Tables
from kdump.output.tables import placement
from kdump.rows.usage import Usage, UsageSummary

_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


def _usage(row: Usage, bytes_cell: BytesCell) -> Columns:
    """Return the columns of a row: its group, then the sums of that."""
    asked = row.asked_
    names: dict[str, Column[Usage]] = {
        "topic": folding_column("topic", lambda row: "-" if row.topic is None else row.topic, 12),
        "partition": number("partition"),
        "time_ms": Column("day" if "day" in row.by else "hour", _start),
        "producer_id": number("producer", "producer_id"),
        "codec": Column("codec", lambda row: row.codec or "-"),
        "key": Column("key", partly("key", bytes_cell), cuts=True, least=12),
    }
    by_key = "key" in asked

    def size(row: Usage) -> str:
        if by_key:
            return _size_cell(row.plain_bytes, row.plain_bytes_at_most)
        return _size_cell(row.size_bytes, row.size_bytes_at_most)

    return (
        *(column for member, column in names.items() if member in asked),
        amount("plain size" if by_key else "size", size),
        amount("share", lambda row: f"{row.share:.1%}"),
        Column("", lambda row: _bar(row.share_of_largest or row.share), rank=1),
        *([] if by_key else [amount("batches", lambda row: number_text(row.batches), 2)]),
        amount("records", lambda row: number_text(row.records_count)),
        Column("first time", lambda row: second_cell(row.first_timestamp_ms), rank=4),
        Column("last time", lambda row: second_cell(row.last_timestamp_ms), rank=3),
    )


def _start(row: Usage) -> str:
    """Write when a group begins; a day of UTC by its date."""
    text = second_cell(row.time_ms)
    return text.removesuffix("T00:00:00Z") if "day" in row.by else text


def _usage_summary(row: UsageSummary) -> list[str]:
    """Say in lines the sums of all groups, and what was not counted."""
    parts = [f"{_size(row.plain_bytes)} of keys, values and headers"]
    if row.batches is not None:
        parts = [_size(row.size_bytes), count_text(row.batches, "batch")]
    records = row.records_count
    parts.append("records unknown" if records is None else count_text(records, "record"))
    shown = ""
    if row.groups != row.listed:
        shown = f", {row.listed:,} of {number_text(row.groups, 'very many')} shown"
    lines = [f"total{shown}: {', '.join(parts)}"]
    if row.unopened_wrappers:
        lines.append(
            f"{count_text(row.unopened_wrappers, 'wrapper')} of magic 0 or 1 not opened; "
            "--deep counts what is inside"
        )
    if not row.exact:
        most = row.unlisted_size_bytes_at_most
        if row.batches is None:
            most = row.unlisted_plain_bytes_at_most
        lines.append(
            "Too many groups for memory: sizes are lower and upper bounds, records are lower bounds"
        )
        lines.append(f"no group that is omitted has more than {_size(most)}")
    if row.bytes_not_counted:
        lines.append(
            f"{_size(row.bytes_not_counted)} on disk not counted (damage); see the findings"
        )
    return lines


def _size(value: int | None) -> str:
    return "?" if value is None else size_text(value)


def _size_cell(least: int | None, most: int | None) -> str:
    return _size(least) if least == most else f"{_size(least)}\N{EN DASH}{_size(most)}"


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_CELLS * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


TABLES: Tables = {Usage: _usage, **placement.TABLES}
SUMMARIES: Summaries = {UsageSummary: _usage_summary, **placement.SUMMARIES}

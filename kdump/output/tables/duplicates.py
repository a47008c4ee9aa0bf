"""The table of `duplicates`: groups of copies, totals first."""

from __future__ import annotations

from collections.abc import Callable

from kdump.output.amounts import count_text, number_text, time_cell
from kdump.output.column_widths import Column, Columns, amount, folding_column, number, partly
from kdump.output.row_tables import BytesCell, Summaries, Tables
from kdump.rows.duplicates import Duplicate, DuplicatesSummary

Cell = Callable[[Duplicate], str]

_PARTS = ("key", "value", "header")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def _copies(row: Duplicate, bytes_cell: BytesCell) -> Columns:
    """Return the columns of a copy: what its group is stands at the first copy alone."""
    return (
        amount("group", _repeat_once(lambda row: number_text(row.group))),
        folding_column("partition", lambda row: f"{row.topic}-{row.partition}", 12)._replace(
            continues=True
        ),
        *(
            Column(part, _repeat_once(partly(part, bytes_cell)), cuts=True, least=10)
            for part in _PARTS
            if part in row.asked_
        ),
        amount("copies", _repeat_once(lambda row: number_text(row.copies)), 1),
        number("offset"),
        Column("time", lambda row: time_cell(row.timestamp_ms)),
        amount("after", _delay_text, 2),
        amount("producer", _producer),
        number("sequence", rank=3),
    )


def _repeat_once(cell: Cell) -> Cell:
    return lambda row: cell(row) if row.copy == 1 else ""


def _delay_text(row: Duplicate) -> str:
    after_ms = row.after_ms
    return "" if after_ms is None or row.copy == 1 else f"+{length_text(after_ms)}"


def _producer(row: Duplicate) -> str:
    whose = row.producer_id
    return "-" if whose is None else f"{whose}/{row.producer_epoch}"


def length_text(length_ms: int) -> str:
    """Write a length of time in its two largest units: 3m12s, 250ms."""
    if abs(length_ms) < 1000:
        return f"{length_ms}ms"
    sign, left = "-" if length_ms < 0 else "", abs(length_ms)
    parts: list[str] = []
    for size, unit in _UNITS:
        many, left = divmod(left, size)
        if many or parts:
            parts.append(f"{many}{unit}")
    first, *rest = parts[:2]
    return sign + first + "".join(part for part in rest if part[0] != "0")


def _summary(row: DuplicatesSummary) -> list[str]:
    """Say in lines what was found, and what was not compared."""
    by, records = row.by, count_text(row.records_count, "record")
    near = ""
    if row.within_ms is not None:
        near = f" within {length_text(row.within_ms)}"
    elif row.within_records is not None:
        near = f" within {count_text(row.within_records, 'record')}"
    if not row.groups:
        lines = [f"No two of {records} have the same {by}{near}"]
    else:
        groups = count_text(row.groups, "group")
        first = f"{groups} with the same {by}{near}: {row.copies:,} of {records}"
        extra = f"{row.extra_copies:,} of them repeats"
        across = f"groups that span several partitions: {row.groups_across_partitions:,}"
        several = f"groups with several producers: {row.groups_of_several_producers:,}"
        lines = [f"{first}, {extra}", f"{across}; {several}"]
    for many, words in (
        (row.records_without, "{} without a " + by.replace(",", " and a ") + ": not compared"),
        (row.records_without_time, "{} without a time: not compared"),
        (row.replica_copies, "{} under several paths, as replicas: counted once"),
    ):
        if many:
            lines.append(words.format(count_text(many, "record")))
    return lines


TABLES: Tables = {Duplicate: _copies}
SUMMARIES: Summaries = {DuplicatesSummary: _summary}

"""The table of `sequences --duplicates-by`: groups of copies, totals first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.output.amounts import counted, number_text, time_cell
from kdump.output.column_widths import Column, Columns, amount, folded, number, partly
from kdump.rows.duplicates import Duplicate

Fields = dict[str, Any]
Cell = Callable[[Duplicate], str]

_PARTS = ("key", "value", "header")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def columns(fields: Fields, bytes_cell: Callable[[bytes | None], str]) -> Columns:
    """Return the columns of a copy: what its group is stands at the first copy alone."""
    return (
        amount("group", _once(lambda row: number_text(row.group))),
        folded("topic", _once(lambda row: str(row.topic or "-")), 10),
        *(
            Column(part, _once(partly(part, bytes_cell)), cuts=True, least=10)
            for part in _PARTS
            if part in fields
        ),
        amount("copies", _once(lambda row: number_text(row.copies)), 1),
        number("partition"),
        number("offset"),
        Column("time", lambda row: time_cell(row.timestamp_ms)),
        amount("after", _after, 2),
        amount("producer", _producer),
        number("sequence", rank=3),
    )


def _once(cell: Cell) -> Cell:
    return lambda row: cell(row) if row.copy == 1 else ""


def _after(row: Duplicate) -> str:
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


def summary(fields: Fields) -> list[str]:
    """Say in lines what was found, and what was not compared."""
    by, records = fields["by"], counted(fields["records_count"], "record")
    near = ""
    if fields["within_ms"] is not None:
        near = f" within {length_text(fields['within_ms'])}"
    elif fields["within_records"] is not None:
        near = f" within {counted(fields['within_records'], 'record')}"
    if not fields["groups"]:
        lines = [f"No two of {records} have the same {by}{near}"]
    else:
        groups, copies = counted(fields["groups"], "group"), f"{fields['copies']:,}"
        first = f"{groups} with the same {by}{near}: {copies} of {records} are in one"
        extra = f"{fields['extra_copies']:,} repeat an earlier one"
        across = fields["groups_across_partitions"]
        whose = f"{fields['groups_of_several_producers']:,} of several producers"
        lines = [f"{first}, {extra}", f"of the groups {across:,} lie across partitions, {whose}"]
    for name, words in (
        ("records_without", "{} without a " + by.replace(",", " and a ") + ": not compared"),
        ("records_without_time", "{} without a time: not compared"),
        ("replica_copies", "{} under several paths, as replicas are: taken once"),
    ):
        if fields[name]:
            lines.append(words.format(counted(fields[name], "record")))
    return lines

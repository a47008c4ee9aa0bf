"""The table cells of `kdump usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.progress import counted, size_text
from kdump.output.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.findings.rows import Row

_NAMES = {
    "topic": Column("topic", cuts=True, folds=True, least=12),
    "partition": Column("partition", right=True),
    "producer_id": Column("producer", right=True),
    "codec": Column("codec"),
    "key": Column("key", cuts=True, least=12),
}
_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


def usage_columns(row: Row) -> tuple[Column, ...]:
    """Return the columns of a row: what its group is made of, then what it comes to."""
    names = (column for name, column in _NAMES.items() if name in row.fields)
    batches = (Column("batches", right=True, rank=2),) if "batches" in row.fields else ()
    return (
        *names,
        Column("size" if batches else "plain size", right=True),
        Column("share", right=True),
        Column("", rank=1),
        *batches,
        Column("records", right=True),
        Column("first time", rank=4),
        Column("last time", rank=3),
    )


def usage_cells(row: Row, bytes_cell: Callable[[bytes | None], str]) -> tuple[str, ...]:
    """Return the cells of one row, in the order of its columns."""
    fields = row.fields
    names = [_name_cell(name, fields, bytes_cell) for name in _NAMES if name in fields]
    of_batches = "batches" in fields
    size = "size_bytes" if of_batches else "plain_bytes"
    share = fields["share"]
    assert isinstance(share, float)
    cells = [
        *names,
        _size_cell(fields[size], fields[f"{size}_at_most"]),
        f"{share:.1%}",
        _bar(share),
    ]
    if of_batches:
        cells.append(_number_cell(fields["batches"]))
    cells.append(_number_cell(fields["records_count"]))
    cells += (_time_cell(fields[f"{which}_timestamp_ms"]) for which in ("first", "last"))
    return tuple(cells)


def usage_summary(row: Row) -> list[str]:
    """Say in lines what all groups come to, and what was not counted."""
    fields = row.fields
    of_batches = "batches" in fields
    size = fields["size_bytes" if of_batches else "plain_bytes"]
    parts = [f"{_size(size)}{'' if of_batches else ' of keys, values and headers'}"]
    if of_batches:
        parts.append(_counted(fields["batches"], "batch"))
    records = fields["records_count"]
    parts.append("records not known" if records is None else _counted(records, "record"))
    lines = [f"{_groups(fields)}: {', '.join(parts)}"]
    unopened = fields.get("unopened_wrappers")
    if unopened:
        lines.append(
            f"{_counted(unopened, 'wrapper')} of magic 0 or 1 not opened; "
            "--deep counts what is inside"
        )
    if not fields["exact"]:
        most = fields[f"unlisted_{'size' if of_batches else 'plain'}_bytes_at_most"]
        lines.append(
            "Too many groups to hold all: sizes are at least and at most, records at least"
        )
        lines.append(f"no group that is not shown has more than {_size(most)}")
    if fields["bytes_not_counted"]:
        lines.append(f"{_size(fields['bytes_not_counted'])} on disk not counted; see the findings")
    return lines


def _groups(fields: dict[str, object]) -> str:
    listed, groups = fields["listed"], fields["groups"]
    assert isinstance(listed, int)
    if groups == listed:
        return "in all"
    return (
        f"in all, {listed:,} of {f'{groups:,}' if isinstance(groups, int) else 'very many'} shown"
    )


def _name_cell(
    name: str, fields: dict[str, object], bytes_cell: Callable[[bytes | None], str]
) -> str:
    value = fields[name]
    if name == "key":
        assert value is None or isinstance(value, bytes)
        size = fields["key_size_bytes"]
        text = bytes_cell(value)
        if isinstance(size, int) and value is not None and size > len(value):
            text += f"… ({size:,} bytes)"
        return text
    return "-" if value is None else visible(str(value))


def _size(value: object) -> str:
    return size_text(value) if isinstance(value, int) else "?"


def _size_cell(least: object, most: object) -> str:
    return _size(least) if least == most else f"{_size(least)}\N{EN DASH}{_size(most)}"


def _counted(value: object, word: str) -> str:
    return counted(value, word) if isinstance(value, int) else f"? {word}s"


def _number_cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _time_cell(value: object) -> str:
    """Write a time to the second, which is enough here."""
    text = time_text(value) if isinstance(value, int) else "-"
    return f"{text[:-5]}Z" if text.endswith("Z") else text


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_CELLS * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()

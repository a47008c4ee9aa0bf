"""The tables of rows that have one of their own, which lie in `tables/`, and explained lookups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from kdump.findings.ranges import range_cell
from kdump.findings.rows import Row
from kdump.output.amounts import count_text, number_text, time_text
from kdump.output.column_widths import Columns, fold, pad, width_of
from kdump.output.escape import visible

if TYPE_CHECKING:
    from kdump.rows.find import FoundStep
    from kdump.rows.words import Oldest

#: Writes a key or value.
BytesCell: TypeAlias = Callable[[bytes | None], str]
#: Kind of row -> its columns, or what makes them for a row.
Tables: TypeAlias = Mapping[type[Row], Columns | Callable[[Any, BytesCell], Columns]]
#: Kind of row -> what shows it as lines, without a table.
Summaries: TypeAlias = Mapping[type[Row], Callable[[Any], list[str]]]


@cache
def _own(kind: type[Row]) -> tuple[Any, Any, Any, Any]:
    """Return the columns, lines, title, and paths of copies that a kind of row has of its own."""
    name = f"{__package__}.tables.{kind.__module__.rpartition('.')[2]}"
    if find_spec(name) is None:
        return None, None, "", _no_copies
    own = import_module(name)
    lines, titles = getattr(own, "SUMMARIES", {}), getattr(own, "TITLES", {})
    copies = getattr(own, "COPIES", {}).get(kind, _no_copies)
    return own.TABLES.get(kind), lines.get(kind), titles.get(kind, ""), copies


def _no_copies(row: Row) -> tuple[str, ...]:
    return ()


def has_own_columns(row: Row) -> bool:
    """Say whether a row has columns of its own, with the name of its partition among them."""
    return _own(type(row))[0] is not None


def are_in_one_table(row: Row, other: Row) -> bool:
    """Say whether two rows are of one kind, or of kinds that share their columns."""
    return row.row == other.row or (
        has_own_columns(row) and _own(type(row))[0] is _own(type(other))[0]
    )


def own_title(rows: Sequence[Row]) -> str:
    """Return what stands above the rows of a kind, if anything does."""
    title = _own(type(rows[0]))[2]
    text: str = title(rows) if callable(title) else title
    return text


def copies_in(row: Row) -> tuple[str, ...]:
    """Return the paths of copies that the cells of a row name."""
    paths: tuple[str, ...] = _own(type(row))[3](row)
    return paths


def own_columns(row: Row, bytes_cell: BytesCell) -> Columns | None:
    """Return the columns of a row that has some of its own; `bytes_cell` writes a key."""
    columns = _own(type(row))[0]
    made: Columns | None = columns(row, bytes_cell) if callable(columns) else columns
    return made


def summary_lines(row: Row) -> list[str] | None:
    """Return the lines that a row is shown in that has no table."""
    lines = _own(type(row))[1]
    return None if lines is None else [*map(visible, lines(row))]


def name_of(row: Any) -> str:
    """Name the partition of a row."""
    return "?" if row["topic"] is None else f"{row['topic']}-{row['partition']}"


def oldest_text(oldest: Oldest) -> str:
    """Write what the oldest release answers: which one wrote the directory is not certain."""
    parts = []
    for name, value in oldest.items():
        words = name.removesuffix("_ms").replace("_", " ")
        if name == "outcome":
            parts.append(str(value))
        elif name == "records_lost":
            parts.append(f"{count_text(value or 0, 'record')} lost")
        elif name != "broker_version":
            shown = "none" if value is None else str(value)
            if isinstance(value, int):
                shown = time_text(value) if name.endswith("_ms") else number_text(value)
            parts.append(f"{words} {shown}")
    return f"With Kafka {oldest['broker_version']}: {', '.join(parts)}"


def release_title(rows: Iterable[Row]) -> str:
    """Name the releases by whose rules some rows were made."""
    releases = dict.fromkeys(row["broker_version"] for row in rows if row["broker_version"])
    return f"According to Kafka {' or '.join(releases)}:" if releases else ""


def span_text(first: int | None, last: int | None) -> str:
    """Write the first and the last offset of a batch; that of a closed wrapper is not known."""
    if last is None:
        return "-"
    return range_cell("?" if first is None else first, last)


#: Of segments passed over one after another so many are shown, the last one among them.
_PASSED_SHOWN = 2


def answer_parts(row: Row) -> list[str]:
    """Write the parts of the answer, which stand next to each other."""
    return [*map(visible, _answer_parts(row))]


def _answer_parts(row: Row) -> list[str]:
    fields = row.fields
    parts = [name_of(row.fields)]
    if "end_position" in fields:
        return parts + _fetch_parts(fields)
    if "accepted" in fields:
        return parts + _append_parts(fields)
    offset = fields["offset"]
    absent = "none" if fields.get("available") is not False else "in remote storage, not given"
    parts.append(absent if offset is None else f"offset {number_text(offset)}")
    if isinstance(time_ms := fields["timestamp_ms"], int):
        parts.append(time_text(time_ms))
    if fields["segment"] is not None:
        parts.append(f"segment {fields['segment']}")
    if fields["position"] is not None:
        parts.append(f"position {number_text(fields['position'])}")
    if fields.get("leader_epoch") is not None:
        parts.append(f"leader epoch {fields['leader_epoch']}")
    offsets = fields.get("offsets")
    if isinstance(offsets, list) and len(offsets) > 1:
        parts.append("offsets " + " ".join(map(number_text, offsets)))
    if fields.get("source") == "remote" and fields.get("object") is not None:
        parts.append(f"remote object {fields['object']}")
    return parts


def _append_parts(fields: Mapping[str, Any]) -> list[str]:
    if not fields["accepted"]:
        return [fields["error"], fields["reason"]]
    if fields["last_offset"] is None:
        return ["accepted", "nothing is stored"]
    offsets = range_cell(fields["first_offset"], fields["last_offset"])
    if fields["duplicate"]:
        return ["accepted", f"a duplicate of offsets {offsets}"]
    return ["accepted", f"offsets {offsets}", f"{number_text(fields['size_bytes'])} bytes"]


def _fetch_parts(fields: Mapping[str, Any]) -> list[str]:
    if fields["position"] is None:
        return [fields["error"] or "nothing is returned"]
    where = range_cell(fields["position"], fields["end_position"])
    return [
        f"segment {fields['segment']}",
        f"bytes {where} ({number_text(fields['size_bytes'])})",
        f"next offset {number_text(fields['next_offset'])}",
    ]


def _scan_words(row: Row) -> str:
    scanned = row.fields["scan_offset"]
    if scanned == row.fields["offset"]:
        return "a scan of the log finds the same"
    found = "none" if scanned is None else f"offset {number_text(scanned)}"
    return f"a scan of the log finds {found} instead"


def step_lines(row: Row, width: int) -> Iterator[str]:
    """Write the steps, numbered; long ones go on below, segments passed over are drawn together."""
    steps = row.fields["steps"]
    assert isinstance(steps, list)
    if row.get("oldest"):
        steps = [*steps, {"step": "oldest", "file": "", "text": oldest_text(row["oldest"])}]
    if "scan_offset" in row.fields:
        steps = [*steps, {"step": "check", "file": "", "text": _scan_words(row)}]
    number = 0
    previous = None
    for step in _shorten(steps):
        name, text = str(step["step"]), _step_text(step)
        if name == previous == "segment":
            head = " " * 15
        else:
            number += 1
            head = f"{number:>2}  {pad(visible(name), 10)} "
        previous = name
        lines = fold(visible(text), max(width - len(head), 30))
        yield head + lines[0]
        for line in lines[1:]:
            yield " " * width_of(head) + line


def _shorten(steps: list[FoundStep]) -> Iterator[FoundStep]:
    """Leave out most of a long run of segments that only say that they come too early."""
    for name, same in groupby(steps, lambda step: step["step"]):
        run = list(same)
        left_out = len(run) - _PASSED_SHOWN
        if name == "segment" and left_out > 1:
            words = f"{left_out:,} older segments: skipped for the same reason as the next"
            yield {"step": "segment", "file": "", "text": words}
            del run[:left_out]
        yield from run


def _step_text(step: FoundStep) -> str:
    """Write a step's text with its file in front, and its times as people write them."""
    text = str(step["text"])
    entry = step.get("entry")
    times = [step, entry] if isinstance(entry, dict) else [step]
    for members in times:
        for name, value in members.items():
            if name.endswith("_ms") and isinstance(value, int) and value >= 0:
                text = text.replace(str(value), time_text(value), 1)
    file = os.path.basename(str(step["file"]))
    return f"{file}: {text}" if file else text

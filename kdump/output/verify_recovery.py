"""Print what a restart would cost: one line for each partition that it would change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.grid import grid_lines
from kdump.output.progress import counted, size_text
from kdump.output.verify_text import seconds_text, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.findings.rows import Row

#: Outcomes, the worst first; of those at the end only the number is reported.
_ORDER = (
    "wrong-log-end",
    "refuses-to-start",
    "out-of-memory",
    "delete-segments",
    "truncate",
    "unknown",
    "empty",
    "stray",
    "recover",
    "clean",
)
_COUNTED = frozenset({"clean"})
_TOLD = 1000
_COLUMNS = (
    Column("partition", cuts=True, folds=True, least=16),
    Column("outcome"),
    Column("why, and what it costs", cuts=True, folds=True, least=16),
)


def recovery_lines(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Write a heading and the rows, the worst outcome first."""
    yield ""
    yield "What the next start would do:"
    counts = Counter(str(row.fields["outcome"]) for row in rows)
    told = sorted(
        (
            row
            for row in rows
            if row.fields["outcome"] not in _COUNTED or _listed(row.fields.get("unserved"))
        ),
        key=lambda row: (_rank(str(row.fields["outcome"])), *_place(row)),
    )
    cells = [(_name(row), str(row.fields["outcome"]), visible(_told(row))) for row in told[:_TOLD]]
    if cells:
        yield from grid_lines(_COLUMNS, cells, width)
    if len(told) > _TOLD:
        yield f"and {len(told) - _TOLD:,} more; --format jsonl lists them"
    for outcome in _ORDER:
        if outcome in _COUNTED and counts[outcome]:
            yield f"{counted(counts[outcome], 'partition')} {outcome}: nothing is re-read or lost"


def totals_lines(forecast: object, width: int) -> Iterator[str]:
    """Write what all of it comes to, and what the time is reckoned with."""
    if not isinstance(forecast, dict):
        return
    segments, size = forecast["segments_to_read"], forecast["bytes_to_read"]
    text = f"In all: re-reads {counted(segments, 'segment')}, {size_text(size)}"
    if size:
        text += (
            f", in about {_duration(forecast['seconds'])} at "
            f"{size_text(forecast['bytes_per_second'])}/s a thread and "
            f"{counted(forecast['recovery_threads'], 'recovery thread')} a data directory"
        )
    lost, losing = forecast["records_lost"], forecast["partitions_losing"]
    if losing:
        text += f"; {counted(lost, 'record')} lost in {counted(losing, 'partition')}"
    yield from wrap(f"{text}.", width)


def _duration(seconds: float) -> str:
    return "a second" if seconds <= 1 else seconds_text(round(seconds))


def _told(row: Row) -> str:
    """Say why, what is lost by it, and what it costs."""
    fields = row.fields
    outcome, lost = fields["outcome"], fields.get("records_lost", 0)
    parts = []
    if fields["reason"] and outcome != "recover":
        parts.append(str(fields["reason"]))
    if isinstance(lost, int) and lost:
        end = fields["log_end_after"]
        good = f", the last good one is {end - 1:,}" if isinstance(end, int) and end > 0 else ""
        first = _number(fields["first_lost_offset"])
        parts.append(f"{counted(lost, 'record')} lost from offset {first} on{good}")
    elif lost is None:
        parts.append("how many records are lost cannot be told")
    elif outcome == "recover":
        parts.append("nothing lost")
    elif outcome in ("truncate", "empty"):
        parts.append("no record that can be read is lost")
    read, rebuilt = _listed(fields.get("segments_read")), _listed(fields.get("indexes_rebuilt"))
    if read:
        size = fields.get("bytes_read")
        more = f", {size_text(size)}" if isinstance(size, int) else ""
        parts.append(f"re-reads {counted(len(read), 'segment')}{more}")
    if rebuilt and rebuilt != read:
        parts.append(f"rebuilds indexes of {counted(len(rebuilt), 'segment')}")
    if left := _listed(fields.get("unserved")):
        parts.append(_unserved(left))
    return "; ".join(parts)


def _unserved(left: list[object]) -> str:
    """Say where consumers stop after the start, and from where on they are served again."""
    first = left[0]
    assert isinstance(first, dict)
    served = first["served_from"]
    more = f" (and at {len(left) - 1:,} more places)" if len(left) > 1 else ""
    if served is None:
        again = "and are served nothing behind it"
    else:
        skipped = first["skipped_by_seek"]
        again = f"and are served again from {served}"
        again += f", behind {counted(skipped, 'sound record')}" if skipped else ""
    return f"consumers still stop at offset {first['offset']} {again}{more}"


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _name(row: Row) -> str:
    topic, partition = row.fields["topic"], row.fields["partition"]
    if topic is None:
        return visible(str(row.fields.get("path") or "the whole broker"))
    return visible(f"{topic}-{partition}")


def _place(row: Row) -> tuple[str, int]:
    partition = row.fields["partition"]
    return str(row.fields["topic"] or ""), partition if isinstance(partition, int) else -1


def _rank(outcome: str) -> int:
    return _ORDER.index(outcome) if outcome in _ORDER else len(_ORDER)

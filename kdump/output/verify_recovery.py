"""Print what a restart would cost: one line for each partition that it would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.output.amounts import count_text, number_text, seconds_text, size_text
from kdump.output.column_widths import Column, folding_column, wrap
from kdump.output.grid import table_lines
from kdump.output.row_tables import name_of, oldest_text
from kdump.rows.verify import REFUSALS, Recovery

if TYPE_CHECKING:
    from kdump.rows.verify import Forecast

#: Outcomes, the worst first; of the last only the number is reported.
_ORDER = tuple(
    "wrong-log-end refuses-to-start out-of-memory delete-segments truncate unknown empty stray"
    " recover clean".split()
)
_COUNTED = "clean"
_SHOWN = 1000
#: Of partitions that only re-read segments, more than this are counted.
_LISTED = 10


def recovery_lines(
    rows: Sequence[Recovery],
    forecast: Forecast | None,
    width: int,
    *,
    every: bool = False,
    is_refused: bool = False,
    is_assumed: bool = False,
) -> Iterator[str]:
    """Write a heading and the rows, the worst outcome first; many that lose nothing are counted
    unless `every` one is to be listed. `is_refused`: the node does not start as it is;
    `is_assumed`: nothing shows its release.
    """
    yield ""
    releases = dict.fromkeys(row.broker_version for row in rows if row.broker_version)
    of = f" of Kafka {' or '.join(releases)}" if releases else ""
    after = " once the cause above is removed" if is_refused else ""
    if is_assumed and releases:
        of, after = "", f", if the version is{of.removeprefix(' of')}{after}"
    yield f"What the next start{of} would do{after}:"
    shown = sorted(filter(_is_shown, rows), key=rank)
    if is_refused or any(row.topic is not None and row.outcome in REFUSALS for row in shown):
        shown = [row for row in shown if row.topic is not None or row.outcome not in REFUSALS]
    listed = sum(row.outcome == _COUNTED for row in shown)
    harmless = [row for row in shown if _is_harmless(row)]
    if every or len(harmless) <= _LISTED:
        harmless = []
    else:
        shown = [row for row in shown if not _is_harmless(row)]
    if shown:
        yield from table_lines(COLUMNS, shown[:_SHOWN], width)
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN:,} more; --format jsonl lists them"
    if harmless:
        segments = sum(len(row.segments_read or ()) for row in harmless)
        size = size_text(sum(row.bytes_read or 0 for row in harmless))
        yield from wrap(
            f"{count_text(len(harmless), 'partition')} recover, nothing lost: re-reads "
            f"{count_text(segments, 'segment')}, {size}; --all lists them",
            width,
        )
    if forecast and (many := forecast["outcomes"].get(_COUNTED, 0) - listed) > 0:
        refused = any(row.outcome in REFUSALS for row in shown)
        once = "Once the broker starts: " if refused else ""
        clean = count_text(many, "other partition" if listed else "partition")
        yield f"{once}{clean} {_COUNTED}: nothing is re-read or lost"


def _is_shown(row: Recovery) -> bool:
    return row.outcome != _COUNTED or bool(row.records_lost or _unserved_text(row))


def _is_harmless(row: Recovery) -> bool:
    """Whether recovery only re-reads segments, by any release that may have written them."""
    is_sure = row.oldest is None and not _unserved_text(row)
    return is_sure and row.outcome == "recover" and row.records_lost == 0


def rank(row: Recovery) -> tuple[int, str, int]:
    """Order outcomes, the worst first."""
    outcome, partition = row.outcome, row.partition
    place = _ORDER.index(outcome) if outcome in _ORDER else len(_ORDER)
    return place, row.topic or "", -1 if partition is None else partition


def totals_lines(forecast: Forecast, width: int) -> Iterator[str]:
    """Write what all of it comes to, and what the time is reckoned with."""
    segments, size = forecast["segments_to_read"], forecast["bytes_to_read"]
    text = f"Total: re-reads {count_text(segments, 'segment')}"
    if not segments:
        text = "Total: no segment is re-read"
        text += f". A normal load of the logs reads {size_text(size)}" if size else ""
    elif size:
        text = (
            f"Total: {count_text(segments, 'segment')} {'is' if segments == 1 else 'are'} re-read. "
            f"This reads {size_text(size)} (some bytes more than once)"
        )
    if size:
        text += (
            f", in {'less than' if forecast['seconds'] < 1 else 'about'} "
            f"{_duration(forecast['seconds'])} at "
            f"{size_text(forecast['bytes_per_second'])}/s per thread and "
            f"{count_text(forecast['recovery_threads'], 'recovery thread')} per data directory"
        )
    fastest, slowest = forecast.get("seconds_at_least"), forecast.get("seconds_at_most")
    if size and fastest is not None and slowest is not None:
        least, most = _duration(fastest), _duration(slowest)
        text += f"; {least if least == most else f'{least} to {most}'}"
        text += " at the current speed of these disks"
    for disk in forecast.get("disks", ()):
        if size and disk["low"] is not None and disk["high"] is not None:
            rates = f"{size_text(disk['low'])}/s to {size_text(disk['high'])}/s"
            where = ", or its cache" if disk["cached"] else ""
            text += f" ({disk['path']}: {rates}{where})"
    lost, losing = forecast["records_lost"], forecast["partitions_losing"]
    if losing:
        many = count_text(losing, "partition")
        lost_text = f"{count_text(lost, 'record')} lost in {many}"
        text += f"; {lost_text if lost else f'{many} renamed to -stray'}"
    yield from wrap(f"{text}.", width)


def _duration(seconds: float) -> str:
    return "a second" if seconds <= 1 else seconds_text(round(seconds))


def _name(row: Recovery) -> str:
    if row.topic is None:
        return row.path or "the whole broker"
    return name_of(row)


def _why_and_cost(row: Recovery) -> str:
    """Say why, what is lost by it, and what it costs."""
    outcome, lost = row.outcome, row.records_lost
    parts = []
    if row.reason and outcome != "recover":
        parts.append(row.reason)
    if lost:
        end = row.log_end_after
        good = f", the last intact one is {end - 1:,}" if end else ""
        first = number_text(row.first_lost_offset)
        parts.append(f"{count_text(lost, 'record')} lost from offset {first} on{good}")
    elif lost is None and outcome not in REFUSALS:
        parts.append("the number of lost records is unknown")
    elif outcome == "recover":
        parts.append("nothing lost")
    elif outcome in ("truncate", "empty"):
        parts.append("no readable record is lost")
    read, rebuilt = row.segments_read, row.indexes_rebuilt
    if read:
        size = row.bytes_read
        more = "" if size is None else f" ({size_text(size)})"
        parts.append(f"re-reads {count_text(len(read), 'segment')}{more}")
    if rebuilt and rebuilt != read:
        parts.append(f"rebuilds indexes of {count_text(len(rebuilt), 'segment')}")
    if row.oldest is not None:
        parts.append(oldest_text(row.oldest))
    return "; ".join(filter(None, (*parts, _unserved_text(row))))


def _unserved_text(row: Recovery) -> str:
    """Say where consumers stop after the start, and from where on they are served again."""
    left = row.unserved
    if not left:
        return ""
    first = left[0]
    served, skipped = first["served_from"], first["skipped_by_seek"]
    more = f" (and at {len(left) - 1:,} more places)" if len(left) > 1 else ""
    if served is None:
        again = "and receive nothing after it"
    else:
        again = f"and are served again from {served}"
        again += f", skipping {count_text(skipped, 'sound record')}" if skipped else ""
    return f"consumers still stop at offset {first['offset']} {again}{more}"


COLUMNS: tuple[Column[Recovery], ...] = (
    folding_column("partition", _name, 16),
    Column("outcome", lambda row: row.outcome),
    folding_column("why, and what it costs", _why_and_cost, 16),
)

"""The tables of `salvage`: partitions, images, groups, and what a check of copies finds."""

from __future__ import annotations

from functools import partial
from typing import Any

from kdump.output.amounts import number_text, size_text
from kdump.output.column_widths import Column, amount, folding_column, number
from kdump.output.row_tables import BytesCell, Tables, name_of, release_title, span_text
from kdump.rows.salvage import (
    CarvedGroup,
    CarvedImage,
    GroupOffset,
    Produced,
    SalvageCheck,
    Salvaged,
)
from kdump.storage import names, places

_RANGES_SHOWN = 3


def _ranges(ranges: Any) -> str:
    parts = [span_text(*each) if each[1] is not None else f"{each[0]} on" for each in ranges]
    return ", ".join(parts)


def _ranges_in_short(ranges: Any) -> str:
    more = len(ranges) - _RANGES_SHOWN
    return _ranges(ranges[:_RANGES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _salvaged_note(fields: Salvaged, *, names_images: bool = True) -> str:
    notes = []
    if fields.lost:
        notes.append(f"lost: {_ranges(fields.lost)}")
    for one in fields.reencoded:
        where = f"{span_text(one['from'], one['to'])} of {one['path']}"
        notes.append(f"re-encoded: {where}{', doubtful' if one['doubtful'] else ''}")
    for mended in fields.mended:
        changed = ", ".join(
            f"{each['name']} {each['stored']} to {each['inferred']}" for each in mended["fields"]
        )
        notes.append(f"header repaired: {span_text(mended['from'], mended['to'])}: {changed}")
    for at in fields.conflicts:
        between = " and ".join(at["paths"])
        taken = "undecided" if at["chosen"] is None else f"taken: {at['chosen']}"
        notes.append(f"conflict: {span_text(at['from'], at['to'])} of {between}, {taken}")
    notes += [
        f"from {one['path']}: {_ranges_in_short(one['offsets'])}"
        if "bytes" not in one
        else (f"from {one['path']}, " if names_images else "")
        + f"bytes {_ranges_in_short(one['bytes'])}"
        for one in fields.from_
    ]
    alike: dict[str, list[str]] = {}
    for group in fields.carved:
        alike.setdefault(_group_facts(group), []).append(group["group"])
    notes += [f"{', '.join(groups)}{facts}" for facts, groups in alike.items()]
    notes += _produced_notes(fields.produced)
    notes += [
        f"diverged: {one['path']}: {_ranges_in_short(one['offsets'])}" for one in fields.diverged
    ]
    return "; ".join(notes)


def _group_facts(group: CarvedGroup) -> str:
    """Write how the partition of a group is known, and what its batches were joined by."""
    named = f", named by {group['named_by']}" if group["named_by"] else ", of an unknown partition"
    if not group["named_by"] and len(group["proposed"]) == 1:
        named += f", perhaps {group['proposed'][0]}"
    if group["doubtful"]:
        named += ", offsets may be wrong (inside a torn wrapper, or truncated)"
    return named + (f", joined by {', '.join(group['joined_by'])}" if group["joined_by"] else "")


def _images(row: Salvaged) -> str:
    return ", ".join(one["path"] for one in row.from_ if "bytes" in one) or "-"


def _copies(row: Salvaged) -> tuple[str, ...]:
    """Name the directories of copies; images have names of their own."""
    if any("bytes" in one for one in row.from_):
        return ()
    paths = [one["path"] for one in (*row.from_, *row.reencoded, *row.diverged)]
    paths += [path for at in row.conflicts for path in at["paths"]]
    return tuple(dict.fromkeys(map(_partition_of, paths)))


def _partition_of(path: str) -> str:
    """Return the partition's directory for a segment, or the copy of one that was left behind."""
    is_file = names.parse(places.file_name(path)).kind is not names.Kind.UNKNOWN
    return places.parent(path) if is_file else path


def _produced_notes(produced: Produced | None) -> list[str]:
    if produced is None:
        return []
    count, first = produced["records_count"], produced["first_offset"]
    notes = [f"to be produced: {number_text(count)} records"]
    if first is not None:
        span = span_text(first, produced["last_offset"])
        notes = [f"produced: {number_text(count)} records as {span}"]
    if found := produced["found_count"]:
        notes.append(f"{number_text(found)} of them were already there")
    left_out = (
        (produced["aborted_count"], "aborted"),
        (produced["open_count"], "open"),
        (produced["control_count"], "control"),
    )
    notes += [f"left out: {number_text(count)} {word}" for count, word in left_out if count]
    if not produced["keeps_times"]:
        notes.append("with the time of arrival as timestamp (LogAppendTime)")
    return notes


_SALVAGED: tuple[Column[Salvaged], ...] = (
    folding_column("partition", name_of, 16),
    amount("offsets", lambda row: span_text(row.first_offset, row.last_offset)),
    amount("records", lambda row: number_text(row.records_count)),
    amount("batches", lambda row: number_text(row.batches), 1),
)
_FROM_COPIES = (*_SALVAGED, folding_column("details", _salvaged_note, 24))
_FROM_IMAGES = (
    *_SALVAGED,
    folding_column("image", _images, 12)._replace(shares=True),
    folding_column("details", partial(_salvaged_note, names_images=False), 24),
)


def _salvaged_columns(row: Salvaged, bytes_cell: BytesCell) -> tuple[Column[Salvaged], ...]:
    """Return columns in which an image has one of its own."""
    return _FROM_IMAGES if any("bytes" in one for one in row.from_) else _FROM_COPIES


_CARVED: tuple[Column[CarvedImage], ...] = (
    folding_column("image", lambda row: str(row.path), 24),
    amount("size", lambda row: size_text(row.size_bytes)),
    amount("batches", lambda row: number_text(row.batches)),
    amount("their size", lambda row: size_text(row.batches_bytes)),
    amount("extents", lambda row: number_text(row.extents)),
    amount("in pieces", lambda row: number_text(row.in_two_pieces + row.in_more_pieces)),
    amount("torn", lambda row: number_text(row.torn)),
)
_GROUP_OFFSET: tuple[Column[GroupOffset], ...] = (
    folding_column("group", lambda row: str(row.group), 16),
    folding_column("partition", name_of, 16),
    number("offset in the copies", "old_offset"),
    number("offset"),
    number("it had", "previous_offset"),
    Column("outcome", lambda row: str(row.outcome)),
)
_SALVAGE_CHECK: tuple[Column[SalvageCheck], ...] = (
    Column("outcome", lambda row: str(row.outcome)),
    folding_column("file", lambda row: str(row.path), 24),
)
TABLES: Tables = {
    CarvedImage: _CARVED,
    Salvaged: _salvaged_columns,
    GroupOffset: _GROUP_OFFSET,
    SalvageCheck: _SALVAGE_CHECK,
}
COPIES = {Salvaged: _copies}
TITLES = {Salvaged: release_title}

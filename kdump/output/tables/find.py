"""The tables of lookups: where an offset or a time is."""

from __future__ import annotations

from kdump.output.amounts import number_cell, time_cell
from kdump.output.column_widths import Column, Columns, amount, folding_column, number
from kdump.output.row_tables import Tables, name_of, oldest_text, release_title, span_text
from kdump.rows.find import Fetch, OffsetLookup, TimeLookup


def _lookup_note(row: OffsetLookup | TimeLookup) -> str:
    notes = [row.error] if row.error else []
    if row.available is False:
        notes.append(f"only in remote storage: {row.object or 'its metadata is not here'}")
    elif row.source == "remote":
        notes.append("remote")
    if "scan_offset" in row.asked_ and row.scan_offset != row.offset:
        notes.append(f"a scan finds {'none' if row.scan_offset is None else row.scan_offset}")
    if isinstance(row, OffsetLookup) and row.next_offset is not None:
        served = row.served_from
        where = "not served after it" if served is None else f"served again from {served}"
        notes.append(f"damage: on disk again from {row.next_offset}, {where}")
    if row.oldest:
        notes.append(oldest_text(row.oldest))
    if isinstance(row, TimeLookup) and len(offsets := row.offsets or ()) > 1:
        notes.append("then " + " ".join(map(str, offsets[1:])))
    return "; ".join(notes)


def _absent(row: OffsetLookup | TimeLookup) -> str:
    return "remote" if row.available is False else "none"


_LOOKUP: Columns = (
    folding_column("partition", name_of, 14),
    amount("offset", lambda row: number_cell(row.offset, _absent(row))),
    Column("time", lambda row: time_cell(row.timestamp_ms)),
    number("segment"),
    number("position", rank=1),
)
_LOOKUP_NOTE = folding_column("note", _lookup_note, 20)._replace(below=True)
_OFFSET_LOOKUP: Columns = (
    *_LOOKUP,
    amount("batch", lambda row: span_text(row.base_offset, row.last_offset), 2),
    _LOOKUP_NOTE,
)
_TIME_LOOKUP: Columns = (
    *_LOOKUP,
    number("epoch", "leader_epoch", rank=2),
    _LOOKUP_NOTE,
)


def _fetch_note(row: Fetch) -> str:
    notes = [row.error] if row.error else []
    if row.available is False:
        notes.append(f"only in remote storage: {row.object or 'its metadata is not here'}")
    if row.needs_bytes is not None:
        needs = f"the first entry needs {row.needs_bytes} bytes"
        notes.append(needs + (": consumers are stuck" if row.stuck else ""))
    if row.records_before:
        notes.append(f"{row.records_before} records before the target")
    if row.cut_bytes:
        notes.append(f"{row.cut_bytes} bytes of an entry that is cut")
    if row.aborted:
        notes.append(f"{len(row.aborted)} aborted transactions")
    if row.oldest:
        notes.append(oldest_text(row.oldest))
    return "; ".join(notes)


_FETCH: Columns = (
    folding_column("partition", name_of, 14),
    number("segment"),
    number("from", "position"),
    number("to", "end_position"),
    number("bytes", "size_bytes"),
    number("entries"),
    amount("offsets", lambda row: span_text(row.first_offset, row.last_offset), 2),
    number("next", "next_offset"),
    folding_column("note", _fetch_note, 20)._replace(below=True),
)
TABLES: Tables = {OffsetLookup: _OFFSET_LOOKUP, TimeLookup: _TIME_LOOKUP, Fetch: _FETCH}
TITLES = dict.fromkeys(TABLES, release_title)

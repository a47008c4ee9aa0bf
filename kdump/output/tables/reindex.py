"""The table of `reindex`: files, what is done to each, and why."""

from __future__ import annotations

from kdump.output.amounts import size_text, time_text
from kdump.output.column_widths import Column, amount, folding_column, number
from kdump.output.row_tables import Tables, release_title
from kdump.rows.reindex import Reindex


def _to_read(row: Reindex) -> str:
    return size_text(row.bytes_to_read) if row.bytes_to_read else ""


#: Sources of settings that neither an option nor a file of the user's gave.
_BUILT = ("create", "created", "rebuild", "rebuilt")
_TOLD = {"topic": "topic", "broker": "broker", "broker-default": "cluster"}


def _reason_text(row: Reindex) -> str:
    why, difference = row.reason, row.first_difference
    if difference is not None and row.action != "refuse":
        before, after = _entry(difference["before"]), _entry(difference["after"])
        why = f"{why}; entry {difference['slot']} is {before}, recovery writes {after}"
    for setting in row.settings or ():
        if row.action in _BUILT and setting["source"] in _TOLD:
            why += f"; {setting['name']}={setting['value']} of the {_TOLD[setting['source']]}"
    if row.oldest is not None and row.action in _BUILT:
        why += f"; Kafka {row.oldest['broker_version']} writes other entries"
    return why if row.written is None else f"{row.written}: {why}"


def _entry(entry: dict[str, int] | str | None) -> str:
    if not isinstance(entry, dict):
        return "nothing" if entry is None else str(entry)
    numbers = [
        time_text(number) if name.endswith("_ms") else str(number)
        for name, number in entry.items()
        if name != "version"
    ]
    return f"({', '.join(numbers)})"


_REINDEX: tuple[Column[Reindex], ...] = (
    number("segment"),
    Column("file", lambda row: row.kind),
    number("entries", "entries_before"),
    number("rebuilt", "entries_after"),
    amount("to read", _to_read, 1),
    Column("action", lambda row: row.action),
    folding_column("why", _reason_text, 24)._replace(echoes=True),
)
TABLES: Tables = {Reindex: _REINDEX}
TITLES = {Reindex: release_title}

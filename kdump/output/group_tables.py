"""The tables of `groups`: groups, their members, committed offsets, and who moved them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.output.amounts import counted, number_cell, second_cell, time_cell
from kdump.output.column_widths import Column, amount, folded, number, short

Fields = dict[str, Any]
Cell = Callable[[Fields], str]


def _group(fields: Fields) -> str:
    return str(fields["group"])


def _text(name: str) -> Cell:
    return lambda fields: "-" if fields[name] in (None, "") else str(fields[name])


def _protocol(fields: Fields) -> str:
    return str(fields["protocol"] or fields["protocol_type"] or "-")


def _partition(fields: Fields) -> str:
    return f"{fields['topic']}-{fields['partition']}"


def _numbers(partitions: list[int]) -> str:
    """Write partitions as runs: 0-3, 5."""
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][-1] + 1:
            runs[-1][1:] = [partition]
        else:
            runs.append([partition])
    return ",".join("\N{EN DASH}".join(map(str, run)) for run in runs)


def _assignment(fields: Fields) -> str:
    assigned = fields["assignment"].items()
    what = "task " if fields["tasks"] is not None else ""
    return "; ".join(f"{what}{topic}: {_numbers(numbers)}" for topic, numbers in assigned) or "-"


def _wanted(fields: Fields) -> str:
    wanted = list(fields["subscription"] or ())
    if fields["subscription_regex"]:
        wanted.append(f"/{fields['subscription_regex']}/")
    return ", ".join(wanted) or "-"


def _where(fields: Fields) -> str:
    """Write where a client runs: brokers put a slash before the address."""
    return str(fields["client_host"]).removeprefix("/") or "-"


def _offset(fields: Fields) -> str:
    text = number_cell(fields["offset"], "none")
    return f"pending {text}" if fields["pending"] else text


def _offset_note(fields: Fields) -> str:
    notes = []
    if fields["pending"]:
        notes.append(f"open transaction of producer {fields['producer_id']}")
    start, offset = fields["log_start"], fields["offset"]
    if start is not None and offset is not None and offset < start:
        notes.append(f"below the log's start, {start}")
    if fields["metadata"]:
        notes.append(str(fields["metadata"]))
    return "; ".join(notes)


def _by_whom(fields: Fields) -> str:
    """Say who may have moved an offset: a member, or somebody outside of the group."""
    members = fields["members_count"]
    if fields["kind"] == "tombstone":
        return "removed"
    who = "members not known" if members is None else counted(members, "member")
    if members == 0:
        who = "no member (admin client?)"
    if fields["producer_id"] is not None:
        who = f"producer {fields['producer_id']}, {who}"
    return who


_GROUPS = (
    folded("group", _group, 12),
    Column("type", _text("type")),
    Column("state", _text("state")),
    number("members", "members_count"),
    number("epoch", rank=2),
    short("protocol", _protocol, 1),
    amount("kept in", lambda row: f"partition {row['offsets_partition']}", 4),
    Column("changed", lambda row: second_cell(row["changed_ms"]), rank=3),
)
_MEMBERS = (
    folded("group", _group, 10),
    folded("member", _text("member_id"), 12),
    short("instance", _text("instance_id"), 2),
    short("client", _text("client_id"), 3),
    short("host", _where, 1),
    folded("wants", _wanted, 8, rank=4),
    folded("has", _assignment, 12),
    number("epoch", rank=5),
)
_OFFSETS = (
    folded("group", _group, 10),
    folded("partition", _partition, 12),
    amount("offset", _offset),
    number("lag"),
    number("log end", "log_end", rank=3),
    Column("committed", lambda row: second_cell(row["commit_ms"]), rank=1),
    Column("expires", lambda row: second_cell(row["expire_ms"]), rank=4),
    folded("note", _offset_note, 16, rank=2),
)
_HISTORY = (
    Column("time", lambda row: time_cell(row["at_ms"])),
    folded("group", _group, 8),
    folded("partition", _partition, 10),
    number("from", "previous_offset"),
    number("to", "offset", absent="none"),
    folded("by", _by_whom, 20),
)
#: Kind of row -> the columns of its table.
COLUMNS: dict[str, tuple[Column, ...]] = {
    "group": _GROUPS,
    "member": _MEMBERS,
    "committed-offset": _OFFSETS,
    "offset-commit": _HISTORY,
}

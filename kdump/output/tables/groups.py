"""The tables of `groups`: groups, their members, committed offsets, and their lives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kdump.output.amounts import count_text, number_cell, second_cell, time_cell
from kdump.output.column_widths import Column, amount, folding_column, number, short
from kdump.output.row_tables import Tables, release_title
from kdump.rows.groups import (
    CommittedOffset,
    Group,
    Member,
    MemberJoin,
    MemberLeave,
    OffsetCommit,
    PartitionOwner,
    Rebalance,
)
from kdump.rows.row import Row


def _text(value: str | None) -> str:
    return value or "-"


def _partition(row: CommittedOffset | OffsetCommit | PartitionOwner) -> str:
    return f"{row.topic}-{row.partition}"


def _numbers(partitions: list[int]) -> str:
    """Write partitions as runs: 0-3, 5."""
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][-1] + 1:
            runs[-1][1:] = [partition]
        else:
            runs.append([partition])
    return ",".join("\N{EN DASH}".join(map(str, run)) for run in runs)


def _assignment(row: Member) -> str:
    assigned = row.assignment.items()
    what = "task " if row.tasks is not None else ""
    return "; ".join(f"{what}{topic}: {_numbers(numbers)}" for topic, numbers in assigned) or "-"


def _wanted_text(row: Member) -> str:
    wanted = list(row.subscription or ())
    if row.subscription_regex:
        wanted.append(f"/{row.subscription_regex}/")
    return ", ".join(wanted) or "-"


def _offset(row: CommittedOffset) -> str:
    text = number_cell(row.offset, "none")
    return f"pending {text}" if row.pending else text


def _offset_note(row: CommittedOffset) -> str:
    notes = []
    if row.pending:
        notes.append(f"open transaction of producer {row.producer_id}")
    if row.log_start is not None and row.offset is not None and row.offset < row.log_start:
        notes.append(f"below the log start, {row.log_start}")
    if row.metadata:
        notes.append(row.metadata)
    return "; ".join(notes)


def _by_whom(row: OffsetCommit) -> str:
    """Say who may have moved an offset: a member, or somebody outside of the group."""
    if row.kind == "tombstone":
        return "removed"
    who = "members unknown"
    if row.members_count == 0:
        who = "no member (admin client?)"
    elif row.members_count is not None:
        who = count_text(row.members_count, "member")
    return who if row.producer_id is None else f"producer {row.producer_id}, {who}"


def _name(member_id: str | None) -> str:
    """Name a member; of the UUID behind the id of its client the first part tells it apart."""
    return _UUID.sub("\\1\N{HORIZONTAL ELLIPSIS}", member_id) if member_id else "nobody"


def _assignment_text(row: Rebalance) -> str:
    return "; ".join(
        f"{_name(member)}: "
        + (", ".join(f"{topic} {_numbers(some)}" for topic, some in topics.items()) or "nothing")
        for member, topics in row.assignment.items()
    )


def _enumerate(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)}{',' * (len(first) > 1)} and {last}" if first else last


def _explain(row: Rebalance) -> str:
    """Say which assignors give the assignment, and where the one it is held against differs."""
    if row.fits is None:
        return ""
    told = [
        f"{one['topic']}-{one['partition']} to {_name(one['member_id'])} instead of "
        f"{_name(one['expected'])}"
        for one in row.differences or ()
    ]
    shown = "; ".join(told[:_DIFFERENCES_SHOWN])
    more = f"; {len(told) - _DIFFERENCES_SHOWN} more" if told[_DIFFERENCES_SHOWN:] else ""
    words = f"{_enumerate(row.fits)} would assign the same" if row.fits else ""
    differs = f"differs from {row.nearest}: {shown}{more}" if row.nearest else ""
    return " \N{EM DASH} " + ("; ".join(filter(None, (words, differs))) or "not computed")


def _ownership(row: PartitionOwner) -> str:
    """Say since when a partition has its owner, or from when it had one until the row's time."""
    start = "" if row.from_ms is None else time_cell(row.from_ms)
    if row.to_ms is None:
        return f"has owned it since {start}" if start else "owns it"
    return f"owned it from {start} until then" if start else "owned it until then"


def _event_text(row: Row) -> str:
    """Say what a row of a history tells, in words."""
    if isinstance(row, OffsetCommit):
        before, offset = number_cell(row.previous_offset, "-"), number_cell(row.offset, "none")
        return f"{_partition(row)}: {before} \N{RIGHTWARDS ARROW} {offset}, {_by_whom(row)}"
    if isinstance(row, PartitionOwner):
        return f"{_partition(row)}: {_name(row.member_id)} {_ownership(row)}"
    if isinstance(row, Rebalance):
        epoch = f"{'generation' if row.type == 'Classic' else 'epoch'} {row.epoch}"
        by = f" by {row.protocol}" if row.protocol else ""
        given = f": {_assignment_text(row)}" if row.assignment else ""
        return f"{epoch}{by}, {count_text(row.members_count, 'member')}{given}{_explain(row)}"
    assert isinstance(row, MemberJoin | MemberLeave)
    what = "joined" if isinstance(row, MemberJoin) else "left"
    client = f"{row.client_id} at {row.client_host.removeprefix('/')}"
    return f"{_name(row.member_id)} {what} ({client}), {count_text(row.members_count, 'member')}"


def _history_time(row: Row) -> str:
    return time_cell(row.to_ms if isinstance(row, PartitionOwner) else row["at_ms"])


def _title(rows: Sequence[CommittedOffset]) -> str:
    """Name the release by whose rule offsets expire, where one does."""
    return release_title(row for row in rows if row.expire_ms is not None)


_DIFFERENCES_SHOWN = 3
_UUID = re.compile("([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_GROUPS: tuple[Column[Group], ...] = (
    folding_column("group", lambda row: row.group, 12),
    Column("type", lambda row: _text(row.type)),
    Column("state", lambda row: _text(row.state)),
    number("members", "members_count"),
    number("epoch", rank=2),
    short("protocol", lambda row: _text(row.protocol or row.protocol_type), 1),
    amount("kept in", lambda row: f"partition {row.offsets_partition}", 4),
    Column("changed", lambda row: second_cell(row.changed_ms), rank=3),
)
_MEMBERS: tuple[Column[Member], ...] = (
    folding_column("group", lambda row: row.group, 10),
    folding_column("member", lambda row: _name(row.member_id), 12),
    short("instance", lambda row: _text(row.instance_id), 2),
    short("client", lambda row: _text(row.client_id), 3),
    # Brokers put a slash before the address.
    short("host", lambda row: _text(row.client_host.removeprefix("/")), 1),
    folding_column("wants", _wanted_text, 8, rank=4),
    folding_column("has", _assignment, 12),
    number("epoch", rank=5),
)
_OFFSETS: tuple[Column[CommittedOffset], ...] = (
    folding_column("group", lambda row: row.group, 10),
    folding_column("partition", _partition, 12),
    amount("offset", _offset),
    number("lag"),
    number("log end", "log_end", rank=3),
    Column("committed", lambda row: second_cell(row.commit_ms), rank=1),
    Column("expires", lambda row: second_cell(row.expire_ms), rank=4),
    folding_column("note", _offset_note, 16, rank=2),
)
#: Of all rows of a history, which then stand in one table.
_HISTORY: tuple[Column[Row], ...] = (
    Column("time", _history_time),
    folding_column("group", lambda row: row["group"], 8),
    folding_column("what happened", _event_text, 24),
)
TABLES: Tables = {
    Group: _GROUPS,
    Member: _MEMBERS,
    CommittedOffset: _OFFSETS,
    OffsetCommit: _HISTORY,
    MemberJoin: _HISTORY,
    MemberLeave: _HISTORY,
    Rebalance: _HISTORY,
    PartitionOwner: _HISTORY,
}
TITLES = {CommittedOffset: _title}

"""The tables of commands that have their own: columns, each with its cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.findings.ranges import range_cell
from kdump.findings.rows import Row
from kdump.output import (
    cluster_tables,
    duplicate_tables,
    group_tables,
    placement_tables,
    transaction_tables,
)
from kdump.output.amounts import counted, number_text, second_cell, size_text, time_cell
from kdump.output.column_widths import Column, Columns, amount, folded, member_of, number, partly
from kdump.rows.duplicates import Duplicate
from kdump.rows.find import OffsetLookup, TimeLookup
from kdump.rows.finding import FindingRow
from kdump.rows.reindex import Reindex
from kdump.rows.salvage import Salvaged
from kdump.rows.schema import SchemaField
from kdump.rows.sequences import SequenceDuplicate, SequenceGap, SequenceSummary
from kdump.rows.usage import Usage, UsageSummary

Fields = dict[str, Any]

_BAR_CELLS = 10
_RANGES_SHOWN = 3
_EIGHTHS = " ▏▎▍▌▋▊▉"


def name_of(row: Row | Fields) -> str:
    """Name the partition of a row."""
    topic = member_of(row, "topic")
    return "?" if topic is None else f"{topic}-{member_of(row, 'partition')}"


def span_text(first: int | None, last: int | None) -> str:
    """Write the first and the last offset of a batch; that of a closed wrapper is not known."""
    if last is None:
        return "-"
    return range_cell("?" if first is None else first, last)


def _lookup_note(row: OffsetLookup | TimeLookup) -> str:
    notes = [row.error] if row.error else []
    if "scan_offset" in row.asked_ and row.scan_offset != row.offset:
        notes.append(f"a scan finds {'none' if row.scan_offset is None else row.scan_offset}")
    if isinstance(row, OffsetLookup) and row.next_offset is not None:
        served = row.served_from
        where = "not served behind it" if served is None else f"served again from {served}"
        notes.append(f"damage: on disk again from {row.next_offset}, {where}")
    if isinstance(row, TimeLookup) and len(offsets := row.offsets or ()) > 1:
        notes.append("then " + " ".join(map(str, offsets[1:])))
    return "; ".join(notes)


_LOOKUP: Columns = (
    folded("partition", name_of, 14),
    number("offset", absent="none"),
    Column("time", lambda row: time_cell(row.timestamp_ms)),
    number("segment"),
    number("position", rank=1),
)
_LOOKUP_NOTE = folded("note", _lookup_note, 20)
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


def _to_read(row: Reindex) -> str:
    return size_text(row.bytes_to_read) if row.bytes_to_read else ""


#: Sources of settings that neither an option nor a file of the user's gave.
_BUILT = ("create", "created", "rebuild", "rebuilt")
_TOLD = {"topic": "topic", "broker": "broker", "broker-default": "cluster"}


def _reindex_why(row: Reindex) -> str:
    why, difference = row.reason, row.first_difference
    if difference is not None:
        before, after = _entry(difference["before"]), _entry(difference["after"])
        why = f"{why}; entry {difference['slot']}: {before} for {after}"
    for setting in row.settings or ():
        if row.action in _BUILT and setting["source"] in _TOLD:
            why += f"; {setting['name']}={setting['value']} of the {_TOLD[setting['source']]}"
    return why if row.written is None else f"{row.written}: {why}"


def _entry(entry: dict[str, int] | str | None) -> str:
    if not isinstance(entry, dict):
        return "nothing" if entry is None else str(entry)
    numbers = [str(number) for name, number in entry.items() if name != "version"]
    return f"({', '.join(numbers)})"


def _time_of_batch(row: SequenceGap | SequenceDuplicate) -> str:
    return time_cell(None if row.timestamp_ms < 0 else row.timestamp_ms)


_REINDEX: tuple[Column[Reindex], ...] = (
    number("segment"),
    Column("file", lambda row: row.kind),
    number("entries", "entries_before"),
    number("rebuilt", "entries_after"),
    amount("to read", _to_read, 1),
    Column("action", lambda row: row.action),
    folded("why", _reindex_why, 24),
)


def _ranges(ranges: Any) -> str:
    parts = [span_text(*each) if each[1] is not None else f"{each[0]} on" for each in ranges]
    return ", ".join(parts)


def _ranges_in_short(ranges: Any) -> str:
    more = len(ranges) - _RANGES_SHOWN
    return _ranges(ranges[:_RANGES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _salvaged_note(fields: Salvaged) -> str:
    notes = []
    if fields["lost"]:
        notes.append(f"lost: {_ranges(fields['lost'])}")
    for one in fields["reencoded"]:
        at = f"{span_text(one['from'], one['to'])} of {one['path']}"
        notes.append(f"re-encoded: {at}{', doubtful' if one['doubtful'] else ''}")
    for one in fields["mended"]:
        changed = ", ".join(
            f"{each['name']} {each['stored']} to {each['inferred']}" for each in one["fields"]
        )
        notes.append(f"header mended: {span_text(one['from'], one['to'])}: {changed}")
    for one in fields["conflicts"]:
        between = " and ".join(one["paths"])
        taken = "undecided" if one["chosen"] is None else f"taken: {one['chosen']}"
        notes.append(f"conflict: {span_text(one['from'], one['to'])} of {between}, {taken}")
    notes += [
        f"from {one['path']}: {_ranges(one['offsets'])}"
        if "bytes" not in one
        else f"from {one['path']}, bytes {_ranges_in_short(one['bytes'])}"
        for one in fields["from_"]
    ]
    for one in fields["carved"]:
        joined = f", joined by {', '.join(one['joined_by'])}" if one["joined_by"] else ""
        named = f"named by {one['named_by']}" if one["named_by"] else "of no known partition"
        if not one["named_by"] and len(one["proposed"]) == 1:
            named += f", perhaps {one['proposed'][0]}"
        if one["doubtful"]:
            named += ", perhaps at wrong offsets (inside a torn wrapper, or cut)"
        notes.append(f"{one['group']}, {named}{joined}")
    notes += _produced_notes(fields["produced"])
    notes += [f"diverged: {one['path']}: {_ranges(one['offsets'])}" for one in fields["diverged"]]
    return "; ".join(notes)


def _produced_notes(produced: Fields | None) -> list[str]:
    if produced is None:
        return []
    count, first = produced["records_count"], produced["first_offset"]
    notes = [f"to be produced: {number_text(count)} records"]
    if first is not None:
        span = span_text(first, produced["last_offset"])
        notes = [f"produced: {number_text(count)} records as {span}"]
    if found := produced["found_count"]:
        notes.append(f"{number_text(found)} of them were there")
    left_out = ((produced[f"{word}_count"], word) for word in ("aborted", "open", "control"))
    notes += [f"left out: {number_text(count)} {word}" for count, word in left_out if count]
    if not produced["keeps_times"]:
        notes.append("their times are those of arrival (LogAppendTime)")
    return notes


_SALVAGED: Columns = (
    folded("partition", name_of, 16),
    amount("offsets", lambda row: span_text(row["first_offset"], row["last_offset"])),
    amount("records", lambda row: number_text(row["records_count"])),
    amount("batches", lambda row: number_text(row["batches"]), 1),
    folded("details", _salvaged_note, 24),
)
_CARVED: Columns = (
    folded("image", lambda row: str(row["path"]), 24),
    amount("size", lambda row: size_text(row["size_bytes"])),
    amount("batches", lambda row: number_text(row["batches"])),
    amount("their size", lambda row: size_text(row["batches_bytes"])),
    amount("extents", lambda row: number_text(row["extents"])),
    amount("in pieces", lambda row: number_text(row["in_two_pieces"] + row["in_more_pieces"])),
    amount("torn", lambda row: number_text(row["torn"])),
)
_GROUP_OFFSET: Columns = (
    folded("group", lambda row: str(row["group"]), 16),
    folded("partition", name_of, 16),
    number("offset in the copies", "old_offset"),
    number("offset"),
    number("it had", "previous_offset"),
    Column("outcome", lambda row: str(row["outcome"])),
)
_SALVAGE_CHECK: Columns = (
    Column("outcome", lambda row: str(row["outcome"])),
    folded("file", lambda row: str(row["path"]), 24),
)

_SEQUENCES: tuple[Column[SequenceGap | SequenceDuplicate], ...] = (
    folded("partition", name_of, 16),
    amount("producer", lambda row: f"{row.producer_id}/{row.producer_epoch}"),
    Column("what", lambda row: row.kind),
    amount("count", lambda row: number_text(row.sequences_count, "-")),
    number("expected", "expected_sequence", rank=2),
    number("found", "base_sequence", rank=2),
    number("after", "previous_offset", rank=3),
    number("offset"),
    Column("time", _time_of_batch, rank=4),
    folded("why", lambda row: str(row.explanation), 24, rank=5),
)


def _sequence_summary(row: SequenceSummary) -> list[str]:
    """Say in lines what was found and what could not be judged."""
    found = "No gap and no repeat"
    if row.gaps or row.duplicates:
        found = (
            f"{counted(row.gaps, 'gap')} ({counted(row.missing_count, 'number')} missing), "
            f"{counted(row.duplicates, 'repeat')} ({counted(row.repeated_count, 'number')})"
        )
    numbered = f"{row.batches_with_sequences:,} of {counted(row.batches, 'batch')}"
    where = f"in {counted(row.partitions, 'partition')}"
    whose = counted(row.producers, "producer")
    lines = [f"{found} {where}: {numbered} have sequence numbers, of {whose}"]
    if row.first_gaps:
        lines.append(
            f"{counted(row.first_gaps, 'gap')} before a first number: lost on the way to a new "
            "partition (KAFKA-15591), unless the topic was created again, the log truncated, or "
            "the producer forgotten by the broker"
        )
    if row.removed or row.expired or row.restarted:
        lines.append(
            f"with an innocent explanation: {row.removed:,} removed, {row.expired:,} expired, "
            f"{row.restarted:,} restarted; --explained lists them"
        )
    for many, word, words in (
        (row.rows_not_listed, "row", "{} not listed: ten thousand rows a partition"),
        (row.partitions_damaged, "partition", "around damage, in {}, nothing was judged"),
        (
            row.partitions_of_coordinators,
            "partition",
            "not followed: {} of coordinators, which all write 0",
        ),
        (
            row.partitions_not_followed,
            "partition",
            "too many producers at once to follow them all, in {}",
        ),
    ):
        if many:
            lines.append(words.format(counted(many, word)))
    return lines


def _usage(asked: tuple[str, ...], bytes_cell: Callable[[bytes | None], str]) -> Columns:
    """Return the columns of a row: what its group is made of, then what it comes to."""
    names: dict[str, Column[Usage]] = {
        "topic": folded("topic", lambda row: "-" if row.topic is None else row.topic, 12),
        "partition": number("partition"),
        "producer_id": number("producer", "producer_id"),
        "codec": Column("codec", lambda row: row.codec or "-"),
        "key": Column("key", partly("key", bytes_cell), cuts=True, least=12),
    }
    by_key = "key" in asked

    def size(row: Usage) -> str:
        if by_key:
            return _size_cell(row.plain_bytes, row.plain_bytes_at_most)
        return _size_cell(row.size_bytes, row.size_bytes_at_most)

    return (
        *(column for member, column in names.items() if member in asked),
        amount("plain size" if by_key else "size", size),
        amount("share", lambda row: f"{row.share:.1%}"),
        Column("", lambda row: _bar(row.share), rank=1),
        *([] if by_key else [amount("batches", lambda row: number_text(row.batches), 2)]),
        amount("records", lambda row: number_text(row.records_count)),
        Column("first time", lambda row: second_cell(row.first_timestamp_ms), rank=4),
        Column("last time", lambda row: second_cell(row.last_timestamp_ms), rank=3),
    )


def _usage_summary(row: UsageSummary) -> list[str]:
    """Say in lines what all groups come to, and what was not counted."""
    parts = [f"{_size(row.plain_bytes)} of keys, values and headers"]
    if row.batches is not None:
        parts = [_size(row.size_bytes), counted(row.batches, "batch")]
    records = row.records_count
    parts.append("records not known" if records is None else counted(records, "record"))
    shown = ""
    if row.groups != row.listed:
        shown = f", {row.listed:,} of {number_text(row.groups, 'very many')} shown"
    lines = [f"in all{shown}: {', '.join(parts)}"]
    if row.unopened_wrappers:
        lines.append(
            f"{counted(row.unopened_wrappers, 'wrapper')} of magic 0 or 1 not opened; "
            "--deep counts what is inside"
        )
    if not row.exact:
        most = row.unlisted_size_bytes_at_most
        if row.batches is None:
            most = row.unlisted_plain_bytes_at_most
        lines.append(
            "Too many groups to hold all: sizes are at least and at most, records at least"
        )
        lines.append(f"no group that is not shown has more than {_size(most)}")
    if row.bytes_not_counted:
        lines.append(f"{_size(row.bytes_not_counted)} on disk not counted; see the findings")
    return lines


def _size(value: int | None) -> str:
    return "?" if value is None else size_text(value)


def _size_cell(least: int | None, most: int | None) -> str:
    return _size(least) if least == most else f"{_size(least)}\N{EN DASH}{_size(most)}"


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_CELLS * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _place(row: FindingRow) -> str:
    at = [str(row.topic) + f"-{row.partition}"] if row.topic is not None else [row.path]
    at += [f"segment {row.segment}"] if row.segment is not None else []
    at += [f"position {row.position}"] if row.position is not None else []
    return ", ".join(at)


_FINDING: tuple[Column[FindingRow], ...] = (
    Column("severity", lambda row: row.severity),
    Column("code", lambda row: row.code),
    folded("where", _place, 16),
    number("offset", rank=1),
    folded("message", lambda row: row.message, 24),
)
_SCHEMA: tuple[Column[SchemaField], ...] = (
    Column("kind", lambda row: row.kind),
    Column("member", lambda row: row.field),
    Column("type", lambda row: f"{row.type} {row.unit}".rstrip()),
    Column("null", lambda row: "may be" if row.null else "", rank=1),
    folded("meaning", lambda row: row.meaning, 24),
)
#: Kind of row -> the columns of its table, where it has one of its own.
_COLUMNS: dict[str, Columns] = {
    "finding": _FINDING,
    "schema-field": _SCHEMA,
    "offset-lookup": _OFFSET_LOOKUP,
    "time-lookup": _TIME_LOOKUP,
    "reindex": _REINDEX,
    "carved": _CARVED,
    "salvaged": _SALVAGED,
    "group-offset": _GROUP_OFFSET,
    "salvage-check": _SALVAGE_CHECK,
    "sequence-gap": _SEQUENCES,
    "sequence-duplicate": _SEQUENCES,
    "misplaced-keys": placement_tables.MISPLACED,
    **group_tables.COLUMNS,
    **cluster_tables.COLUMNS,
    **transaction_tables.COLUMNS,
}
#: Rows that are shown in lines, not in a table.
SUMMARIES: dict[str, Callable[[Any], list[str]]] = {
    "usage-summary": _usage_summary,
    "sequence-summary": _sequence_summary,
    "duplicates-summary": duplicate_tables.summary,
    "key-placement": placement_tables.summary,
    "cluster-summary": cluster_tables.summary,
}
#: Those of them that come before what they sum up.
TOTALS_FIRST = frozenset(("duplicates-summary", "key-placement"))
#: Rows that name their partition themselves, where others have it above them.
NAMED = frozenset(_COLUMNS) - {"reindex"} | {"usage", "duplicate", "moved-key"}


def own_columns(row: Row, bytes_cell: Callable[[bytes | None], str]) -> Columns | None:
    """Return the columns of a row that has some of its own; `bytes_cell` writes a key."""
    if isinstance(row, Usage):
        return _usage(row.asked_, bytes_cell)
    if isinstance(row, Duplicate):
        return duplicate_tables.columns(row.asked_, bytes_cell)
    if row.row == "moved-key":
        return placement_tables.moved(bytes_cell)
    return _COLUMNS.get(row.row)

"""The tables of `usage --partitioner`: a line for each topic, then where keys do not belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.output.amounts import counted, number_text, second_cell, time_text
from kdump.output.column_widths import Column, amount, folded, number, partly
from kdump.output.escape import visible
from kdump.rows.usage import MisplacedKeys, MovedKey

Fields = dict[str, Any]

_SOURCES = {
    "option": "as given",
    "metadata log": "by the metadata log",
    "directories": "by the directories seen",
}


def _whose(row: MisplacedKeys) -> str:
    if row.other_producers:
        return "others"
    return "-" if row.producer_id is None else str(row.producer_id)


MISPLACED: tuple[Column[MisplacedKeys], ...] = (
    folded("partition", lambda row: f"{row.topic or '?'}-{row.partition}", 12),
    amount("producer", _whose),
    amount("misplaced", lambda row: number_text(row.misplaced_count)),
    amount("of keyed", lambda row: number_text(row.records_count)),
    amount("share", lambda row: f"{row.share:.1%}"),
    number("as if of", "as_if_partitions", rank=1),
    number("first", "first_offset"),
    Column("since", lambda row: second_cell(row.first_timestamp_ms)),
    number("last", "last_offset"),
    Column("until", lambda row: second_cell(row.last_timestamp_ms), rank=2),
)


def moved(bytes_cell: Callable[[bytes | None], str]) -> tuple[Column[MovedKey], ...]:
    """Return the columns of a key that lies on several partitions."""
    return (
        folded("topic", lambda row: str(row.topic or "-"), 10),
        Column("key that moved", partly("key", bytes_cell), cuts=True, least=14),
        Column("partitions", lambda row: ", ".join(map(str, row.partitions)), cuts=True),
        number("from offset", "offset"),
        Column("since", lambda row: second_cell(row.timestamp_ms)),
        Column("order", lambda row: "mixed" if row.interleaved else "kept"),
    )


def summary(fields: Fields) -> list[str]:
    """Say of a topic how its keys lie."""
    topic, count = visible(fields["topic"] or "?"), fields["partitions_count"]
    if fields["partitioner"] is None:
        return [f"{topic} has one partition: every key is where it belongs"]
    where = f"{counted(count, 'partition')} {_SOURCES[fields['partitions_from']]}"
    missed, share = fields["misplaced_count"], f"{fields['share']:.1%}"
    if fields["fits"] or fields["is_given"]:
        who = f"{fields['partitioner']} says" + " and fits best" * (not fields["is_given"])
        of = f"{counted(missed, 'record')} of {fields['records_count']:,} with a key ({share})"
        first = f"{topic}: {of} lie on another partition than {who}, with {where}"
    else:
        keyed = counted(fields["records_count"], "record")
        first = (
            f"{topic}: no known partitioner fits the {keyed} with a key, with {where}: the best, "
            f"{fields['partitioner']}, expects {missed:,} ({share}) on another partition"
        )
    lines = [first]
    if fields["as_if_partitions"]:
        lines.append(f"all of these lie as if the topic had {fields['as_if_partitions']:,}")
    if fields["records_without_key"]:
        lines.append(f"{counted(fields['records_without_key'], 'record')} without a key: anywhere")
    if fields["keys_moved"]:
        since = fields["moved_since_ms"]
        when = "" if since is None else f", the first at {time_text(since)}"
        moved_keys, keys = fields["keys_moved"], counted(fields["keys"], "key")
        lines.append(f"{moved_keys:,} of {keys} lie on several partitions{when}")
    return lines

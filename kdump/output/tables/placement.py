"""The tables of `placement`: a line for each topic, then where keys do not belong."""

from __future__ import annotations

from kdump.output.amounts import count_text, number_text, second_cell, time_text
from kdump.output.column_widths import Column, amount, folding_column, number, partly
from kdump.output.escape import visible
from kdump.output.row_tables import BytesCell, Summaries, Tables
from kdump.rows.usage import KeyPlacement, MisplacedKeys, MovedKey

_SOURCES = {
    "option": "as given",
    "metadata log": "by the metadata log",
    "directories": "by the directories seen",
}


def _client_text(row: MisplacedKeys) -> str:
    if row.other_producers:
        return "others"
    return "-" if row.producer_id is None else str(row.producer_id)


_MISPLACED: tuple[Column[MisplacedKeys], ...] = (
    folding_column("partition", lambda row: f"{row.topic or '?'}-{row.partition}", 12),
    amount("producer", _client_text),
    amount("misplaced", lambda row: number_text(row.misplaced_count)),
    amount("of keyed", lambda row: number_text(row.records_count)),
    amount("share", lambda row: f"{row.share:.1%}"),
    number("placed for", "as_if_partitions", rank=1),
    number("first", "first_offset"),
    Column("since", lambda row: second_cell(row.first_timestamp_ms)),
    number("last", "last_offset"),
    Column("until", lambda row: second_cell(row.last_timestamp_ms), rank=2),
)


def _moved_columns(row: MovedKey, bytes_cell: BytesCell) -> tuple[Column[MovedKey], ...]:
    """Return the columns of a key that lies on several partitions."""
    return (
        folding_column("topic", lambda row: str(row.topic or "-"), 10),
        Column("key that moved", partly("key", bytes_cell), cuts=True, least=14),
        Column("partitions", lambda row: ", ".join(map(str, row.partitions)), cuts=True),
        number("from offset", "offset"),
        Column("since", lambda row: second_cell(row.timestamp_ms)),
        Column("order", lambda row: "mixed" if row.interleaved else "kept"),
    )


def _summary(row: KeyPlacement) -> list[str]:
    """Say of a topic how its keys lie."""
    topic = visible(row.topic or "?")
    if row.partitioner is None:
        return [f"{topic} has one partition, so no key can be misplaced"]
    where = f"{count_text(row.partitions_count, 'partition')} {_SOURCES[row.partitions_from]}"
    missed, share = row.misplaced_count, f"{row.share:.1%}"
    if row.fits or row.is_given:
        who = f"{row.partitioner} selects" + " and fits best" * (not row.is_given)
        of = f"{count_text(missed, 'record')} of {row.records_count:,} with a key ({share})"
        first = f"{topic}: {of} are not on the partition that {who} among {where}"
    else:
        keyed = count_text(row.records_count, "record")
        first = (
            f"{topic}: no known partitioner explains where the {keyed} with a key are, "
            f"among {where}. The best match, {row.partitioner}, expects {missed:,} ({share}) on "
            f"another partition"
        )
    lines = [first]
    if row.as_if_partitions:
        lines.append(f"all of these fit a topic with {row.as_if_partitions:,}")
    if row.records_without_key:
        lines.append(
            f"{count_text(row.records_without_key, 'record')} without a key: on any partition"
        )
    if row.keys_moved:
        since = row.moved_since_ms
        when = "" if since is None else f", the first at {time_text(since)}"
        keys = count_text(row.keys, "key")
        lines.append(f"{row.keys_moved:,} of {keys} are on several partitions{when}")
    return lines


TABLES: Tables = {MisplacedKeys: _MISPLACED, MovedKey: _moved_columns}
SUMMARIES: Summaries = {KeyPlacement: _summary}

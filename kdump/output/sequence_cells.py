"""The table cells of `kdump sequences`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.progress import counted
from kdump.output.times import time_text

if TYPE_CHECKING:
    from kdump.findings.rows import Row

SEQUENCE_ROWS = ("sequence-gap", "sequence-duplicate")
SEQUENCE_COLUMNS = (
    Column("partition", cuts=True, folds=True, least=16),
    Column("producer", right=True),
    Column("what"),
    Column("count", right=True),
    Column("expected", right=True, rank=2),
    Column("found", right=True, rank=2),
    Column("after", right=True, rank=3),
    Column("offset", right=True),
    Column("time", rank=4),
    Column("why", cuts=True, folds=True, least=24, rank=5),
)


def sequence_cells(row: Row) -> tuple[str, ...]:
    """Return the cells of one row, in the order of SEQUENCE_COLUMNS."""
    fields = row.fields
    topic = fields["topic"]
    time_ms = fields["timestamp_ms"]
    count = fields["sequences_count"]
    return (
        "?" if topic is None else visible(f"{topic}-{fields['partition']}"),
        f"{fields['producer_id']}/{fields['producer_epoch']}",
        str(fields["kind"]),
        "-" if count is None else f"{count:,}",
        str(fields["expected_sequence"]),
        str(fields["base_sequence"]),
        str(fields["previous_offset"]),
        str(fields["offset"]),
        time_text(time_ms) if isinstance(time_ms, int) and time_ms >= 0 else "-",
        visible(str(fields["explanation"])),
    )


def sequence_summary(row: Row) -> list[str]:
    """Say in lines what was found and what could not be judged."""
    fields = {name: count for name, count in row.fields.items() if isinstance(count, int)}
    gaps, repeats = fields["gaps"], fields["duplicates"]
    found = "No gap and no repeat"
    if gaps or repeats:
        found = (
            f"{counted(gaps, 'gap')} ({counted(fields['missing_count'], 'number')} missing), "
            f"{counted(repeats, 'repeat')} ({counted(fields['repeated_count'], 'number')})"
        )
    numbered = f"{fields['batches_with_sequences']:,} of {counted(fields['batches'], 'batch')}"
    where = f"in {counted(fields['partitions'], 'partition')}"
    whose = counted(fields["producers"], "producer")
    lines = [f"{found} {where}: {numbered} have sequence numbers, of {whose}"]
    explained = [f"{fields[kind]:,} {kind}" for kind in ("removed", "expired", "restarted")]
    if any(fields[kind] for kind in ("removed", "expired", "restarted")):
        lines.append(
            f"with an innocent explanation: {', '.join(explained)}; --explained lists them"
        )
    for name, words in (
        ("rows_not_listed", "{} not listed: ten thousand rows a partition"),
        ("partitions_damaged", "around damage, in {}, nothing was judged"),
        ("partitions_of_coordinators", "not followed: {} of coordinators, which all write 0"),
        ("partitions_not_followed", "too many producers at once to follow them all, in {}"),
    ):
        if fields[name]:
            word = "row" if name == "rows_not_listed" else "partition"
            lines.append(words.format(counted(fields[name], word)))
    return lines

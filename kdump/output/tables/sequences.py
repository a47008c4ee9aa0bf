"""The table of `sequences`, and the lines below it."""

from __future__ import annotations

from kdump.output.amounts import count_text, number_text, time_cell
from kdump.output.column_widths import Column, amount, folding_column, number
from kdump.output.row_tables import Summaries, Tables, name_of
from kdump.rows.sequences import SequenceDuplicate, SequenceGap, SequenceSummary


def _time_of_batch(row: SequenceGap | SequenceDuplicate) -> str:
    return time_cell(None if row.timestamp_ms < 0 else row.timestamp_ms)


_SEQUENCES: tuple[Column[SequenceGap | SequenceDuplicate], ...] = (
    folding_column("partition", name_of, 16),
    amount("producer", lambda row: f"{row.producer_id}/{row.producer_epoch}"),
    Column("what", lambda row: row.kind),
    amount("count", lambda row: number_text(row.sequences_count, "-")),
    number("expected", "expected_sequence", rank=2),
    number("found", "base_sequence", rank=2),
    number("after", "previous_offset", rank=3),
    number("offset"),
    Column("time", _time_of_batch, rank=4),
    folding_column("why", lambda row: str(row.explanation), 24, rank=1),
)


def _sequence_summary(row: SequenceSummary) -> list[str]:
    """Say in lines what was found and what could not be judged."""
    found = "No gaps and no repeats"
    if row.gaps or row.duplicates:
        found = (
            f"{count_text(row.gaps, 'gap')} ({count_text(row.missing_count, 'number')} missing), "
            f"{count_text(row.duplicates, 'repeat')} ({count_text(row.repeated_count, 'number')})"
        )
    numbered = f"{row.batches_with_sequences:,} of {count_text(row.batches, 'batch')}"
    where = f"in {count_text(row.partitions, 'partition')}"
    whose = count_text(row.producers, "producer")
    lines = [f"{found} {where}: {numbered} have sequence numbers, from {whose}"]
    if row.first_gaps:
        lines.append(
            f"{count_text(row.first_gaps, 'gap')} before the first sequence number of a producer: "
            "lost on the way to a new partition (KAFKA-15591), unless the topic was recreated, "
            "the log was truncated, or the broker forgot the producer"
        )
    if row.removed or row.expired or row.restarted:
        lines.append(
            f"gaps with an explanation: {row.removed:,} where offsets are also missing, "
            f"{row.expired:,} expired, {row.restarted:,} restarted; --explained lists them"
        )
    for many, word, words in (
        (row.rows_not_listed, "row", "{} not listed: at most 10,000 per partition"),
        (row.partitions_damaged, "partition", "not checked around damage: {}"),
        (
            row.partitions_of_coordinators,
            "partition",
            "not checked: {} of internal topics, whose batches all have sequence number 0",
        ),
        (
            row.partitions_not_followed,
            "partition",
            "not checked completely (too many producers at once): {}",
        ),
    ):
        if many:
            lines.append(words.format(count_text(many, word)))
    return lines


TABLES: Tables = {SequenceGap: _SEQUENCES, SequenceDuplicate: _SEQUENCES}
SUMMARIES: Summaries = {SequenceSummary: _sequence_summary}

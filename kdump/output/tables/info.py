"""The tables of `info`: directories and hints as lines, topics as a table."""

from __future__ import annotations

from kdump.output.amounts import count_text, number_text, second_cell, size_text
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.row_tables import Summaries, Tables
from kdump.rows.info import DatingEvidence, Directory, Hint, PartitionSummary, TopicSummary

_RUNS = {True: "a broker is running", False: "no broker is running"}


def _directory(row: Directory) -> list[str]:
    whose = [] if row.broker_id is None else [f"broker {row.broker_id}"]
    if row.cluster_id is not None:
        whose.append(f"cluster {row.cluster_id}")
    runs = [] if row.locked is None else [_RUNS[row.locked]]
    amounts = [
        f"{count_text(row.partitions, 'partition')} of {count_text(row.topics, 'topic')}",
        size_text(row.size_bytes),
    ]
    if row.free_bytes is not None:
        amounts.append(f"{size_text(row.free_bytes)} free on {row.file_system or 'its disk'}")
    return [
        " · ".join((row.path, *whose)),
        " · ".join((f"  written by Kafka {row.written_by}", *runs)),
        f"  {' · '.join(amounts)}",
    ]


def _hint(row: Hint) -> list[str]:
    return [f"! {row.text}", f"  \N{RIGHTWARDS ARROW} {row.command}"]


def _evidence(row: DatingEvidence) -> str:
    since = "" if row.at_ms is None else f", first at {second_cell(row.at_ms)}"
    return row.text + since


def _replicas(row: TopicSummary) -> str:
    here = number_text(row.replicas_here)
    if row.partitions is not None and (row.replicas_here or 0) > row.partitions:
        return f"{row.partitions:,}, {here} replicas"  # of several brokers
    return here if row.partitions is None else f"{here} of {row.partitions:,}"


def _notes(row: TopicSummary) -> str:
    notes = [row.cleanup_policy] if row.cleanup_policy not in (None, "delete") else []
    notes += ["tiered"] if row.tiered else []
    notes += [f"{row.retired:,} retired"] if row.retired else []
    return ", ".join(filter(None, notes))


def _partition(row: PartitionSummary) -> str:
    return f"{row.topic}-{row.partition}" + (f" ({row.retired})" if row.retired else "")


TABLES: Tables = {
    TopicSummary: (
        folding_column("topic", lambda row: row.topic, 16),
        amount("partitions", _replicas),
        amount("segments", lambda row: number_text(row.segments)),
        amount("size", lambda row: size_text(row.size_bytes)),
        Column("first write", lambda row: second_cell(row.first_ms), rank=3),
        Column("last write", lambda row: second_cell(row.last_ms), rank=2),
        Column("notes", _notes, rank=1),
    ),
    PartitionSummary: (
        folding_column("partition", _partition, 16),
        amount("segments", lambda row: number_text(row.segments)),
        amount("size", lambda row: size_text(row.size_bytes)),
        amount("first segment", lambda row: number_text(row.first_segment)),
        amount("last segment", lambda row: number_text(row.last_segment)),
        amount("log start", lambda row: number_text(row.log_start_offset), 4),
        amount("recovery point", lambda row: number_text(row.recovery_point), 2),
        amount("high watermark", lambda row: number_text(row.high_watermark), 1),
        Column("last write", lambda row: second_cell(row.last_ms), rank=3),
    ),
    DatingEvidence: (
        Column("bound", lambda row: row.bound),
        Column("release", lambda row: row.release),
        folding_column("evidence", _evidence, 30),
    ),
}
SUMMARIES: Summaries = {Directory: _directory, Hint: _hint}

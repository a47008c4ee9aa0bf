"""The tables of `compare --mirror`: stretches of records, partitions, and translated offsets."""

from __future__ import annotations

from kdump.findings.ranges import range_cell
from kdump.output.amounts import number_cell
from kdump.output.column_widths import Column, amount, folding_column, number
from kdump.output.row_tables import Tables
from kdump.rows.compare import MirrorComparison, MirrorStretch, TranslatedOffset


def _partition(row: MirrorStretch | MirrorComparison) -> str:
    return f"{row.topic}-{row.partition}"


def _range(first: int | None, last: int | None) -> str:
    return "-" if first is None or last is None else range_cell(first, last)


def _kind(row: MirrorStretch) -> str:
    return row.kind if row.place is None else f"{row.kind} ({row.place})"


_STRETCHES: tuple[Column[MirrorStretch], ...] = (
    folding_column("partition", _partition, 12),
    Column("kind", _kind),
    amount("source", lambda row: _range(row.first_offset, row.last_offset)),
    amount("target", lambda row: _range(row.target_first_offset, row.target_last_offset)),
    number("shift"),
    number("records", "records_count"),
)
_COMPARISONS: tuple[Column[MirrorComparison], ...] = (
    folding_column("partition", _partition, 12),
    folding_column("mirror", lambda row: f"{row.target_topic}-{row.partition}", 12),
    Column("verdict", lambda row: row.verdict),
    number("shift"),
    number("paired"),
    number("only source", "only_source"),
    number("only target", "only_target"),
    number("duplicated", rank=1),
    number("reordered", rank=2),
    amount("more", lambda row: number_cell(row.stretches_left_out or None, ""), 3),
)
_OFFSETS: tuple[Column[TranslatedOffset], ...] = (
    folding_column("group", lambda row: row.group, 8),
    folding_column("from", lambda row: f"{row.source_topic}-{row.partition}", 12),
    number("offset", "source_offset"),
    folding_column("to", lambda row: f"{row.topic}-{row.partition}", 12),
    number("offset", "offset", absent="none"),
    Column("by", lambda row: row.basis or "-"),
    number("records", "records_offset", rank=1),
    number("sync", "sync_offset", rank=2),
    number("checkpoint", "checkpoint_offset", rank=3),
)
TABLES: Tables = {
    MirrorStretch: _STRETCHES,
    MirrorComparison: _COMPARISONS,
    TranslatedOffset: _OFFSETS,
}

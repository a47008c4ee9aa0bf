"""The tables of `report`: each SHA-256 in one piece, before its path as sha256sum prints it."""

from __future__ import annotations

from kdump.output.amounts import number_text, second_cell, time_cell
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.row_tables import Tables
from kdump.rows.report import EvidenceFile, Written


def _sum_and_path(row: EvidenceFile) -> str:
    return f"{row.sha256 or row.text or '-'}  {row.path}"


TABLES: Tables = {
    EvidenceFile: (
        amount("bytes", lambda row: number_text(row.size_bytes)),
        Column("modified", lambda row: second_cell(row.modified_ms), rank=1),
        folding_column("SHA-256, path", _sum_and_path, 64),
    ),
    Written: (
        Column("from", lambda row: time_cell(row.from_ms)),
        Column("to", lambda row: time_cell(row.to_ms)),
        amount("records", lambda row: number_text(row.records_count)),
        amount("bytes", lambda row: number_text(row.size_bytes)),
        folding_column("topic", lambda row: row.topic or "(all)", 10),
    ),
}

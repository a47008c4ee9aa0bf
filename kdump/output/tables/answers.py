"""The table of an answer: its own columns, numbers to the right; the last have room last."""

from __future__ import annotations

from kdump.findings.escape import json_text
from kdump.output.answers import Answer
from kdump.output.column_widths import Column, Columns
from kdump.output.escape import visible
from kdump.output.row_tables import BytesCell, Tables


def _columns(first: Answer, bytes_cell: BytesCell) -> Columns:
    def column(rank: int, name: str, value: object) -> Column[Answer]:
        def cell(row: Answer) -> str:
            one = row.fields[name]
            if one is None or isinstance(one, bytes):
                return bytes_cell(one)
            return visible(one if isinstance(one, str) else json_text(one)) or bytes_cell(b"")

        is_number = isinstance(value, (int, float))
        title = visible(name)
        return Column(title, cell, right=is_number, cuts=not is_number, least=12, rank=rank)

    return tuple(column(rank, *one) for rank, one in enumerate(first.fields.items()))


TABLES: Tables = {Answer: _columns}

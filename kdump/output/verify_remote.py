"""Print the remote segments of `verify --tier`: how many there are, and which are not whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.output.amounts import number_text, size_text
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.grid import table_lines

if TYPE_CHECKING:
    from kdump.rows.verify import RemoteSegmentRow

_SHOWN = 40


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else size_text(size_bytes)


_COLUMNS: tuple[Column[RemoteSegmentRow], ...] = (
    folding_column("partition", lambda row: f"{row.topic}-{row.partition}", 12),
    amount("from", lambda row: number_text(row.start_offset)),
    amount("to", lambda row: "-" if row.end_offset is None else number_text(row.end_offset)),
    Column("verdict", lambda row: row.verdict),
    amount("size", lambda row: _size(row.size_bytes), 2),
    amount("object", lambda row: _size(row.object_bytes), 1),
    folding_column("segment id", lambda row: row.segment_id, 22, rank=3),
)


class RemoteSegments:
    """Counts the rows of remote segments, and holds the first that are not whole."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rows: list[RemoteSegmentRow] = []

    def add(self, row: RemoteSegmentRow) -> None:
        """Take up a row."""
        self._counts[row.verdict] += 1
        if row.verdict != "whole" and len(self._rows) < _SHOWN:
            self._rows.append(row)

    @property
    def count(self) -> int:
        """How many there were."""
        return self._counts.total()

    def lines(self, width: int) -> Iterator[str]:
        """Yield the counts, and a table of those that are not whole."""
        if not self._counts:
            return
        counts = ", ".join(f"{count:,} {word}" for word, count in self._counts.most_common())
        yield f"Remote segments: {counts}"
        if self._rows:
            yield from table_lines(_COLUMNS, self._rows, width)
        more = self.count - self._counts["whole"] - len(self._rows)
        if more:
            yield f"and {more:,} more; --format jsonl lists them"

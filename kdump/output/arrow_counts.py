"""Make rows of records of no more than headers, where only the place of records is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.rows import BatchChunk, Place
from kdump.output.arrow import ArrowBatches
from kdump.output.escape import name_text

if TYPE_CHECKING:
    from kdump.output.sink import Item

#: Columns of a record that are known before its log is opened.
OF_PLACES = frozenset(("topic", "partition", "segment"))
_ROWS_A_BATCH = 1 << 16


class CountedRecords(ArrowBatches):
    """Takes headers for the records that they count, beside records themselves."""

    def __init__(self, wanted: frozenset[str]) -> None:
        super().__init__(wanted)
        self._names = sorted(wanted)
        self._place: Place | None = None
        self._same: Any = None

    def write(self, item: Item) -> None:
        """Take one item."""
        if not isinstance(item, BatchChunk):
            super().write(item)
            return
        self._write()  # what came before
        if item.place != self._place:
            self._place, self._same = item.place, self._rows_of(item.place)
        count = sum(item.batches.records_counts)
        for first in range(0, count, _ROWS_A_BATCH):
            self.ready.append(self._same.slice(0, count - first))

    def _rows_of(self, place: Place) -> Any:
        """Return many rows of a place."""
        import pyarrow as pa

        scalars = {
            "topic": pa.scalar(place.topic and name_text(place.topic), pa.string()),
            "partition": pa.scalar(place.partition, pa.int32()),
            "segment": pa.scalar(place.segment, pa.int64()),
        }
        columns = [pa.repeat(scalars[name], _ROWS_A_BATCH) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, self._names)

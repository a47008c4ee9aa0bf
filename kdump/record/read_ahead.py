"""Decode batches some at a time where they are asked for one by one, mostly in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.record.stretches import stretches

if TYPE_CHECKING:
    from kdump.record.stretches import Data, Stretch

    #: Gives a range of the file that the batches lie in: where it starts, and its size.
    Read = Callable[[int, int], Data]

_RECORDS = 8192  # decoded at a time
_BYTES = 1 << 18  # of batches read at a time


class RecordsAhead:
    """Records of some batches, decoded from one on that was asked for.

    A batch that stands alone among others is not worth it: that is for who asks.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: RecordBatches | None = None
        self._next = self._first = self._behind = 0
        self._stretches: Iterator[Stretch] = iter(())
        self._held: Stretch | None = None

    def records(
        self, batches: RecordBatches, row: int, read: Read
    ) -> tuple[Data, DecodedRecords, int] | None:
        """Give the records of a batch: they are those from a row on, up to the last.

        None: it has to be read by itself.
        """
        if batches is not self._batches:
            self._batches, self._next, self._behind = batches, 0, 0
        in_order, self._next = row == self._next, row + 1
        if not self._first <= row < self._behind:
            if not in_order:
                return None
            self._begin(batches, row, read)
        index = row - self._first
        while self._held is None or self._held.behind <= index:
            self._held = next(self._stretches, None)
            if self._held is None:
                return None
        held = self._held
        if held.records is None or index < held.first:
            return None
        if held.reason != reasons.END and index == held.behind - 1:
            return None
        rows = held.records.batches
        first = bisect_left(rows, index)
        end = bisect_left(rows, index + 1, first)
        found = held.records.up_to(end)
        if min(found.offsets[first:], default=0) < 0:
            return None
        return held.data, found, first

    def _begin(self, batches: RecordBatches, row: int, read: Read) -> None:
        start = batches.position(row)
        behind = bisect_right(batches.positions, start + _BYTES, row + 1)
        behind -= batches.end_position(behind - 1) > start + _BYTES
        self._first, self._behind, self._held = row, max(behind, row + 1), None
        taken = batches.slice(row, self._behind)
        data = read(start, taken.end_position(taken.count - 1) - start)
        self._stretches = stretches(data, start, taken, limit=self._limit, max_records=_RECORDS)

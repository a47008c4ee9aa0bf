"""Take note of the offsets that are missing from a log that is replayed: what the cleaner took."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk


class OffsetHoles:
    """Where offsets are missing, up to where a log was replayed.

    Of those that are missing and lie in no damage `hole_start` is the first, and `hole_end` the one
    behind the last: what the cleaner took lies between. `end_offset` is behind the last record that
    counted.
    """

    def __init__(self) -> None:
        self.hole_start: int | None = None
        self.hole_end = 0
        self.end_offset = 0
        self._next_offset = 0
        self._damaged = False

    def note_loss(self) -> None:
        """Take note that what comes next lies behind damage."""
        self._damaged = True

    def check_offsets(self, chunk: RecordChunk) -> bool:
        """Look for missing offsets; say whether there is anything to take up."""
        records = chunk.records
        count = records.count
        if not count:
            return False
        offsets = records.offsets
        first, last = offsets[0], offsets[count - 1]
        if first > self._next_offset and not self._damaged:
            self._hole(self._next_offset, first)
        self._damaged = False
        if last - first != count - 1:
            for before, offset in pairwise(offsets):
                if offset != before + 1:
                    self._hole(before + 1, offset)
        self._next_offset = last + 1
        return True

    def _hole(self, start: int, end: int) -> None:
        if self.hole_start is None:
            self.hole_start = start
        self.hole_end = max(self.hole_end, end)

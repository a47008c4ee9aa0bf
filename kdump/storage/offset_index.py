"""The offset index: `.index`, eight bytes an entry (I6 to I11).

An entry (E, p) says that a batch starts at p and that every batch before p ends below E. It does
not say that the batch at p holds E: which offset of an append is written changed with the broker
(first until 1.1, last from 2.0), and one entry may stand for several batches (I9).

    0000 001d 0000 1078    relative offset 29, position 4216
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.record.layout import int64
from kdump.storage.index import Index
from kdump.storage.layout import OFFSET_INDEX_ENTRY
from kdump.tuples import NamedTuple


class OffsetPosition(NamedTuple):
    """One entry: an offset, and the position in the log of a batch to scan from."""

    offset: int
    position: int


class OffsetIndex(Index):
    """The entries of one `.index` file; total on any bytes."""

    slot_layout = OFFSET_INDEX_ENTRY

    def entry(self, slot: int) -> OffsetPosition:
        """Give one slot with its absolute offset, written or not."""
        relative, position = self.raw(slot)
        return OffsetPosition(int64(self.base_offset + relative), position)

    def slots(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, OffsetPosition]]:
        """Yield slots in file order, each with its number."""
        base = self.base_offset
        for slot, relative, position in self.pairs(start, end):
            yield slot, OffsetPosition(int64(base + relative), position)

    @property
    def last_offset(self) -> int:
        """The offset of the last slot, the base offset where there is none (I8)."""
        return self.entry(self.entries - 1).offset if self.entries else self.base_offset

    def logical_end(self, log_size: int | None = None) -> int:
        """Count the written entries as far as the index alone can tell (I3).

        They rise in both fields, from a relative offset of 0 and a position above 0; positions lie
        inside the log if its size is given. A stale slot can pass for one: only the log says.
        """
        return self.rising_end(log_size)

    def tool_end(self) -> int:
        """Count the slots that DumpLogSegments prints (D5)."""
        return self.zero_slot(0)

    def sanity(self, *, may_end_at_base: bool = True) -> str | None:
        """Say why `sanityCheck` refuses the file, or None (I11).

        Whether the last entry may name the base offset itself is the broker's affair.
        """
        if self.entries:
            last = self.last_offset
            if may_end_at_base and last < self.base_offset:
                return f"last offset {last} is below the base offset {self.base_offset}"
            if not may_end_at_base and last <= self.base_offset:
                return f"last offset {last} is not above the base offset {self.base_offset}"
        return self.odd_length()

"""The time index: `.timeindex`, twelve bytes an entry, from 0.10.1 on (I12 to I17).

An entry (T, O) says that T was the largest timestamp of the segment when it was made and that it
was seen at O: any record later than T lies after O. It is neither the newest record's timestamp
nor the next offset. Which offset of a batch stands for it changed with the broker (I14).

    0000 018b cfe5 68c8 0000 0029    timestamp 1700000000200, relative offset 41
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import le

from kdump.kernels.text_form import time_text
from kdump.record.layout import int64
from kdump.storage.index import Index
from kdump.storage.layout import TIME_INDEX_ENTRY
from kdump.tuples import NamedTuple


class TimestampOffset(NamedTuple):
    """One entry: the largest timestamp so far, and the offset where it was seen."""

    timestamp_ms: int
    offset: int


class TimeIndex(Index):
    """The entries of one `.timeindex` file; total on any bytes."""

    slot_layout = TIME_INDEX_ENTRY
    value_rises = staticmethod(le)  # an offset may repeat under a later timestamp (I13)

    def entry(self, slot: int) -> TimestampOffset:
        """Give one slot with its absolute offset, written or not."""
        timestamp_ms, relative = self.raw(slot)
        return TimestampOffset(timestamp_ms, int64(self.base_offset + relative))

    def slots(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, TimestampOffset]]:
        """Yield slots in file order, each with its number."""
        base = self.base_offset
        for slot, timestamp_ms, relative in self.pairs(start, end):
            yield slot, TimestampOffset(timestamp_ms, int64(base + relative))

    @property
    def last_entry(self) -> TimestampOffset:
        """The last slot as a broker sees it, zero tail and all; (-1, base offset) if none."""
        if self.entries:
            return self.entry(self.entries - 1)
        return TimestampOffset(-1, self.base_offset)

    def logical_end(self, zero_is_entry: bool | None = None) -> int:
        """Count the written entries as far as the index alone can tell (I3).

        Timestamps rise, offsets do not fall. An all-zero slot 0 is an entry or an empty
        preallocated file: `zero_is_entry` says which, from the log. Unsaid, it is an entry if it
        is all the file holds, or if the slot behind it is written: no truncation zeroes a slot.
        """
        if self.entries and self.raw(0) == (0, 0):
            if zero_is_entry is None:
                zero_is_entry = self.entries == 1 or self.raw(1)[0] > 0 <= self.raw(1)[1]
            if not zero_is_entry:
                return 0
        return self.count_rising()

    def tool_end(self) -> int:
        """Count the slots that DumpLogSegments prints (D6)."""
        return self.zero_slot(1)

    def sanity(self) -> str | None:
        """Say why `sanityCheck` refuses the file, or None (I17).

        A preallocated zero tail is refused. Brokers asked at load from 0.10.1 to 2.2 only.
        """
        if self.entries:
            first, last = self.entry(0), self.last_entry
            if last.timestamp_ms < first.timestamp_ms:
                return (
                    f"last timestamp {time_text(last.timestamp_ms)} is below the first "
                    f"{time_text(first.timestamp_ms)}"
                )
            if last.offset < self.base_offset:
                return f"last offset {last.offset} is below the base offset {self.base_offset}"
        return self.odd_length()

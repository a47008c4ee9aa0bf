"""Build the indexes of a recovered or split segment, as far as that can fail."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError
from kdump.broker.versions import TIME_INDEX, Version, has
from kdump.storage.layout import TIME_INDEX_ENTRY
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.kernels.columns import RecordBatches


class InvalidOffsetError(RefusalError):
    """InvalidOffsetException: an index entry that would not rise; the segment is emptied."""


class IndexBuild:
    """The indexes that a recovery builds, as far as building them can fail."""

    def __init__(
        self,
        base_offset: int,
        file_start: int,
        broker: Version,
        settings: Settings,
        *,
        keeps_times: bool,
    ) -> None:
        self.base_offset = base_offset
        self.file_start = file_start
        self.interval = settings.index_interval_bytes
        self.last_position = file_start
        self.slots = array("i")
        self.last_offset: int | None = None
        self.most = settings.index_size_max_bytes // 8
        self.timed = has(broker, TIME_INDEX)
        self.most_times = settings.index_size_max_bytes // 12 - 1
        self.times = 0
        self.time_slots = array("q") if keeps_times else None
        self.last_time = (-1, -1)
        self.largest = (-1, -1)

    def next_due(self, rows: RecordBatches, start: int, stop: int) -> int:
        """The first entry more than the interval behind the last indexed one (R2.4)."""
        positions = rows.positions
        return bisect_right(positions, self.last_position + self.interval, start, stop)

    def note_times(self, rows: RecordBatches, start: int, stop: int) -> None:
        """Remember the largest timestamp and the first entry that has it."""
        if not self.timed:
            return
        times = rows.max_timestamps[start:stop]
        largest = max(times)
        if largest > self.largest[0]:
            row = start + times.tolist().index(largest)
            self.largest = (largest, rows.last_offset(row))

    def append(self, position: int, offset: int) -> None:
        """Make the entries due at a batch."""
        if len(self.slots) // 2 >= self.most:
            raise RefusalError("IllegalArgumentException: the offset index is full")
        if self.last_offset is not None and offset <= self.last_offset:
            raise InvalidOffsetError(
                f"the index entry due at {position - self.file_start} would fall from offset "
                f"{self.last_offset} to {offset}"
            )
        relative = (offset - self.base_offset) & 0xFFFFFFFF
        self.slots.append(relative - (1 << 32) if relative >> 31 else relative)
        self.slots.append(position - self.file_start)
        self.last_offset = offset
        if self.timed:
            if self.times >= self.most_times:
                raise RefusalError("IllegalArgumentException: the time index is full")
            self._append_time()
        self.last_position = position

    def _append_time(self) -> None:
        largest, offset = self.largest
        if self.times and offset < self.last_time[1]:
            raise InvalidOffsetError(
                f"the time index entry for offset {offset} would fall behind {self.last_time[1]}"
            )
        if largest > self.last_time[0]:
            self.last_time = self.largest
            self.times += 1
            if self.time_slots is not None:
                self.time_slots.extend(self.largest)

    def close(self) -> None:
        """Make the last time entry, which is due in any case (I16)."""
        if self.timed:
            self._append_time()

    def index(self) -> OffsetIndex:
        """The offset index so far, to be searched."""
        slots = self.slots[:]
        if sys.byteorder == "little":
            slots.byteswap()
        return OffsetIndex(slots.tobytes(), self.base_offset)

    def time_index(self) -> TimeIndex:
        """The time index so far, where its entries were kept."""
        slots = iter(self.time_slots or ())
        data = bytearray()
        for timestamp, offset in zip(slots, slots, strict=True):
            relative = (offset - self.base_offset + (1 << 31)) % (1 << 32) - (1 << 31)
            data += TIME_INDEX_ENTRY.pack(timestamp, relative)
        return TimeIndex(bytes(data), self.base_offset)

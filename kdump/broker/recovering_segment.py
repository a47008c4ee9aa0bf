"""One segment during a predicted start: how much of it is left, and its indexes.

Nothing is written: a cut moves `end`, and a rebuilt index is kept in memory as its entries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.broker.index_builder import IndexEntries, InvalidOffsetError, full_index
from kdump.broker.log_reader import CorruptRecordError, Entries, RefusalError
from kdump.broker.versions import (
    WARM_SECTION_SEARCH,
    Version,
    has,
)
from kdump.kernels import reasons
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.segment_range import RELATIVE_MAX
from kdump.storage.source import Source, whole
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from kdump.broker.log_reader import Met
    from kdump.broker.recovered_producers import Producers
    from kdump.broker.settings import Settings
    from kdump.kernels.columns import RecordBatches

_FILE_MAX = (1 << 31) - 1


class OffsetOverflowError(RefusalError):
    """LogSegmentOffsetOverflowException: an offset that no index of this segment can hold."""


class Segment:
    """One segment: the bytes [start, end) of the file at `path`.

    `cut` is how many bytes at its end were removed, `rebuilt` whether its indexes were.
    """

    def __init__(
        self,
        base_offset: int,
        path: str,
        broker: Version,
        settings: Settings,
        *,
        part: tuple[int, int] | None = None,
        index_path: str | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.path = path
        self.broker = broker
        self.settings = settings
        self._extent = part
        self._end: int | None = None
        self._index_path = index_path
        self._index: OffsetIndex | None = None
        self.rebuilt = False
        self.is_part = False  # of a segment that was split
        self.emptied = False  # cut to nothing for an index entry that would not rise
        self.why_cut = ""
        self.valid_end = base_offset  # the offset behind the last entry that recovery took
        self.bytes_read = 0
        self.time_index = TimeIndex(b"", base_offset)

    @property
    def extent(self) -> tuple[int, int]:
        """Where it begins and ended in its file, which is looked at when that is first asked."""
        if self._extent is None:
            self._extent = 0, _size(self.path)
        return self._extent

    @extent.setter
    def extent(self, extent: tuple[int, int]) -> None:
        self._extent = extent

    @property
    def start(self) -> int:
        """Where in the file it begins."""
        return self.extent[0]

    @property
    def original_end(self) -> int:
        """Where it ended before anything was cut."""
        return self.extent[1]

    @property
    def end(self) -> int:
        """Where in the file it ends."""
        return self.original_end if self._end is None else self._end

    @end.setter
    def end(self, end: int) -> None:
        self._end = end

    @property
    def index(self) -> OffsetIndex:
        """The offset index: as it lies there, every slot believed (I2), or as it was rebuilt."""
        if self._index is None:
            data = b"" if self._index_path is None else whole(self._index_path)
            self._index = OffsetIndex(data, self.base_offset)
        return self._index

    @index.setter
    def index(self, index: OffsetIndex) -> None:
        self._index = index

    @property
    def size_bytes(self) -> int:
        """What the broker takes for the log's size."""
        return self.end - self.start

    @property
    def cut(self) -> int:
        """Bytes that were cut from its end."""
        return self.original_end - self.end

    @contextmanager
    def entries(self) -> Iterator[Entries]:
        """Open the log for one reading."""
        with Source(self.path) as source:
            entries = Entries(source, self.broker, self.start, self.end)
            try:
                yield entries
            finally:
                self.bytes_read += entries.bytes_read

    def position_of(self, offset: int) -> int:
        """Where a search for an offset begins (I7), as a position in the file; no lower than 0."""
        entry = self.index.lookup(offset, two_section=has(self.broker, WARM_SECTION_SEARCH))
        return self.start + max(entry.position, 0)

    def translate(self, offset: int) -> Met | None:
        """Find the first entry whose last offset reaches `offset`, None where none does."""
        if self.size_bytes == 0:
            return None
        with self.entries() as entries:
            return entries.search(self.position_of(offset), offset)

    def next_offset(self) -> int:
        """The offset behind the last entry as a start finds it, from the last index entry on."""
        if self.size_bytes == 0:
            return self.base_offset
        indexed = self.index.last_offset
        with self.entries() as entries:
            return entries.next_offset(self.position_of(indexed), indexed, self.base_offset)

    def has_overflow(self) -> bool:
        """Whether splitting the segment would be permitted (R15)."""
        last = self.next_offset() - 1
        return last >= self.base_offset and last - self.base_offset > RELATIVE_MAX

    def truncate_to_base(self) -> int:
        """Empty the segment, as far as an entry with its base offset or above is found (I19)."""
        found = self.translate(self.base_offset)
        self.index = OffsetIndex(b"", self.base_offset)
        self.time_index = TimeIndex(b"", self.base_offset)
        before = self.end
        if found is not None:
            self.end = found.position
        self.emptied = True
        return before - self.end

    def index_entries(self) -> IndexEntries:
        """What is to become its indexes."""
        settings = self.settings
        return IndexEntries(
            self.base_offset,
            self.broker,
            settings.index_interval_bytes,
            settings.index_size_max_bytes,
            start=self.start,
        )

    def recover(self, producers: Producers | None) -> int:
        """Recover the segment (R2, R3); return how many bytes are cut."""
        build = self.index_entries()
        self.rebuilt = True
        self.index = OffsetIndex(b"", self.base_offset)
        with self.entries() as entries:
            try:
                valid = self._valid_end(entries, build, producers)
            except (InvalidOffsetError, OffsetOverflowError):
                self.index = build.offset_index()
                raise
        before, self.end = self.end, valid
        self.index = build.offset_index()
        if not build.finish():
            raise build.time_falls()
        self.time_index = build.time_index()
        return before - valid

    def _valid_end(self, entries: Entries, build: IndexEntries, producers: Producers | None) -> int:
        self.valid_end = self.base_offset
        for run in entries.checked(self.settings.message_max_bytes):
            try:
                self._run(entries, run.batches, build, producers)
            except CorruptRecordError as error:
                if error.end_position < 0:
                    raise
                self.why_cut = str(error)
                return error.end_position
            self.valid_end = run.batches.last_offset(run.batches.count - 1) + 1
        self.why_cut = entries.why or self.why_cut  # cut before, while loading
        return entries.stop

    def _run(
        self,
        entries: Entries,
        rows: RecordBatches,
        build: IndexEntries,
        producers: Producers | None,
    ) -> None:
        row = 0
        while True:
            mark, first = build.mark(), row
            row, reason = build.take(rows, row)
            if (full := build.full()) is not None:
                build.go_back(mark)
                if rows.count - first == 1:
                    raise full_index(full)
                for one in range(first, rows.count):  # which of them is the first too many
                    self._run(entries, rows.slice(one, one + 1), build, producers)
                return
            if producers is not None:
                try:
                    producers.recover(entries, rows, first, row)
                except CorruptRecordError as error:
                    # The entry of a batch is made before it reaches the producer state.
                    build.go_back(mark)
                    taken = bisect_left(rows.positions, error.end_position)
                    build.take(rows.slice(0, taken), first)
                    raise
            if reason == reasons.END:
                return
            if reason != reasons.UNOPENED:
                break
            rows.put(row, base_offset=entries.first_offset(rows, row))
        if reason == reasons.INDEX_FALLS:
            raise build.refusal(rows, row)
        last = rows.last_offset(row)
        raise OffsetOverflowError(f"offset {last} in the segment of {self.base_offset}")


def _size(path: str) -> int:
    with Source(path) as source:
        if source.size > _FILE_MAX:
            raise RefusalError(f"KafkaException: {path} is larger than 2^31 - 1 bytes")
        return source.size

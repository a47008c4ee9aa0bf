"""One segment as a broker has it: what a lookup reads of it, and what a start makes of it.

Files are opened when they are asked for and read slot by slot and header by header, so that a
lookup in a large partition touches a few pages of it. Nothing is written: a cut moves `end`, and a
rebuilt index is kept in memory as its entries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kdump.broker.index_search import find_offset
from kdump.broker.log_reader import CorruptRecordError, Entries, RefusalError, SearchEnd
from kdump.broker.versions import Version
from kdump.errors import path_errors
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind
from kdump.storage.offsets import RELATIVE_MAX
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset

if TYPE_CHECKING:
    from kdump.broker.index_builder import IndexEntries
    from kdump.broker.recovered_producers import Producers
    from kdump.broker.remote_log import RemoteSegment
    from kdump.broker.settings import Settings

    Replay: TypeAlias = Producers | None  # none before 0.11

_FILE_MAX = (1 << 31) - 1


class OffsetOverflowError(RefusalError):
    """LogSegmentOffsetOverflowException: an offset that no index of this segment can hold."""


class Segment:
    """One segment: the bytes [start, end) of its log, and its indexes.

    They are believed as they lie until it is recovered: then `rebuilt` is set, `valid_end` is the
    offset behind the last entry that was taken, and `why_cut` says what ended it, if something did.
    `part` is the range of one that a split made (`is_part`). `running`: the segment that a broker
    appends to, which knows how far it wrote its index. `remote` is what one in remote storage is.
    """

    remote: RemoteSegment | None = None

    def __init__(
        self,
        base_offset: int,
        files: Mapping[Kind, str],
        broker: Version,
        settings: Settings,
        *,
        limit: int = DEFAULT_LIMIT,
        part: tuple[int, int] | None = None,
        running: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.files = files
        self.broker = broker
        self.settings = settings
        self.limit = limit
        self.rebuilt = False
        self.is_part = part is not None
        self.why_cut = ""
        self.valid_end = base_offset
        self.bytes_read = 0
        self._running = running
        self._truncated = False
        self._extent = part
        self._end: int | None = None
        self._next: tuple[int, int] | None = None  # the offset behind, and what reading it took
        self._log: Source | None = None
        self._sources: list[Source] = []
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._last_time: TimestampOffset | None = None

    @property
    def path(self) -> str:
        """The log's path; empty for a segment that a start makes anew."""
        return self.files.get(Kind.LOG, "")

    @property
    def extent(self) -> tuple[int, int]:
        """Where it begins and ended in its file before anything was cut."""
        if self._extent is None:
            with self._open_log() as log:
                self._extent = 0, log.size
        return self._extent

    @extent.setter
    def extent(self, extent: tuple[int, int]) -> None:
        self._extent, self._next = extent, None

    @property
    def start(self) -> int:
        """Where it begins in its file: further on only for a part of a segment that is split."""
        return 0 if self._extent is None else self._extent[0]

    @property
    def original_end(self) -> int:
        """Where it ended before anything was cut."""
        return self.extent[1]

    @property
    def end(self) -> int:
        """Where the log ends: its size, or where a start would cut it."""
        return self.original_end if self._end is None else self._end

    @property
    def size_bytes(self) -> int:
        """What the broker takes for the log's size."""
        return self.end - self.start

    def refuse_oversize(self) -> None:
        """Raise what a start does at a log of more bytes than it can count."""
        if self.original_end > _FILE_MAX:
            raise RefusalError(f"KafkaException: {self.path} is larger than 2^31 - 1 bytes")

    # Files ---------------------------------------------------------------------------------------

    def log(self) -> Source:
        """The log file; like the indexes it stays open until `close`."""
        if self._log is None:
            self._log = Source(self.path)
        return self._log

    def offset_index(self) -> OffsetIndex:
        """The offset index as the broker believes it; empty where there is none."""
        if self._index is None:
            self._index = self._offset_index(self._open(Kind.OFFSET_INDEX))
        return self._index

    def time_index(self) -> TimeIndex:
        """The time index as the broker believes it; empty where there is none."""
        if self._time_index is None:
            data = self._open(Kind.TIME_INDEX)
            self._time_index = TimeIndex(data, self.base_offset, slotwise=True)
        return self._time_index

    def last_time(self) -> TimestampOffset:
        """The largest timestamp a broker knows of, and the last offset of the batch that has it.

        That is the last entry of the time index, whose file is open no longer than that takes.
        """
        path = self.files.get(Kind.TIME_INDEX)
        if self._truncated:
            return self._largest_time()
        if self._time_index is not None or path is None:
            return self.time_index().last_entry
        if self._last_time is None:
            with Source(path) as source:
                self._last_time = TimeIndex(source, self.base_offset, slotwise=True).last_entry
        return self._last_time

    def _largest_time(self) -> TimestampOffset:
        """What a truncation finds in what is left; no index has it (`readLargestTimestamp`)."""
        best = self.time_index().last_entry
        with self.entries() as entries:
            for rows in entries.as_is(self.start):
                for row, timestamp_ms in enumerate(rows.max_timestamps):
                    if timestamp_ms > best.timestamp_ms:
                        best = TimestampOffset(timestamp_ms, rows.last_offset(row))
        return best

    def modified_ms(self) -> int:
        """The log's modification time in milliseconds."""
        with path_errors(self.path):
            return places.stat(self.path).st_mtime_ns // 1_000_000

    def close(self) -> None:
        """Give the files back; what is asked next opens them again."""
        self._next = None
        if self._log is not None:
            self._log.close()
            self._log = None
        if not (self.rebuilt or self.is_part):
            self._index = self._time_index = self._extent = None
        while self._sources:
            self._sources.pop().close()

    def _open(self, kind: Kind) -> bytes | Source:
        path = self.files.get(kind)
        if path is None:
            return b""
        source = Source(path)
        self._sources.append(source)
        return source

    def _offset_index(self, data: bytes | Source) -> OffsetIndex:
        index = OffsetIndex(data, self.base_offset, slotwise=True)
        if self._running:
            from kdump.broker.sound_start import count_written_slots

            index.entries = count_written_slots(index)
        return index

    @contextmanager
    def _open_log(self) -> Iterator[Source]:
        """Open the log for one reading, unless it is open."""
        if self._log is not None:
            yield self._log
        else:
            with Source(self.path) as source:
                yield source

    @contextmanager
    def open_index(self) -> Iterator[OffsetIndex]:
        """Open the offset index for one search, unless it is open."""
        path = self.files.get(Kind.OFFSET_INDEX)
        if self._index is not None or path is None:
            yield self.offset_index()
        else:
            with Source(path) as source:
                yield self._offset_index(source)

    @contextmanager
    def entries(self) -> Iterator[Entries]:
        """Open the log for one reading as a broker of this version reads it."""
        with self._open_log() as source:
            if self._extent is None:
                self._extent = 0, source.size
            entries = Entries(source, self.broker, self.start, self.end, limit=self.limit)
            try:
                yield entries
            finally:
                self.bytes_read += entries.bytes_read

    def check(self) -> None:
        """Raise what a broker answers where it cannot read the segment: of a local one nothing."""

    # Lookups -------------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """Where a search for an offset begins (I7), as a position in the file; no lower than 0."""
        with self.open_index() as index:
            return self.start + max(find_offset(index, offset, self.broker).position, 0)

    def find_last_indexed(self) -> tuple[int, int]:
        """Where a search for the last indexed offset begins, and that offset (I8)."""
        with self.open_index() as index:
            offset = index.last_offset
            return self.start + max(find_offset(index, offset, self.broker).position, 0), offset

    def translate_offset(self, offset: int) -> SearchEnd | None:
        """Find the first entry that reaches `offset`, None where none does (L2)."""
        if self.size_bytes == 0:
            return None
        with self.entries() as entries:
            return entries.search(self.position_of(offset), offset)

    def read_next_offset(self) -> int:
        """The offset behind the last entry as a start finds it, from the last index entry on."""
        if self._next is None:
            before = self.bytes_read
            self._next = self._read_next_offset(), self.bytes_read - before
        else:
            self.bytes_read += self._next[1]
        return self._next[0]

    def _read_next_offset(self) -> int:
        if self._extent is not None and self.size_bytes == 0:
            return self.base_offset
        with self.entries() as entries:
            if self.size_bytes == 0:
                return self.base_offset
            return entries.next_offset(*self.find_last_indexed(), self.base_offset)

    # Recovery ------------------------------------------------------------------------------------

    def has_overflow(self) -> bool:
        """Whether splitting the segment would be permitted (R15)."""
        last = self.read_next_offset() - 1
        return last >= self.base_offset and last - self.base_offset > RELATIVE_MAX

    def truncate_to_base(self) -> int:
        """Empty the segment, as far as an entry with its base offset or above is found (I19)."""
        found = self.translate_offset(self.base_offset)
        self._truncated = True
        self._put(self.index_entries())
        before = self.end
        if found is not None:
            self._end = found.position
        return before - self.end

    def index_entries(self) -> IndexEntries:
        """What its indexes are built with."""
        from kdump.broker.index_builder import IndexEntries

        return IndexEntries(self.base_offset, self.broker, self.settings, start=self.start)

    def put_built(self, build: IndexEntries) -> None:
        """Take over indexes at the end of the segment, where the last time entry is due."""
        self._put(build)
        if not build.finish():
            raise build.time_falls()
        self._put(build)

    def _put(self, build: IndexEntries) -> None:
        self.rebuilt, self._next = True, None
        self._index, self._time_index = build.offset_index(), build.time_index()

    def recover(self, producers: Replay) -> int:
        """Recover the segment (R2, R3); return how many bytes are cut."""
        from kdump.broker.index_builder import InvalidOffsetError

        self.refuse_oversize()
        build = self.index_entries()
        self._put(build)
        with self.entries() as entries:
            try:
                valid = self._valid_end(entries, build, producers)
            except (InvalidOffsetError, OffsetOverflowError):
                self._put(build)
                raise
        before, self._end = self.end, valid
        self.put_built(build)
        return before - valid

    def _valid_end(self, entries: Entries, build: IndexEntries, producers: Replay) -> int:
        self.valid_end = self.base_offset
        for run in entries.read_sound(self.settings.message_max_bytes):
            try:
                self._take(entries, run.batches, build, producers)
            except CorruptRecordError as error:
                if error.end_position < 0:
                    raise
                self.why_cut = str(error)
                return error.end_position
            self.valid_end = run.batches.last_offset(run.batches.count - 1) + 1
        self.why_cut = entries.why or self.why_cut  # cut before, while loading
        return entries.stop

    def _take(
        self, entries: Entries, rows: RecordBatches, build: IndexEntries, producers: Replay
    ) -> None:
        """Take up entries in the order in which a broker would fail at one of them."""
        from kdump.broker.index_builder import full_index

        row, reason = 0, reasons.UNOPENED
        while reason == reasons.UNOPENED:
            mark, first = build.mark(), row
            row, reason = build.take(rows, row)
            if (full := build.full()) is not None:
                build.go_back(mark)
                if rows.count - first == 1:
                    raise full_index(full)
                for one in range(first, rows.count):  # which of them is the first too many
                    self._take(entries, rows.slice(one, one + 1), build, producers)
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
            if reason == reasons.UNOPENED:
                rows.put(row, base_offset=entries.first_offset(rows, row))
        if reason == reasons.INDEX_FALLS:
            raise build.refusal(rows, row)
        if reason == reasons.OFFSET_RANGE:
            last = rows.last_offset(row)
            raise OffsetOverflowError(f"offset {last} in the segment of {self.base_offset}")

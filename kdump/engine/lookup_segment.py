"""One segment as a lookup meets it: which indexes are believed, where its log ends.

Files are opened when they are asked for and read slot by slot and header by header, so that a
lookup in a large partition touches a few pages of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.lookup_records import UndecodableError, records_of
from kdump.engine.predict.read import Entries, RefusalError, UnknowableError
from kdump.engine.versions import NEWEST
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.names import Kind
from kdump.storage.offset_index import OffsetIndex, OffsetPosition
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset

if TYPE_CHECKING:
    from kdump.engine.predict.read import Broker, Met
    from kdump.kernels.columns import Columns
    from kdump.record.frames import Run
    from kdump.storage.index import Index

# An index that a start would rebuild is proved whole up to this many bytes, else its end only.
_PROVED_BYTES = 1 << 18
_PROVED_SLOTS = 4096
_STEPS_BACK = 64


class BrokerError(Exception):
    """The broker would answer this request with an error, not with an offset."""


class Found(NamedTuple):
    """The first entry of a fetch: its place and its header's offsets."""

    segment: int
    position: int
    size_bytes: int
    base_offset: int | None
    last_offset: int
    index_entry: OffsetPosition | None
    batches_scanned: int


class Segment:
    """One segment with its files open only as far as they are needed.

    `rebuilt` says that a start would rebuild its indexes (R6.4, R5). Of an index that is there
    only the written entries are believed then, and each only where the log bears it out; with no
    `.index` none is, since the time index is rebuilt with it. `limit` bounds an entry's plain
    text in bytes.
    """

    def __init__(
        self,
        base_offset: int,
        files: dict[Kind, str],
        *,
        rebuilt: bool,
        broker: Broker = NEWEST,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.broker = broker
        self.limit = limit
        self.base_offset = base_offset
        self.files = files
        self.rebuilt = rebuilt
        self._log: Source | None = None
        self._sources: list[Source] = []
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._last_time: TimestampOffset | None = None
        self._cut: int | None = None

    @property
    def path(self) -> str:
        """The log's path."""
        return self.files[Kind.LOG]

    def log(self) -> Source:
        """The log file, open."""
        if self._log is None:
            self._log = Source(self.path)
        return self._log

    def close(self) -> None:
        """Give the files back; what is asked next opens them again."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self._offset_index = self._time_index = None
        while self._sources:
            self._sources.pop().close()

    def end(self) -> int:
        """Where the log ends: its size, or where a start would cut it."""
        if not self.rebuilt:
            return self.log().size
        if self._cut is None:
            self._cut = sound_end(self.log(), self.sound_start())
        return self._cut

    def sound_start(self) -> int:
        """From where on the log's soundness has to be looked at: behind what the index proves."""
        index = self.offset_index()
        for slot in range(len(index) - 1, max(-1, len(index) - 1 - _STEPS_BACK), -1):
            if self.bears_out(index.entry(slot)):
                return index.entry(slot).position
        return 0

    def bears_out(self, entry: OffsetPosition) -> bool:
        """Whether an entry starts in the log where an index entry says (I10 c and e)."""
        if not 0 < entry.position < self.log().size:
            return False
        header = FileRecords(self.log()).header(entry.position)
        if header is None or header.flags & (c.TOO_SMALL | c.MAGIC_UNKNOWN):
            return False
        first = header.value(c.B_BASE_OFFSET, 0)
        if header.flags & c.WRAPPER:
            first = self.base_offset
        return self.base_offset <= first <= entry.offset

    def start_for(self, offset: int) -> int:
        """Where a scan for an offset starts, by an index that a start would rebuild."""
        entry = self.offset_index().lookup(offset)
        return entry.position if self.bears_out(entry) else 0

    def bears_out_time(self, entry: TimestampOffset) -> bool:
        """Whether the batch that reaches an entry's offset has its time for a maximum (I14)."""
        for batches in self.headers(self.start_for(entry.offset)):
            for row, last in enumerate(batches.column(c.B_LAST_OFFSET)):
                if last >= entry.offset:
                    return batches.value(c.B_MAX_TIMESTAMP, row) == entry.timestamp_ms
        return False

    def offset_index(self) -> OffsetIndex:
        """The offset index as the broker believes it; empty where there is none."""
        if self._offset_index is None:
            data = self._open(Kind.OFFSET_INDEX)
            self._offset_index = OffsetIndex(data, self.base_offset, slotwise=True)
            if self.rebuilt:
                self._offset_index.entries = written_slots(self._offset_index)
        return self._offset_index

    def time_index(self) -> TimeIndex:
        """The time index as the broker believes it; empty where there is none."""
        if self._time_index is None:
            data = b"" if self._none_believed else self._open(Kind.TIME_INDEX)
            self._time_index = TimeIndex(data, self.base_offset, slotwise=True)
            if self.rebuilt:
                self._time_index.entries = self._time_slots(self._time_index)
        return self._time_index

    def last_time(self) -> TimestampOffset:
        """The last entry of the time index, its file open no longer than that takes."""
        if self._last_time is None:
            path = self.files.get(Kind.TIME_INDEX)
            if self.rebuilt or self._time_index is not None or path is None:
                self._last_time = self.time_index().last
            else:
                with Source(path) as source:
                    self._last_time = TimeIndex(source, self.base_offset, slotwise=True).last
        return self._last_time

    def _time_slots(self, index: TimeIndex) -> int:
        """Count the entries of a time index, without those at its end that the log belies."""
        end = written_slots(index)
        for slot in range(end - 1, max(-1, end - 1 - _STEPS_BACK), -1):
            if self.bears_out_time(index.entry(slot)):
                return slot + 1
        return 0

    @property
    def _none_believed(self) -> bool:
        return self.rebuilt and Kind.OFFSET_INDEX not in self.files

    def _open(self, kind: Kind) -> bytes | Source:
        path = self.files.get(kind)
        if path is None:
            return b""
        source = Source(path)
        self._sources.append(source)
        return source

    def entries(self) -> Entries:
        """The log's entries, to be read as a broker of this version reads them."""
        return Entries(self.log(), self.broker, 0, self.end(), limit=self.limit)

    def headers(self, position: int) -> Iterator[Columns]:
        """Headers from a position to the end, as a broker's lookup meets them (S6)."""
        if position < 0:
            if position >= self.end() - 17:
                return
            raise BrokerError(f"IllegalArgumentException: negative position in {self.path}")
        with failing_in(self.path):
            yield from self.entries().as_is(position)

    def search(self, position: int, offset: int) -> Met | None:
        """Find the first entry from a position on that reaches an offset (L2)."""
        with failing_in(self.path):
            return self.entries().search(max(0, position), offset)

    def records(self, position: int, *, streaming: bool = False) -> Iterator[tuple[int, int]]:
        """(offset, timestamp_ms) of the records of the one entry at a position.

        Raises where a broker that looks for a time in it would; `streaming` as it looks for the
        greatest one.
        """
        try:
            yield from records_of(self._run(position), limit=self.limit, streaming=streaming)
        except UndecodableError as error:
            raise_undecodable(self.path, position, error.reason)

    def _run(self, position: int) -> Run:
        """The entry at a position, with its bytes; it is row 0."""
        for run in FileRecords(self.log(), limit=self.limit).runs_as_is(position, self.end()):
            return run
        raise PathError(
            self.path, f"the entry at {position} is larger than the limit of {self.limit} bytes"
        )

    def modified_ms(self) -> int:
        """The log's modification time in milliseconds."""
        try:
            return places.stat(self.path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise PathError.from_os(self.path, error) from error


@contextmanager
def failing_in(path: str) -> Iterator[None]:
    """Make what a broker's reading of a file fails at its answer to a lookup."""
    try:
        yield
    except RefusalError as error:
        raise BrokerError(f"{error}, in {path}") from error
    except UnknowableError as error:
        raise BrokerError(
            f"it cannot be told here what a broker would make of {error}, in {path}"
        ) from error


def raise_undecodable(path: str, position: int, reason: int) -> None:
    """Say that a broker or consumer fails on an entry it cannot decode."""
    if reason in (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT):
        return
    words = reasons.NAMES.get(reason, "damaged")
    raise BrokerError(f"{path}: the entry at {position} cannot be decoded ({words})")


def written_slots(index: Index) -> int:
    """Count the written entries of an index that a start would rebuild (I3).

    Zeros end them, and behind a truncation the first entry that does not rise. Of a large index
    only the last slots are looked at for that.
    """
    empty = (0, 0)
    low, high = 0, index.entries
    while low < high:
        middle = (low + high) // 2
        if index.raw(middle) == empty:
            high = middle
        else:
            low = middle + 1
    if low * index.layout.size <= _PROVED_BYTES:
        return min(low, index.rising_end())
    start = low - _PROVED_SLOTS
    key, value = index.raw(start)
    for slot, next_key, next_value in index.pairs(start + 1, low):
        if next_key <= key or not index.value_rises(value, next_value):
            return slot
        key, value = next_key, next_value
    return low


def sound_end(source: Source, position: int) -> int:
    """Where recovery would cut a log: at the first entry that is not whole and valid (R2, R3)."""
    from kdump.record.frames import Gap

    for item in FileRecords(source).walk(position):
        if isinstance(item, Gap):
            return item.position
    return source.size


__all__ = ["DEFAULT_LIMIT", "BrokerError", "Found", "Segment", "raise_undecodable", "sound_end"]

"""One segment as a lookup reads it: which indexes are trusted, where its log ends.

Files are opened when they are asked for and read slot by slot and header by header, so that a
lookup in a large partition touches a few pages of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.log_reader import Entries, RefusalError, UnknowableError
from kdump.broker.lookup_records import UndecodableError, records_of
from kdump.broker.versions import NEWEST, WARM_SECTION_SEARCH, Version, has
from kdump.errors import PathError
from kdump.kernels import reasons
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.names import Kind
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset

if TYPE_CHECKING:
    from kdump.broker.log_reader import Met
    from kdump.broker.recovering_segment import Segment as MadeSegment
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Run
    from kdump.storage.offset_index import OffsetPosition


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

    `made` is the segment as a start leaves it where that recovers it (R6.4, R5): with an end of its
    own, and indexes in memory. Else the files are believed as they lie.
    """

    def __init__(
        self,
        base_offset: int,
        files: dict[Kind, str],
        *,
        broker: Version = NEWEST,
        limit: int = DEFAULT_LIMIT,
        made: MadeSegment | None = None,
    ) -> None:
        self.broker = broker
        self.limit = limit
        self.base_offset = base_offset
        self.files = files
        self.made = made
        self._log: Source | None = None
        self._sources: list[Source] = []
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._last_time: TimestampOffset | None = None

    @property
    def path(self) -> str:
        """The log's path."""
        return self.files[Kind.LOG]

    @property
    def rebuilt(self) -> bool:
        """Whether a start would rebuild its indexes."""
        return self.made is not None

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

    @property
    def start(self) -> int:
        """Where it begins in its file: further on only for a part of a segment that is split."""
        return 0 if self.made is None else self.made.start

    def end(self) -> int:
        """Where the log ends: its size, or where a start would cut it."""
        return self.log().size if self.made is None else self.made.end

    def next_offset(self) -> int:
        """The offset behind its last entry, as a broker finds it at start (`readNextOffset`)."""
        index = self.offset_index()
        indexed = index.last_offset
        found = index.lookup(indexed, two_section=has(self.broker, WARM_SECTION_SEARCH))
        with failing_in(self.path):
            position = self.start + max(0, found.position)
            return self.entries().next_offset(position, indexed, self.base_offset)

    def offset_index(self) -> OffsetIndex:
        """The offset index as the broker believes it; empty where there is none."""
        if self._offset_index is None:
            if self.made is not None:
                self._offset_index = self.made.index
            else:
                data = self._open(Kind.OFFSET_INDEX)
                self._offset_index = OffsetIndex(data, self.base_offset, slotwise=True)
        return self._offset_index

    def time_index(self) -> TimeIndex:
        """The time index as the broker believes it; empty where there is none."""
        if self._time_index is None:
            if self.made is not None:
                self._time_index = self.made.time_index
            else:
                data = self._open(Kind.TIME_INDEX)
                self._time_index = TimeIndex(data, self.base_offset, slotwise=True)
        return self._time_index

    def last_time(self) -> TimestampOffset:
        """The last entry of the time index, its file open no longer than that takes."""
        if self._last_time is None:
            path = self.files.get(Kind.TIME_INDEX)
            if self.made is not None or self._time_index is not None or path is None:
                self._last_time = self.time_index().last
            else:
                with Source(path) as source:
                    self._last_time = TimeIndex(source, self.base_offset, slotwise=True).last
        return self._last_time

    def _open(self, kind: Kind) -> bytes | Source:
        path = self.files.get(kind)
        if path is None:
            return b""
        source = Source(path)
        self._sources.append(source)
        return source

    def entries(self) -> Entries:
        """The log's entries, to be read as a broker of this version reads them."""
        return Entries(self.log(), self.broker, self.start, self.end(), limit=self.limit)

    def headers(self, position: int) -> Iterator[RecordBatches]:
        """Headers from a position to the end, as a broker's lookup meets them (S6)."""
        if position < self.start:
            if position >= self.end() - 17:
                return
            raise BrokerError(f"IllegalArgumentException: negative position in {self.path}")
        with failing_in(self.path):
            yield from self.entries().as_is(position)

    def search(self, position: int, offset: int) -> Met | None:
        """Find the first entry from a position on that reaches an offset (L2)."""
        with failing_in(self.path):
            return self.entries().search(max(self.start, position), offset)

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


__all__ = ["DEFAULT_LIMIT", "BrokerError", "Found", "Segment", "raise_undecodable"]

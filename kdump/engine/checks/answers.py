"""Show with a lookup of the broker's that a wrong index gives a wrong answer.

The newest broker's own search runs over the index file as it lies on disk (I4, I7, I15), then its
scan of headers from there (L2, L12). A right answer comes from the same scan, started early enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.index_search import find_offset, find_time
from kdump.broker.log_reader import Entries, RefusalError, UnknowableError
from kdump.broker.versions import NEWEST
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan

NOTHING = "none"
ERROR = "an error"

Answer = int | str


class Wrong(NamedTuple):
    """A target for which a broker answers wrongly: an offset, or a time in ms."""

    target: int
    right: Answer
    given: Answer

    def words(self, sentence: str) -> str:
        """Fill a sentence with `{right}` and `{given}` as a person reads them."""
        right, given = (f"{at:,}" if isinstance(at, int) else at for at in (self.right, self.given))
        return sentence.format(right=right, given=given)


HARMLESS = "No lookup that was tried goes wrong by it."


class Answers:
    """The answers of one segment; a context manager. `None` where the files cannot tell."""

    def __init__(self, segment: SegmentScan, limit: int) -> None:
        assert segment.source is not None
        self._segment = segment
        self._log = segment.source
        self._limit = limit
        self._stack = ExitStack()
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None  # opened when they are asked

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def _open(self, kind: Kind) -> Source | None:
        path = self._segment.segment.files.get(kind)
        if path is None:
            return None
        try:
            return self._stack.enter_context(Source(path))
        except PathError:
            return None

    def _both(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._indexes is None:
            base = self._segment.base_offset
            offsets = OffsetIndex(self._open(Kind.OFFSET_INDEX) or b"", base, slotwise=True)
            times = TimeIndex(self._open(Kind.TIME_INDEX) or b"", base, slotwise=True)
            self._indexes = offsets, times
        return self._indexes

    def wrong_offset(self, target: int, start: int) -> Wrong | None:
        """Compare both answers for an offset; no batch before `start` holds it."""
        if target < self._segment.base_offset:
            return None
        offsets, _ = self._both()
        given = self._offset(target, find_offset(offsets, target).position)
        right = self._offset(target, start)
        return None if right == given else Wrong(target, right, given)

    def wrong_time(self, target_ms: int) -> Wrong | None:
        """Compare both answers for a time, within this segment (L12)."""
        if target_ms < 0:
            return None
        offsets, times = self._both()
        start = find_offset(offsets, find_time(times, target_ms).offset).position
        given = self._time(target_ms, start)
        right = self._time(target_ms, 0)
        return None if right == given else Wrong(target_ms, right, given)

    def _offset(self, target: int, position: int) -> Answer:
        """The first offset handed out: of the batch that a search from a position ends at."""
        entries = Entries(self._log, NEWEST, 0, self._log.size, limit=self._limit)
        try:
            found = entries.search(max(0, position), target)
        except (RefusalError, UnknowableError):
            return ERROR
        if found is None:
            return NOTHING
        header = FileRecords(self._log).header(found.position)
        if header is None or header.flags & c.TOO_SMALL:
            return ERROR
        return max(target, found.base_offset or 0)

    def _time(self, target_ms: int, position: int) -> Answer:
        """The first record at or after a time in batches that reach it."""
        if position < 0:
            return ERROR
        records = FileRecords(self._log, limit=self._limit)
        for run in records.runs_as_is(position):
            batches = run.batches
            for row, newest in enumerate(batches.max_timestamps):
                if newest < target_ms:
                    continue
                for offset, timestamp_ms in _records(run.data, run.base, batches, row, self._limit):
                    if timestamp_ms >= target_ms:
                        return offset
        return ERROR if records.stopped_by == reasons.LENGTH_TOO_SMALL else NOTHING


def _records(
    data: bytearray, base: int, batches: c.RecordBatches, row: int, limit: int
) -> Iterator[tuple[int, int]]:
    for piece in read_batch(data, base, batches, row, limit=limit):
        records = piece.records
        yield from zip(records.offsets, records.timestamps, strict=True)

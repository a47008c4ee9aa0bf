"""Show with a lookup of the broker's that a wrong index gives a wrong answer.

The search of the broker's version runs over the index file as it lies on disk (I4, I7, I15), then
its scan from there (L2, L12). A right answer comes from the same scan, started early enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.storage.file_records import FileRecords
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.segment import Segment
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan

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
    """The answers of one segment; a context manager. `None` where the files cannot tell.

    Nothing is opened, and nothing of the broker's search loaded, before one is asked for.
    """

    def __init__(self, partition: PartitionScan, segment: SegmentScan) -> None:
        assert segment.source is not None
        self._partition = partition
        self._scanned = segment
        self._size = segment.source.size
        self._opened: Segment | None = None

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *details: object) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _segment(self) -> Segment:
        if self._opened is None:
            from kdump.broker.segment import Segment

            self._opened = Segment(
                self._scanned.base_offset,
                self._scanned.segment.files,
                self._partition.broker,
                self._partition.settings,
                limit=self._partition.limit,
                part=(0, self._size),
            )
        return self._opened

    def wrong_offset(self, target: int, start: int) -> Wrong | None:
        """Compare both answers for an offset; no batch before `start` holds it."""
        if target < self._segment.base_offset:
            return None
        try:
            given = self._offset(target, self._position_of(target))
            right = self._offset(target, start)
        except PathError:
            return None
        return None if right == given else Wrong(target, right, given)

    def wrong_time(self, target_ms: int) -> Wrong | None:
        """Compare both answers for a time, within this segment (L12)."""
        if target_ms < 0:
            return None
        from kdump.broker.index_search import find_time

        segment = self._segment
        try:
            entry = find_time(segment.time_index(), target_ms, segment.broker)
            given = self._time(target_ms, self._position_of(entry.offset))
            right = self._time(target_ms, 0)
        except PathError:
            return None
        return None if right == given else Wrong(target_ms, right, given)

    def _position_of(self, offset: int) -> int:
        self._segment.offset_index()  # opened once for all answers: a store is asked for each
        return self._segment.position_of(offset)

    def _offset(self, target: int, position: int) -> Answer:
        """The first offset handed out: of the batch that a search from a position ends at."""
        from kdump.broker.log_reader import RefusalError, UnknowableError

        try:
            with self._segment.entries() as entries:
                found = entries.search(position, target)
        except (RefusalError, UnknowableError):
            return ERROR
        if found is None:
            return NOTHING
        header = FileRecords(self._segment.log()).header(found.position)
        if header is None or header.flags & c.TOO_SMALL:
            return ERROR
        return max(target, found.base_offset or 0)

    def _time(self, target_ms: int, position: int) -> Answer:
        """The first record at or after a time in batches that reach it."""
        from kdump.broker.list_offsets import first_at_time
        from kdump.broker.lookup_records import BrokerError

        try:
            found, _ = first_at_time(self._segment, position, target_ms)
        except BrokerError:
            return ERROR
        return found.offset if found.offset >= 0 else NOTHING

"""Count the records that a cut would remove, as far as they can still be read."""

from __future__ import annotations

from kdump import kernels
from kdump.broker.segment import Segment
from kdump.engine.reading.damage import believable_count
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords, walk
from kdump.storage.offsets import MESSAGES_A_BYTE, Offsets, end_of
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

_BELIEVED = ~(c.CRC_BAD | c.COMPRESSED | c.WRAPPER | c.CONTROL | c.TRANSACTIONAL)
_NEAR = 1 << 16  # so far ahead the offset of a broken batch is believed


class Losses(NamedTuple):
    """How many `records` are lost, and the `end_offset` behind the last of them."""

    records: int
    end_offset: int


def count_losses(
    segment: Segment, position: int, end: int, losses_before: Losses, next_base: int | None
) -> Losses:
    """Count what lies in [position, end) of a segment's log.

    A broken batch counts where its header is believable: the broker had taken it, and its offsets
    are gone with it. Messages in a wrapper are counted by the offsets they span. One base offset
    that cannot be right, which no checksum covers, neither hides what lies behind it nor counts.
    """
    most = end_of(segment.base_offset, next_base)
    last = losses_before.end_offset - 1
    counted = _RecordCount(last if last < most else segment.base_offset - 1, most)
    with Source(segment.path) as source:
        for item in FileRecords(source, next_base=next_base).walk(position, end, counted.last):
            if not isinstance(item, Gap):
                counted.add(item.batches)
                continue
            header = item.header
            if header is None and item.reason == "cut-short":
                header = _cut_short(source, item.position)
            if header is not None:
                counted.add_broken(header)
    return Losses(losses_before.records + counted.records, counted.last + 1)


def find_believed_end(segment: Segment, end: int) -> int:
    """The offset behind the last believed one of a segment that holds none from `end` on."""
    offsets = Offsets(segment.base_offset - 1, end)
    for item in walk(segment.path, segment.start, segment.end, next_base=end):
        if not isinstance(item, Gap):
            offsets.follow(item.batches)
    return offsets.last + 1


def last_header(segment: Segment) -> tuple[int, int]:
    """The last offsets of the last header a start reads, and of the highest it reads there."""
    last = highest = segment.base_offset - 1
    with segment.entries() as entries:
        start, _ = segment.find_last_indexed()
        for rows in FileRecords(entries.source).headers(start, segment.end):
            last = rows.last_offset(rows.count - 1)
            highest = max(highest, max(rows.last_offsets))
    return last, highest


class _RecordCount:
    """Records of batches as they are met; `last` is the last believed offset."""

    def __init__(self, last: int, end: int) -> None:
        self.records = 0
        self._offsets = Offsets(last, end)
        self._spans: list[tuple[int, int]] = []  # what the last wrappers counted for: last, span

    @property
    def last(self) -> int:
        return self._offsets.last

    def add(self, rows: RecordBatches) -> None:
        """Count sound batches."""
        if not rows.flags & (c.WRONG | c.WRAPPER) and rows.known_offset(0) > self.last:
            self.records += kernels.tally(rows)[0]
            self._offsets.follow(rows)
            return
        for row in range(rows.count):
            self._add_one(rows.slice(row, row + 1))

    def add_broken(self, header: RecordBatches) -> None:
        """Count a batch that is broken, if what its header says can be believed."""
        if header.flags & _BELIEVED & c.WRONG:
            return
        before, last = self.last, header.last_offset(0)
        count = believable_count(header, before, self._offsets.end)
        if count and (before < 0 or last - before <= max(16 * count, _NEAR)):
            self.records += last - before if header.flags & c.WRAPPER else count
            self._offsets = Offsets(last, self._offsets.end)

    def _add_one(self, row: RecordBatches) -> None:
        before, first = self.last, row.known_offset(0)
        count = row.records_count(0)
        self._offsets.follow(row)
        last = row.last_offset(0)
        if last >= self._offsets.end:
            self.records += max(count, 1)  # which ones they are nobody can say
        elif self.last != last or self.last == before:
            return  # a second copy, or out of order: not known to be lost
        elif count >= 0:
            self.records += count
        else:
            while self._spans and self._spans[-1][0] >= first:  # that one was too high
                before = self._spans[-1][0] - self._spans[-1][1]
                self.records -= self._spans.pop()[1]
            span = min(last - min(before, last), row.size_bytes(0) * MESSAGES_A_BYTE)
            self._spans = [*self._spans[-2:], (last, span)]
            self.records += span


def _cut_short(source: Source, position: int) -> RecordBatches | None:
    """The header of a batch whose end is missing, if all of its header is there."""
    from kdump.record.layout import LOG_OVERHEAD

    data = bytearray(source.read(position, 96))
    size = len(data) - LOG_OVERHEAD
    if size < 14:
        return None
    data[8:12] = size.to_bytes(4, "big")
    rows, _, _ = kernels.walk(data, 0, len(data), position, -1, False, 1)
    return rows if rows.count else None

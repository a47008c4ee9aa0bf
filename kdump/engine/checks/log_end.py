"""Check the log end that a start will find in the last batch's header.

After a clean stop a broker reads headers from the last index entry on and looks at no checksum
(L2, R5): the offset behind the last of them is its log end. One that cannot be right is the worst
that a log can hold. What is written next gets offsets from there on, or, where it lies below the
log start, every segment is deleted. Without the mark of a clean stop it is no better: recovery
keeps a batch whose checksum is right, in a segment of its own, and refuses to start over one below
its segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.ranges import offsets_text
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind
from kdump.storage.offsets import MESSAGES_A_BYTE
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.findings.finding import Finding
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap

_SILENT = ("cut-short", "short-tail")  # what ends a broker's reading without a word


class _Header(NamedTuple):
    """The last header; `before` is the last offset believed before it.

    `joins`: it stands right behind the batch with that offset.
    """

    position: int
    size_bytes: int
    first: int
    last: int
    before: int
    sound: bool
    wrapper: bool
    joins: bool
    odd: bool  # a broken one, with a count that its offsets have not


class LogEnd:
    """Keeps the header that stands last in the newest segment."""

    def __init__(self, last_offset: int) -> None:
        self._header: _Header | None = None
        self._floor = last_offset
        self._believed = last_offset  # the last offset that is, and where its batch ends
        self._believed_end = 0

    def run(self, batches: RecordBatches, believed: int) -> None:
        """Take up sound batches; `believed` is the last believed offset now."""
        row = batches.count - 1
        lasts = batches.last_offsets
        if lasts[row] == believed:
            self._before(batches, row, batches.known_offset(row) - 1)
        elif believed != self._believed:
            self._before(batches, row, believed)
        self._header = self._read(batches, row, sound=True)
        if lasts[row] == believed:
            self._believed, self._believed_end = believed, batches.end_position(row)

    def _before(self, batches: RecordBatches, row: int, most: int) -> None:
        """Find what to believe before a row: of those that are no higher the nearest."""
        lasts = batches.last_offsets
        at = next((k for k in range(row - 1, -1, -1) if self._floor < lasts[k] <= most), None)
        if at is not None:
            self._believed, self._believed_end = lasts[at], batches.end_position(at)
        elif self._believed > most:
            self._believed, self._believed_end = self._floor, -1

    def gap(self, gap: Gap) -> None:
        """Take up what no batch is; its header may be read as one all the same."""
        header = gap.header
        if (
            header is not None
            and not header.flags & c.TOO_SMALL
            and gap.size_bytes == header.size_bytes(0)
        ):
            self._header = self._read(header, 0, sound=False)
        elif gap.reason not in _SILENT or not gap.to_end:
            self._header = None

    def _read(self, batches: RecordBatches, row: int, *, sound: bool) -> _Header:
        first, last = batches.known_offset(row), batches.last_offset(row)
        position, wrapper = batches.position(row), batches.is_wrapper(row)
        place = (position, batches.size_bytes(row))
        joins = position == self._believed_end
        odd = not (sound or wrapper or batches.records_count(row) == last - first + 1)
        return _Header(*place, first, last, self._believed, sound, wrapper, joins, odd)

    def finding(self, segment: SegmentScan) -> Finding | None:
        """Tell of a last header that cannot be right."""
        if not segment.active or segment.is_snapshot:
            return None
        header = self._header or self._from_index(segment)
        if header is None:
            return None
        if header.last == header.before or (header.sound and header.last < header.first):
            return None  # it stands there twice, or has a delta that another code reports
        fits = header.before < header.first <= header.last < segment.end_offset
        fits = fits and not header.odd
        if fits and header.joins and not header.wrapper and header.first == header.before + 1:
            return None
        indexed = _indexed_offset(segment, header.position)
        if fits and (indexed is None or _agrees(header, indexed)):
            return None
        return _stop_finding(segment, header, indexed)

    def _from_index(self, segment: SegmentScan) -> _Header | None:
        """Find it as a start does, where the last of the log is no batch that a walk would take."""
        index, source = _index(segment), segment.source
        if index is None or source is None:
            return None
        end = index.logical_end(source.size)
        records = FileRecords(source)
        found: _Header | None = None
        for rows in records.headers(index.entry(end - 1).position if end else 0):
            found = self._read(rows, rows.count - 1, sound=False)
        if found is None or records.stopped_by == reasons.LENGTH_TOO_SMALL:
            return None
        data = source.read(found.position, min(found.size_bytes, records.limit))
        rows, _, _ = kernels.walk(data, 0, len(data), found.position, -1, True, 1)
        sound = rows.count == 1 and not rows.flags & (c.CRC_BAD | c.TOO_SMALL)
        return found._replace(sound=sound, odd=found.odd and not sound)


def _agrees(header: _Header, indexed: int) -> bool:
    """Whether an index entry may be that of a batch: it has its last offset, or once its first."""
    if not header.wrapper:
        return header.first <= indexed <= header.last
    least = header.last - header.size_bytes * MESSAGES_A_BYTE
    return max(header.before + 1, least) <= indexed <= header.last


def _stop_finding(segment: SegmentScan, header: _Header, indexed: int | None) -> Finding:
    first, last = sorted((header.first, header.last))
    fits, sure = header.before + 1, header.joins
    if header.wrapper:
        span = _span(segment, header) if sure else 0
        fits, sure = header.before + max(span, 1), span > 0
    if indexed is not None and not sure and fits <= indexed - (last - first) < segment.end_offset:
        fits, sure = indexed - (last - first), True
    eight = fits.to_bytes(8, "big", signed=True).hex(" ")
    if not header.sound:
        way = (
            "The batch is also damaged: if .kafka_cleanshutdown is removed, recovery truncates the "
            f"log at position {header.position:,}."
        )
    elif sure:
        way = f"Offset {fits:,} was expected: set the first eight bytes of the batch to {eight}."
    else:
        way = (
            f"Offset {fits:,} or above was expected: for {fits:,}, set the first eight "
            f"bytes of the batch to {eight}."
        )
    if header.last < header.before:
        harm = (
            f"A broker start uses {last + 1:,} or the segment's base offset as the log end. If "
            "that is "
            "below the log start offset, the start deletes every segment."
        )
    else:
        harm = f"A broker start uses {last + 1:,} as the log end, and continues from there."
    return at_place(
        "log-end-astray",
        segment.place,
        position=header.position,
        size_bytes=header.size_bytes,
        offset=fits,
        expected=fits,
        actual=header.first,
        message=f"The last batch has {offsets_text(first, last)}, but those before it end at "
        f"{header.before:,}. {harm} {way}",
    )


def _span(segment: SegmentScan, header: _Header) -> int:
    """How many offsets a wrapper spans, 0 where it cannot be opened."""
    source = segment.source
    if source is None or header.size_bytes > DEFAULT_LIMIT:
        return 0
    data = bytearray(source.read(header.position, header.size_bytes))
    data[:8] = (header.before + (1 << 31)).to_bytes(8, "big")  # its own may not open it
    rows, _, _ = kernels.walk(data, 0, len(data), header.position, -1, True, 1)
    offsets: list[int] = []
    for row in range(rows.count):
        for piece in read_batch(data, header.position, rows, row, limit=DEFAULT_LIMIT):
            if piece.reason not in (reasons.END, reasons.FULL):
                return 0
            offsets += piece.records.offsets
    return offsets[-1] - offsets[0] + 1 if offsets else 0


def _indexed_offset(segment: SegmentScan, position: int) -> int | None:
    """The offset of the index entry that names a position, None where there is none."""
    index = _index(segment)
    end = 0 if index is None else index.logical_end(position + 1)
    if index is None or not end or index.entry(end - 1).position != position:
        return None
    return index.entry(end - 1).offset


def _index(segment: SegmentScan) -> OffsetIndex | None:
    path = segment.segment.files.get(Kind.OFFSET_INDEX)
    try:
        return None if path is None else OffsetIndex(read_whole(path), segment.base_offset)
    except PathError:
        return None

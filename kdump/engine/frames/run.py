"""Read a capture: rows of its frames, the records in them, and what is wrong with either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.dump.pre08 import pre08_items
from kdump.engine.frames.capture import CaptureReader
from kdump.engine.frames.exchange import REQUEST
from kdump.engine.frames.frame import Frame
from kdump.engine.frames.frames_file import FramesReader
from kdump.engine.frames.rows import ShownFrame, TopicNames, rows_of
from kdump.engine.reading.segment_reader import SegmentReader
from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import BatchChunk, BatchRow, HexText, Place, RecordChunk, RecordRow
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.rows.frames import Frame as FrameRow
from kdump.storage.memory import BytesSource
from kdump.storage.names import FileName, Kind
from kdump.storage.pcap import is_capture
from kdump.storage.source import Source
from kdump.storage.targets import LogFile
from kdump.values.decoded_values import values_of

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions, Item

_BATCHES_AT_ONCE = 4096
#: What is not wrong with records on their way: a producer need not number them, and a fetch
#: response ends where its bytes do.
_USUAL_IN_REQUEST = frozenset(("offset-not-rising",))
_USUAL_AT_END = frozenset(("torn-tail", "batch-cut-short"))


def frame_items(
    path: str, kind: Kind, options: DumpOptions
) -> Iterator[Item | Finding | PathError]:
    """Yield what a capture holds, in order: each frame's rows, and behind a row its records."""
    if options.mode == "entries" or options.tail is not None or options.visible:
        what = "--entries, --tail, and --visible do not apply to captures of requests"
        yield PathError(path, what)
        return
    names = TopicNames()
    for number, item in frames_in(path, kind, options.decompress_limit):
        if isinstance(item, Frame):
            yield from _frame(item, number, path, names, options)
        else:
            yield item


def frames_in(
    path: str, kind: Kind, limit: int
) -> Iterator[tuple[int, Frame | Finding | PathError]]:
    """Yield the frames of a capture with their numbers, and what is wrong between them."""
    with Source(path) as source:
        reader = _reader(source, kind, limit)
        if reader is None:
            yield 0, PathError(path, "is not a capture in pcap or pcapng format")
            return
        source.advise_sequential()
        number = 0
        for item in reader.items():
            yield number, item
            number += isinstance(item, Frame)


def _reader(source: Source, kind: Kind, limit: int) -> CaptureReader | FramesReader | None:
    if kind is Kind.FRAMES:
        return FramesReader(source, limit)
    return CaptureReader(source, limit) if is_capture(source.read(0, 12)) else None


def _frame(
    frame: Frame, number: int, path: str, names: TopicNames, options: DumpOptions
) -> Iterator[Item | Finding]:
    said = frame.said
    selection = options.selection
    names.learn(said)
    for shown in rows_of(said, common_row(frame, number), names):
        row = shown.row
        if selection.is_narrowed and not selection.admits(row.topic, row.partition):
            continue
        if shown.records is None or said.parts is not None:
            yield row
        else:
            yield _with_batches(shown, frame)
        if shown.records is not None and shown.records.stop > shown.records.start:
            yield from _record_set(shown, frame, path, options)
    if (found := problem_in(frame, path)) is not None:
        yield found


def common_row(frame: Frame, number: int) -> FrameRow:
    """Give what all rows of a frame have in common."""
    return FrameRow(
        number,
        frame.position,
        frame.at_ms,
        frame.source,
        frame.destination,
        *(None,) * 6,
        size_bytes=frame.size,
    )


def problem_in(frame: Frame, path: str) -> Finding | None:
    """Say what is wrong with a frame."""
    if frame.said.problem is None:
        return None
    code, words = frame.said.problem
    return finding(code, path=path, position=frame.position, size_bytes=frame.size, message=words)


def _with_batches(shown: ShownFrame, frame: Frame) -> FrameRow:
    """Add how many batches a record set has, and how many bytes of one are cut at its end."""
    assert shown.records is not None
    data = frame.data[shown.records]
    count, at, reason = 0, 0, reasons.FULL
    while reason == reasons.FULL:
        batches, at, reason = kernels.walk(data, at, len(data), 0, -1, False, _BATCHES_AT_ONCE)
        count += batches.count
    is_cut = reason in (reasons.CUT_SHORT, reasons.SHORT_TAIL)
    cut = len(data) - at if is_cut and frame.said.direction != REQUEST else None
    return shown.row.replaced(batches=count, cut_bytes=cut)


def _record_set(
    shown: ShownFrame, frame: Frame, path: str, options: DumpOptions
) -> Iterator[Item | Finding]:
    """Yield the records in a record set, with their positions in the file."""
    assert shown.records is not None
    row, start = shown.row, shown.records.start
    data = frame.data[shown.records]
    begins = frame.position_of(start)
    is_old = frame.said.parts is not None
    place = Place(row.topic, row.partition, None, path)
    base = 0 if is_old else begins
    with BytesSource(path, data, base) as records:
        items = (
            _old_items(records, place._replace(segment=row.offset or 0), options)
            if is_old
            else _items(records, place, begins, options)
        )
        mapped = _PositionMapper(frame, start - base)
        for item in items:
            if not isinstance(item, Finding):
                yield mapped.item(item)
            elif not _is_usual(item, base + len(data), is_request=frame.said.direction == REQUEST):
                yield mapped.finding(item)


def _items(
    source: Source, place: Place, position: int, options: DumpOptions
) -> Iterator[Item | Finding]:
    name = FileName("", Kind.METADATA_SNAPSHOT)
    file = LogFile(source.path, name, place.topic, place.partition, None, active=False)
    reader = SegmentReader(source, file, options, options.filters)
    if options.mode != "hex":
        yield from reader.items(position)
        return
    from kdump.engine.hex.dump import hex_items

    items, limit = reader.items(position), options.decompress_limit
    secrets, width = options.show_secrets, options.hex_width
    yield from hex_items(source, place, items, limit, secrets=secrets, width=width)


def _old_items(source: Source, place: Place, options: DumpOptions) -> Iterator[Item | Finding]:
    filters = options.filters
    values = values_of(place, decode=False, secrets=options.show_secrets)
    for item in pre08_items(
        source,
        place,
        mode=options.mode,
        limit=options.decompress_limit,
        from_offset=filters.from_offset,
        to_offset=filters.to_offset,
        hex_width=options.hex_width,
    ):
        if isinstance(item, (Finding, HexText, RecordChunk)):
            yield item
        elif filters.admits_pre08(item):
            if values is not None and isinstance(item, RecordRow):
                item = values.hide_row(item)
            yield item


def _is_usual(item: Finding, end: int, *, is_request: bool) -> bool:
    if is_request:
        return item.code in _USUAL_IN_REQUEST
    reaches = (item.position or 0) + (item.size_bytes or 0)
    return item.code in _USUAL_AT_END and reaches >= end


class _PositionMapper:
    """Puts the position in the file in the place of that in a record set."""

    def __init__(self, frame: Frame, shift: int) -> None:
        self._frame, self._shift = frame, shift
        self._of: RecordBatches | None = None
        self._batches: RecordBatches | None = None

    def _position(self, position: int) -> int:
        return self._frame.position_of(position + self._shift)

    def finding(self, item: Finding) -> Finding:
        """Return a finding with its position."""
        at = item.position
        return item if at is None else item._replace(position=self._position(at))

    def item(self, item: Item) -> Item:
        """Return a row or a chunk with its positions."""
        if isinstance(item, (RecordChunk, BatchChunk)):
            item.batches = self._map_batches(item.batches)
        elif isinstance(item, (RecordRow, BatchRow)):
            return item._replace(position=self._position(item.position))
        return item

    def _map_batches(self, batches: RecordBatches) -> RecordBatches:
        if self._of is not batches or self._batches is None:
            placed = batches.slice(0, batches.count)
            for row in range(placed.count):
                placed.put(row, position=self._position(placed.position(row)))
            self._of, self._batches = batches, placed
        return self._batches

"""Split a segment that holds an offset too far above its base, as brokers do (R15)."""

from __future__ import annotations

from kdump.broker.index_builder import IndexEntries, full_index
from kdump.broker.log_reader import Entries, RefusalError, UnknowableError
from kdump.broker.segment import Segment
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.storage.names import Kind
from kdump.storage.segment_range import RELATIVE_MAX

_PARTS = 10_000  # of offsets that jump at every batch; no broker wrote them


def split(segment: Segment) -> list[Segment]:
    """Split a segment that holds an offset too large for it (R15); its batches are not checked."""
    if not segment.has_overflow():
        raise RefusalError(
            "IllegalArgumentException: Split operation is only permitted for segments with "
            f"overflow, and the problem path is {segment.path}"
        )
    pieces: list[Segment] = []
    build = segment.index_entries()
    with segment.entries() as entries:
        for rows in entries.as_is(segment.start):
            first = 0
            for row in range(rows.count):
                last = rows.last_offset(row)
                if not pieces or not 0 <= last - pieces[-1].base_offset <= RELATIVE_MAX:
                    if pieces:
                        _take(build, rows, first, row)
                        _finish(pieces[-1], build, rows.position(row))
                    if len(pieces) >= _PARTS:
                        raise UnknowableError(f"a segment that falls into over {_PARTS} parts")
                    pieces.append(_piece(segment, entries, rows, row))
                    build, first = pieces[-1].index_entries(), row
            _take(build, rows, first, rows.count)
        if not pieces or entries.stop != segment.end:
            raise RefusalError("NoSuchElementException: a tail that is no batch cannot be split")
        _finish(pieces[-1], build, segment.end)
    if len({piece.base_offset for piece in pieces}) < len(pieces):
        raise RefusalError("NoSuchFileException: two parts of a split segment have the same name")
    return pieces


def _piece(segment: Segment, entries: Entries, rows: RecordBatches, row: int) -> Segment:
    base = entries.first_offset(rows, row)
    if not 0 <= rows.last_offset(row) - base <= RELATIVE_MAX:
        raise RefusalError(f"IllegalStateException: the batch at offset {base} fits no segment")
    part = (rows.position(row), segment.end)
    files = {Kind.LOG: segment.path}
    return Segment(base, files, segment.broker, segment.settings, limit=segment.limit, part=part)


def _take(build: IndexEntries, rows: RecordBatches, first: int, stop: int) -> None:
    row, reason = build.take(rows.slice(first, stop))
    if (full := build.full()) is not None:
        raise full_index(full)
    if reason != reasons.END:
        raise build.refusal(rows, first + row)


def _finish(piece: Segment, build: IndexEntries, end: int) -> None:
    piece.put_built(build)
    piece.extent = piece.start, end

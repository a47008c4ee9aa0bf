"""Split a segment that holds an offset too far above its base, as brokers do (R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.recovered_index import IndexBuild
from kdump.broker.recovering_segment import Segment
from kdump.storage.segment_range import RELATIVE_MAX

if TYPE_CHECKING:
    from kdump.broker.log_reader import Entries
    from kdump.kernels.columns import RecordBatches


_PARTS = 10_000  # of offsets that jump at every batch; no broker wrote them


def split(segment: Segment) -> list[Segment]:
    """Split a segment that holds an offset too large for it (R15); its batches are not checked."""
    if not segment.has_overflow():
        raise RefusalError(
            "IllegalArgumentException: Split operation is only permitted for segments with "
            f"overflow, and the problem path is {segment.path}"
        )
    pieces: list[Segment] = []
    build: IndexBuild | None = None
    with segment.entries() as entries:
        for rows in entries.as_is(segment.start):
            for row in range(rows.count):
                position = rows.position(row)
                last = rows.last_offset(row)
                if build is None or not 0 <= last - build.base_offset <= RELATIVE_MAX:
                    if build is not None:
                        pieces[-1] = _finished(pieces[-1], build, position)
                    if len(pieces) >= _PARTS:
                        raise UnknowableError(f"a segment that falls into over {_PARTS} parts")
                    piece = _piece(segment, entries, rows, row)
                    pieces.append(piece)
                    build = IndexBuild(
                        piece.base_offset,
                        piece.start,
                        piece.broker,
                        piece.settings,
                        keeps_times=piece.keeps_times,
                    )
                build.note_times(rows, row, row + 1)
                if build.next_due(rows, row, row + 1) == row:
                    build.append(position, last)
        if build is None or entries.stop != segment.end:
            raise RefusalError("NoSuchElementException: a tail that is no batch cannot be split")
        pieces[-1] = _finished(pieces[-1], build, segment.end)
    if len({piece.base_offset for piece in pieces}) < len(pieces):
        raise RefusalError("NoSuchFileException: two parts of a split segment have the same name")
    return pieces


def _piece(segment: Segment, entries: Entries, rows: RecordBatches, row: int) -> Segment:
    base = entries.first_offset(rows, row)
    if not 0 <= rows.last_offset(row) - base <= RELATIVE_MAX:
        raise RefusalError(f"IllegalStateException: the batch at offset {base} fits no segment")
    part = (rows.position(row), segment.end)
    piece = Segment(base, segment.path, segment.broker, segment.settings, part=part)
    piece.keeps_times = segment.keeps_times
    return piece


def _finished(piece: Segment, build: IndexBuild, end: int) -> Segment:
    done = Segment(
        piece.base_offset, piece.path, piece.broker, piece.settings, part=(piece.start, end)
    )
    build.close()
    done.index, done.time_index = build.index(), build.time_index()
    done.keeps_times = piece.keeps_times
    done.rebuilt = done.is_part = True
    return done

"""Read one split: the step of a worker, whichever driver runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.dump.run import log_items
from kdump.engine.reading.damage import at_place
from kdump.engine.reading.log_files import place_of
from kdump.engine.reading.segment_pass import SplitPass
from kdump.engine.reading.segment_reader import SegmentReader
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.splits import Split, range_of
from kdump.errors import KdumpError, PathError, StoreError
from kdump.findings.finding import Finding
from kdump.record.frames import Run
from kdump.storage import places
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions, Item


class SplitReader:
    """Yields what `dump` yields, of one split; `seam` then says how a piece was read.

    `as_stored`: keys and values are neither decoded nor masked, for those who do not show them.
    """

    def __init__(self, split: Split, options: DumpOptions, *, as_stored: bool = False) -> None:
        self._split = split
        self._options = options
        self._as_stored = as_stored
        self.seam: SplitEdges | None = None

    def items(self) -> Iterator[Item | Finding | KdumpError]:
        """Yield rows and findings, and an error for a file that cannot be read."""
        if self._split.segment is None:
            yield from self._whole()
        else:
            yield from self._piece()

    def _whole(self) -> Iterator[Item | Finding | KdumpError]:
        shrunk: set[str] = set()
        for item in log_items(self._split.target, self._options, as_stored=self._as_stored):
            if isinstance(item, StoreError):
                raise item  # a later attempt may have an answer
            if isinstance(item, Finding) and item.code == "file-shrank":
                shrunk.add(item.path)
            yield item
        # A file cut short at the end of a batch since it was planned would look whole.
        for file, planned in zip(self._split.target.files, self._split.sizes, strict=True):
            try:
                size = places.getsize(file.path)
            except OSError:
                continue  # said already
            if size < planned and file.path not in shrunk:
                yield at_place(
                    "file-shrank", place_of(file), position=size, expected=planned, actual=size
                )

    def _piece(self) -> Iterator[Item | Finding]:
        """Read a piece; anything but sound batches ends it, and the seam says so."""
        self.seam = SplitEdges(sound=False)
        file = self._split.target.files[0]
        try:
            with Source(file.path) as source:
                if source.size != self._split.sizes[0]:
                    return
                options = self._options
                if options.from_time_ms is not None:
                    from kdump.engine.reading.seek import ends_before

                    if ends_before(source, file, options.from_time_ms):
                        self.seam = SplitEdges()
                        return
                reach = range_of(source, self._split)
                if reach is None:
                    self.seam = SplitEdges()
                    return
                reader = PieceReader(
                    source, file, options, options.filters, as_stored=self._as_stored
                )
                yield from reader.piece(*reach)
                self.seam = reader.seam
        except PathError:
            return  # whoever reads the whole log says it, once


class ProvedReader(SplitReader):
    """Reads a piece for one whom rows cannot be taken back from: it is proved before it is read.

    A piece is read where the log is sound from its first byte to where the piece starts. The one in
    which soundness ends, or behind which no batch starts where the next piece does, is read to the
    log's end; those behind it then have nothing. So all pieces together are the uncut log, at the
    price of checksums from its start on.
    """

    def _piece(self) -> Iterator[Item | Finding]:
        split = self._split
        file, options = split.target.files[0], self._options
        try:
            with Source(file.path) as source:
                if options.from_time_ms is not None:
                    from kdump.engine.reading.seek import ends_before

                    if ends_before(source, file, options.from_time_ms):
                        return
                reader = PieceReader(
                    source, file, options, options.filters, as_stored=self._as_stored
                )
                if source.size != split.sizes[0]:  # it is another log than was planned
                    if split.start == 0:
                        yield from reader.items()
                    return
                reach = range_of(source, split)
                if reach is None:
                    return
                before = reader.last_offset_at(reach[0])
                if before is None:
                    return
                if reader.last_offset_at(reach[1], reach[0], before) is None:
                    yield from reader.items(reach[0])
                else:
                    yield from reader.piece(*reach)
        except PathError:
            return


class PieceReader(SegmentReader):
    """Reads sound batches of one log from a position to another; `seam` says how that went."""

    seam = SplitEdges(sound=False)

    def last_offset_at(self, end: int, start: int = 0, before: int | None = None) -> int | None:
        """Return the last offset before a position up to which the log is sound, from `start` on.

        None where it is not, or where no batch ends there. `before` is the last offset at `start`.
        """
        last = self._offsets.last if before is None else before
        if end <= start:
            return last
        log = SplitPass(self._source, limit=self._limit, next_base=self._next_base)
        for _ in log.items(start, end, last):
            pass
        return log.edges.last if log.edges.sound and log.edges.stop == end else None

    def piece(self, start: int, end: int) -> Iterator[Item | Finding]:
        """Yield what is asked for of the batches in [start, end)."""
        log = SplitPass(self._source, limit=self._limit, next_base=self._next_base)
        for item in log.items(start, end, self._offsets.last):
            if item.batches.last_offset(item.batches.count - 1) >= self._offsets.end:
                return
            if isinstance(item, Run):
                if self._past(item):
                    return
                yield from self._run(item)
                if self._reached_end(item) and self._next_base != self._filters.to_offset:
                    return
            else:
                yield from self._oversize(item)
        self.seam = log.edges

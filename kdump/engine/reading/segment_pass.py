"""One pass over a segment's log: what lies in it, what may follow its end, where its gaps end.

`FileRecords` says what lies at each position, for one size of the file. Whoever reads a log from
front to back also has to take up again what a broker was writing, to pass over what was cut off
meanwhile, and to follow which offsets are to be believed: only what lies behind a gap tells which
are lost in it. Here that is done once, for all of them (`SegmentPass`), and for workers that read
a part of a log (`SplitPass`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading.check import join_headers
from kdump.engine.reading.damage import first_offset
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.reading.write_activity import was_just_written
from kdump.kernels import columns as c
from kdump.record.frames import Gap, Oversize, Run
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.storage.offsets import Offsets, ResolvedGap

_WRITE_SECONDS = 0.01
_FOLLOW_TIMES = 3  # how often a log that grew under us is taken up again


class SegmentPass:
    """Reads one log once, and follows its `offsets`, which start at the offset before it.

    `next_base` is the next segment's base offset; `limit` bounds an entry held in memory. Of an
    `active` segment, which a broker may be writing, what it writes meanwhile is read too.
    """

    def __init__(
        self,
        source: Source,
        offsets: Offsets,
        *,
        limit: int,
        next_base: int | None,
        active: bool = False,
    ) -> None:
        self.source, self.offsets, self.limit = source, offsets, limit
        self.next_base, self.active = next_base, active

    def items(
        self, position: int = 0, *, joins: Callable[[Run | Oversize], bool] | None = None
    ) -> Iterator[Run | Oversize | Gap]:
        """Yield what lies from a position on, in order; not the entry in which a file was cut.

        Of blocks for which `joins` says so only headers come, many at a time. Whoever takes an item
        has its offsets followed (`take`) before the next is asked for.
        """
        source = self.source
        source.advise_sequential()
        for turn in range(_FOLLOW_TIMES):
            tail: Gap | None = None
            records = FileRecords(source, limit=self.limit, next_base=self.next_base)
            walked = records.walk(position, last_offset=self.offsets.last)
            for item in walked if joins is None else join_headers(walked, joins):
                if isinstance(item, Gap) and _may_go_on(item, source):
                    tail = item
                else:
                    yield item
            if tail is None or source.shrank:
                return
            if turn == _FOLLOW_TIMES - 1 or not (self.active and _may_be_written(source)):
                yield tail
                return
            # Read in the midst of a broker's write, which takes no time to speak of. A preallocated
            # file does not even grow by it.
            time.sleep(_WRITE_SECONDS)
            position = tail.position
            source.refresh()

    def take(self, item: Run | Oversize | Gap) -> Iterator[ResolvedGap]:
        """Follow the offsets of an item, and yield the gaps of which is known now where they end.

        A wrapper is opened where its first offset is what ends one.
        """
        if isinstance(item, Gap):
            return self.offsets.add_gap(item)
        if isinstance(item, Run):
            return self.offsets.take(item.batches, lambda row: first_offset(item, row, self.limit))
        return self.offsets.take(item.batches)


class SplitPass:
    """Reads sound entries of one log from a position to another.

    `edges` says then how that went. Anything else ends it, for only who reads the whole log can
    judge it: what is found behind damage depends on what was read before.
    """

    def __init__(self, source: Source, *, limit: int, next_base: int | None) -> None:
        self.edges = SplitEdges(sound=False)
        self._source = source
        self._limit = limit
        self._next_base = next_base

    def items(self, start: int, end: int, last_offset: int) -> Iterator[Run | Oversize]:
        """Yield what lies in [start, end), in order; `last_offset` is that of the entry before."""
        source = self._source
        source.advise_sequential()
        stop, first, last = start, None, last_offset
        records = FileRecords(source, limit=self._limit, next_base=self._next_base)
        for item in records.walk(start, end, last_offset):
            if isinstance(item, Gap) or item.batches.flags & c.OFFSET_NOT_RISING:
                return
            batches, row = item.batches, item.batches.count - 1
            if first is None:
                first = batches.last_offset(0) if batches.is_legacy(0) else batches.base_offset(0)
            last, stop = batches.last_offset(row), batches.end_position(row)
            yield item
        if first is not None and not (source.shrank or source.unreadable):
            self.edges = SplitEdges(start, stop, first, last)


def _may_go_on(gap: Gap, source: Source) -> bool:
    """Whether the end of a file holds what a broker had not written yet, or has cut off."""
    return gap.to_end and (gap.reason != "zeros" or source.shrank)


def _may_be_written(source: Source) -> bool:
    """Whether it is worth a moment to see if the file goes on: nobody need hold a lock for that."""
    return not source.in_store and (source.is_growing() or was_just_written(source))

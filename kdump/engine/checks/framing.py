"""Framing: every byte of a log lies in a sound entry, and offsets rise from entry to entry.

What a walk could not use becomes one finding for each gap. Its next good offset, the one a stuck
consumer seeks to, is known only at the next sound batch, so a gap is held until then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.checks import Check
from kdump.engine.damage import at_place, first_offset, flag_findings, gap_finding
from kdump.engine.reserved_bits import reserved_finding, reserved_rows
from kdump.kernels import columns as c
from kdump.storage import places
from kdump.storage.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from kdump.engine.findings import Finding
    from kdump.engine.scan import PartitionScan, SegmentScan
    from kdump.kernels.columns import Columns
    from kdump.record.frames import Gap, Oversize, Run


_GAPS_IN_FULL = 1000  # no more than that many of a kind are told of one by one


class _Entry(NamedTuple):
    position: int
    size_bytes: int
    first: int
    last: int
    is_wrapper: bool


class Framing(Check):
    """Gaps, what is wrong in a header under a right checksum, and offsets out of order."""

    reads_snapshots = True
    reads_tails = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._held: Gap | None = None
        self._before: tuple[_Entry | None, _Entry | None] = (None, None)
        self._misplaced: Finding | None = None  # until it is known where offsets go on
        self._past_at = -1  # where the last batch starts that reached past the next segment's base
        self._gaps = 0
        self._reserved: tuple[Columns, int] | None = None  # the first, and its row
        self._reserved_count = 0

    def begin(self, segment: SegmentScan) -> Iterable[Finding]:
        """Start anew: what came before in the partition is known by its base offsets."""
        self._held = self._misplaced = None
        self._before = (None, None)
        self._past_at = -1
        self._reserved = None
        self._reserved_count = 0
        return ()

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Finding]:
        """Look at the flags, which a sound run has none of, and at the last offset."""
        if self._held is not None:
            yield from self._release(segment, first_offset(run, self.partition.limit))
        yield from self._rows(segment, run.batches)

    def oversize(self, segment: SegmentScan, one: Oversize) -> Iterator[Finding]:
        """Look at the header of an entry too large to be held."""
        batches = one.batches
        wrapper = batches.flags & c.WRAPPER
        column = c.B_LAST_OFFSET if wrapper else c.B_BASE_OFFSET
        yield from self._release(segment, batches.value(column, 0))
        yield from self._rows(segment, batches)

    def gap(self, segment: SegmentScan, gap: Gap) -> Iterator[Finding]:
        """Hold a gap until it is known what follows."""
        yield from self._release(segment, None)
        yield from self._place(None)
        self._held = gap

    def finish(self, segment: SegmentScan) -> Iterator[Finding]:
        """What follows a last gap is the next segment."""
        yield from self._release(segment, segment.next_base)
        yield from self._place(segment.next_base)
        if self._reserved is not None:
            yield reserved_finding(*self._reserved, segment.place, self._reserved_count)

    def skip(self, segment: SegmentScan) -> Iterator[Finding]:
        """Forget a gap of a file that went away."""
        self._held = self._misplaced = None
        return iter(())

    def _release(self, segment: SegmentScan, next_offset: int | None) -> Iterator[Finding]:
        gap, self._held = self._held, None
        if gap is None or segment.source is None:
            return
        self._gaps += 1
        yield gap_finding(
            gap,
            segment.place,
            segment.source,
            last_offset=segment.last_offset,
            next_offset=next_offset,
            active=segment.active and not stopped_cleanly(self.partition),
            brief=self._gaps > _GAPS_IN_FULL,
        )

    def _place(self, next_offset: int | None) -> Iterator[Finding]:
        """Let go of a batch out of order, now that it is known where offsets go on."""
        if self._misplaced is not None:
            yield self._misplaced._replace(next_offset=next_offset)
            self._misplaced = None

    def _rows(self, segment: SegmentScan, batches: Columns) -> Iterator[Finding]:
        if rows := reserved_rows(batches):
            self._reserved_count += len(rows)
            if self._reserved is None:
                self._reserved = batches.slice(rows[0], rows[0] + 1), 0
        if batches.flags & (c.WRONG & ~c.OFFSET_NOT_RISING):
            for told in flag_findings(batches, segment.place, segment.last_offset):
                if told.code != "offset-not-rising":
                    yield told
        if self._misplaced is not None and batches.count:
            yield from self._place(_entry(batches, 0).first)
        if batches.flags & c.OFFSET_NOT_RISING:
            yield from self._order(segment, batches)
        elif (
            segment.next_base is not None
            and batches.value(c.B_LAST_OFFSET, batches.count - 1) >= segment.next_base
        ):
            yield from self._past_next(segment, batches)
        last = batches.count - 1
        self._before = (
            _entry(batches, last - 1) if last else self._before[1],
            _entry(batches, last),
        )

    def _order(self, segment: SegmentScan, batches: Columns) -> Iterator[Finding]:
        """Tell which entries are out of order.

        The kernel flags all that lie below the highest before them. Where one base offset is too
        high every entry behind it is flagged; so each is held against the one before it, and of
        two that do not fit the one is named that does not join on to what lies before.
        """
        before, last = self._before
        for row in range(batches.count):
            entry = _entry(batches, row)
            yield from self._place(entry.first)
            low = segment.floor_offset if last is None else last.last
            if entry.last < entry.first:
                pass  # a delta below 0, which another code tells of
            elif entry.first <= low:
                if last is not None and last.position == self._past_at:
                    pass  # told of already: that one is too high for the segment
                else:
                    following = _entry(batches, row + 1) if row + 1 < batches.count else None
                    self._misplaced = self._out_of_order(segment, before, last, entry, following)
                    if last is not None and self._misplaced.position == last.position:
                        yield from self._place(entry.first)
            elif segment.next_base is not None and entry.last >= segment.next_base:
                yield self._past(segment, entry)
            before, last = last, entry

    def _out_of_order(
        self,
        segment: SegmentScan,
        before: _Entry | None,
        last: _Entry | None,
        entry: _Entry,
        following: _Entry | None,
    ) -> Finding:
        if last is None:
            return _at(
                "offset-below-base",
                segment,
                entry,
                expected=segment.base_offset,
                message=f"The first batch starts at offset {entry.first:,}, below the base offset "
                f"{segment.base_offset:,} that the file is named for.",
            )
        floor = segment.floor_offset if before is None else before.last
        if last.is_wrapper:  # its first offset is not known, but what follows it is
            too_high = entry.first > floor and (
                following is not None and following.first <= last.last
            )
        else:
            too_high = entry.first > floor and last.first != floor + 1
        if too_high:
            message = (
                f"Offsets {last.first:,}-{last.last:,} lie above the batch that follows, which "
                f"starts at {entry.first:,}."
            )
            return _at("offset-not-rising", segment, last, expected=floor + 1, message=message)
        message = (
            f"Offsets {entry.first:,}-{entry.last:,} do not rise above the batch before, which "
            f"ends at {last.last:,}."
        )
        return _at("offset-not-rising", segment, entry, expected=last.last + 1, message=message)

    def _past_next(self, segment: SegmentScan, batches: Columns) -> Iterator[Finding]:
        """Tell of entries that reach into the next segment, at the end of a rising run."""
        assert segment.next_base is not None
        for row in range(batches.count):
            if batches.value(c.B_LAST_OFFSET, row) >= segment.next_base:
                yield self._past(segment, _entry(batches, row))

    def _past(self, segment: SegmentScan, entry: _Entry) -> Finding:
        assert segment.next_base is not None
        self._past_at = entry.position
        return _at(
            "offset-past-next",
            segment,
            entry,
            expected=segment.next_base - 1,
            message=f"Offsets {entry.first:,}-{entry.last:,} reach into the next segment, which "
            f"starts at {segment.next_base:,}.",
        )


def stopped_cleanly(partition: PartitionScan) -> bool:
    """Whether a clean shutdown left its mark: nobody is writing, and nothing is preallocated.

    A broker that starts takes the mark away, which the listing of the directory may not know yet.
    """
    directory = partition.directory
    return directory is not None and any(
        os.path.basename(path) == CLEAN_SHUTDOWN and places.lexists(path)
        for path in directory.files
    )


def _entry(batches: Columns, row: int) -> _Entry:
    last = batches.value(c.B_LAST_OFFSET, row)
    wrapper = bool(batches.value(c.B_FLAGS, row) & c.WRAPPER)
    first = last if wrapper else batches.value(c.B_BASE_OFFSET, row)
    position, size_bytes = batches.value(c.B_POSITION, row), batches.value(c.B_SIZE, row)
    return _Entry(position, size_bytes, first, last, wrapper)


def _at(code: str, segment: SegmentScan, entry: _Entry, *, expected: int, message: str) -> Finding:
    return at_place(
        code,
        segment.place,
        position=entry.position,
        size_bytes=entry.size_bytes,
        offset=entry.first,
        expected=expected,
        actual=entry.first,
        message=message,
    )

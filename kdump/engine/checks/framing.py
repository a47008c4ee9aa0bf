"""Check that every byte of a log is in a sound entry, and that offsets rise.

What a walk could not use becomes one finding for each gap. The next offset that can be read is
known only at the next sound batch, so a gap is held until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.checks.checkpoints import was_stopped_cleanly
from kdump.engine.checks.log_end import LogEnd
from kdump.engine.reading import damage
from kdump.engine.reading.check import FINDINGS_A_CODE, Check
from kdump.findings.ranges import offsets_clause
from kdump.kernels import columns as c
from kdump.storage.offsets import Offsets, ResolvedGap
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap, Run


_MISPLACED = 16  # batches out of order that wait at one time


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
        self._gaps: Counter[str] = Counter()

    def begin(self, segment: SegmentScan) -> None:
        """Start anew: what came before in the partition is known by its base offsets."""
        self._offsets = Offsets(segment.last_offset, segment.end_offset)
        self._end = LogEnd(segment.last_offset)
        self._order = _Order(segment)
        self._reserved: tuple[RecordBatches, int] | None = None  # the first, and its row
        self._reserved_count = 0

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Finding]:
        """Let go of a gap: what is inside a wrapper says where its offsets begin."""
        limit = self.partition.limit
        released = self._offsets.take(run.batches, lambda row: damage.first_offset(run, row, limit))
        yield from self._gap_findings(segment, released)
        yield from self._rows(segment, run.batches)

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> Iterator[Finding]:
        """Let go of a gap before an entry too large to be held."""
        yield from self._gap_findings(segment, self._offsets.take(batches))
        yield from self._rows(segment, batches)

    def gap(self, segment: SegmentScan, gap: Gap) -> Iterator[Finding]:
        """Hold a gap until it is known what follows."""
        yield from self._gap_findings(segment, self._offsets.add_gap(gap))
        self._end.gap(gap)

    def finish(self, segment: SegmentScan) -> Iterator[Finding]:
        """What follows a last gap is the next segment."""
        yield from self._gap_findings(segment, self._offsets.release(segment.next_base))
        astray = self._end.finding(segment)
        if astray is not None:
            yield astray
        for reported in self._order.place(segment.next_base):
            if astray is None or reported.position != astray.position:
                yield reported
        if self._reserved is not None:
            yield damage.reserved_finding(*self._reserved, segment.place, self._reserved_count)

    def _gap_findings(
        self, segment: SegmentScan, released: Iterable[ResolvedGap]
    ) -> Iterator[Finding]:
        directory = self.partition.directory
        for one in released:
            if segment.source is None:
                return
            # Only at its end does it matter whether a log is written.
            at_end = segment.active and one.gap.to_end
            active = at_end and not (directory and was_stopped_cleanly(directory))
            code = damage.gap_code(one.gap, segment.source, active=active)
            self._gaps[code] += 1
            if self._gaps[code] > FINDINGS_A_CODE:
                yield damage.brief_gap_finding(code, one, segment.place)
            else:
                yield damage.gap_finding(one, segment.place, segment.source, active=active)

    def _rows(self, segment: SegmentScan, batches: RecordBatches) -> Iterator[Finding]:
        """Look at the flags, which a sound run has none of, and at the last offset."""
        self._end.run(batches, self._offsets.last)
        if rows := damage.find_reserved_rows(batches):
            self._reserved_count += len(rows)
            if self._reserved is None:
                self._reserved = batches.slice(rows[0], rows[0] + 1), 0
        if batches.flags & (c.WRONG & ~c.OFFSET_NOT_RISING):
            for reported in damage.flag_findings(
                batches, segment.place, segment.last_offset, segment.next_base
            ):
                if not reported.entry.offsets_lie:
                    yield reported
        yield from self._order.take(batches)


class _Order:
    """Finds which entries of a segment are out of order; they wait until offsets go on.

    The kernel flags all that lie below the highest before them. Where one base offset is too
    high every entry behind it is flagged; so each is held against the one before it, and of
    two that do not fit the one is named that does not join on to what lies before.
    """

    def __init__(self, segment: SegmentScan) -> None:
        self._segment = segment
        self._before: _Entry | None = None  # the last entry so far, and the one before it
        self._last: _Entry | None = None
        self._misplaced: list[Finding] = []
        self._past_at = -1  # where the last batch starts that lay above all its segment can hold

    def place(self, next_offset: int | None) -> list[Finding]:
        """Let go of batches out of order, now that it is known where offsets go on."""
        placed = [reported._replace(next_offset=next_offset) for reported in self._misplaced]
        self._misplaced = []
        return placed

    def _follows(self, entry: _Entry) -> list[Finding]:
        """Let go of them before a batch with offsets that can be."""
        if self._segment.floor_offset < entry.first <= entry.last < self._segment.end_offset:
            return self.place(entry.first)
        return self.place(None) if len(self._misplaced) >= _MISPLACED else []

    def take(self, batches: RecordBatches) -> Iterator[Finding]:
        """Take up some batches; most are in order."""
        if self._misplaced and batches.count:
            yield from self._follows(_entry(batches, 0))
        last = batches.count - 1
        past = batches.last_offset(last) >= self._segment.end_offset
        if past or batches.flags & c.OFFSET_NOT_RISING:
            for row in range(batches.count):
                following = _entry(batches, row + 1) if row < last else None
                yield from self._check_entry(_entry(batches, row), following)
        else:
            self._before = _entry(batches, last - 1) if last else self._last
            self._last = _entry(batches, last)

    def _check_entry(self, entry: _Entry, following: _Entry | None) -> Iterator[Finding]:
        yield from self._follows(entry)
        segment, last = self._segment, self._last
        low = segment.floor_offset if last is None else last.last
        if entry.last < entry.first:
            pass  # a delta below 0, which another code reports
        elif entry.last >= segment.end_offset:
            self._misplaced.append(self._past(entry, following))
        elif last is not None and last.position == self._past_at:
            pass  # reported already: that one is too high for the segment
        elif entry.first <= low:
            reported = self._out_of_order(entry, following)
            self._misplaced.append(reported)
            if last is not None and reported.position == last.position:
                yield from self._follows(entry)
        self._before, self._last = last, entry

    def _out_of_order(self, entry: _Entry, following: _Entry | None) -> Finding:
        segment, before, last = self._segment, self._before, self._last
        if last is None:
            message = (
                f"The first batch starts at offset {entry.first:,}, below the base offset "
                f"{segment.base_offset:,} that the file is named for."
            )
            return self._make_finding("offset-below-base", entry, segment.base_offset, message)
        floor = segment.floor_offset if before is None else before.last
        if last.is_wrapper:  # its first offset is not known, but what follows it is
            too_high = entry.first > floor and (
                following is not None and following.first <= last.last
            )
        else:
            too_high = entry.first > floor and last.first != floor + 1
        if too_high:
            message = (
                f"{offsets_clause(last.first, last.last, 'are', 'is')} above {entry.first:,}, "
                "the first offset of the next batch."
            )
            return self._make_finding("offset-not-rising", last, floor + 1, message)
        message = (
            f"{offsets_clause(entry.first, entry.last, 'are', 'is')} in this batch, but the batch "
            f"before it already ends at offset {last.last:,}."
        )
        return self._make_finding("offset-not-rising", entry, last.last + 1, message)

    def _past(self, entry: _Entry, following: _Entry | None) -> Finding:
        """Tell of an entry above all that its segment can hold, and which offset would fit."""
        segment, last = self._segment, self._last
        self._past_at = entry.position
        end, floor = segment.end_offset, segment.floor_offset
        known = [one.last for one in (self._before, last) if one is not None and one.last < end]
        fits = max(known[-1], floor) + 1 if known else floor + 1
        joins = entry.position == (0 if last is None else last.position + last.size_bytes)
        if entry.is_wrapper or not joins:
            # What lies before does not say where it begins, but what follows says where it ends.
            behind = segment.next_base if following is None else following.first
            if behind is not None and fits < behind <= end:
                fits = max(behind - (entry.last - entry.first + 1), fits)
        if segment.next_base is not None:
            verbs = "reach beyond", "is beyond"
            where = f"{segment.next_base - 1:,}, although the next segment starts after that"
        else:
            verbs = "are", "is"
            where = f"above {end - 1:,}, the highest that the segment can hold"
        offsets = offsets_clause(entry.first, entry.last, *verbs)
        message = f"{offsets} {where}. Offset {fits:,} was expected."
        return self._make_finding(damage.past_code(segment.next_base), entry, fits, message)

    def _make_finding(self, code: str, entry: _Entry, expected: int, message: str) -> Finding:
        segment = self._segment
        possible = segment.floor_offset < entry.first < segment.end_offset
        return damage.at_place(
            code,
            segment.place,
            position=entry.position,
            size_bytes=entry.size_bytes,
            offset=entry.first if possible else expected,
            expected=expected,
            actual=entry.first,
            message=message,
        )


def _entry(batches: RecordBatches, row: int) -> _Entry:
    first, last = batches.known_offset(row), batches.last_offset(row)
    place = (batches.position(row), batches.size_bytes(row))
    return _Entry(*place, first, last, batches.is_wrapper(row))

"""Find the sound batches behind damage by a walk, and compare where lookups land with them."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.batch import read_batch
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords
from kdump.storage.names import parse
from kdump.storage.offsets import end_of
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

#: So many lookups are made in one segment.
_ASKED_OF_ONE = 4096
#: So many index entries behind an answer are asked about: one that lies may come later.
_LOOKED_ON = 8


class Way(NamedTuple):
    """A way past damage: the first offset served again, None where none is.

    `skipped` counts the sound records that a seek there passes over, control records not among
    them; where nothing is served it counts all that follow.
    """

    served_from: int | None
    skipped: int


class _Point(NamedTuple):
    """An offset to be asked for: the index entry its lookup starts at, the row that holds it."""

    start: int
    offset: int
    row: int


class Landings:
    """The lookups for one segment's sound batches, as these come.

    `lands` says where in its log a fetch of an offset lands, None: in another, or it fails;
    `starts` are the offsets, in order, at which lookups in it begin to start elsewhere.
    `served` is the way found, as long as no later lookup belies it; `count` is how many sound
    records came so far.
    """

    def __init__(
        self, lands: Callable[[int], int | None], starts: Sequence[int], count: int, lowest: int
    ) -> None:
        self.served: Way | None = None
        self.count = count
        self._fetch_lands = lands
        self._lowest = lowest
        self._left = _ASKED_OF_ONE
        self._starts = starts
        self._fails: int | None = None  # the start from which no lookup gets anywhere
        self._gets_past: int | None = None  # the start from which the last one did
        self._borne_out = 0

    @property
    def is_settled(self) -> bool:
        """Whether enough lookups bear the way out."""
        return self.served is not None and self._borne_out >= _LOOKED_ON

    def take(self, sound: Sound) -> None:
        """Ask for the next batches."""
        points = self._points(sound)
        first = 0
        while first < len(points) and not self.is_settled:
            end = first + 1
            while end < len(points) and points[end].start == points[first].start:
                end += 1
            self._group(sound, points[first:end])
            first = end
        self.count += sound.count(len(sound.positions))

    def _points(self, sound: Sound) -> list[_Point]:
        """Give the first offset of each batch, and each that a lookup starts anew at."""
        offsets = [max(first, self._lowest) for first in sound.firsts]
        low = bisect_right(self._starts, offsets[0])
        high = bisect_right(self._starts, sound.lasts[-1])
        offsets += self._starts[low:high]
        points = []
        for offset in sorted(set(offsets)):
            row = bisect_left(sound.lasts, offset)
            points.append(_Point(bisect_right(self._starts, offset), offset, row))
        return points

    def _group(self, sound: Sound, points: list[_Point]) -> None:
        """Ask for offsets whose lookups start at one place: the higher ones get past."""
        first, last = points[0], points[-1]
        if self.served is not None:
            if first.start == self._gets_past or self._lands(sound, first):
                self._borne_out += first.start != self._gets_past
                self._gets_past = first.start
                return
            if sound.before_gap and first.row == len(sound.positions) - 1:
                return  # the next damage: since 4.1 a lookup reads what lies behind the batch
            self.served = None
        if first.start == self._fails:
            return
        lowest = 0
        if not self._lands(sound, first):
            if first is last or not self._lands(sound, last):
                return
            lowest = bisect_left(
                points, True, 0, len(points) - 1, key=lambda point: self._lands(sound, point)
            )
        self._gets_past = first.start
        self._keep_way(sound, points[lowest])

    def _lands(self, sound: Sound, point: _Point) -> bool:
        if not self._left:
            return False
        self._left -= 1
        position = self._fetch_lands(point.offset)
        if position is None:
            self._fails = point.start
        return position == sound.positions[point.row]

    def _keep_way(self, sound: Sound, point: _Point) -> None:
        """Keep a way; behind the first offset the record that a consumer is handed is named."""
        before, offset = self.count + sound.count(point.row), point.offset
        if offset > self._lowest:
            inside = sound.records(point.row)
            below = bisect_left(inside, offset)
            before += below
            offset = inside[below] if below < len(inside) else offset
        self._borne_out = 0
        self.served = Way(offset, before)


class Hole(NamedTuple):
    """Bytes that hold no sound batch, up to a position."""

    end: int


class Sound:
    """Sound batches one behind the other, by row; `before_gap`: damage follows the last of them.

    `firsts` are base offsets; of a wrapper it is only known that what it holds lies behind the
    entry before. `lasts` are the highest offsets so far, which need not be a batch's own.
    """

    def __init__(self, source: Source, batches: RecordBatches, before: int, limit: int) -> None:
        self.positions = batches.positions.tolist()
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for row, last in enumerate(batches.last_offsets):
            wrapper = batches.flags_of(row) & c.WRAPPER
            first = before + 1 if wrapper else batches.base_offset(row)
            before = max(before, last)
            self.firsts.append(min(first, before))
            self.lasts.append(before)
        self.end: int = self.positions[-1] + batches.size_bytes(batches.count - 1)
        self.before_gap = False
        self._control = [bool(flags & c.CONTROL) for flags in batches.row_flags]
        self._counts = batches.records_counts.tolist()
        self._source = source
        self._limit = limit

    def count(self, rows: int) -> int:
        """Count the records that consumers are handed of the first so many batches."""
        found = 0
        for row in range(rows):
            if not self._control[row]:
                count = self._counts[row]
                found += count if count >= 0 else len(self.records(row))
        return found

    def records(self, row: int) -> list[int]:
        """Give the offsets of a batch's records for consumers, as far as they decode."""
        found: list[int] = []
        if self._control[row]:
            return found
        records = FileRecords(self._source, limit=self._limit)
        for run in records.runs_as_is(self.positions[row], self._source.size):
            for piece in read_batch(run.data, run.base, run.batches, 0, limit=self._limit):
                found += piece.records.offsets
            break
        return found

    def first_record(self, row: int) -> int:
        """Give a batch's first offset, of a wrapper that of the first message inside."""
        if self._counts[row] >= 0:
            return self.firsts[row]
        return next(iter(self.records(row)), self.lasts[row])


def sound_batches(
    path: str, position: int, lowest: int, *, next_base: int | None, limit: int
) -> Iterator[Sound | Hole]:
    """Walk a log from a position on, as dump does; what is given is valid until the next.

    Batches are left out whose offsets cannot be right, since nobody is sent there: those below
    `lowest`, above what the segment can hold, and above the batch that follows.
    """
    held: Sound | None = None
    before = lowest - 1
    end = end_of(parse(os.path.basename(path)).base_offset, next_base)
    # One open log for all batches looked into: a packed one is unpacked each time it is opened.
    with Source(path) as source:
        records = FileRecords(source, limit=limit, next_base=next_base)
        for item in records.walk(position, last_offset=before):
            if held is not None:
                held.before_gap = isinstance(item, Gap)
                yield held
                held = None
            if isinstance(item, Gap):
                yield Hole(item.position + item.size_bytes)
            elif (batches := _select_believed(item.batches, lowest, end)).count:
                held = Sound(source, batches, before, limit)
                before = held.lasts[-1]
        if held is not None:
            yield held


def _select_believed(batches: RecordBatches, lowest: int, end: int) -> RecordBatches:
    lasts = batches.last_offsets
    if not batches.flags & c.OFFSET_NOT_RISING and lasts[0] >= lowest and lasts[-1] < end:
        return batches
    firsts = [batches.known_offset(row) for row in range(1, batches.count)]
    kept = [
        batches.row(row)
        for row, (last, following) in enumerate(zip(lasts, [*firsts, end], strict=True))
        if lowest <= last < min(end, following)
    ]
    return RecordBatches.from_rows(c.BATCH_WIDTH, kept, batches.flags)

"""Find the sound batches behind a place in a log, and what a lookup mistakes for batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.batch import read_batch
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords, walk
from kdump.storage.names import parse
from kdump.storage.offsets import end_of
from kdump.storage.source import Source


class Hole(NamedTuple):
    """Bytes that hold no sound batch, up to a position."""

    end: int


class Sound:
    """Sound batches one behind the other, by row; `before_gap`: damage follows the last of them.

    `firsts` are base offsets; of a wrapper it is only known that what it holds lies behind the
    entry before. `lasts` are the highest offsets so far, which need not be a batch's own.
    """

    def __init__(self, path: str, batches: RecordBatches, before: int, limit: int) -> None:
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
        self._path = path
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
        with Source(self._path) as source:
            records = FileRecords(source, limit=self._limit)
            for run in records.runs_as_is(self.positions[row], source.size):
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
    """Walk a log from a position on, as dump does.

    Batches are left out whose offsets cannot be right, since nobody is sent there: those below
    `lowest`, above what the segment can hold, and above the batch that follows.
    """
    held: Sound | None = None
    before = lowest - 1
    end = end_of(parse(os.path.basename(path)).base_offset, next_base)
    for item in walk(path, position, limit=limit, next_base=next_base, last_offset=before):
        if held is not None:
            held.before_gap = isinstance(item, Gap)
            yield held
            held = None
        if isinstance(item, Gap):
            yield Hole(item.position + item.size_bytes)
        elif (batches := _believed(item.batches, lowest, end)).count:
            held = Sound(path, batches, before, limit)
            before = held.lasts[-1]
    if held is not None:
        yield held


def _believed(batches: RecordBatches, lowest: int, end: int) -> RecordBatches:
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

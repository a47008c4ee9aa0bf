"""Batches of the copies of a partition: one by one, and many that stand together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.leader_epochs import NO_EPOCH
from kdump.engine.compare.replica import first_offset
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Copy
    from kdump.record.mended import Mended


class Batch(NamedTuple):
    """One batch of a copy. Of a wrapper `first` is the lowest offset that it may begin at.

    `mended`: header fields are wrong that no checksum covers; those inferred stand in their place.
    `sound_from`: from there up to `first` the copy lawfully has nothing; -1: that is not known.
    """

    first: int
    rank: int
    copy: Copy
    path: str
    position: int
    size_bytes: int
    last: int
    epoch: int
    crc: int
    layout: int
    is_wrapper: bool
    records_count: int
    sound_from: int
    producer_id: int
    producer_epoch: int
    mended: Mended | None = None

    @property
    def identity(self) -> tuple[int, ...]:
        """What tells it from others, but for the leader epoch, which no checksum covers."""
        first = -1 if self.is_wrapper else self.first
        return first, self.last, self.crc, self.size_bytes, self.layout

    @property
    def place(self) -> tuple[str, int]:
        """Where it lies."""
        return self.path, self.position


class Torn(NamedTuple):
    """An entry with a wrong checksum or no end.

    It lies behind the offset `last` and not behind `before`, None where nothing sound follows.
    `after` is the offset right before its first, None where that is not known.
    """

    copy: Copy
    path: str
    position: int
    size_bytes: int
    last: int
    after: int | None
    before: int | None = None

    def is_misplaced(self, first: int) -> bool:
        """Whether a batch there cannot begin at an offset, in a log that has each offset."""
        return self.after is not None and not self.copy.is_sparse and first != self.after + 1


class Stretch(NamedTuple):
    """Sound batches of one format: rows `start` to before `stop` of a block of a copy.

    None is a wrapper, and between them the copy lawfully has nothing, nor from `sound_from` up to
    the first.
    """

    copy: Copy
    path: str
    block: RecordBatches
    start: int
    stop: int
    sound_from: int

    @property
    def batch_count(self) -> int:
        """How many batches they are."""
        return self.stop - self.start

    @property
    def first(self) -> int:
        """The first offset."""
        return self.block.base_offset(self.start)

    @property
    def last(self) -> int:
        """The last offset."""
        return self.block.last_offset(self.stop - 1)

    @property
    def rank(self) -> int:
        """The rank of the copy."""
        return self.copy.rank

    def rows(self) -> RecordBatches:
        """The headers."""
        return self.block.slice(self.start, self.stop)

    def cut(self, count: int) -> Stretch:
        """The first of them; fewer than 0: all but so many."""
        return self._replace(stop=(self.stop if count < 0 else self.start) + count)

    def behind(self, count: int) -> Stretch:
        """What is left of them behind the first."""
        start = self.start + count
        return self._replace(start=start, sound_from=self.block.last_offset(start - 1) + 1)

    def batches(self) -> Iterator[Batch]:
        """Yield them one by one."""
        yield from self.made(self.start, self.stop)

    def made(self, start: int, stop: int) -> list[Batch]:
        """Make batches of some rows."""
        block = self.block
        lasts = block.last_offsets[start:stop].tolist()
        before = self.sound_from if start == self.start else block.last_offset(start - 1) + 1
        has_epoch, has_producer = block.has_leader_epoch(start), block.has_producer_fields(start)
        none = repeat(-1)
        return list(
            map(
                Batch,
                block.base_offsets[start:stop],
                repeat(self.copy.rank),
                repeat(self.copy),
                repeat(self.path),
                block.positions[start:stop],
                block.sizes[start:stop],
                lasts,
                block.leader_epochs[start:stop] if has_epoch else repeat(NO_EPOCH),
                block.crcs[start:stop],
                block.layouts[start:stop],
                repeat(False),
                block.records_counts[start:stop],
                [before, *(last + 1 for last in lasts[:-1])],
                block.producer_ids[start:stop] if has_producer else none,
                block.producer_epochs[start:stop] if has_producer else none,
            )
        )


def batch_at(batches: RecordBatches, row: int, copy: Copy, path: str, lowest: int) -> Batch:
    """Make a batch of a header; a wrapper begins at the `lowest` offset or behind it."""
    has_producer = batches.has_producer_fields(row)
    return Batch(
        first_offset(batches, row, lowest - 1),
        copy.rank,
        copy,
        path,
        batches.position(row),
        batches.size_bytes(row),
        batches.last_offset(row),
        batches.leader_epoch(row) if batches.has_leader_epoch(row) else NO_EPOCH,
        batches.crc(row),
        batches.layout(row),
        bool(batches.flags_of(row) & c.WRAPPER),
        batches.records_count(row),
        -1,
        batches.producer_id(row) if has_producer else -1,
        batches.producer_epoch(row) if has_producer else -1,
    )

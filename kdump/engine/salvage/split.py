"""Take what can be had of torn batches at offsets at which no copy has a sound one.

Each is written anew, with its offsets as they were. Where copies hold other records at an offset
and no checksum says which are right, none of them is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.leader_epochs import NO_EPOCH
from kdump.engine.salvage.contents import Contents, records_of
from kdump.engine.salvage.copies import Batch, Copy, TornEntry, batch_at
from kdump.kernels import columns as c
from kdump.record.partial_batch import Part, parts_of
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.history import History

_LIKELY_OFFSETS = 1 << 20  # an entry that lies further behind the one before is not believed


class RebuiltBatch(NamedTuple):
    """A batch written anew out of a torn one, which says that it goes on to `highest`.

    `is_proved`: checksums cover all of its records.
    """

    torn: TornEntry
    batch: Batch
    contents: Contents
    is_proved: bool
    highest: int

    @property
    def _order(self) -> tuple[object, ...]:
        return self.batch.first, not self.is_proved, -self.batch.last, self.batch.rank


def split(
    copies: Sequence[Copy], history: History, first: int, last: int, limit: int
) -> Iterator[RebuiltBatch]:
    """Yield what torn batches hold from `first` to `last`, in the order of their offsets."""
    producers = set().union(*(copy.producers for copy in copies))

    def is_known(producer_id: int, epoch: int) -> bool:
        return (producer_id, epoch) in producers

    torn = [
        one
        for copy in copies
        for one in copy.torn
        if one.last < last and (one.before is None or one.before >= first)
    ]
    found: list[RebuiltBatch] = []
    for one in torn:
        bounds = max(first, one.last + 1), min(last, _end_of(one))
        found += _splits(one, history, bounds, is_known, limit)
    right: list[RebuiltBatch] = []
    for each in found:
        contested = _find_contested(each, found)
        if contested is None:
            right.append(each)
        elif contested > each.batch.first:
            bounds = each.batch.first, contested - 1
            right += _splits(each.torn, history, bounds, is_known, limit)
    behind = first
    for each in sorted(right, key=lambda one: one._order):
        if each.batch.first >= behind:
            yield each
            behind = each.batch.last + 1


def _end_of(torn: TornEntry) -> int:
    return torn.last + _LIKELY_OFFSETS if torn.before is None else torn.before


def _splits(
    torn: TornEntry,
    history: History,
    bounds: tuple[int, int],
    is_known: Callable[[int, int], bool],
    limit: int,
) -> Iterator[RebuiltBatch]:
    first, last = bounds
    if first > last:
        return
    size = min(torn.size_bytes, limit)
    data = torn.copy.replica.read(torn.path, torn.position, size)
    for part in parts_of(data, is_known, limit, highest=last):
        if part.first < first or part.last > last:
            continue
        if not part.is_plain and torn.is_misplaced(part.first):
            continue
        made = _make(torn, part, limit)
        if made is not None and _fits(made.batch, history):
            yield made


def _fits(batch: Batch, history: History) -> bool:
    """Whether a batch is of the epoch that its offset belongs to; no checksum vouches for it."""
    if batch.epoch == NO_EPOCH and history.starts:
        return False
    return history.accepts(batch)


def _make(torn: TornEntry, part: Part, limit: int) -> RebuiltBatch | None:
    rows, _, _ = kernels.walk(part.data, 0, len(part.data), 0, -1, True, 1)
    if rows.count != 1 or rows.flags & c.WRONG:
        return None
    batch = batch_at(rows, 0, torn.copy, torn.path, part.first)._replace(position=torn.position)
    records = records_of(part.data, rows, limit)
    contents = Contents(part.data, part.first, part.last, part.records_count, records)
    return RebuiltBatch(torn, batch, contents, part.is_proved, part.highest)


def _find_contested(one: RebuiltBatch, others: Sequence[RebuiltBatch]) -> int | None:
    """The first offset at which another has another record, if nothing vouches for this one."""
    if one.is_proved:
        rivals = [other for other in others if other.is_proved and other is not one]
    else:
        rivals = [other for other in others if other is not one]
    mine = one.contents.records or {}
    found = OFFSET_MAX
    for rival in rivals:
        if rival.batch.last < one.batch.first or rival.batch.first > one.batch.last:
            continue
        theirs = rival.contents.records or {}
        for offset, record in mine.items():
            if theirs.get(offset, record) != record:
                found = min(found, offset)
    return None if found == OFFSET_MAX else found

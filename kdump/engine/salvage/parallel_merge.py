"""Go through the copies of a partition side by side, in the order of offsets.

Where copies have the same batches one after another, as most do, these come together: columns are
compared and no batch is looked at by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kdump.engine.compare.verdict import same_rows
from kdump.engine.salvage.copies import Batch, Stretch


class _Head:
    """What comes next of one copy."""

    def __init__(self, items: Iterator[Batch | Stretch]) -> None:
        self._items = items
        self.item = next(items, None)

    def take(self, count: int = 1) -> None:
        """Go past some batches of it."""
        item = self.item
        if isinstance(item, Stretch) and count < item.batch_count:
            self.item = item.rest_after(count)
        else:
            self.item = next(self._items, None)


def merge_equal(streams: Sequence[Iterator[Batch | Stretch]]) -> Iterator[Batch | list[Stretch]]:
    """Yield batches by their first offsets, of one offset by the ranks of their copies.

    A list of stretches are as many batches that are the same in all of them, by rank; no other
    copy has a batch with one of their offsets, but for one that came before.
    """
    heads = [_Head(stream) for stream in streams]
    differs_at = -1
    while heads := [head for head in heads if head.item is not None]:
        firsts = [head.item.first for head in heads if head.item is not None]
        first = min(firsts)
        group = [head for head, begins in zip(heads, firsts, strict=True) if begins == first]
        if first != differs_at:
            bound = min((begins for begins in firsts if begins > first), default=None)
            if same := _equal_runs([head.item for head in group], bound):
                yield same
                for head in group:
                    head.take(same[0].batch_count)
                continue
            differs_at = first
        head = min(group, key=lambda head: 0 if head.item is None else head.item.rank)
        item = head.item
        assert item is not None
        yield item if isinstance(item, Batch) else item.make_batches(item.start, item.start + 1)[0]
        head.take()


def _equal_runs(items: Sequence[Batch | Stretch | None], bound: int | None) -> list[Stretch]:
    """Cut stretches to the batches that are the same in all, and end below an offset."""
    stretches = [item for item in items if isinstance(item, Stretch)]
    if len(stretches) < len(items):
        return []
    count = min(
        one.batch_count
        if bound is None
        else bisect_left(one.block.last_offsets, bound, one.start, one.stop) - one.start
        for one in stretches
    )
    if count and len(stretches) > 1:
        count = same_rows([(one.block, one.start) for one in stretches], count)
    stretches.sort(key=lambda one: one.rank)
    return [one.cut(count) for one in stretches] if count else []


def one_by_one(same: Sequence[Stretch]) -> Iterator[Batch]:
    """Yield the batches of stretches that are the same, those of one offset by rank."""
    for row in zip(*(one.batches() for one in same), strict=True):
        yield from row

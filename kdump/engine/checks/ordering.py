"""Which batches of a run lie in order: state that is followed through a log rests on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.storage.believed import MAX_OFFSET

if TYPE_CHECKING:
    from kdump.engine.scan import SegmentScan
    from kdump.kernels.columns import Columns


def in_order(segment: SegmentScan, batches: Columns) -> bool:
    """Whether the batches rise, from the segment's base offset and below the next one's."""
    if batches.flags & c.OFFSET_NOT_RISING:
        return False
    next_base = segment.next_base
    return next_base is None or batches.value(c.B_LAST_OFFSET, batches.count - 1) < next_base


def out_of_order(segment: SegmentScan, batches: Columns) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of which some do not fit their neighbours, the neighbours included."""
    bases, lasts = batches.column(c.B_BASE_OFFSET), batches.column(c.B_LAST_OFFSET)
    most = MAX_OFFSET if segment.next_base is None else segment.next_base
    before = segment.last_offset
    first = end = 0
    for row in range(batches.count):
        base = bases[row] if bases[row] >= 0 else lasts[row]
        low = row if before < base else max(row - 1, 0)
        before = lasts[row]
        if low == row and before < most:
            continue
        if low > end and end > first:
            yield first, end
        if low > end or end == first:
            first = low
        end = row + 1
    if end > first:
        yield first, end

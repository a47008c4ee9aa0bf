"""Find the batches of a run that are in order: only those may change a check's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.record.frames import Oversize, Run

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.kernels.columns import RecordBatches


def in_order(segment: SegmentScan, batches: RecordBatches) -> bool:
    """Whether the batches rise, from the segment's base offset and below its end."""
    if batches.flags & c.OFFSET_NOT_RISING:
        return False
    return batches.last_offset(batches.count - 1) < segment.end_offset


def in_parts(segment: SegmentScan, item: Run | Oversize) -> Iterator[tuple[Run | Oversize, bool]]:
    """Cut an item where its batches do not fit their neighbours; say which parts are in order."""
    batches = item.batches
    if in_order(segment, batches):
        yield item, True
        return
    if not isinstance(item, Run):
        yield item, False
        return
    start = 0
    for first, end in out_of_order(segment, batches):
        if start < first:
            yield item._replace(batches=batches.slice(start, first)), True
        yield item._replace(batches=batches.slice(first, end)), False
        start = end
    if start < batches.count:
        yield item._replace(batches=batches.slice(start, batches.count)), True


def out_of_order(segment: SegmentScan, batches: RecordBatches) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of which some do not fit their neighbours, the neighbours included."""
    bases, lasts = batches.base_offsets, batches.last_offsets
    most = segment.end_offset
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

"""Find the batches of a run that are in order: only those may change a check's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.kernels.columns import RecordBatches


def in_order(segment: SegmentScan, batches: RecordBatches) -> bool:
    """Whether the batches rise, from the segment's base offset and below its end."""
    if batches.flags & c.OFFSET_NOT_RISING:
        return False
    return batches.last_offset(batches.count - 1) < segment.end_offset


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

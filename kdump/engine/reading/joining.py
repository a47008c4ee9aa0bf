"""Join the headers of a walk, so that what looks at them is called once for many blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize, Run
from kdump.storage.file_records import BATCHES_A_RUN

FEW = 512  # batches of a block: with more of them, a call of each check costs little beside


PLAIN = c.COMPRESSED | c.TRANSACTIONAL  # flags that make no check look at a batch's bytes


def looked_past(item: Run | Oversize) -> bool:
    """Whether no check wants the bytes of these batches, and they are few."""
    plain = isinstance(item, Run) and not item.batches.flags & ~PLAIN
    return plain and len(item.batches) <= FEW


def joined(
    items: Iterable[Run | Oversize | Gap], joins: Callable[[Run | Oversize], bool] = looked_past
) -> Iterator[Run | Oversize | Gap]:
    """Join the headers of many blocks of the file, without their bytes, where `joins` allows it."""
    parts: list[RecordBatches] = []
    count = 0
    for item in items:
        batches = None if isinstance(item, Gap) or not joins(item) else item.batches
        if parts and (batches is None or count + max(len(batches), FEW) > BATCHES_A_RUN):
            yield Run(bytearray(), 0, RecordBatches.join(parts))
            parts, count = [], 0
        if batches is None:
            yield item
        else:
            parts.append(batches)
            count += len(batches)
    if parts:
        yield Run(bytearray(), 0, RecordBatches.join(parts))

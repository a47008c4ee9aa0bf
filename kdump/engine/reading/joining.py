"""Join runs of batches whose bytes no check wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Run
from kdump.storage.file_records import BATCHES_A_RUN

if TYPE_CHECKING:
    from kdump.record.frames import Oversize


FEW = 512  # batches of a block: with more of them, a call of each check costs little beside


PLAIN = c.COMPRESSED | c.TRANSACTIONAL  # flags that make no check look at a batch's bytes


def _joined(items: Iterable[Run | Oversize | Gap]) -> Iterator[Run | Oversize | Gap]:
    """Join runs of whose batches no check wants the bytes: one call for many blocks of the file."""
    parts: list[RecordBatches] = []
    count = 0
    for item in items:
        plain = None
        if isinstance(item, Run) and not item.batches.flags & ~PLAIN:
            plain = item.batches if len(item.batches) <= FEW else None
        if parts and (plain is None or count + FEW > BATCHES_A_RUN):
            yield Run(bytearray(), 0, RecordBatches.join(parts))
            parts, count = [], 0
        if plain is None:
            yield item
        else:
            parts.append(plain)
            count += len(plain)
    if parts:
        yield Run(bytearray(), 0, RecordBatches.join(parts))

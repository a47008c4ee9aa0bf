"""Put batches among those of a copy whose header fields no checksum covers (`--mend-headers`).

What such a field has to be is inferred from the sound batches around; what these leave open is
given up, as without the option.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.salvage.contents import contents_of
from kdump.engine.salvage.copies import batch_at
from kdump.record.header_repair import MendedEntry, Neighbours, epoch_between, mend, with_epoch

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Batch, Copy


_MET = 1 << 20  # so many batches are known by their checksums


def mend_batches(copy: Copy, sound: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the sound batches of a copy, and the mended ones in their places."""
    return _CopyMender(copy).batches(sound)


def _first_of(batch: Batch) -> int:
    """Return the first offset of a batch, for which a wrapper has to be opened."""
    if not batch.is_wrapper:
        return batch.first
    contents = contents_of(batch, batch.copy.limit, kept=False)
    return batch.last if contents is None else contents.first


class _CopyMender:
    """Goes through the batches of one copy, and through what lies between them."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._last = -1 if copy.start is None else copy.start - 1
        self._epoch = -1
        self._met: dict[int, int] = {}  # checksums of sound batches by where they begin

    def batches(self, sound: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the sound batches, and the mended ones in their places."""
        held: Batch | None = None  # its epoch may yet prove wrong
        for batch in sound:
            if len(self._met) < _MET:
                self._met[batch.last if batch.is_wrapper else batch.first] = batch.crc
            between = list(self._between(held, batch))
            if held is not None:
                yield self._with_right_epoch(held, batch)
            yield from between
            held = batch
        between = list(self._between(held, None))
        if held is not None:
            yield held
        yield from between

    def _between(self, before: Batch | None, after: Batch | None) -> Iterator[Batch]:
        """Mend what lies between two batches, either of which may not be there."""
        copy = self._copy
        last = self._last if before is None else before.last
        epoch = -1 if before is None else before.epoch
        ranges, copy.unused = copy.unused, []
        for item in ranges:
            where = item.finding
            if where.entry.empty or where.position is None or not where.size_bytes:
                continue
            is_last = item is ranges[-1]
            around = Neighbours(
                last,
                epoch,
                None if after is None or not is_last else _first_of(after),
                -1 if after is None else after.epoch,
            )  # fmt: skip
            if where.size_bytes > copy.limit:
                continue
            data = copy.replica.read(item.place.path, where.position, where.size_bytes)
            for one in mend(data, around, copy.limit):
                batch = self._batch(one, item.place.path, where.position + one.at, last + 1)
                if batch is not None and (after is None or batch.last < after.last):
                    yield batch
                    last = batch.last

    def _batch(self, one: MendedEntry, path: str, position: int, lowest: int) -> Batch | None:
        rows, _, _ = kernels.walk(one.data, 0, len(one.data), 0, -1, True, 1)
        if rows.count != 1:
            return None
        batch = batch_at(rows, 0, self._copy, path, lowest)
        stored = next((each.stored for each in one.fields if each.name == "offset"), None)
        if stored is not None and self._met.get(stored) == batch.crc:
            return None  # what is there already, once more
        return batch._replace(position=position, mended=one)

    def _with_right_epoch(self, batch: Batch, after: Batch) -> Batch:
        """Give a batch the epoch of those around it: epochs never fall, so it has no other."""
        before, self._epoch = self._epoch, batch.epoch
        right = epoch_between(batch.epoch, before, after.epoch)
        if right is None or batch.mended is not None:
            return batch
        data = self._copy.replica.read(batch.path, batch.position, batch.size_bytes)
        if len(data) < batch.size_bytes:
            return batch
        self._epoch = right
        return batch._replace(epoch=right, mended=with_epoch(data, right))

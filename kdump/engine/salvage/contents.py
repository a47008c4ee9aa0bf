"""Open a batch to see that its records can be had, and which they are."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.header_repair import with_offset
from kdump.record.stretches import stretches
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Batch, Stretch
    from kdump.kernels.columns import RecordBatches
    from kdump.record.decoded_part import DecodedPart
    from kdump.record.header_repair import Field

_NOT_OPENED = (reasons.OVER_LIMIT, reasons.CODEC_MISSING)
_OPENED_BYTES = 1 << 20  # of a stretch, at a time
_RECORDS = 8192
_STATE = (-1, 0, -1, 0, 0, -1, 0, -1, 0)
#: What records may have otherwise than their header says, or than their neighbours do.
_OF_TIME = (c.MAX_TIMESTAMP, c.OFFSET_ORDER)


class Contents(NamedTuple):
    """A sound batch: its bytes, if they are held, and what stands for each record, by offset.

    `records` is None where they were not asked for, and where nobody can open the batch, for its
    size or for want of its codec: its checksum stands for it then. `mended` are fields of its
    header that were inferred.
    """

    data: bytes | memoryview | None
    first: int
    last: int
    records_count: int
    records: dict[int, int] | None
    mended: tuple[Field, ...] = ()


def contents_of(batch: Batch, limit: int, *, kept: bool = False) -> Contents | None:
    """Read and open a batch; None where it is not sound after all.

    Its records are only `kept` to be compared, and its bytes only where they are not.
    """
    unopened = Contents(None, batch.first, batch.last, max(batch.records_count, 0), None)
    if batch.size_bytes > limit:
        return unopened
    known = batch.mended
    if known is None:
        data = batch.copy.replica.read(batch.path, batch.position, batch.size_bytes)
    else:
        data = known.data
    rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    if rows.count != 1 or rows.size_bytes(0) != batch.size_bytes or rows.flags & c.WRONG:
        return None
    found: dict[int, int] = {}
    count, lowest, highest = 0, batch.last, -1
    for piece in read_batch(data, 0, rows, 0, limit=limit):
        if piece.reason in _NOT_OPENED:
            fields = () if known is None else known.fields
            return unopened._replace(data=data, mended=fields)
        records = piece.records
        if not piece.is_sound:
            return None
        count += records.count
        if records.count:
            lowest = min(lowest, min(records.offsets))
            highest = max(highest, max(records.offsets))
        if kept:
            found |= _records_in(piece)
    is_legacy = rows.is_legacy(0)
    if is_legacy and not count:
        return None
    first, last = lowest if is_legacy else batch.first, batch.last
    if batch.is_wrapper and not rows.format(0).relative_offsets:
        # Its messages have offsets of their own under the checksum; the wrapper's is not (F13).
        last = highest
    elif count and not (first <= lowest and highest <= last):
        return None
    elif batch.is_wrapper and first < batch.first:
        return None  # it begins within the batch before: its own offset field changed
    fields = () if known is None else known.fields
    if batch.is_wrapper and last != batch.last and batch.copy.mend is not None:
        moved = with_offset(data, last)
        data, fields = moved.data, (*fields, *moved.fields)
    held = None if kept and not fields else data
    return Contents(held, first, last, count, found if kept else None, fields)


def contents_from(stretch: Stretch, limit: int) -> Iterator[tuple[Batch, Contents]]:
    """Read and open batches of a stretch together, up to the first that is not as sound as all."""
    block, start = stretch.block, stretch.start
    positions = block.positions
    base = positions[start]
    stop = bisect_right(positions, base + _OPENED_BYTES, start, stretch.stop) - 1
    size = positions[stop] - base if stop > start else 0
    sizes = block.sizes[start:stop].tolist()
    data = stretch.copy.replica.read(stretch.path, base, size) if size == sum(sizes) > 0 else b""
    rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, max(stop - start, 1))
    if rows.flags & c.WRONG or rows.sizes.tolist() != sizes or max(sizes, default=0) > limit:
        return
    made, view = stretch.make_batches(start, stop), memoryview(data)
    for piece in stretches(data, 0, rows, limit=limit, max_records=_RECORDS):
        batches = made[piece.first : piece.behind]
        if piece.records is None:
            one = contents_of(batches[0], limit)
            if one is None:
                return
            yield batches[0], one
            continue
        counts = [batch.records_count for batch in batches]
        state = array("q", _STATE)
        found = kernels.prove_records(rows, piece.records, state, True, _RECORDS)
        if piece.reason or sum(counts) != piece.records.count or state[-1]:
            return
        if any(why not in _OF_TIME for why, _, _ in found):
            return
        for batch, at in zip(batches, rows.positions[piece.first : piece.behind], strict=True):
            held = view[at : at + batch.size_bytes]
            yield batch, Contents(held, batch.first, batch.last, batch.records_count, None)


def records_of(data: bytes, rows: RecordBatches, limit: int) -> dict[int, int]:
    """Give what stands for each record of one batch, by its offset."""
    found: dict[int, int] = {}
    for piece in read_batch(data, 0, rows, 0, limit=limit):
        found |= _records_in(piece)
    return found


def _records_in(piece: DecodedPart) -> dict[int, int]:
    """Give what stands for each record, by its offset."""
    found: dict[int, int] = {}
    for row in range(piece.records.count):
        (
            _, at, size, offset, timestamp, key, key_size, value, value_size,
            headers, count, _,
        ) = piece.records.row(row)  # fmt: skip
        found[offset] = hash((
            timestamp,
            bytes(piece.data[key : key + key_size]) if key_size >= 0 else None,
            bytes(piece.data[value : value + value_size]) if value_size >= 0 else None,
            bytes(piece.data[headers : at + size]) if count else b"",
        ))  # fmt: skip
    return found

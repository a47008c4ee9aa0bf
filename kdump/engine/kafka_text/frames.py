"""Frame the entries of a log file by their lengths alone, as kafka-dump-log does (D2, D4)."""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import BATCH_HEADER_V2, LOG_OVERHEAD, MAGIC_V2, int64
from kdump.storage.file_records import BATCHES_A_RUN, BLOCK_BYTES, FileRecords
from kdump.storage.source import Source


def framed(
    source: Source, limit: int, position: int = 0, block: int = BLOCK_BYTES
) -> Iterator[Run | Oversize | Gap]:
    """Yield the entries of a file by their lengths alone, as FileLogInputStream does (S6).

    The last item is a Gap where the file does not end with an entry. After a length that leads
    nowhere the walk goes on at the next valid entry. `block` bytes are read at once, or an entry.
    """
    buffer = bytearray(min(block, max(source.size - position, 1)))
    beside = FileRecords(source, limit=limit)
    while position < source.size:
        filled = source.read_into(buffer, position, min(len(buffer), source.size - position))
        if filled <= 0:
            return
        start, reason = 0, reasons.FULL
        while reason == reasons.FULL:
            batches, start, reason = kernels.walk(
                buffer, start, filled, position, -1, True, BATCHES_A_RUN
            )
            if batches.count:
                yield Run(buffer, position, batches)
        ends = position + filled >= source.size or source.shrank
        size = int.from_bytes(buffer[start + 8 : start + LOG_OVERHEAD], "big", signed=True)
        position += start
        left = source.size - position
        needed = LOG_OVERHEAD + size
        if reason == reasons.LENGTH_TOO_SMALL:
            gap = next(beside.walk(position), None)
            if not isinstance(gap, Gap):  # the file changed under the walk
                return
            yield gap
            position += gap.size_bytes
        elif reason == reasons.SHORT_TAIL and ends:
            yield Gap(position, left, "short-tail", None, b"", to_end=True)
            return
        elif reason == reasons.CUT_SHORT and (ends or needed > left):
            yield Gap(position, left, "cut-short", None, b"", to_end=True)
            return
        elif reason == reasons.CUT_SHORT and needed > limit:
            for item in beside.walk(position, position + needed):
                header = item.header if isinstance(item, Gap) else item.batches
                if header is not None:
                    yield Oversize(header)
            position += needed
        elif reason == reasons.CUT_SHORT and needed > len(buffer):
            buffer = bytearray(needed)
        elif len(buffer) > block:
            buffer = bytearray(block)


def see_as_batch(batches: RecordBatches, row: int, header: bytes) -> None:
    """Put into the columns what a record batch's header at an entry's start would say."""
    (
        base_offset, _, leader_epoch, _, crc, attributes, delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, count,
    ) = BATCH_HEADER_V2.unpack(header)  # fmt: skip
    batches.put(
        row,
        attributes=attributes & 0xFFFF,
        base_offset=base_offset,
        last_offset=int64(base_offset + delta),
        records_count=count,
        crc=crc,
        leader_epoch=leader_epoch,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        flags=c.CRC_BAD | c.TOO_SMALL,
        layout=MAGIC_V2,
    )

"""Decode one log entry of any version.

`read_batch` takes one row of batch columns and yields its records as columns, in pieces, so that
memory stays bounded whatever the entry claims to hold. Good records before damage inside are
always handed out; the last piece says why decoding stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.decoded_part import DecodedPart


def read_batch(
    data: bytes | bytearray | memoryview,
    base: int,
    batches: RecordBatches,
    index: int,
    *,
    limit: int,
    max_records: int = 8192,
) -> Iterator[DecodedPart]:
    """Yield the records of entry `index` of `batches`, whose bytes lie in `data` from `base` on.

    `limit` bounds the uncompressed bytes of a compressed entry.
    """
    from kdump.record import default, legacy

    flags = batches.flags_of(index)
    start = batches.position(index) - base
    end = start + batches.size_bytes(index)
    if not batches.is_legacy(index):
        return default.read(data, start, end, batches, index, limit, max_records)
    if flags & c.WRAPPER:
        return legacy.read_wrapper(data, start, end, batches, index, limit, max_records)
    return legacy.read_plain(data, base, batches, index, max_records)

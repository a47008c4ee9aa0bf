"""Decode one log entry of any version.

`read_batch` takes one row of batch columns and yields its records as columns, in pieces, so that
memory stays bounded whatever the entry claims to hold. Good records before damage inside are
always handed out; the last piece says why decoding stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.decoded import Decoded
from kdump.record.layout import CODEC_MASK, CODEC_NAMES, MAX_INT32, TIMESTAMP_TYPE_BIT

MAX_SEQUENCE = MAX_INT32


def codec_name(attributes: int) -> str:
    """Name the codec of an attributes field; numbers no version defines keep their number."""
    codec = attributes & CODEC_MASK
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


def timestamp_type_name(layout: int, attributes: int) -> str | None:
    """Name the timestamp type; magic 0 has none (F10)."""
    if not layout:
        return None
    return "LogAppendTime" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime"


def last_sequence(base_sequence: int, delta: int) -> int:
    """Add an offset delta to a sequence number, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    if base_sequence < 0:
        return -1
    return (base_sequence + delta) & MAX_SEQUENCE


def read_batch(
    data: bytes | bytearray | memoryview,
    base: int,
    batches: RecordBatches,
    index: int,
    *,
    limit: int,
    max_records: int = 8192,
) -> Iterator[Decoded]:
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


__all__ = ["codec_name", "last_sequence", "read_batch", "reasons", "timestamp_type_name"]

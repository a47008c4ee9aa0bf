"""What the header of an entry says of each member that rows of batches have, in their order."""

from __future__ import annotations

from kdump.kernels.columns import CRC_BAD, WRAPPER, BatchHeader
from kdump.kernels.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAX_INT32,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    format_at,
)

MEMBERS = (
    "position size_bytes magic codec base_offset last_offset records_count crc crc_valid "
    "timestamp_type base_timestamp_ms max_timestamp_ms leader_epoch producer_id "
    "producer_epoch base_sequence last_sequence transactional control delete_horizon_ms"
).split()
MAX_SEQUENCE = MAX_INT32
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown-5", "unknown-6", "unknown-7")


def codec_name(attributes: int) -> str:
    """Name the codec of an attributes field; numbers no version defines keep their number."""
    return _CODECS[attributes & CODEC_MASK]


def timestamp_type_name(attributes: int) -> str:
    """Name the timestamp type of an attributes field, which magic 0 does not have (F10)."""
    return "LogAppendTime" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime"


def sequence_at(base_sequence: int, delta: int) -> int:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    return -1 if base_sequence < 0 else (base_sequence + delta) & MAX_SEQUENCE


def members_of(batch: BatchHeader) -> tuple[int | str | bool | None, ...]:
    """Return MEMBERS of a header; None for what the format of the entry does not have."""
    (
        position, size_bytes, magic, attributes, base_offset, last_offset, records_count, crc, _,
        leader_epoch, base_ms, max_ms, producer_id, producer_epoch, base_sequence, flags, layout,
    ) = batch  # fmt: skip
    read = format_at(layout)
    meant = attributes & read.meant_bits
    timed, producing = read.has_timestamps, read.has_producer_fields
    closed = flags & WRAPPER and records_count < 0  # only the last offset is known (F18)
    horizon = meant & DELETE_HORIZON_BIT
    last_sequence = sequence_at(base_sequence, last_offset - base_offset)
    return (
        position,
        size_bytes,
        magic,
        codec_name(attributes),
        None if closed else base_offset,
        last_offset,
        None if closed else records_count,
        crc,
        not flags & CRC_BAD,
        timestamp_type_name(attributes) if timed else None,
        base_ms if timed and not horizon else None,
        max_ms if timed else None,
        leader_epoch if read.has_leader_epoch else None,
        producer_id if producing else None,
        producer_epoch if producing else None,
        base_sequence if producing else None,
        last_sequence if producing else None,
        bool(meant & TRANSACTIONAL_BIT),
        bool(meant & CONTROL_BIT),
        base_ms if horizon else None,
    )

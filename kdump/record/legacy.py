"""Decode magic 0 and 1: messages, and wrappers with a compressed set of them (F6-F19)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.layout import CODEC_MASK, CRC_START_LEGACY, FORMATS, LOG_OVERHEAD, ZSTD

if TYPE_CHECKING:
    from kdump.kernels.columns import RecordBatches
    from kdump.record.decoded_part import DecodedPart


def read_plain(
    data: bytes | bytearray | memoryview,
    base: int,
    batches: RecordBatches,
    index: int,
    max_records: int,
) -> Iterator[DecodedPart]:
    """Yield the one record of an entry that is not compressed."""
    from kdump.record.decoded_part import DecodedPart, empty_piece

    if batches.flags_of(index) & (c.CRC_BAD | c.TOO_SMALL):
        yield empty_piece(data, reasons.KEY_LENGTH)
        return
    one = batches.slice(index, index + 1)
    records, _, stop, reason = kernels.decode_run(data, base, one, 0, max_records)
    records.fill(c.R_BATCH, index)
    yield DecodedPart(data, records, reason, stop, "")


def value_position(data: memoryview, start: int, end: int, layout: int) -> int | None:
    """Find the first byte of an entry's value, behind its size; None where its key runs past it."""
    at = start + FORMATS[layout].header_size - 4
    if at + 4 > end:
        return None
    at += 4 + max(int.from_bytes(data[at : at + 4], "big", signed=True), 0)
    return at + 4 if at + 4 <= end else None


def value_range(data: memoryview, start: int, end: int, layout: int) -> tuple[int, int, int]:
    """Find the value of the entry in `data[start:end]`: (first byte, byte behind it, reason)."""
    at = value_position(data, start, end, layout)
    if at is None:
        return 0, 0, reasons.KEY_LENGTH
    size = int.from_bytes(data[at - 4 : at], "big", signed=True)
    if size < 0:
        return 0, 0, reasons.VALUE_NULL
    if size > end - at:
        return 0, 0, reasons.VALUE_LENGTH
    return at, at + size, reasons.END


def read_wrapper(
    data: bytes | bytearray | memoryview,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    limit: int,
    max_records: int,
) -> Iterator[DecodedPart]:
    """Yield the messages inside a wrapper, with absolute offsets (F13, F14), -1 where not known.

    A message inside that is compressed again ends it, as in brokers since 0.10 (F16).
    """
    from kdump.record.decoded_part import DecodedPart, empty_piece

    read = batches.format(index)
    first, last, reason = value_range(memoryview(data), start, end, read.magic)
    if reason:
        yield empty_piece(data, reason)
        return
    codec = batches.attributes(index) & CODEC_MASK
    if codec == ZSTD:
        yield empty_piece(data, reasons.ZSTD_IN_LEGACY)
        return
    from kdump.record import compression

    packed = memoryview(data)[first:last]
    plain = compression.decompress(codec, packed, limit, broken_lz4_header=read.lz4_header_wrong)
    if plain.data is None:
        yield empty_piece(b"", plain.reason, plain.detail)
        return
    inner, size = plain.data, len(plain.data)
    wrapper_offset = batches.last_offset(index)
    base, _, _, base_reason = kernels.inner_base(inner, 0, size, wrapper_offset, read.magic)
    if base_reason in (reasons.INNER_EMPTY, reasons.WRAPPER_OFFSET):
        yield empty_piece(inner, plain.reason or base_reason, plain.detail)
        return
    # Relative offsets count back from the last message; where the last one did not come out
    # nobody knows where they start (F14).
    unknown = read.relative_offsets and (plain.reason or base_reason == reasons.INNER_SIZE)
    position = 0
    while True:
        records, stop, reason = kernels.decode_messages(
            inner, position, size, batches, index, base, max_records
        )
        if unknown:
            records.fill(c.R_OFFSET, -1)
        if reason != reasons.FULL and plain.reason:
            reason = plain.reason
        yield DecodedPart(inner, records, reason, stop, plain.detail)
        if reason != reasons.FULL:
            return
        position = stop


def read_past_nested(
    piece: DecodedPart, batches: RecordBatches, index: int, max_records: int
) -> Iterator[DecodedPart]:
    """Yield what a wrapper has from the message on that is compressed again and ended a piece.

    Each piece begins with such a message: its value is the compressed bytes, as consumers of 0.9
    were handed it, under its own checksum if that is right. The flags of its row have its codec.
    """
    from kdump.record.decoded_part import DecodedPart

    inner = bytearray(piece.data)
    size, position, reason = len(inner), piece.stop, piece.reason
    magic = batches.format(index).magic
    base = kernels.inner_base(inner, 0, size, batches.last_offset(index), magic)[0]
    while reason == reasons.INNER_COMPRESSED:
        codec = _mark_uncompressed(inner, position)
        reason = reasons.FULL
        while reason == reasons.FULL:
            records, position, reason = kernels.decode_messages(
                inner, position, size, batches, index, base, max_records
            )
            if codec and records.count:
                records.mark(0, codec << c.INNER_CODEC_SHIFT)
                codec = 0
            yield DecodedPart(inner, records, reason, position, piece.detail)


def _mark_uncompressed(inner: bytearray, position: int) -> int:
    """Make of a message that is compressed again one that is not, and return its codec.

    A right checksum stays right.
    """
    end = position + LOG_OVERHEAD + int.from_bytes(inner[position + 8 : position + 12], "big")
    crc_at = position + LOG_OVERHEAD
    covered = position + CRC_START_LEGACY
    is_right = int.from_bytes(inner[crc_at:covered], "big") == kernels.crc32(inner, covered, end)
    codec = inner[covered + 1] & CODEC_MASK
    inner[covered + 1] &= ~CODEC_MASK
    if is_right:
        inner[crc_at:covered] = kernels.crc32(inner, covered, end).to_bytes(4, "big")
    return codec

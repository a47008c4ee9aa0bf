"""Say how large an entry is that a log cleaner writes anew with fewer records (F28).

Offsets stay as they were, times are counted from another base, and a compressed entry is compressed
again: LZ4 to the byte as a broker does it, the others by other releases of the same libraries, so
that the size may differ by some bytes. What is written here is measured and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.varints import varint
from kdump.record.layout import BATCH_OVERHEAD_V2, CODEC_MASK, GZIP, LZ4, SNAPPY, ZSTD

Data = bytes | bytearray | memoryview
Kept = Sequence[tuple[Data, DecodedRecords, Sequence[int]]]  # bytes, records, rows of these

_XERIAL_HEADER_BYTES, _XERIAL_BLOCK_BYTES = 16, 1 << 15


def rebuilt_size(batches: RecordBatches, row: int, kept: Kept, horizon_ms: int | None) -> int:
    """Say how many bytes the entry in `row` takes with the records that are `kept`, one at least.

    `horizon_ms` is the delete horizon it then has, None for none.
    """
    codec = batches.attributes(row) & CODEC_MASK
    if batches.is_legacy(row):
        return _wrapper_size(batches, row, kept, codec)
    return _batch_size(codec, kept, horizon_ms, _record)


def compute_upgraded_size(
    batches: RecordBatches, row: int, kept: Kept, horizon_ms: int | None
) -> int:
    """Say how many bytes a message or wrapper takes as a record batch with the same codec."""
    first = next(records.offset(rows[0]) for _, records, rows in kept if rows)

    def record(
        view: memoryview, records: DecodedRecords, number: int, delta_ms: int
    ) -> tuple[bytes, int, int]:
        head = b"\0" + varint_bytes(delta_ms) + varint_bytes(records.offset(number) - first)
        for at, size in (
            (records.key_position(number), records.key_size(number)),
            (records.value_position(number), records.value_size(number)),
        ):
            head += varint_bytes(size) + bytes(view[at : at + max(size, 0)])
        return varint_bytes(len(head) + 1) + head + b"\0", 0, 0

    return _batch_size(batches.attributes(row) & CODEC_MASK, kept, horizon_ms, record)


def _batch_size(
    codec: int,
    kept: Kept,
    base_ms: int | None,
    write: Callable[[memoryview, DecodedRecords, int, int], tuple[bytes, int, int]],
) -> int:
    pieces: list[bytes] = []
    size = 0
    for data, records, rows in kept:
        view = memoryview(data)
        for number in rows:
            timestamp = records.timestamp(number)
            base_ms = timestamp if base_ms is None else base_ms
            head, start, end = write(view, records, number, timestamp - base_ms)
            size += len(head) + end - start
            if codec:
                pieces += (head, bytes(view[start:end]))
    return BATCH_OVERHEAD_V2 + (compute_packed_size(codec, b"".join(pieces)) if codec else size)


def _record(
    view: memoryview, records: DecodedRecords, number: int, delta_ms: int
) -> tuple[bytes, int, int]:
    """Write what stands before the offset delta of a record; with it where the rest lies (F24)."""
    position = records.position(number)
    end = position + records.size_bytes(number)
    at = varint(view, position, end)[1]
    attributes = view[at : at + 1]
    at += 1
    while view[at] & 0x80:
        at += 1
    at += 1
    delta = varint_bytes(delta_ms)
    return varint_bytes(1 + len(delta) + end - at) + bytes(attributes) + delta, at, end


def varint_bytes(number: int) -> bytes:
    """Write a zigzag varint (F23)."""
    raw = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while raw > 0x7F:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    found.append(raw)
    return bytes(found)


def _wrapper_size(batches: RecordBatches, row: int, kept: Kept, codec: int) -> int:
    """The size of a wrapper: its messages are copied with offsets of their own (F13, F14)."""
    read = batches.format(row)
    pieces: list[bytes] = []
    first = -1
    for data, records, rows in kept:
        view = memoryview(data)
        for number in rows:
            offset = records.offset(number)
            first = offset if first < 0 else first
            position = records.position(number)
            message = view[position + 8 : position + records.size_bytes(number)]
            inner = offset - first if read.relative_offsets else offset
            pieces += (inner.to_bytes(8, "big", signed=True), bytes(message))
    return read.header_size + 4 + compute_packed_size(codec, b"".join(pieces))


def compute_packed_size(codec: int, plain: bytes) -> int:
    """Say how many bytes a broker's stream of a codec takes (F30 to F34)."""
    return _SIZES[codec](plain) if codec in _SIZES else len(plain)


def _gzip(plain: bytes) -> int:
    import zlib

    stream = zlib.compressobj(6, zlib.DEFLATED, 31)
    return len(stream.compress(plain)) + len(stream.flush())


def _snappy_compressor() -> Callable[[bytes], bytes]:
    # PyArrow brings a later release of what brokers have. The other is another author's, and where
    # there are few matches, as in text of random letters, it may miss a tenth of the size.
    try:
        from pyarrow import Codec
    except ImportError:
        from snappy import compress

        return compress  # type: ignore[no-any-return]
    codec = Codec("snappy")
    return lambda block: bytes(codec.compress(block, asbytes=True))


def _snappy(plain: bytes) -> int:
    compress = _snappy_compressor()
    blocks = range(0, len(plain), _XERIAL_BLOCK_BYTES)
    sizes = (4 + len(compress(plain[at : at + _XERIAL_BLOCK_BYTES])) for at in blocks)
    return _XERIAL_HEADER_BYTES + sum(sizes)


def _lz4(plain: bytes) -> int:
    # Block by block, `lz4.block` finds fewer matches than lz4-java: digits come out a fifth larger.
    from lz4 import frame

    size = frame.BLOCKSIZE_MAX64KB
    return len(frame.compress(plain, block_size=size, block_linked=False, store_size=False))


def _zstd(plain: bytes) -> int:
    import zstandard

    stream = zstandard.ZstdCompressor(level=3).compressobj()
    # Writers flush before they close, which leaves an empty block at the end.
    parts = stream.compress(plain), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), stream.flush()
    return sum(map(len, parts))


_SIZES = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}

"""Writes frames, batches and messages by hand, field by field.

Nothing of `kdump.record` or `kdump.kernels` is imported: a wrong table there must not be able to
agree with itself. Every field of a header can be given, wrong ones included; sizes, counts and
checksums are computed only where they are not given.
"""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence

import crc32c as _crc32c

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

Header = tuple[bytes, bytes | None]


def crc32(data: bytes) -> int:
    """Return the CRC-32 that magic 0 and 1 use."""
    return zlib.crc32(data)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C that magic 2 uses."""
    return _crc32c.crc32c(data)


def gzip_bytes(plain: bytes) -> bytes:
    """Compress for codec 1, the same bytes on every run."""
    return gzip.compress(plain, mtime=0)


# Magic 2 -----------------------------------------------------------------------------------------


def unsigned_varint(number: int) -> bytes:
    """Write LEB128, seven bits a byte, low group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Write a zigzag varint; `number` between -2**63 and 2**63 - 1."""
    return unsigned_varint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF)


def with_size(data: bytes | None) -> bytes:
    """Write bytes behind their varint length; null is -1."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Sequence[Header] = (),
    *,
    attributes: int = 0,
    headers_count: int | None = None,
    length: int | None = None,
    slack: bytes = b"",
) -> bytes:
    """Write one v2 record; `slack` follows its last header inside its length."""
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta)
    body += with_size(key) + with_size(value)
    body += varint(len(headers) if headers_count is None else headers_count)
    body += b"".join(with_size(name) + with_size(content) for name, content in headers) + slack
    return varint(len(body) if length is None else length) + body


def batch(
    records: Sequence[bytes] | None = None,
    *,
    base_offset: int = 0,
    size: int | None = None,
    leader_epoch: int = 0,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    records_count: int | None = None,
    payload: bytes | None = None,
    compress: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Write one v2 batch.

    `payload` stands in the place of the records as it is; `compress` is applied to them otherwise
    (set the codec in `attributes`). `size` is what the length field says, not what is written.
    """
    if records is None:
        records = [record()]
    if payload is None:
        payload = b"".join(records)
        if compress is not None:
            payload = compress(payload)
    count = len(records) if records_count is None else records_count
    delta = max(count - 1, 0) if last_offset_delta is None else last_offset_delta
    covered = struct.pack(
        ">Hiqqqhii",
        attributes & 0xFFFF,
        delta,
        base_timestamp,
        base_timestamp if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    covered += payload
    return (
        struct.pack(
            ">qiibI",
            base_offset,
            9 + len(covered) if size is None else size,
            leader_epoch,
            magic,
            crc32c(covered) if crc is None else crc,
        )
        + covered
    )


def control_record(kind: int, value: bytes, *, version: int = 0, offset_delta: int = 0) -> bytes:
    """Write the record of a control batch; `kind` 0 is ABORT, 1 COMMIT."""
    return record(offset_delta, key=struct.pack(">hh", version, kind), value=value)


def marker(
    kind: int,
    *,
    base_offset: int = 0,
    producer_id: int = 0,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> bytes:
    """Write a transaction marker: a control batch of one record; `kind` 0 is ABORT, 1 COMMIT."""
    return batch(
        [control_record(kind, struct.pack(">hi", 0, coordinator_epoch))],
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_timestamp=timestamp,
    )


def with_right_crc(data: bytes) -> bytes:
    """Return the one v2 batch `data` with the CRC that its bytes call for."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


# Magic 0 and 1 -----------------------------------------------------------------------------------


def sized32(data: bytes | None) -> bytes:
    """Write bytes behind their int32 length; null is -1."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    offset: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    *,
    magic: int = 1,
    layout: int | None = None,
    attributes: int = 0,
    timestamp: int = 1_400_000_000_000,
    size: int | None = None,
    crc: int | None = None,
    slack: bytes = b"",
    body: bytes | None = None,
) -> bytes:
    """Write one v0 or v1 entry: offset, size, message.

    `layout` is 1 where the message has a timestamp, and follows `magic` unless given; `body` stands
    in the place of key and value as it is.
    """
    if layout is None:
        layout = 1 if magic == 1 else 0
    covered = struct.pack(">bB", magic, attributes)
    if layout:
        covered += struct.pack(">q", timestamp)
    covered += sized32(key) + sized32(value) + slack if body is None else body
    sealed = struct.pack(">I", crc32(covered) if crc is None else crc) + covered
    return struct.pack(">qi", offset, len(sealed) if size is None else size) + sealed


def wrapper(
    inner: Sequence[bytes],
    offset: int,
    *,
    magic: int = 1,
    codec: int = GZIP,
    attributes: int = 0,
    timestamp: int = 1_400_000_000_000,
    compress: Callable[[bytes], bytes] = gzip_bytes,
    crc: int | None = None,
) -> bytes:
    """Write a compressed message that holds the entries `inner`; `offset` is its last one's."""
    return message(
        offset,
        None,
        compress(b"".join(inner)),
        magic=magic,
        attributes=codec | attributes,
        timestamp=timestamp,
        crc=crc,
    )


# 0.6 and 0.7 -------------------------------------------------------------------------------------


def pre08_message(
    payload: bytes = b"value",
    *,
    magic: int = 1,
    attributes: int = 0,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """Write one entry of a `.kafka` file; magic 0 has no attributes."""
    body = bytes([magic]) + (bytes([attributes]) if magic else b"")
    body += struct.pack(">I", crc32(payload) if crc is None else crc) + payload
    return struct.pack(">i", len(body) if length is None else length) + body


def pre08_wrapper(
    inner: Sequence[bytes],
    *,
    codec: int = GZIP,
    compress: Callable[[bytes], bytes] = gzip_bytes,
    crc: int | None = None,
) -> bytes:
    """Write a compressed entry of a `.kafka` file that holds the entries `inner`."""
    return pre08_message(compress(b"".join(inner)), attributes=codec, crc=crc)


# Indexes -----------------------------------------------------------------------------------------


def offset_index(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Write an `.index` of relative offsets and positions."""
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


def time_index(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Write a `.timeindex` of times and relative offsets."""
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


# Names -------------------------------------------------------------------------------------------


def retired_directory_name(topic: str, partition: int, *, retirement: str, unique_id: str) -> str:
    """Name a retired directory; -delete and -stray names are cut to 255 in the topic (R11)."""
    rest = f"-{partition}.{unique_id}-{retirement}"
    return (topic if retirement == "future" else topic[: 255 - len(rest)]) + rest

"""How entries of bytes are laid out that are sorted: those of records, and of keys.

An entry of a record begins with a checksum of what is compared, which only spreads the work, the
topic, and the size of what is compared: each part with its own size before it, -1 for null. Behind
it stands where the record lies, so that equal ones come in the order in which neighbours are looked
at. That of a key ends with the partition and with offset and timestamp of the first record there,
and of the last. In a block of entries the size of each stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

BY_KEY, BY_VALUE = 1, 2
FRAME_BYTES = 4
_START = Struct(">III")
_PART = Struct(">i")
_BY_TIME = Struct(">QIQqhii")
_BY_OFFSET = Struct(">IQQqhii")
_SPAN = Struct(">Iqqqq")
_SIGN = 1 << 63  # numbers may be negative, and are compared as bytes
WHERE_BYTES, SPAN_BYTES = _BY_TIME.size, _SPAN.size
_UINT32 = (1 << 32) - 1


def framed(entry: bytes) -> bytes:
    """Put its size before an entry."""
    return len(entry).to_bytes(FRAME_BYTES, "big") + entry


def entry_at(block: bytes, at: int) -> bytes | None:
    """Give the entry at a place of a block; None where it is not there whole."""
    first = at + FRAME_BYTES
    end = first + int.from_bytes(block[at:first], "big")
    return block[first:end] if first <= end <= len(block) and first <= len(block) else None


def lay_out(
    topic: int, parts: Sequence[bytes | None], where: Sequence[int], by_offset: bool
) -> bytes:
    """Lay out a record; `where` are the numbers that `where_of` gives."""
    said = b"".join([_PART.pack(-1) if part is None else _with_size(part) for part in parts])
    partition, offset, timestamp, *whose = where
    time, place = timestamp + _SIGN, offset + _SIGN
    last = (
        _BY_OFFSET.pack(partition, place, time, *whose)
        if by_offset
        else _BY_TIME.pack(time, partition, place, *whose)
    )
    return _START.pack(crc32(said, topic), topic, len(said)) + said + last


def _with_size(part: bytes) -> bytes:
    return _PART.pack(len(part)) + part


def where_of(entry: bytes, by_offset: bool) -> tuple[int, ...]:
    """Read partition, offset, timestamp, producer id and epoch, sequence, size of the value."""
    at = len(entry) - WHERE_BYTES
    if by_offset:
        partition, place, time, *whose = _BY_OFFSET.unpack_from(entry, at)
    else:
        time, partition, place, *whose = _BY_TIME.unpack_from(entry, at)
    return partition, place - _SIGN, time - _SIGN, *whose


def compared(entry: bytes) -> bytes:
    """Give the topic and all that is compared."""
    return entry[4 : len(entry) - WHERE_BYTES]


def topic_and_parts(said: bytes) -> tuple[int, list[bytes | None]]:
    """Take apart what `compared` gives."""
    parts: list[bytes | None] = []
    at = 8
    while at < len(said):
        size = _PART.unpack_from(said, at)[0]
        at += _PART.size
        parts.append(None if size < 0 else said[at : at + size])
        at += max(size, 0)
    return int.from_bytes(said[:4], "big"), parts


def lay_out_key(topic: int, key: bytes, partition: int, span: Sequence[int]) -> bytes:
    """Lay out a key, with the records that are its first and last on a partition."""
    start = _START.pack(crc32(key, topic), topic, len(key))
    return start + key + _SPAN.pack(partition, *span)


def topic_and_key(entry: bytes) -> bytes:
    """Give the topic, and the key behind eight bytes."""
    return entry[4 : len(entry) - SPAN_BYTES]


def span_of(entry: bytes) -> tuple[int, ...]:
    """Read partition, offset and timestamp of its first record there, and those of its last."""
    return _SPAN.unpack_from(entry, len(entry) - SPAN_BYTES)


def with_both(entry: bytes, other: bytes) -> bytes:
    """Put two entries of a key on one partition together: the earliest and the latest record."""
    partition, *span = span_of(entry)
    _, *more = span_of(other)
    if (more[1], more[0]) < (span[1], span[0]):
        span[:2] = more[:2]
    if more[3] > span[3]:
        span[2:] = more[2:]
    return entry[: len(entry) - SPAN_BYTES] + _SPAN.pack(partition, *span)


def entries_of(block: bytes) -> Iterator[bytes]:
    """Yield the entries of a block, as far as they are there whole."""
    at = 0
    while (entry := entry_at(block, at)) is not None:
        yield entry
        at += FRAME_BYTES + len(entry)

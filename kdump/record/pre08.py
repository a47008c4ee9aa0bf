"""Decode 0.6 and 0.7: messages without stored offsets (F1-F5, S1).

    bytes  field
    4      length, counts everything after itself
    1      magic: 0 (0.6 and older) or 1 (0.7)
    1      attributes, magic 1 only: codec in the two lowest bits (0 none, 1 gzip, 2 snappy)
    4      crc: CRC-32 of the payload only
    n      payload; no key

A compressed message's payload is, decompressed, a string of such entries. Its messages have no
offsets of their own: the consumer reports the start of the wrapper for each but the last, and the
end of the wrapper for the last (F4). Wrappers in wrappers were accepted and are read here, to a
fixed depth. A wrapper may be empty: brokers took it and consumers pass over it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.kernels import reasons
from kdump.record import compression
from kdump.record.layout import PRE08_CODEC_MASK, PRE08_LENGTH, PRE08_SMALLEST
from kdump.tuples import NamedTuple

MAX_DEPTH = 8
_MAGIC_OF_06 = 0
_MAGICS = (_MAGIC_OF_06, 1)
_CODECS = (compression.NONE, compression.GZIP, compression.SNAPPY)


class Entry(NamedTuple):
    """One entry as it lies in `data[position:position + size_bytes]`.

    `payload` is the index of its first payload byte; `attributes` is 0 where magic 0 has none.
    """

    position: int
    size_bytes: int
    magic: int
    attributes: int
    crc: int
    computed_crc: int
    payload: int

    @property
    def codec(self) -> int:
        """The codec's number; 3 names none in these versions."""
        return self.attributes & PRE08_CODEC_MASK

    @property
    def crc_valid(self) -> bool:
        """Whether the stored checksum is that of the payload."""
        return self.crc == self.computed_crc

    @property
    def known_magic(self) -> bool:
        """Whether brokers of the time could read it (F2)."""
        return self.magic in _MAGICS


class Message(NamedTuple):
    """One message after decompression; `next_offset` counts from the outer entry's data (F4)."""

    magic: int
    payload: bytes
    crc_valid: bool
    next_offset: int

    @property
    def known_magic(self) -> bool:
        """Whether brokers of the time could read it (F2)."""
        return self.magic in _MAGICS


def signed_byte(value: int) -> int:
    """Read a magic byte as Java does."""
    return value - 256 if value > 127 else value


def attributes_size(magic: int) -> int:
    """Count the bytes of attributes behind the magic: 0.6 had none."""
    return int(magic != _MAGIC_OF_06)


def codec_name(codec: int) -> str:
    """Name a codec of 0.7, which had no number 3."""
    return ("none", "gzip", "snappy")[codec] if codec in _CODECS else f"unknown-{codec}"


def read_entry(data: memoryview, position: int, end: int) -> tuple[Entry | None, int]:
    """Read the entry at `position`: (entry, END), or (None, why there is none) (S1)."""
    left = end - position
    if left <= 0:
        return None, reasons.END
    if left < PRE08_LENGTH.size:
        return None, reasons.SHORT_TAIL
    (length,) = PRE08_LENGTH.unpack_from(data, position)
    if length < PRE08_SMALLEST:
        return None, reasons.LENGTH_TOO_SMALL
    if length > left - PRE08_LENGTH.size:
        return None, reasons.CUT_SHORT
    size = PRE08_LENGTH.size + length
    magic = signed_byte(data[position + 4])
    at = position + 5
    attributes = 0
    if magic != _MAGIC_OF_06:
        if length < PRE08_SMALLEST + 1:
            return None, reasons.LENGTH_TOO_SMALL
        attributes = data[at]
        at += 1
    crc = int.from_bytes(data[at : at + 4], "big")
    payload = at + 4
    computed = kernels.crc32(data, payload, position + size)
    return Entry(position, size, magic, attributes, crc, computed, payload), reasons.END


def messages(
    data: memoryview, entry: Entry, limit: int, base: int = 0
) -> Iterator[Message | tuple[int, str]]:
    """Yield the messages of an entry; at a failure (reason, detail) and no more.

    `base` is the logical offset of `data[0]`. `limit` bounds the uncompressed bytes of the entry,
    that of all wrappers in it together: a wrapper of wrappers could else make each byte cost a
    codec run. INNER_CUT_SHORT is no failure of the time's consumers: they end there without a word.
    """
    return _messages(data, entry, [limit], base, 0)


def _messages(
    data: memoryview, entry: Entry, left: list[int], base: int, depth: int
) -> Iterator[Message | tuple[int, str]]:
    start = base + entry.position
    end = start + entry.size_bytes
    payload = data[entry.payload : entry.position + entry.size_bytes]
    if not entry.codec:
        yield Message(entry.magic, bytes(payload), entry.crc_valid, end)
        return
    if entry.codec not in _CODECS:
        yield reasons.CODEC_UNKNOWN, f"codec {entry.codec}"
        return
    if depth >= MAX_DEPTH:
        yield reasons.INNER_COMPRESSED, f"wrappers nested deeper than {MAX_DEPTH}"
        return
    plain = compression.decompress(entry.codec, payload, left[0])
    if plain.data is None:
        yield plain.reason, plain.detail
        return
    left[0] -= len(plain.data)
    inner = memoryview(plain.data)
    held: Message | None = None
    position = 0
    while True:
        item, reason = read_entry(inner, position, len(inner))
        if item is None:
            break
        position += item.size_bytes
        for message in _messages(inner, item, left, 0, depth + 1):
            if not isinstance(message, Message) and message[0] == reasons.INNER_CUT_SHORT:
                yield message  # of a wrapper inside: the consumer goes on behind it
                continue
            if held is not None:
                yield held
            if not isinstance(message, Message):
                yield message
                return
            held = message._replace(next_offset=start)
    failure = _inner_failure(plain.reason, reason, position)
    if held is not None:
        silent = failure in (reasons.END, reasons.INNER_CUT_SHORT)
        yield held._replace(next_offset=end) if silent else held
    if failure:
        yield failure, plain.detail


def _inner_failure(codec_reason: int, reason: int, position: int) -> int:
    """Say how the uncompressed bytes of a wrapper ended; a piece at its end is passed over (S1)."""
    if codec_reason:
        return codec_reason
    if reason == reasons.SHORT_TAIL:
        return reasons.INNER_CUT_SHORT
    if reason == reasons.CUT_SHORT:
        return reasons.INNER_CUT_SHORT if position else reasons.RECORD_CUT_SHORT
    return reason

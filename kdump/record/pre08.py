"""0.6 and 0.7: messages without stored offsets; an offset is a byte position (F1-F5, S1).

    bytes  field
    4      length, counts everything after itself
    1      magic: 0 (0.6 and older) or 1 (0.7)
    1      attributes, magic 1 only: codec in the two lowest bits (0 none, 1 gzip, 2 snappy)
    4      crc: CRC-32 of the payload only
    n      payload; no key

A compressed message's payload is, decompressed, a string of such entries. Its messages have no
offsets of their own: the consumer reports the start of the wrapper for each but the last, and the
end of the wrapper for the last (F4). Wrappers in wrappers were accepted and are read here, to a
fixed depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.kernels import reasons
from kdump.record import compression
from kdump.record.layout import PRE08_CODEC_MASK, PRE08_LENGTH, PRE08_SMALLEST

MAX_DEPTH = 8


class Entry(NamedTuple):
    """One entry as it lies in `data[position:position + size_bytes]`.

    `payload` is the index of its first payload byte, `crc_valid` says what F2 asks, `known_magic`
    whether brokers of the time could read it.
    """

    position: int
    size_bytes: int
    magic: int
    codec: int
    crc: int
    computed_crc: int
    payload: int

    @property
    def crc_valid(self) -> bool:
        """Whether the stored checksum is that of the payload."""
        return self.crc == self.computed_crc


class Message(NamedTuple):
    """One message after decompression; `next_offset` counts from the outer entry's data (F4)."""

    magic: int
    payload: bytes
    crc_valid: bool
    next_offset: int


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
    magic = data[position + 4]
    at = position + 5
    attributes = 0
    if magic:
        if length < PRE08_SMALLEST + 1:
            return None, reasons.LENGTH_TOO_SMALL
        attributes = data[at]
        at += 1
    crc = int.from_bytes(data[at : at + 4], "big")
    payload = at + 4
    computed = kernels.crc32(data, payload, position + size)
    codec = attributes & PRE08_CODEC_MASK
    return Entry(position, size, magic, codec, crc, computed, payload), reasons.END


def messages(
    data: memoryview, entry: Entry, limit: int, base: int = 0, depth: int = 0
) -> Iterator[Message | tuple[int, str]]:
    """Yield the messages of an entry, outermost first; at a failure (reason, detail) and no more.

    `base` is the logical offset of `data[0]`.
    """
    start = base + entry.position
    end = start + entry.size_bytes
    payload = data[entry.payload : entry.position + entry.size_bytes]
    if not entry.codec:
        yield Message(entry.magic, bytes(payload), entry.crc_valid, end)
        return
    if depth >= MAX_DEPTH:
        yield reasons.INNER_COMPRESSED, f"wrappers nested deeper than {MAX_DEPTH}"
        return
    plain = compression.decompress(entry.codec, payload, limit)
    if plain.data is None:
        yield plain.reason, plain.detail
        return
    inner = memoryview(plain.data)
    held: Message | None = None
    position, reason = 0, reasons.END
    while True:
        item, reason = read_entry(inner, position, len(inner))
        if item is None:
            break
        position += item.size_bytes
        for message in messages(inner, item, limit, 0, depth + 1):
            if not isinstance(message, Message):
                if held is not None:
                    yield held
                yield message
                return
            if held is not None:
                yield held
            held = message._replace(next_offset=start)
    failed = plain.reason or (reason if reason in (reasons.LENGTH_TOO_SMALL,) else reasons.END)
    if held is not None:
        yield held if failed else held._replace(next_offset=end)
    elif not failed:
        failed = reasons.INNER_EMPTY
    if failed:
        yield failed, plain.detail

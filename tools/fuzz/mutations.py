"""Random damage that knows the formats: most of it hits a field, and half of it is sealed again.

A wrong checksum hides whatever else is wrong in a batch, so a mutation is often followed by
`resealed`, and one of them opens a compressed payload, breaks the plain text, and packs it again.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import builders
from fuzz.seeds import LIMIT
from producer_codecs import CODECS, unpack

LARGEST = 96 << 10

_EDGES = (
    0, 1, -1, 2, 3, 4, 7, 8, 12, 13, 14, 15, 17, 18, 21, 22, 25, 26, 33, 34, 48, 49, 50, 60, 61, 62,
    127, 128, 255, 256, 4095, 8192, 65535, 65536, 1 << 18, 1 << 20, 5 << 20, 1 << 24, 1 << 30,
    (1 << 31) - 1, -(1 << 31), (1 << 31) - 13, 1 << 40, (1 << 63) - 1, -(1 << 63), -2,
)  # fmt: skip

# (position, size) of the header fields of a log entry, by magic; magic 7 stands for `.kafka`.
_FIELDS = {
    0: ((0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 4), (22, 4)),
    1: ((0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 8), (26, 4), (30, 4)),
    2: (
        (0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8),
        (51, 2), (53, 4), (57, 4),
    ),
    7: ((0, 4), (4, 1), (5, 1), (6, 4)),
}  # fmt: skip

# The size of a slot, the size of what stands before the first, and the fields of a slot.
_SLOTS = {
    "index": (8, 0, ((0, 4), (4, 4))),
    "timeindex": (12, 0, ((0, 8), (8, 4))),
    "txnindex": (34, 0, ((0, 2), (2, 8), (10, 8), (18, 8), (26, 8))),
    "snapshot": (46, 10, ((0, 8), (8, 2), (10, 4), (14, 8), (22, 4), (26, 8), (34, 4), (38, 8))),
}


class Entry(NamedTuple):
    """One log entry by its length field: where it lies, and its magic byte (7: `.kafka`)."""

    start: int
    end: int
    magic: int


def kind_of(path: str) -> str:
    """Say what a file holds, by the end of its name."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] if "." in name else name


def is_log(path: str) -> bool:
    """Whether a file holds log entries."""
    return kind_of(path) in ("log", "kafka", "checkpoint")


def entries(path: str, data: bytes) -> list[Entry]:
    """Walk a log by its length fields, as far as they lead."""
    found = []
    at = 0
    head = 4 if kind_of(path) == "kafka" else 12
    while at + head + 5 <= len(data):
        size = int.from_bytes(data[at + head - 4 : at + head], "big", signed=True)
        if not 0 < size <= len(data) - at - head:
            break
        magic = 7 if head == 4 else data[at + 16]
        found.append(Entry(at, at + head + size, magic))
        at += head + size
    return found


def number(rng: random.Random, size: int, length: int = 0, present: int = 0) -> bytes:
    """Choose bytes of a field: an edge, one beside what is there or beside the file's end, any."""
    value = rng.choice(
        (
            rng.choice(_EDGES), rng.choice(_EDGES), present + rng.choice((-1, 1, -2, 8, 1 << 16)),
            length + rng.randrange(-20, 20), rng.getrandbits(size * 8),
            rng.randrange(max(1, length)),
        )
    )  # fmt: skip
    return (value & (1 << size * 8) - 1).to_bytes(size, "big")


def with_checksums(path: str, data: bytes, only: int | None = None) -> bytes:
    """Give log entries (or one of them) and producer snapshots the checksums they call for."""
    out = bytearray(data)
    kind = kind_of(path)
    if kind == "snapshot" and len(data) >= 10:
        out[2:6] = struct.pack(">I", builders.crc32c(data[6:]))
    if not is_log(path):
        return bytes(out)
    for nth, (start, end, magic) in enumerate(entries(path, data)):
        if only is not None and nth != only:
            continue
        if magic == 7:
            at = start + (9 if data[start + 4] == 0 else 10) - 4
            if at + 4 <= end:
                out[at : at + 4] = struct.pack(">I", builders.crc32(data[at + 4 : end]))
        elif magic >= 2 and magic < 128 and end - start > 21:
            out[start + 17 : start + 21] = struct.pack(
                ">I", builders.crc32c(data[start + 21 : end])
            )
        elif end - start > 16:
            out[start + 12 : start + 16] = struct.pack(">I", builders.crc32(data[start + 16 : end]))
    return bytes(out)


def _put(data: bytes, at: int, replacement: bytes) -> bytes:
    return data[:at] + replacement + data[at + len(replacement) :]


# Each mutation: (rng, path, data, another file) -> bytes. All work on any bytes, empty ones too.


def flip_bit(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Invert one bit, or some."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8)) if data else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_bytes(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Write an edge case somewhere, aligned or not."""
    size = rng.choice((1, 2, 4, 8))
    if len(data) < size:
        return data
    at = rng.randrange(len(data) - size + 1)
    return _put(data, at, number(rng, size, len(data)))


def set_field(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Write an edge case to a field of the format."""
    kind = kind_of(path)
    if kind in _SLOTS:
        slot_size, head, fields = _SLOTS[kind]
        slots = (len(data) - head) // slot_size
        if slots <= 0:
            return set_bytes(rng, path, data, other)
        at, size = rng.choice(fields)
        at += head + rng.randrange(slots) * slot_size
        if kind == "snapshot" and rng.random() < 0.3:
            at, size = rng.choice(((0, 2), (2, 4), (6, 4)))
    else:
        found = entries(path, data) if is_log(path) else []
        if not found:
            return set_bytes(rng, path, data, other)
        start, end, magic = rng.choice(found)
        at, size = rng.choice(_FIELDS.get(magic, _FIELDS[2]))
        at += start
        if rng.random() < 0.25:  # the payload's own first length
            at = start + min(61 if magic == 2 else 26, end - start)
    if at + size > len(data):
        return data
    present = int.from_bytes(data[at : at + size], "big", signed=True)
    left = len(data) - at
    return _put(data, at, number(rng, size, left, present))


def set_attributes(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Change the codec or another attribute bit, or the magic, and nothing else."""
    found = entries(path, data) if is_log(path) else []
    if not found:
        return flip_bit(rng, path, data, other)
    start, _, magic = rng.choice(found)
    at = min(start + {7: 5, 2: 22}.get(magic, 17), len(data) - 1)
    if rng.random() < 0.3:
        return _put(data, start + (4 if magic == 7 else 16), bytes([rng.choice((0, 1, 2, 3, 255))]))
    if rng.random() < 0.5:
        return _put(data, at, bytes([data[at] & 0xF8 | rng.randrange(8)]))
    return _put(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))


def cut(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Take the end away, or the start, or something in the middle."""
    if not data:
        return data
    at = rng.randrange(len(data))
    if rng.random() < 0.6:
        return data[:at]
    count = rng.choice((1, 2, 4, 8, 12, rng.randrange(1, len(data) + 1)))
    return data[:at] + data[at + count :]


def zero_run(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Set a range to zero, to 0xff, or append zeros as a preallocated file has them."""
    if rng.random() < 0.2:
        return data + bytes(rng.choice((1, 11, 12, 17, 18, 4096, 20_000)))
    if not data:
        return data
    at = rng.randrange(len(data))
    if rng.random() < 0.3:
        at -= at % 512
    count = min(rng.choice((4, 8, 512, 4096, rng.randrange(1, len(data) + 1))), len(data) - at)
    return _put(data, at, bytes([rng.choice((0, 0, 0, 255))]) * count)


def swap(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Exchange two entries, or two ranges."""
    found = entries(path, data) if is_log(path) else []
    if len(found) > 1:
        one, two = sorted(rng.sample(found, 2))
        return (
            data[: one.start]
            + data[two.start : two.end]
            + data[one.end : two.start]
            + data[one.start : one.end]
            + data[two.end :]
        )
    size = rng.choice((1, 4, 8, 12, 64))
    if len(data) < 2 * size:
        return data
    first, second = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    swapped = _put(data, first, data[second : second + size])
    return _put(swapped, second, data[first : first + size])


def repeat(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Write a range or an entry again, once or often."""
    if not data:
        return data
    found = entries(path, data) if is_log(path) else []
    if found and rng.random() < 0.6:
        start, end, _ = rng.choice(found)
    else:
        start = rng.randrange(len(data))
        end = min(len(data), start + rng.choice((1, 8, 12, 34, 100, 1000)))
    times = max(
        1, min(rng.choice((1, 1, 2, 10, 300)), (LARGEST - len(data)) // max(1, end - start))
    )
    return data[:end] + data[start:end] * times + data[end:]


def splice(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Put part of another file into this one, or behind it, between entries or anywhere."""
    if not other:
        return data
    begin = rng.randrange(len(other))
    piece = other[begin : begin + rng.choice((8, 61, 200, 4096))]
    foreign = entries(path, other)
    if foreign and rng.random() < 0.5:
        one = rng.choice(foreign)
        piece = other[one.start : one.end]
    found = entries(path, data)
    places = (
        [entry.end for entry in found] if found and rng.random() < 0.5 else range(len(data) + 1)
    )
    at = rng.choice(places)
    if rng.random() < 0.3:
        return data[:at] + piece
    return data[:at] + piece + data[at:]


def garbage(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Insert random bytes, or make all of it random."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.choice((1, 17, 18, 61, 500, 5000)))
    at = rng.randrange(len(data) + 1)
    noise = rng.randbytes(rng.choice((1, 2, 3, 4, 12, 17, 64, 3000)))
    if rng.random() < 0.5:
        noise = bytes(byte & rng.choice((0, 0, 3, 255)) for byte in noise)
    return data[:at] + noise + data[at:]


def huge_length(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Insert a header whose length is large, inside the file or just beyond its end."""
    found = entries(path, data) if is_log(path) else []
    at = rng.choice(found).start if found else rng.randrange(len(data) + 1)
    left = len(data) - at
    size = rng.choice(
        (left - 12, left, left + 1, left - 30, 1 << 20, 1 << 26, (1 << 31) - 1, 300_000)
    )
    offset = rng.choice((0, 5, 1 << 40))
    head = struct.pack(">qiibI", offset, max(0, min(size, (1 << 31) - 1)), 0, rng.randrange(4), 0)
    return data[:at] + head + rng.randbytes(rng.choice((0, 0, 5, 40))) + data[at:]


def text(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Break the text files: numbers, line ends, escapes, fields."""
    if is_log(path) or kind_of(path) in _SLOTS:
        return set_bytes(rng, path, data, other)
    pieces = (
        b"\n", b"\r", b"\r\n", b" ", b"\t", b"=", b":", b"\\", b"\\u", b"\\uD800", b"\\u0000", b"#",
        b"-", b"9" * 30, b"9" * 5000, b"-1", b"0x10", "٣".encode(), b"\xff\xfe", b"{", b"}", b'"',
        b"[" * 3000, b"null", b"1e999", b"NaN", b'{"data_version":1,"\\ud800":"\\udfff"}',
        b"\x1b[31m", b"\0", b"a" * 300, "\u2028\u202e".encode(), b"1_0", b"1" * 19 + b" ",
    )  # fmt: skip
    piece = rng.choice(pieces)
    at = rng.randrange(len(data) + 1)
    return data[:at] + piece + data[at + rng.choice((0, 0, 1, len(piece))) :]


def inside(rng: random.Random, path: str, data: bytes, other: bytes) -> bytes:
    """Open one batch, break its plain text, pack it again (with any codec), and seal it."""
    found = [entry for entry in entries(path, data) if entry.magic in (0, 1, 2, 7)]
    if not found:
        return flip_bit(rng, path, data, other)
    entry = rng.choice(found)
    codec, head, packed = _payload(data, entry)
    plain = unpack(codec, packed, LIMIT) if codec else packed
    if plain is None:
        plain = packed
    for _ in range(rng.choice((1, 1, 2, 4))):
        plain = rng.choice((_break_plain, _break_plain, _set_varint))(rng, path, plain)
    if rng.random() < 0.2:
        codec = rng.choice((0, 1, 2, 3, 4))
    if codec:
        packed = rng.choice(CODECS.get(codec, (bytes,)))(plain)
        if rng.random() < 0.15:
            packed = flip_bit(rng, path, packed, b"")
        if rng.random() < 0.1:
            packed = cut(rng, path, packed, b"")
    else:
        packed = plain
    return data[: entry.start] + _entry(entry.magic, head, codec, packed) + data[entry.end :]


def _payload(data: bytes, entry: Entry) -> tuple[int, bytes, bytes]:
    """Take an entry apart: codec, what stands before the payload, the payload."""
    raw = data[entry.start : entry.end]
    if entry.magic == 2:
        return (raw[22] & 7 if len(raw) > 22 else 0), raw[:61], raw[61:]
    if entry.magic == 7:
        modern = raw[4:5] != b"\0"
        at = 10 if modern else 9
        return (raw[5] & 3 if modern and len(raw) > 5 else 0), raw[:at], raw[at:]
    at = 18 + 8 * entry.magic
    codec = raw[17] & 7 if len(raw) > 17 else 0
    if not codec:
        return 0, raw[:at], raw[at:]
    key = max(0, int.from_bytes(raw[at : at + 4], "big", signed=True))
    at += 8 + min(key, 1 << 20)
    return codec, raw[:at], raw[at:]


def _entry(magic: int, head: bytes, codec: int, payload: bytes) -> bytes:
    out = bytearray(head)
    if magic == 2:
        if len(out) < 61:
            return bytes(out) + payload
        out[22] = out[22] & 0xF8 | codec
        out[8:12] = struct.pack(">i", len(out) + len(payload) - 12)
        return with_checksums("x.log", bytes(out) + payload, 0)
    if magic == 7:
        if len(out) == 10:
            out[5] = codec & 3
        out[:4] = struct.pack(">i", len(out) + len(payload) - 4)
        return with_checksums("x.kafka", bytes(out) + payload, 0)
    if len(out) < 22:
        return bytes(out) + payload
    if codec:
        out[17] = out[17] & 0xF8 | codec
        out[-4:] = struct.pack(">i", len(payload))
    out[8:12] = struct.pack(">i", len(out) + len(payload) - 12)
    return with_checksums("x.log", bytes(out) + payload, 0)


def _break_plain(rng: random.Random, path: str, plain: bytes) -> bytes:
    inner = path if kind_of(path) == "kafka" else "x.log"
    change = rng.choice(
        (flip_bit, set_bytes, set_field, cut, repeat, garbage, set_attributes, swap)
    )
    plain = change(rng, inner, plain, b"")
    return with_checksums(inner, plain) if rng.random() < 0.5 else plain


def _set_varint(rng: random.Random, path: str, plain: bytes) -> bytes:
    """Write a varint of an edge case, or one that is too long, over the bytes somewhere."""
    at = rng.randrange(len(plain) + 1)
    value = rng.choice(_EDGES)
    varint = rng.choice(
        (builders.varint(value), builders.varint(value), b"\xff" * 4 + b"\x0f",
         b"\xff" * 9 + b"\x01", b"\x80" * rng.randrange(1, 12) + b"\x00")
    )  # fmt: skip
    return plain[:at] + varint + plain[at + rng.choice((0, 1, len(varint))) :]


Mutation = Callable[[random.Random, str, bytes, bytes], bytes]
_LOG_MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, set_bytes, set_field, set_field, set_field, set_attributes, cut, zero_run, swap,
    repeat, splice, garbage, huge_length, inside, inside, inside,
)  # fmt: skip
_SMALL_MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, set_bytes, set_field, set_field, cut, zero_run, swap, repeat, splice, garbage, text,
    text,
)  # fmt: skip


def mutate(rng: random.Random, path: str, data: bytes, others: Iterator[bytes]) -> bytes:
    """Damage a file in one to four ways."""
    choices = _LOG_MUTATIONS if is_log(path) else _SMALL_MUTATIONS
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        change = rng.choice(choices)
        data = change(rng, path, data, next(others) if change is splice else b"")
        if rng.random() < 0.4:
            data = with_checksums(path, data)
        if len(data) > LARGEST:
            data = data[:LARGEST]
    return data

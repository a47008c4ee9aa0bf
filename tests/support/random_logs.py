"""Logs from random numbers: batches, messages and records, most sound, some odd or broken."""

from __future__ import annotations

import random
import struct

import builders
import damage

EDGES = [0, 1, -1, 2, 13, 14, 17, 48, 49, 61, 127, 128, 255, 0x7FFFFFFF, -0x80000000, 1 << 40]
EDGES += [(1 << 63) - 1, -(1 << 63), -2, 0xFFFFFFFF]


def number(rng: random.Random, bits: int = 64) -> int:
    """Choose an edge case, a small number or any, signed, of so many bits."""
    value = rng.choice(
        (rng.choice(EDGES), rng.randrange(300), rng.getrandbits(bits), -rng.randrange(300))
    )
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def maybe(rng: random.Random, usual: int, bits: int = 64, chance: float = 0.03) -> int:
    """Choose the usual value nearly always."""
    return number(rng, bits) if rng.random() < chance else usual


TEXTS = [
    b"plain ascii, long enough to be looked at eight bytes at a time",
    "süß € 😀 \u200e\u2028\u202e\u2066\x85\x7f".encode(),
    b'"quoted" \\ \b\f\n\r\t\0\x1b',
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"\xe2\x80",
    b"\xff\xfe\xfd",
    b"",
]


def content(rng: random.Random) -> bytes | None:
    kind = rng.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return rng.randbytes(rng.randrange(40))
    if kind == 2:
        return b"".join(rng.choice(TEXTS) for _ in range(rng.randrange(8)))
    return rng.choice(TEXTS)[: rng.randrange(80)]


def odd_varint(rng: random.Random) -> bytes:
    """Write a varint of any length, ten bytes with the top bits set among them."""
    kind = rng.randrange(5)
    if kind == 0:
        return b"\xff" * rng.randrange(4, 11) + bytes([rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))])
    if kind == 1:
        return b"\x80" * rng.randrange(4, 11) + bytes([rng.choice((0, 1, 0x0F, 0x10, 0x7F))])
    if kind == 2:
        return bytes(rng.choice((0x80, 0xFF, 0x7F)) for _ in range(rng.randrange(1, 11)))
    return builders.varint(number(rng, rng.choice((8, 32, 64))))


def one_record(rng: random.Random, delta: int) -> bytes:
    headers = [(content(rng) or b"", content(rng)) for _ in range(rng.choice((0, 0, 0, 1, 2, 5)))]
    if rng.random() < 0.9:
        return builders.record(
            maybe(rng, delta, 32),
            maybe(rng, rng.randrange(1000)),
            content(rng),
            content(rng),
            headers,
            attributes=rng.choice((0, 0, 255)),
            headers_count=None if rng.random() < 0.97 else number(rng, 32),
            length=None if rng.random() < 0.97 else number(rng, 32),
            slack=b"" if rng.random() < 0.97 else rng.randbytes(3),
        )
    if rng.random() < 0.3:
        pairs = b"".join(rng.choice((b"\0", b"\1", b"\2a", b"\6")) for _ in range(4))
        inside = b"\0\0\0\1\1" + builders.varint(rng.randrange(4)) + pairs
        return builders.varint(len(inside)) + inside
    # Field by field, each of them odd now and then.
    fields = bytearray([0])
    for default in (b"\2", b"\2", b"\1", b"\1", b"\0"):
        fields += odd_varint(rng) if rng.random() < 0.2 else default
    if rng.random() < 0.1:
        return odd_varint(rng) + fields
    return builders.varint(len(fields)) + fields


def records_of(rng: random.Random) -> list[bytes]:
    return [one_record(rng, delta) for delta in range(rng.choice((0, 1, 1, 2, 5, 20)))]


def one_batch(rng: random.Random, offset: int) -> bytes:
    records = records_of(rng)
    payload = b"".join(records)
    if payload and rng.random() < 0.25:
        payload = break_bytes(rng, payload)  # under a CRC that is right
    attributes = rng.choice((0, 0, 0, 0, 0x08, 0x10, 0x20, 0x30, 0x40))
    if rng.random() < 0.1:
        attributes |= rng.choice((1, 2, 3, 4, 5, 6, 7, 0x80, 0x8000))
    last = max(len(records) - 1, 0)
    return builders.batch(
        records,
        payload=payload,
        base_offset=maybe(rng, offset),
        leader_epoch=number(rng, 32),
        magic=rng.choice((-1, 0, 1, 3, 7, 127)) if rng.random() < 0.03 else 2,
        attributes=attributes,
        base_timestamp=maybe(rng, 1_700_000_000_000),
        max_timestamp=maybe(rng, 1_700_000_001_000),
        producer_id=rng.choice((-1, number(rng))),
        producer_epoch=number(rng, 16),
        base_sequence=rng.choice((-1, 0, 0x7FFFFFFF, number(rng, 32))),
        records_count=maybe(rng, len(records), 32),
        last_offset_delta=maybe(rng, last, 32),
        size=None if rng.random() < 0.97 else number(rng, 32),
        crc=None if rng.random() < 0.97 else rng.getrandbits(32),
    )


def one_control_batch(rng: random.Random, offset: int) -> bytes:
    """Write a transaction marker, sound or nearly so."""
    version, kind = maybe(rng, 0, 16), maybe(rng, rng.randrange(3), 16)
    key = struct.pack(">hh", version, kind)[: maybe(rng, 4, 3, 0.1)]
    value = struct.pack(">hi", maybe(rng, 0, 16), number(rng, 32))
    control = builders.record(0, key=key, value=value[: maybe(rng, 6, 3, 0.1)])
    return builders.batch(
        [control] * rng.choice((1, 1, 1, 1, 2)),
        base_offset=offset,
        attributes=0x20 | rng.choice((0, 0x10, 0x10, 1)),
        records_count=maybe(rng, 1, 3, 0.1),
    )


def one_message(rng: random.Random, offset: int) -> bytes:
    magic = rng.choice((0, 0, 1, 1, 1, 1, 2, 5, -1)) if rng.random() < 0.3 else rng.choice((0, 1))
    body = None
    if rng.random() < 0.1:
        body = struct.pack(">ii", number(rng, 32), number(rng, 32)) + rng.randbytes(9)
    return builders.message(
        maybe(rng, offset),
        content(rng),
        content(rng),
        magic=magic,
        layout=None if rng.random() < 0.95 else rng.randrange(2),
        attributes=maybe(rng, rng.choice((0, 0, 0, 8, 1, 3)), 7, 0.1) & 0xFF,
        timestamp=maybe(rng, 1_400_000_000_000),
        slack=b"" if rng.random() < 0.9 else rng.randbytes(5),
        size=None if rng.random() < 0.97 else number(rng, 32),
        crc=None if rng.random() < 0.95 else rng.getrandbits(32),
        body=body,
    )


def inner_set(rng: random.Random) -> bytes:
    data = b"".join(one_message(rng, index) for index in range(rng.randrange(5)))
    return break_bytes(rng, data) if data and rng.random() < 0.4 else data


def break_bytes(rng: random.Random, data: bytes) -> bytes:
    """Break bytes in one way; where that would change nothing, in another."""
    for _ in range(20):
        at = rng.randrange(len(data))
        count = rng.randrange(1, min(len(data) - at, rng.choice((4, 40, 400))) + 1)
        kind = rng.randrange(7)
        try:
            if kind == 0:
                return damage.flip(data, at, count)
            if kind == 1:
                return damage.flip_bit(data, at, rng.randrange(8))
            if kind == 2:
                return damage.zero(data, at, count)
            if kind == 3:
                return damage.cut(data, at)
            if kind == 4:
                return damage.remove(data, at, count)
            if kind == 5:
                return damage.repeat(data, at, count)
            size = min(count, at)
            return damage.swap(data, rng.randrange(at - size + 1), at, size)
        except AssertionError:
            continue
    return damage.flip(data, 0)


def log_file(rng: random.Random) -> bytes:
    """Write some entries of all versions, broken somewhere now and then."""
    offset = rng.choice((0, 0, 100, (1 << 62)))
    parts = []
    for _ in range(rng.randrange(6)):
        kind = rng.randrange(9)
        if kind < 4:
            parts.append(one_batch(rng, offset))
        elif kind == 8:
            parts.append(one_control_batch(rng, offset))
        elif kind < 6:
            parts.append(one_message(rng, offset))
        elif kind == 6:
            parts.append(builders.wrapper([inner_set(rng)], offset, magic=rng.randrange(2)))
        else:
            zeros, noise = bytes(rng.randrange(200)), rng.randbytes(rng.randrange(60))
            parts.append(rng.choice((zeros, noise)))
        offset += rng.randrange(1, 20)
    data = b"".join(parts)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        if data:
            data = break_bytes(rng, data)
    return data

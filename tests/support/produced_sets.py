"""Random sets of entries as producers and what is no producer send them, from a seed.

Most are whole and of one magic; some are torn, mixed, mislabelled, or wrong in one field.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import builders as b
import producer_codecs as codecs

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    b.gzip_bytes,
    codecs.xerial,
    partial(codecs.lz4_frame, store_size=False),  # which brokers before 0.10 do not read
    codecs.zstd,
)


class DrawnSet(NamedTuple):
    """A set, and the settings of the topic that it is sent to."""

    data: bytes
    config: dict[str, str]


def _time(rng: random.Random) -> int:
    kind = rng.random()
    if kind < 0.07:
        return rng.choice((-1, -1, -2, 0, NOW_MS + 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS))
    return NOW_MS + rng.randrange(-HOUR_MS // 2, HOUR_MS // 2)


def _bytes(rng: random.Random, most: int = 40) -> bytes:
    return bytes(rng.choice(b"abcdef") for _ in range(rng.randrange(most)))


def _key(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.08 else _bytes(rng, 8)


def _codec(rng: random.Random, largest: int) -> int:
    return 0 if rng.random() < 0.45 else rng.randrange(1, largest + 1)


def _pack(rng: random.Random, codec: int, plain: bytes, *, broken_lz4: bool = False) -> bytes:
    packed = PACKERS[codec](plain)
    if broken_lz4 and codec == 3:  # the header's checksum of magic 0
        packed = packed[:6] + bytes([packed[6] ^ 0x5A]) + packed[7:]
    if rng.random() < 0.01 and codec:
        return packed[: rng.randrange(len(packed))]
    return packed


def batch(rng: random.Random, offset: int) -> bytes:
    """Write a record batch."""
    codec = _codec(rng, 4)
    count = rng.choice((1, 1, 2, 3, 8, 30))
    times = [_time(rng) for _ in range(count)]
    base = times[0]
    records = []
    for number, time in enumerate(times):
        headers = [(_bytes(rng, 5), None if rng.random() < 0.2 else _bytes(rng))] * rng.choice(
            (0, 0, 0, 1, 2)
        )
        delta = number if rng.random() < 0.995 else rng.randrange(50)
        records.append(b.record(delta, time - base, _key(rng), _bytes(rng), headers))
    fields: dict[str, int] = {}
    for name, values, chance in (
        ("last_offset_delta", (0, -1, count, count + 3), 0.02),
        ("records_count", (0, -1, count + 1, max(count - 1, 0)), 0.02),
        ("crc", (0,), 0.015),
        ("magic", (3, 5, -1, 1, 0), 0.01),
        ("size", (10, 0, -5, 60), 0.005),
        ("producer_id", (7,), 0.1),
    ):
        if rng.random() < chance:
            fields[name] = rng.choice(values)
    if "producer_id" in fields:
        fields |= {"producer_epoch": 0, "base_sequence": rng.choice((0, 0, 0, 0, -1, 5))}
    attributes = codec if rng.random() < 0.99 else rng.choice((5, 6, 7))
    for bit, chance in ((b.LOG_APPEND_TIME, 0.04), (b.CONTROL, 0.01), (0x80, 0.01)):
        attributes |= bit if rng.random() < chance else 0
    payload = _pack(rng, codec, b"".join(records))
    if rng.random() < 0.01:
        payload += b"\0"
    elif rng.random() < 0.02 and payload:
        at = rng.randrange(len(payload))
        payload = payload[:at] + bytes([payload[at] ^ 1 << rng.randrange(8)]) + payload[at + 1 :]
    return b.batch(
        records,
        base_offset=offset,
        attributes=attributes,
        base_timestamp=base,
        max_timestamp=max(times),
        payload=payload,
        **fields,
    )


def message(rng: random.Random, offset: int, magic: int, *, inner: bool = False) -> bytes:
    """Write a message, which may be a wrapper."""
    codec = 0 if inner and rng.random() < 0.997 else _codec(rng, 3)
    attributes = codec
    attributes |= b.LOG_APPEND_TIME if rng.random() < (0.004 if inner else 0.03) and magic else 0
    crc = 0 if rng.random() < (0.003 if inner else 0.01) else None
    key, value = _key(rng), _bytes(rng)
    time = _time(rng)
    if codec:
        count = rng.choice((1, 2, 3, 9, 30))
        first = 0 if magic and rng.random() < 0.9 else offset
        each = magic if rng.random() < 0.985 else 1 - magic
        plain = b"".join(message(rng, first + n, each, inner=True) for n in range(count))
        key = None if rng.random() < 0.95 else key
        value = _pack(rng, codec, plain, broken_lz4=not magic)
        offset = rng.choice((first + count - 1, first + count - 1, 0, offset))
    if rng.random() < 0.005:
        codec = 4 + rng.randrange(4)
        attributes = attributes & ~7 | codec
    # What follows a wrong size inside of a wrapper is read by chance: only sizes that end it.
    size = rng.choice((0, 13, -3) if inner else (0, 13, -3, 14)) if rng.random() < 0.003 else None
    return b.message(
        offset, key, value, magic=magic, attributes=attributes, timestamp=time, crc=crc, size=size
    )


def draw_record_set(rng: random.Random) -> bytes:
    """Write a set."""
    magic = rng.choice((0, 1, 2, 2))
    count = rng.choice((1, 1, 1, 2, 4)) if magic < 2 else (1 if rng.random() < 0.93 else 2)
    entries = []
    for number in range(count):
        each = magic if rng.random() < 0.97 else rng.choice((0, 1, 2))
        offset = rng.choice((0, number, number, 100 + number))
        if each < 2:
            entries.append(message(rng, offset, each))
        else:
            entries.append(batch(rng, 0 if rng.random() < 0.98 else offset))
    data = b"".join(entries)
    if rng.random() < 0.03:
        data = data[: rng.randrange(len(data) + 1)]
    elif rng.random() < 0.01:
        data += bytes(rng.randrange(30))
    return data


def config(rng: random.Random) -> dict[str, str]:
    """Draw the settings of a topic."""
    found = {"message.timestamp.type": rng.choice(("CreateTime",) * 3 + ("LogAppendTime",))}
    found["compression.type"] = rng.choice(("producer",) * 4 + ("uncompressed", *NAMES[1:]))
    found["cleanup.policy"] = rng.choice(("delete", "delete", "compact", "compact,delete"))
    found["max.message.bytes"] = rng.choice(("1000000", "1000000", "1000000", "400", "150"))
    return found


def draw_set(rng: random.Random) -> DrawnSet:
    """Draw a set and a topic."""
    return DrawnSet(draw_record_set(rng), config(rng))

"""Files made to be slow: each repeats what costs a reader more than the bytes it takes.

Each trap is a function of a random generator and a size, and gives about so many bytes. A reader
that is quadratic anywhere shows it here, since 2 s per MiB is judged on a file of some size.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import builders
from builders import pre08_message
from producer_codecs import CODECS, pack_broken_lz4, raw_snappy, zstd

Trap = Callable[[random.Random, int], bytes]

_GOOD = 80


def _good(offset: int) -> bytes:
    return builders.batch(base_offset=offset)


def _claim(offset: int, size: int, rng: random.Random, *, magic: int = 2, crc: int = 1) -> bytes:
    """Write a header that claims `size` bytes after it, with a checksum that is wrong."""
    if magic == 2:
        return struct.pack(">qiibI", offset, 49 + size, 0, 2, crc) + struct.pack(
            ">Hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1
        )
    return struct.pack(">qiIbB", offset, 22 + size, crc, magic, 0) + bytes(16)


def _alternate(bad: Callable[[int, random.Random], bytes]) -> Trap:
    def trap(rng: random.Random, size: int) -> bytes:
        out = bytearray()
        offset = 0
        while len(out) < size:
            out += _good(offset) + bad(offset + 1, rng)
            offset += 2
        return bytes(out)

    return trap


def _bad_sum(offset: int, rng: random.Random) -> bytes:
    return builders.batch(base_offset=offset, crc=rng.getrandbits(32))


def _one_bit(offset: int, rng: random.Random) -> bytes:
    batch = bytearray(builders.batch(base_offset=offset))
    batch[rng.randrange(21, len(batch))] ^= 1 << rng.randrange(8)
    return bytes(batch)


def _bad_message(offset: int, rng: random.Random) -> bytes:
    return builders.message(offset, None, None, magic=rng.randrange(2), crc=rng.getrandbits(32))


def _claims(*sizes: int) -> Callable[[int, random.Random], bytes]:
    return lambda offset, rng: _claim(offset, rng.choice(sizes), rng, magic=rng.choice((0, 1, 2)))


def _short(offset: int, rng: random.Random) -> bytes:
    return struct.pack(">qi", offset, rng.choice((0, -1, 13))) + bytes(rng.randrange(30))


def _only(make: Callable[[int, random.Random], bytes]) -> Trap:
    def trap(rng: random.Random, size: int) -> bytes:
        out = bytearray()
        offset = 0
        while len(out) < size:
            out += make(offset, rng)
            offset += 1
        return bytes(out)

    return trap


def _tiny_packed(codec: int) -> Callable[[int, random.Random], bytes]:
    packed = CODECS[codec][0](builders.record())

    def make(offset: int, rng: random.Random) -> bytes:
        return builders.batch(base_offset=offset, attributes=codec, payload=packed, records_count=1)

    return make


def _tiny_wrapper(offset: int, rng: random.Random) -> bytes:
    return builders.wrapper([builders.message(0, None, None)], offset, magic=rng.randrange(2))


def _undecodable(offset: int, rng: random.Random) -> bytes:
    return builders.batch(base_offset=offset, payload=b"\x02", records_count=rng.choice((1, 1000)))


def _refused_entry(offset: int, rng: random.Random) -> bytes:
    return builders.batch(base_offset=offset, attributes=1, payload=b"no gzip", records_count=9)


def _flagged_entry(offset: int, rng: random.Random) -> bytes:
    return builders.batch(
        [], base_offset=0, attributes=rng.choice((0, 5, 0x20)), records_count=7,
        last_offset_delta=0, payload=b"",
    )  # fmt: skip


def _empty(offset: int, rng: random.Random) -> bytes:
    return builders.batch([], base_offset=offset, attributes=offset % 5)


def _marker(offset: int, rng: random.Random) -> bytes:
    return builders.marker(rng.randrange(2), base_offset=offset, producer_id=rng.randrange(50))


def _malformed_marker(offset: int, rng: random.Random) -> bytes:
    return builders.batch(
        [builders.control_record(0, b"")], base_offset=offset, attributes=builders.CONTROL
    )


def _transactional(offset: int, rng: random.Random) -> bytes:
    return builders.batch(
        base_offset=offset, attributes=builders.TRANSACTIONAL, producer_id=rng.getrandbits(40)
    )


def _not_rising(offset: int, rng: random.Random) -> bytes:
    return builders.message(rng.choice((0, -5)), None, None, magic=rng.choice((0, 1)))


def _one_batch(payload: Callable[[int], bytes], count: int | None, codec: int = 0) -> Trap:
    def trap(rng: random.Random, size: int) -> bytes:
        plain = payload(size)
        number = plain.count(builders.record(key=None, value=None)) if count is None else count
        return builders.batch(attributes=codec, payload=plain, records_count=number)

    return trap


def _small_records(size: int) -> bytes:
    one = builders.record(key=None, value=None)
    return one * (size // len(one))


def _many_headers(size: int) -> bytes:
    return builders.record(headers=[(b"", None)] * (size // 2))


def _empty_members(size: int) -> bytes:
    one = builders.gzip_bytes(b"")
    return one * (size // len(one))


def _small_members(size: int) -> bytes:
    one = builders.gzip_bytes(builders.record())
    return one * (size // len(one))


def _xerial_empty(size: int) -> bytes:
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + bytes(size)


def _xerial_small(size: int) -> bytes:
    one = raw_snappy(b"x")
    block = struct.pack(">i", len(one)) + one
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + block * (size // len(block))


def _xerial_none(size: int) -> bytes:
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"\0\0\0\1\0" * (size // 5)


def _lz4_small(size: int) -> bytes:
    return (
        pack_broken_lz4(b"")[:-4]
        + struct.pack("<I", 1 << 31 | 1)
        + (b"x" + struct.pack("<I", 1 << 31 | 1)) * (size // 5)
    )


def _zstd_frames(size: int) -> bytes:
    one = zstd(b"")
    return one * (size // len(one))


def _zstd_skippable(size: int) -> bytes:
    return struct.pack("<II", 0x184D2A50, 0) * (size // 8)


def _wrap(codec: int, payload: Callable[[int], bytes]) -> Trap:
    def trap(rng: random.Random, size: int) -> bytes:
        return builders.message(0, None, payload(size), magic=rng.randrange(2), attributes=codec)

    return trap


def _wrong_inside(rng: random.Random, size: int) -> bytes:
    """Many messages with wrong sums in a wrapper: one finding each would be one for each byte."""
    one = builders.message(0, None, None, magic=0, crc=7)
    return builders.wrapper([one * (size // len(one))], 0, magic=0)


def _dense(rng: random.Random, size: int) -> bytes:
    """Believable headers everywhere, none valid: the search may sum each of them."""
    claims = (200, 5_000, size // 8, size // 2)
    return bytes(17) + b"".join(
        struct.pack(">qiIbB", 10 + at, rng.choice(claims), 1, 0, 0) + bytes(4)
        for at in range(size // 22)
    )


def _staircase(rng: random.Random, size: int) -> bytes:
    """Short lengths between valid batches, each followed by believable headers to be summed."""
    out = bytearray()
    offset = 0
    while len(out) < size:
        out += _good(offset) + _short(offset, rng)
        for _ in range(rng.choice((2, 12))):
            out += _claim(offset + 1, rng.choice((2_000, 60_000, size // 4)), rng, magic=0)
        offset += 1
    return bytes(out)


def _zeros_between(rng: random.Random, size: int) -> bytes:
    out = bytearray()
    offset = 0
    while len(out) < size:
        out += _good(offset) + bytes(rng.choice((1, 17, 18, 4096)))
        offset += 1
    return bytes(out)


LOG_TRAPS: dict[str, Trap] = {
    "bad-sum": _alternate(_bad_sum),
    "one-bit": _alternate(_one_bit),
    "bad-message": _alternate(_bad_message),
    "only-bad": _only(_bad_sum),
    "claims-1k": _alternate(_claims(900, 1000, 1500)),
    "claims-20k": _alternate(_claims(20_000, 30_000)),
    "claims-200k": _alternate(_claims(200_000, 250_000)),
    "claims-beyond": _alternate(_claims(1 << 30, 1 << 24)),
    "claims-all": _alternate(_claims(100, 3_000, 50_000, 240_000, 500_000, 1 << 28)),
    "short": _alternate(_short),
    "only-short": _only(_short),
    "staircase": _staircase,
    "dense": _dense,
    "zeros-between": _zeros_between,
    "zeros": lambda rng, size: bytes(size),
    "good": _only(lambda offset, rng: _good(offset)),
    "messages": _only(lambda offset, rng: builders.message(offset, None, None, magic=offset % 2)),
    "tiny-gzip": _only(_tiny_packed(1)),
    "tiny-snappy": _only(_tiny_packed(2)),
    "tiny-lz4": _only(_tiny_packed(3)),
    "tiny-zstd": _only(_tiny_packed(4)),
    "tiny-wrapper": _only(_tiny_wrapper),
    "undecodable": _only(_undecodable),
    "refused": _only(_refused_entry),
    "flagged": _only(_flagged_entry),
    "empty-batches": _only(_empty),
    "markers": _only(_marker),
    "malformed-markers": _only(_malformed_marker),
    "transactional": _only(_transactional),
    "not-rising": _only(_not_rising),
    "small-records": _one_batch(_small_records, None),
    "small-records-gzip": _one_batch(
        lambda size: builders.gzip_bytes(_small_records(size)), 1 << 30, 1
    ),
    "many-headers": _one_batch(_many_headers, 1),
    "gzip-members": _one_batch(_empty_members, 1, 1),
    "gzip-small-members": _one_batch(_small_members, 1 << 20, 1),
    "xerial-empty": _one_batch(_xerial_empty, 1, 2),
    "xerial-small": _one_batch(_xerial_small, 1, 2),
    "xerial-none": _one_batch(_xerial_none, 1, 2),
    "lz4-blocks": _one_batch(_lz4_small, 1, 3),
    "zstd-frames": _one_batch(_zstd_frames, 1, 4),
    "zstd-skippable": _one_batch(_zstd_skippable, 1, 4),
    "legacy-lz4-blocks": _wrap(3, _lz4_small),
    "legacy-gzip-members": _wrap(1, _empty_members),
    "legacy-xerial-small": _wrap(2, _xerial_small),
    "wrong-inside": _wrong_inside,
    "noise": lambda rng, size: rng.randbytes(size),
    "low-noise": lambda rng, size: bytes(rng.choices(range(3), k=size)),
}


def _pre08_nested(rng: random.Random, size: int) -> bytes:
    """Wrappers full of empty wrappers: each few bytes cost a codec run."""
    one = pre08_message(builders.gzip_bytes(b""), attributes=1)
    return pre08_message(builders.gzip_bytes(one * (size // len(one))), attributes=1)


PRE08_TRAPS: dict[str, Trap] = {
    "empty": _only(lambda offset, rng: pre08_message(b"", magic=rng.randrange(2))),
    "bad-sum": _only(
        lambda offset, rng: pre08_message(b"word", crc=offset % 2 * builders.crc32(b"word"))
    ),
    "claims": _only(
        lambda offset, rng: (
            pre08_message(b"good")
            + struct.pack(">iBBI", rng.choice((500, 20_000, 200_000, 1 << 30)), 1, 0, 9)
        )
    ),
    "claims-zeros": _only(
        lambda offset, rng: struct.pack(">i", rng.choice((500, 20_000))) + bytes(5)
    ),
    "zeros": lambda rng, size: bytes(size),
    "fives": lambda rng, size: struct.pack(">iBI", 5, 0, 0) * (size // 9),
    "counting": lambda rng, size: b"\0\0\0" * (size // 3),
    "low-noise": lambda rng, size: bytes(rng.choices((0, 0, 0, 1, 5, 9), k=size)),
    "noise": lambda rng, size: rng.randbytes(size),
    "nested": _pre08_nested,
    "tiny-gzip": _only(lambda offset, rng: pre08_message(builders.gzip_bytes(b""), attributes=1)),
    "magic": _only(lambda offset, rng: pre08_message(b"word", magic=rng.choice((1, 7, 200)))),
}


def _slots(form: str, *columns: Callable[[int, random.Random], int]) -> Trap:
    layout = struct.Struct(form)

    def trap(rng: random.Random, size: int) -> bytes:
        return b"".join(
            layout.pack(*(column(slot, rng) for column in columns))
            for slot in range(size // layout.size)
        )

    return trap


def _snapshot(rng: random.Random, size: int) -> bytes:
    body = struct.pack(">i", size // 46) + rng.randbytes(size // 46 * 46)
    return struct.pack(">hI", 1, builders.crc32c(body)) + body


def _lines(line: bytes) -> Trap:
    return lambda rng, size: b"0\n%d\n" % (size // len(line)) + line * (size // len(line))


SMALL_TRAPS: dict[str, tuple[str, Trap]] = {
    "index-noise": (
        "00000000000000000000.index",
        _slots(">ii", *[lambda slot, rng: rng.getrandbits(31)] * 2),
    ),
    "index-rising": (
        "00000000000000000000.index",
        _slots(">ii", lambda slot, rng: slot, lambda slot, rng: slot * 9),
    ),
    "index-zero": (
        "00000000000000000000.index",
        _slots(">ii", lambda slot, rng: 1 << 30, lambda slot, rng: 0),
    ),
    "time-far": (
        "00000000000000000000.timeindex",
        _slots(">qi", lambda slot, rng: slot, lambda slot, rng: 1 << 30),
    ),
    "time-last": (
        "00000000000000000000.timeindex",
        _slots(">qi", lambda slot, rng: slot, lambda slot, rng: 500),
    ),
    "time-noise": (
        "00000000000000000000.timeindex",
        _slots(">qi", *[lambda slot, rng: rng.getrandbits(31)] * 2),
    ),
    "txn": (
        "00000000000000000000.txnindex",
        _slots(">hqqqq", lambda slot, rng: slot % 3, *[lambda slot, rng: rng.getrandbits(40)] * 4),
    ),
    "snapshot": ("00000000000000000007.snapshot", _snapshot),
    "epochs": ("leader-epoch-checkpoint", _lines(b"1 1\n")),
    "epochs-bad": ("leader-epoch-checkpoint", _lines(b"\n")),
    "offsets": ("replication-offset-checkpoint", _lines(b"t 0 5\n")),
    "offsets-bad": ("replication-offset-checkpoint", _lines(b"x\r")),
    "other": ("some-checkpoint", _lines(b"a b c d\n")),
    "spaces": ("recovery-point-offset-checkpoint", lambda rng, size: b"0\n1\n" + b" " * size),
    "properties": ("meta.properties", lambda rng, size: b"a=b\n" * (size // 4)),
    "continued": ("meta.properties", lambda rng, size: b"a\\\n" * (size // 3)),
    "backslashes": ("meta.properties", lambda rng, size: b"\\" * size),
    "colons": ("partition.metadata", lambda rng, size: b"a:b\n:" * (size // 5)),
    "brackets": ("quorum-state", lambda rng, size: b"[" * size),
    "objects": ("quorum-state", lambda rng, size: b'{"a":' * (size // 5)),
    "digits": ("quorum-state", lambda rng, size: b'{"data_version":' + b"1" * size + b"}"),
    "clean": (".kafka_cleanshutdown", lambda rng, size: b"{" + b'"a":1,' * (size // 6) + b'"b":2}'),
}

"""What damage starts from: real small files, files written by hand, and decompression bombs.

A seed is one file with its name (which decides the reader) or one directory. Real ones come from
sample-data/, which is always there, and in the long profile from the corpora too. The list has one
order everywhere, so that a seed number means the same bytes on every machine that has them.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import builders
import corpus
from message_writing import message_bytes
from producer_codecs import (
    CODECS,
    lz4_big_blocks,
    lz4_frame,
    pack_broken_lz4,
    raw_snappy,
    xerial,
)

from kdump.messages.records import TOPICS
from kdump.messages.table import message, tables

SAMPLES = Path(__file__).parents[2] / "sample-data"
LARGEST_FILE = 48 << 10
LARGEST_DIRECTORY = 160 << 10

#: What the command is given as --decompress-limit; bombs are measured by it.
LIMIT = int(os.environ.get("KDUMP_FUZZ_LIMIT_MIB", "4")) << 20


class Seed(NamedTuple):
    """Files of one directory by relative path. `target` is what the command is given."""

    name: str
    files: dict[str, bytes]
    target: str


# By hand -----------------------------------------------------------------------------------------

LOG = "00000000000000000000.log"
PRE08 = "00000000000000000000.kafka"


def records(rng: random.Random, count: int) -> list[bytes]:
    """Write some v2 records of all kinds."""
    values = (b"", b"value", None, "süß 😀 \u202e".encode(), b"\xff\xfe", b'{"a":"b\\u0000"}' * 4)
    return [
        builders.record(
            delta,
            rng.choice((0, delta, -5, 1 << 40)),
            key=rng.choice(values),
            value=rng.choice(values),
            headers=[(b"h%d" % n, rng.choice(values)) for n in range(rng.choice((0, 0, 1, 3)))],
        )
        for delta in range(count)
    ]


def by_hand() -> Iterator[tuple[str, bytes]]:
    """Write logs of every version and codec: (what it is, bytes)."""
    rng = random.Random(8)
    for codec in range(5):
        for number, compress in enumerate(CODECS.get(codec, (None,))):
            log, offset = b"", 0
            for count in (1, 5, 30):
                log += builders.batch(
                    records(rng, count), base_offset=offset, attributes=codec, compress=compress
                )
                offset += count
            yield f"v2-codec-{codec}-{number}", log
            if codec == builders.ZSTD:
                continue
            for magic in (0, 1):
                log, offset = b"", 0
                for count in (1, 4, 20):
                    inner = [
                        builders.message(
                            at if magic else offset + at,
                            rng.choice((None, b"", b"key")),
                            rng.choice((None, b"", b"value" * 9)),
                            magic=magic,
                        )
                        for at in range(count)
                    ]
                    offset += count
                    if compress is None:
                        log += b"".join(inner)
                    else:
                        log += builders.wrapper(
                            inner, offset - 1, magic=magic, codec=codec, compress=compress
                        )
                yield f"v{magic}-codec-{codec}-{number}", log
    yield "empty", b""
    yield "zeros", bytes(4096)
    yield "transactions", _transactions()
    yield "controls", _controls()
    yield (
        "empty-batches",
        b"".join(
            builders.batch([], base_offset=at * 3, last_offset_delta=2, attributes=at % 8)
            for at in range(6)
        ),
    )
    yield "nested", _make_nested()
    yield (
        "mixed",
        builders.message(0, magic=0) + builders.message(1) + builders.batch(base_offset=2),
    )


def _transactions() -> bytes:
    log, offset = b"", 0
    for number in range(12):
        producer = number % 3
        log += builders.batch(
            records(random.Random(number), 2),
            base_offset=offset,
            attributes=builders.TRANSACTIONAL,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=number,
        )
        offset += 2
        if number % 2:
            log += builders.marker(number // 2 % 2, base_offset=offset, producer_id=producer)
            offset += 1
    return log


def _controls() -> bytes:
    voters = b"\x00\x01\x00\x00\x00\x07\x02\x00\x00\x00\x01" + bytes(17) + b"\x01\x00"
    kraft = b"\x00\x00\x02\x00\x00\x00\x01" + bytes(16) + b"\x02\x03C\x05host\x23\x82\x00"
    kraft += b"\x00\x00\x00\x01\x00\x00"
    values = (
        struct.pack(">hi", 0, 3), struct.pack(">hi", 0, 4), voters, struct.pack(">hq", 0, 17),
        struct.pack(">h", 0), struct.pack(">hh", 0, 1), kraft, b"",
    )  # fmt: skip
    return b"".join(
        builders.batch(
            [builders.control_record(kind, value)],
            base_offset=kind,
            attributes=builders.CONTROL | (builders.TRANSACTIONAL if kind < 2 else 0),
        )
        for kind, value in enumerate(values)
    )


def _make_nested() -> bytes:
    inner = [builders.message(at, magic=0) for at in range(3)]
    for _ in range(3):
        inner = [builders.wrapper(inner, 2, magic=0)]
    return inner[0] + builders.wrapper(inner, 5, magic=1)


def pre08_by_hand() -> Iterator[tuple[str, bytes]]:
    """Write `.kafka` files: plain, compressed, nested."""
    plain = [builders.pre08_message(bytes([at]) * at, magic=at % 2) for at in range(24)]
    yield "pre08-plain", b"".join(plain)
    for codec, compress in ((1, builders.gzip_bytes), (2, xerial), (2, raw_snappy)):
        once = builders.pre08_wrapper(plain, codec=codec, compress=compress)
        yield f"pre08-codec-{codec}", once + plain[3] + once
        for _ in range(10):
            once = builders.pre08_wrapper([once, plain[2]], codec=codec, compress=compress)
        yield f"pre08-nested-{codec}", once + plain[5]


def internal_by_hand() -> Iterator[tuple[str, bytes]]:
    """Write logs of internal topics, with a record of every kind and version: (topic, bytes)."""
    for topic, area in TOPICS.items():
        made = []
        for name in tables():
            known = message(name)
            if known.area != area or known.kind not in ("record", "value"):
                continue
            assert known.id is not None
            number = struct.pack(">h", known.id)
            for version in range(known.versions.first, known.versions.last + 1):
                body = message_bytes(known, version, {})
                if known.kind == "record":
                    pair = None, bytes([1, known.id, version]) + body
                else:
                    key = message_bytes(message(f"{name.removesuffix('Value')}Key"), 0, {})
                    pair = number + key, struct.pack(">h", version) + body
                made.append(builders.record(len(made), 0, *pair))
        yield topic, builders.batch(made)


# Bombs -------------------------------------------------------------------------------------------


def bomb_payload(kind: str, size: int) -> bytes:
    """Write the plain text of a v2 batch, about `size` bytes of it."""
    if kind == "zeros":
        return bytes(size)
    if kind == "value":
        return builders.record(value=b"v" * size)
    if kind == "binary":
        return builders.record(value=b"\xff" * size)
    if kind == "quotes":
        return builders.record(value=b'"\n' * (size // 2))
    if kind == "headers":
        return builders.record(headers=[(b"", None)] * (size // 2))
    one = builders.record(key=None, value=None) if kind == "records" else builders.record()
    return one * (size // len(one))


BOMB_KINDS = ("zeros", "value", "binary", "quotes", "headers", "records", "words")
BOMB_SIZES = (LIMIT - (64 << 10), LIMIT - 1, LIMIT, LIMIT + 1, 4 * LIMIT)


@cache
def bomb(codec: int, version: int, kind: str, size: int, twice: int = 1) -> bytes:
    """Write a log (version 7: a `.kafka` file) whose batches are small and whose text is large."""
    compress = CODECS[codec][version % 2 if codec == builders.SNAPPY else 0]
    if codec == builders.LZ4:
        compress = lz4_big_blocks if size % 2 else lz4_frame
        if version == 0:
            compress = pack_broken_lz4
    if version == 2:
        payload = bomb_payload(kind, size)
        one = builders.record(key=None, value=None) if kind == "records" else builders.record()
        count = size // len(one) if kind in ("records", "words") else 1
        return b"".join(
            builders.batch(
                base_offset=at * count,
                attributes=codec,
                payload=compress(payload),
                records_count=count,
            )
            for at in range(twice)
        )
    if version == 7:
        value = b"" if kind == "records" else b"v" * size
        inner = builders.pre08_message(value) * (size // 10 if kind == "records" else 1)
        return builders.pre08_wrapper([inner], codec=codec, compress=compress) * twice
    value = b'"\xff' * (size // 2) if kind in ("binary", "quotes") else b"v" * size
    one = builders.message(0, None, None, magic=version)
    inner = (
        one * (size // len(one))
        if kind in ("records", "words")
        else builders.message(0, None, value, magic=version)
    )
    if kind == "headers":  # no headers in these versions: sums that are all wrong instead
        wrong = builders.message(0, None, None, magic=version, crc=1)
        inner = wrong * (size // len(wrong))
    log = b""
    for at in range(twice):
        log += builders.wrapper([inner], at, magic=version, codec=codec, compress=compress)
    return log


# All of them -------------------------------------------------------------------------------------


def _real(root: Path) -> tuple[list[Seed], list[Seed]]:
    """Find real files, and real partition and data directories, under a directory."""
    files: list[Seed] = []
    directories: list[Seed] = []
    for directory in sorted({path.parent for path in root.rglob("*") if path.is_file()}):
        found = {
            path.name: path.read_bytes()
            for path in sorted(directory.iterdir())
            if path.is_file() and path.stat().st_size <= LARGEST_FILE
        }
        partition = any(name.endswith((".log", ".kafka")) for name in found)
        inside = directory.name if partition else "t-0"
        name = str(directory.relative_to(root))
        for file, data in found.items():
            if data:
                at = f"{inside}/{file}"
                files.append(Seed(f"{name}/{file}", {at: data}, at))
        if partition:
            whole = {f"{inside}/{file}": data for file, data in found.items()}
            if sum(map(len, whole.values())) <= LARGEST_DIRECTORY:
                directories.append(Seed(name, whole, inside))
        elif any(path.is_dir() for path in directory.iterdir()):
            seed = _data_directory(directory, found)
            if seed is not None:
                directories.append(seed)
    return files, directories


def _data_directory(directory: Path, found: dict[str, bytes]) -> Seed | None:
    """Take a data directory's own files and its smallest partitions."""
    files = {f"d/{file}": data for file, data in found.items()}
    left = LARGEST_DIRECTORY
    partitions = [path for path in directory.iterdir() if path.is_dir()]
    sizes = {
        path: sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        for path in partitions
    }
    for path in sorted(partitions, key=lambda path: (sizes[path], path.name))[:4]:
        left -= sizes[path]
        if left < 0:
            break
        for file in sorted(path.iterdir()):
            if file.is_file():
                files[f"d/{path.name}/{file.name}"] = file.read_bytes()
    return Seed(directory.name, files, "d") if files else None


class Seeds(NamedTuple):
    """All of them: single files by kind of reader, and directories."""

    files: list[Seed]
    directories: list[Seed]


def all_seeds(*, with_corpora: bool) -> Seeds:
    """Gather the seeds."""
    files, directories = _real(SAMPLES)
    for name, data in by_hand():
        files.append(Seed(name, {f"t-0/{LOG}": data}, f"t-0/{LOG}"))
    for name, data in pre08_by_hand():
        files.append(Seed(name, {f"t-0/{PRE08}": data}, f"t-0/{PRE08}"))
    for topic, data in internal_by_hand():
        files.append(Seed(topic, {f"{topic}-0/{LOG}": data}, f"{topic}-0/{LOG}"))
    if with_corpora and corpus.find_shared() is not None:
        for name in (*corpus.names("old"), *corpus.names("modern/data")):
            more, whole = _real(corpus.corpus(name))
            # Of thousands of files that are much alike, every fifth will do.
            files.extend(more[::5])
            directories.extend(whole[::5])
    return Seeds(files, directories)

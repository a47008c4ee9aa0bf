"""Write the directories that the performance table is measured on, beside the segments.

    python tools/benchmarks/table_data.py DIRECTORY [NAME...]

`generate.py` has the single logs; what is here is whole directories: many small partitions, two
large ones with their indexes, a log of millions of keys, two replicas of which no batch is the
same, and noise. Each is written once, by a function that is named for it; a directory that is there
is taken as it is.
"""

import os
import random
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
import builders
import many_keys
import metadata_log
from generate import (
    BATCH_SIZE,
    PACKERS,
    SEGMENT,
    START_MS,
    Tally,
    batch_v2,
    batches_v2,
    templates,
)

SMALL_PARTITIONS = 2_000
MANY_KEYS = 5_000_000
MIB = 1 << 20
#: A producer snapshot of nobody: version 1, its checksum, a count of zero.
NO_PRODUCERS = bytes.fromhex("000148674bc700000000")
OWNER = "node.id=1\nversion=1\ncluster.id=c0rpusSharedAAAAAAAAAA\n"


def _entries(size: int, offset: int = 0) -> Iterator[bytes]:
    """Yield batches of 16 KiB from an offset on, until they come to a size."""
    made = templates(PACKERS["none"])
    done = number = 0
    while done < size:
        template = made[number % len(made)]
        count = len(template.records)
        entry = batch_v2(template.payload, 0, offset, count)
        yield entry
        done, number, offset = done + len(entry), number + 1, offset + count


def _write(directory: Path, entries: Iterator[bytes]) -> None:
    directory.mkdir(parents=True)
    with (directory / SEGMENT).open("wb", buffering=MIB) as file:
        file.writelines(entries)


def _partition(directory: Path, entries: list[bytes], last_offset: int) -> None:
    """Write a partition as a broker that was stopped leaves it: six files."""
    _write(directory, iter(entries))
    stem = directory / SEGMENT.removesuffix(".log")
    stem.with_suffix(".index").write_bytes(b"")
    newest = struct.pack(">qi", START_MS + last_offset, last_offset)
    stem.with_suffix(".timeindex").write_bytes(newest)
    snapshot = directory / f"{last_offset + 1:020d}.snapshot"
    snapshot.write_bytes(NO_PRODUCERS)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: eu2Zg-jVTOSpE87mIgykAw\n")


def small(directory: Path) -> None:
    """2,000 partitions of one segment and a few records, in one data directory."""
    rng = random.Random(5)
    ends: list[str] = []
    for number in range(SMALL_PARTITIONS):
        count = rng.randrange(2, 12)
        records = [builders.record(each, each, b"%08d" % each, b"v" * 80) for each in range(count)]
        entry = batch_v2(b"".join(records), 0, 0, count)
        _partition(directory / f"small-{number}", [entry], count - 1)
        ends.append(f"small {number} {count}")
    (directory / "meta.properties").write_text(OWNER)
    for name, lines in (("recovery-point", ends), ("replication", ends), ("log-start", [])):
        text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
        (directory / f"{name}-offset-checkpoint").write_text(text)


def large(directory: Path) -> None:
    """Two partitions that share their bytes: a closed segment of 1 GiB, and a small newest one."""
    first, second = directory / "large-0", directory / "large-1"
    positions, times, position, last = [], [], 0, -1

    def indexed() -> Iterator[bytes]:
        nonlocal position, last
        for entry in _entries(1024 * MIB):
            last = int.from_bytes(entry[:8], "big") + int.from_bytes(entry[23:27], "big")
            times.append(struct.pack(">qi", START_MS + last, last))
            if position:
                positions.append(struct.pack(">ii", last, position))
            position += len(entry)
            yield entry

    _write(first, indexed())
    stem = first / SEGMENT.removesuffix(".log")
    stem.with_suffix(".index").write_bytes(b"".join(positions))
    stem.with_suffix(".timeindex").write_bytes(b"".join(times))
    entry, stem = next(_entries(BATCH_SIZE, last + 1)), first / f"{last + 1:020d}"
    stem.with_suffix(".log").write_bytes(entry)
    stem.with_suffix(".index").write_bytes(b"")
    stem.with_suffix(".timeindex").write_bytes(b"")
    stem.with_suffix(".snapshot").write_bytes(NO_PRODUCERS)
    second.mkdir()
    for file in first.iterdir():
        os.link(file, second / file.name)


def keys(directory: Path) -> None:
    """Five million records, each with another key of 12 bytes."""

    def entries() -> Iterator[bytes]:
        offset = 0
        while offset < MANY_KEYS:
            records = [
                builders.record(each, each, b"%012d" % ((offset + each) * 7919 % 10**12), b"v" * 20)
                for each in range(250)
            ]
            yield batch_v2(b"".join(records), 0, offset, len(records))
            offset += len(records)

    _write(directory / "keys-0", entries())


def alike(directory: Path) -> None:
    """Ten million keys on two partitions."""
    many_keys.generate(directory, 10_000_000)


def equal(directory: Path) -> None:
    """Two replicas of 256 MiB, the same."""
    _write(directory / "a" / "copy-0", _entries(256 * MIB))
    (directory / "b").mkdir()
    shutil.copytree(directory / "a" / "copy-0", directory / "b" / "copy-0")


def copies(directory: Path) -> None:
    """Three copies of one log of 256 MiB."""
    _write(directory / "1" / "copy-0", _entries(256 * MIB))
    for name in "23":
        (directory / name).mkdir()
        shutil.copytree(directory / "1" / "copy-0", directory / name / "copy-0")


def image(directory: Path) -> None:
    """A raw image of 256 MiB: blocks of a log and of noise in turn, 4 MiB each."""
    rng, entries = random.Random(13), _entries(128 * MIB)
    with (directory / "disk.img").open("wb", buffering=MIB) as file:
        held = b""
        for _ in range(32):
            while len(held) < 4 * MIB and (entry := next(entries, b"")):
                held += entry
            file.write(held + bytes(-len(held) % 4096) + rng.randbytes(4 * MIB))
            held = b""


def replicas(directory: Path) -> None:
    """Two data directories of two nodes, with replicas of the same small partitions."""
    for node in (1, 2):
        small(directory / str(node))
        owner = OWNER.replace("node.id=1", f"node.id={node}")
        (directory / str(node) / "meta.properties").write_text(owner)


def different(directory: Path) -> None:
    """Two replicas of 256 MiB: the last byte of each batch's payload differs, and so its CRC."""
    (directory / "a" / "copy-0").mkdir(parents=True)
    (directory / "b" / "copy-0").mkdir(parents=True)
    made = templates(PACKERS["none"])
    changed = [(_other_token(each.payload), each) for each in made]
    with (directory / "a" / "copy-0" / SEGMENT).open("wb", buffering=MIB) as file:
        file.writelines(_entries(256 * MIB))
    done = number = offset = 0
    with (directory / "b" / "copy-0" / SEGMENT).open("wb", buffering=MIB) as file:
        while done < 256 * MIB:
            payload, template = changed[number % len(changed)]
            entry = batch_v2(payload, 0, offset, len(template.records))
            file.write(entry)
            done, number = done + len(entry), number + 1
            offset += len(template.records)


def _other_token(payload: bytes) -> bytes:
    """Change a byte of the last value: a digit of its token."""
    at = payload.rindex(b'"token":"') + len(b'"token":"')
    return payload[:at] + (b"0" if payload[at : at + 1] != b"0" else b"1") + payload[at + 1 :]


def noise(directory: Path) -> None:
    """64 MiB of a log that holds nothing but random bytes."""
    (directory / "noise-0").mkdir(parents=True)
    data = random.Random(11).randbytes(64 * MIB)
    (directory / "noise-0" / SEGMENT).write_bytes(data)


def noise_beside(directory: Path) -> None:
    """A sound log of 2 MiB, and random bytes in each kind of file beside it, 40 MiB of most."""
    data = random.Random(12).randbytes(40 * MIB)
    partition = directory / "noise-0"
    _write(partition, _entries(2 * MIB))
    stem = partition / SEGMENT.removesuffix(".log")
    for suffix in (".index", ".timeindex", ".txnindex"):
        stem.with_suffix(suffix).write_bytes(data)
    (partition / f"{5:020d}.snapshot").write_bytes(data)
    (partition / "leader-epoch-checkpoint").write_bytes(data[: 4 * MIB])
    (partition / "partition.metadata").write_bytes(data[: MIB // 2])


def medium(directory: Path) -> None:
    """One log of 4 MiB."""
    _write(directory / "medium-0", _entries(4 * MIB))


def _values(size: int) -> Iterator[bytes]:
    """Yield values until they come to a size."""
    made = [value for template in templates(PACKERS["none"]) for _, value in template.records]
    done = number = 0
    while done < size:
        value = made[number % len(made)]
        yield value
        done, number = done + len(value), number + 1


def _message(offset: int, value: bytes) -> bytes:
    return builders.message(offset, None, value, timestamp=START_MS + offset)


def wrappers(directory: Path) -> None:
    """64 MiB of messages of magic 1 in gzip wrappers of 64."""

    def entries() -> Iterator[bytes]:
        values, offset = _values(64 * MIB), 0
        while held := list(islice(values, 64)):
            inner = [_message(number, value) for number, value in enumerate(held)]
            offset += len(held)
            timestamp = START_MS + offset - 1
            yield builders.wrapper(inner, offset - 1, timestamp=timestamp, compress=PACKERS["gzip"])

    _write(directory / "wrappers-0", entries())


def markers(directory: Path) -> None:
    """A million records in 100,000 transactions, with a marker behind each, and without."""
    records = [builders.record(each, each, b"%08d" % each, b"v" * 80) for each in range(10)]
    payload = b"".join(records)
    marker = builders.control_record(1, struct.pack(">hi", 0, 3))

    def entries(*, marked: bool) -> Iterator[bytes]:
        offset = 0
        for _ in range(100_000):
            yield batch_v2(payload, builders.TRANSACTIONAL, offset, 10)
            offset += 10
            if marked:
                yield batch_v2(marker, builders.TRANSACTIONAL | builders.CONTROL, offset, 1)
                offset += 1

    _write(directory / "with-0", entries(marked=True))
    _write(directory / "without-0", entries(marked=False))


def pre08(directory: Path) -> None:
    """64 MiB of values as 0.7 stored them, and as messages of magic 1."""
    old = directory / "old-0" / f"{0:020d}.kafka"
    old.parent.mkdir()
    with old.open("wb", buffering=MIB) as file:
        for value in _values(64 * MIB):
            file.write(builders.pre08_message(value))
    entries = (_message(number, value) for number, value in enumerate(_values(64 * MIB)))
    _write(directory / "v1-0", entries)


def codecs(directory: Path) -> None:
    """1 GiB of plain bytes in batches of each codec."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        entries = batches_v2(codec, 1024 * MIB, Tally())
        _write(directory / f"{codec}-0", entries)


def internal(directory: Path) -> None:
    """A million records each of cluster metadata and of committed offsets."""
    rng = random.Random(6)

    def changed() -> bytes:
        chosen = rng.random()
        topic, number = rng.randrange(1, 101), rng.randrange(20)
        if chosen < 0.1:
            return metadata_log.NO_OP
        if chosen < 0.15:
            return metadata_log.config(2, f"topic-{topic}", "retention.ms", f"{rng.random():.9f}")
        isr = metadata_log.ids(*rng.sample((1, 2, 3), rng.randint(1, 3)))
        leader = [(1, metadata_log.int32(rng.randint(1, 3)))] if chosen < 0.5 else []
        return metadata_log.change(number, topic, (0, isr), *leader)

    def committed() -> tuple[bytes, bytes]:
        names = f"group-{rng.randrange(200)}".encode(), f"topic-{rng.randrange(100)}".encode()
        key = b"\0\1" + b"".join(len(name).to_bytes(2, "big") + name for name in names)
        value = struct.pack(">hqihq", 3, rng.randrange(1 << 40), 5, 0, START_MS)
        return key + rng.randrange(20).to_bytes(4, "big"), value

    topics = [metadata_log.topic(f"topic-{number}", number) for number in range(1, 101)]
    partitions = [
        metadata_log.partition(number % 20, number // 20 + 1, (1, 2, 3), (1, 2, 3))
        for number in range(2000)
    ]
    values: list[tuple[bytes | None, bytes]] = [(None, value) for value in topics + partitions]
    values += [(None, changed()) for _ in range(50_000 - len(values))]
    of_groups: list[tuple[bytes | None, bytes]] = [committed() for _ in range(50_000)]
    for topic, pairs in (("__cluster_metadata", values), ("__consumer_offsets", of_groups)):
        payloads = [
            b"".join(builders.record(n, n, *pair) for n, pair in enumerate(pairs[at : at + 20]))
            for at in range(0, len(pairs), 20)
        ]
        made = (batch_v2(payloads[n % 2500], 0, n * 20, 20) for n in range(50_000))
        _write(directory / f"{topic}-0", made)


WRITERS: dict[str, Callable[[Path], None]] = {
    writer.__name__: writer
    for writer in (
        *(
            small,
            large,
            keys,
            alike,
            equal,
            copies,
            image,
            replicas,
            different,
            noise,
            noise_beside,
        ),
        *(medium, wrappers, markers, pre08, codecs, internal),
    )
}


def main() -> None:
    """Write the named directories unless they are there."""
    root = Path(sys.argv[1])
    for name in sys.argv[2:] or WRITERS:
        target, half = root / name, root / f"{name}.part"
        if not target.is_dir():
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            WRITERS[name](half)
            half.rename(target)


if __name__ == "__main__":
    main()

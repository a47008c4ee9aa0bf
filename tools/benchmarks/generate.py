"""Write the log segments the benchmarks read, the same bytes on every machine.

    python tools/benchmarks/generate.py DIRECTORY [--size MIB]

A few hundred different batches are built record by record and then repeated with rising offsets,
timestamps and sequences, so that a gigabyte takes seconds. Nothing of kdump is used. What the
readers have to find (counts, checksums of all keys and of all values) goes to `manifest.json`.
"""

import argparse
import json
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import lz4.frame

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
import builders
from producer_codecs import lz4_frame, xerial, zstd

FORMAT = 3  # of the data; raise it when the bytes change
SEGMENT = f"{0:020d}.log"
BATCH_SIZE = 16 * 1024
TEMPLATES = 256
START_MS = 1_700_000_000_000

HEAD_BYTES = 61  # of a batch of magic 2
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
WORDS = (
    *("account", "address", "amount", "basket", "carrier", "confirmed", "country", "credit"),
    *("currency", "customer", "delivery", "discount", "express", "invoice", "item", "market"),
    *("order", "payment", "pending", "price", "priority", "quantity", "refund", "region"),
    *("returned", "shipment", "status", "supplier", "tracking", "warehouse"),
)


@dataclass(frozen=True)
class Case:
    """One generated segment, and what a reader must find in it."""

    name: str
    path: str  # below the data directory
    magic: int
    codec: str
    size_bytes: int
    plain_bytes: int
    batches: int
    records: int
    keys_crc: int  # CRC-32 of all keys one after the other
    values_crc: int


@dataclass(frozen=True)
class Template:
    """The payload of one batch, and its keys and values for the checksums."""

    payload: bytes
    records: list[tuple[bytes, bytes]]
    keys: bytes
    values: bytes


def one_value(rng: random.Random) -> bytes:
    """Make up a JSON document of about 195 bytes; one in 16 has letters beyond ASCII."""
    words = " ".join(rng.choices(WORDS, k=rng.randrange(7, 12)))
    if rng.randrange(16) == 0:
        words += " Zürich–Łódź"
    text = (
        f'{{"id":"{rng.getrandbits(64):016x}","customer":{rng.randrange(10**7)},'
        f'"amount":{rng.randrange(10**6) / 100:.2f},"token":"{rng.getrandbits(112):028x}",'
        f'"note":"{words}"}}'
    )
    return text.encode()


def templates(pack: Callable[[bytes], bytes]) -> list[Template]:
    """Build the batches that are repeated: 16 KiB each before compression."""
    rng = random.Random(2026)
    made = []
    for _ in range(TEMPLATES):
        records: list[tuple[bytes, bytes]] = []
        parts: list[bytes] = []
        size = HEAD_BYTES
        while True:
            key = b"%012d" % rng.randrange(10**12)
            value = one_value(rng)
            headers = [(b"trace", b"%08x" % rng.getrandbits(32))] if len(records) % 4 == 0 else []
            record = builders.record(len(records), len(records), key, value, headers)
            if size + len(record) > BATCH_SIZE:
                break
            size += len(record)
            records.append((key, value))
            parts.append(record)
        keys, values = (b"".join(column) for column in zip(*records, strict=True))
        made.append(Template(pack(b"".join(parts)), records, keys, values))
    return made


def batch_v2(payload: bytes, codec: int, offset: int, count: int) -> bytes:
    """Put a header of magic 2 in front of a payload."""
    first_ms = START_MS + offset
    return builders.batch(
        base_offset=offset, leader_epoch=3, attributes=codec, base_timestamp=first_ms,
        max_timestamp=first_ms + count - 1, producer_id=1000, producer_epoch=0,
        base_sequence=offset & 0x7FFFFFFF, records_count=count, payload=payload,
    )  # fmt: skip


def gzip(plain: bytes) -> bytes:
    """Deflate with the header java.util.zip.GZIPOutputStream writes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(plain) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda plain: plain,
    "gzip": gzip,
    "snappy": xerial,
    "lz4": partial(lz4_frame, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False),
    "zstd": partial(zstd, level=3),
}


class Tally:
    """Counts while a segment is written."""

    def __init__(self) -> None:
        self.size = self.plain = self.batches = self.records = self.keys = self.values = 0

    def add(self, entry: bytes, plain: int, keys: bytes, values: bytes, records: int) -> None:
        self.size += len(entry)
        self.plain += plain
        self.batches += 1
        self.records += records
        self.keys = zlib.crc32(keys, self.keys)
        self.values = zlib.crc32(values, self.values)


def batches_v2(codec: str, limit: int, tally: Tally) -> Iterator[bytes]:
    """16 KiB batches until their plain size reaches the limit."""
    made = templates(PACKERS[codec])
    while tally.plain < limit:
        template = made[tally.batches % TEMPLATES]
        count = len(template.records)
        entry = batch_v2(template.payload, CODECS[codec], tally.records, count)
        tally.add(entry, BATCH_SIZE, template.keys, template.values, count)
        yield entry


def batches_tiny(limit: int, tally: Tally) -> Iterator[bytes]:
    """One record of 100 bytes in each batch, no key."""
    rng = random.Random(7)
    values = [one_value(rng)[:100] for _ in range(TEMPLATES)]
    payloads = [builders.record(0, 0, None, value) for value in values]
    while tally.plain < limit:
        which = tally.batches % TEMPLATES
        entry = batch_v2(payloads[which], 0, tally.records, 1)
        tally.add(entry, len(entry), b"", values[which], 1)
        yield entry


def messages_v1(limit: int, tally: Tally) -> Iterator[bytes]:
    """Plain messages of magic 1, with the keys and values of the batches."""
    made = [record for template in templates(PACKERS["none"]) for record in template.records]
    while tally.plain < limit:
        key, value = made[tally.records % len(made)]
        entry = builders.message(tally.records, key, value, timestamp=START_MS + tally.records)
        tally.add(entry, len(entry), key, value, 1)
        yield entry


def write_case(directory: Path, name: str, limit: int) -> Case:
    """Write one segment and describe it."""
    tally = Tally()
    codec = name.removeprefix("v2") if name.startswith("v2") else "none"
    if name == "tiny":
        entries = batches_tiny(limit, tally)
    elif name == "v1none":
        entries = messages_v1(limit, tally)
    else:
        entries = batches_v2(codec, limit, tally)
    path = directory / f"{name}-0" / SEGMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(entries)
    return Case(
        name=name,
        path=f"{name}-0/{SEGMENT}",
        magic=1 if name == "v1none" else 2,
        codec=codec,
        size_bytes=tally.size,
        plain_bytes=tally.plain,
        batches=tally.batches,
        records=tally.records,
        keys_crc=tally.keys,
        values_crc=tally.values,
    )


CASES = ("v2none", "tiny", "v1none", "v2lz4", "v2zstd", "v2snappy", "v2gzip")


def load(directory: Path) -> dict[str, Case]:
    """Read what lies in the directory; a case whose file is not as written is left out."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text())
    except FileNotFoundError:
        return {}
    cases = [Case(**fields) for fields in manifest["cases"]]
    return {
        case.name: case
        for case in cases
        if manifest["format"] == FORMAT
        and (directory / case.path).is_file()
        and (directory / case.path).stat().st_size == case.size_bytes
    }


def generate(directory: Path, size: int, names: tuple[str, ...] = CASES) -> dict[str, Case]:
    """Write the named cases unless they are there: v2none of `size` MiB, others a quarter."""
    cases = load(directory)
    for name in names:
        limit = size << 20 if name == "v2none" else size << 18
        case = cases.get(name)
        if case is None or not 0 <= case.plain_bytes - limit < BATCH_SIZE:
            cases[name] = write_case(directory, name, limit)
    manifest = {"format": FORMAT, "cases": [asdict(case) for case in cases.values()]}
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return cases


def main() -> None:
    """Generate from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the segments go")
    parser.add_argument(
        "--size", type=int, default=256, metavar="MIB", help="of v2none; others a quarter"
    )
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    arguments = parser.parse_args()
    generate(arguments.directory, arguments.size, tuple(arguments.cases.split(",")))


if __name__ == "__main__":
    main()

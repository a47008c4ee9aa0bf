"""A segment made by hand, and what is dumped of it once it is damaged."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import builders
from dumped import Json

from kdump.findings.finding import Finding

BASE = 100
BATCHES = 6
RECORDS = 3


@dataclass
class Segment:
    """Entries one after the other, and where each starts."""

    entries: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.entries)

    @property
    def starts(self) -> list[int]:
        return [sum(map(len, self.entries[:n])) for n in range(len(self.entries) + 1)]

    def write(self, directory: Path, data: bytes | None = None) -> Path:
        """Write the log, or damaged bytes in its place, in an old file of `orders-0`."""
        directory = directory / "orders-0"
        directory.mkdir(exist_ok=True)
        path = directory / f"{BASE:020}.log"
        path.write_bytes(self.data if data is None else data)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path


def batch(base_offset: int, count: int = RECORDS, **members: Any) -> bytes:
    records = [
        builders.record(n, n, b"key-%d" % (base_offset + n), b"value-%d" % (base_offset + n) * 3)
        for n in range(count)
    ]
    return builders.batch(records, base_offset=base_offset, **members)


def with_batch(tmp_path: Path, segment: Segment, other: bytes) -> tuple[Path, int]:
    """Put another entry in the place of batch 2."""
    entries = [*segment.entries[:2], other, *segment.entries[3:]]
    return segment.write(tmp_path, b"".join(entries)), segment.starts[2]


def first_of(number: int) -> int:
    """The first offset of a batch."""
    return BASE + RECORDS * number


def offsets(rows: list[Json]) -> list[int]:
    return [row["offset"] for row in rows if row["row"] == "record"]


def headers(rows: list[Json]) -> list[tuple[int, bool]]:
    return [(row["position"], row["crc_valid"]) for row in rows if row["row"] == "batch"]


def all_but(*lost: int) -> list[int]:
    """The offsets of all batches but some."""
    return [
        first_of(number) + n for number in range(BATCHES) if number not in lost for n in range(3)
    ]


def only(found: list[Finding]) -> Finding:
    assert [one.code for one in found] == [found[0].code] if found else False, found
    return found[0]


def place_of(one: Finding) -> tuple[Any, ...]:
    return one.code, one.position, one.size_bytes, one.offset


def loss_of(one: Finding) -> tuple[Any, ...]:
    return one.lost_at_least, one.lost_at_most, one.next_offset

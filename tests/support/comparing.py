"""Replicas made by hand for the tests of compare, and what it says of them."""

import os
import shutil
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import builders

from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError
from kdump.findings.rows import Row

LONG_AGO = 1_600_000_000
TIME = 1_700_000_000_000
A_BATCH = 5

#: Checkpoints of a data directory in which nothing was compacted.
NEVER_CLEANED = {"cleaner-offset-checkpoint": "0\n0\n"}


class Item(NamedTuple):
    """One record of a model, at an offset."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


class Batch(NamedTuple):
    """One batch of a model; what `items` lacks between base and last was compacted away."""

    base: int
    last: int
    items: tuple[Item, ...]
    epoch: int = 3
    members: Mapping[str, Any] = {}

    def data(self) -> bytes:
        """Encode it."""
        records = [
            builders.record(item.offset - self.base, item.timestamp, item.key, item.value)
            for item in self.items
        ]
        return builders.batch(
            records,
            base_offset=self.base,
            leader_epoch=self.epoch,
            last_offset_delta=self.last - self.base,
            base_timestamp=TIME,
            max_timestamp=TIME + max((item.timestamp for item in self.items), default=0),
            **self.members,
        )


def batches(
    start: int, end: int, epoch: int = 3, size: int = A_BATCH, **members: Any
) -> list[Batch]:
    """Make batches of [start, end) with a key for each record."""
    found = []
    for base in range(start, end, size):
        last = min(base + size, end) - 1
        items = (Item(n, b"k%d" % n, b"v%d" % n, n) for n in range(base, last + 1))
        found.append(Batch(base, last, tuple(items), epoch, members))
    return found


def replica(
    parent: Path,
    name: str,
    log: Sequence[Batch | bytes],
    *,
    segments: Iterable[int] = (0,),
    start: int | None = None,
    files: Mapping[str, str] | None = None,
    partition: str = "orders-0",
) -> Path:
    """Write a replica whose segments start with the batches of these numbers; all is old.

    `files` stand in the data directory around it, or in the partition where they start with /.
    """
    root = parent / name
    directory = root / partition
    directory.mkdir(parents=True)
    firsts = sorted({*segments} & {*range(max(len(log), 1))} | {0})
    for number, first in enumerate(firsts):
        until = firsts[number + 1] if number + 1 < len(firsts) else len(log)
        part = b"".join(data_of(each) for each in log[first:until])
        base = base_of(log[first]) if first < len(log) else start or 0
        if first == 0 and start is not None:
            base = start
        (directory / f"{base:020}.log").write_bytes(part)
    for file, text in (files or {}).items():
        (directory / file[1:] if file[0] == "/" else root / file).write_text(text)
    age(root)
    return root


def data_of(each: Batch | bytes) -> bytes:
    """Encode a batch that may be bytes already."""
    return each if isinstance(each, bytes) else each.data()


def base_of(each: Batch | bytes) -> int:
    """Read the base offset of a batch."""
    return each.base if isinstance(each, Batch) else int(struct.unpack_from(">q", each)[0])


def age(root: Path) -> None:
    """Make all files old: what was written just now may be half of a write."""
    for path in root.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a data directory."""
    shutil.copytree(source, target)
    return target


def checkpoint(offset: int, partition: str = "orders 0") -> str:
    """Write an offset checkpoint of one partition."""
    return f"0\n1\n{partition} {offset}\n"


class ComparisonResult:
    """What compare yields, sorted out."""

    def __init__(self, items: Iterable[Row | KdumpError]) -> None:
        self.differences: list[dict[str, Any]] = []
        self.comparisons: list[dict[str, Any]] = []
        self.errors: list[KdumpError] = []
        self.summary: dict[str, Any] = {}
        for item in items:
            if isinstance(item, KdumpError):
                self.errors.append(item)
            elif item.row == "replica-difference":
                self.differences.append(item.fields)
            elif item.row == "replica-comparison":
                self.comparisons.append(item.fields)
            else:
                self.summary = item.fields

    @property
    def one(self) -> dict[str, Any]:
        """The one comparison there is."""
        (found,) = self.comparisons
        return found

    @property
    def spans(self) -> list[tuple[str, int, int | None, int]]:
        """Kind, first and last offset and number of records of each difference."""
        return [
            (each["kind"], each["offset"], each["last_offset"], each["records_count"])
            for each in self.differences
        ]

    def offsets(self, *kinds: str) -> set[int]:
        """The offsets that differences of some kinds span."""
        found: set[int] = set()
        for each in self.differences:
            if each["kind"] in kinds and each["last_offset"] is not None:
                found |= {*range(each["offset"], each["last_offset"] + 1)}
        return found


def compare_directories(
    *paths: Path, driver: Driver = ONE_BY_ONE, **options: Any
) -> ComparisonResult:
    """Compare directories."""
    asked = CompareOptions(**options)
    return ComparisonResult(compare([str(path) for path in paths], asked, driver=driver))


def rewrite_record(batch: Batch, offset: int, value: bytes) -> Batch:
    """Rewrite one record of a batch."""
    items = (item._replace(value=value) if item.offset == offset else item for item in batch.items)
    return batch._replace(items=tuple(items))

"""Partitions of hand-made batches with the indexes a broker of today writes beside them.

`check_logs` runs what is learned from `.log`, `.index` and `.timeindex` alone, for directories
whose other files say more.
"""

import os
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import builders
import partitions
from builders import offset_index, time_index

from kdump.broker.settings import Settings
from kdump.engine.checks.folding import fold
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.index_proof import IndexProof
from kdump.engine.checks.records import Records
from kdump.engine.reading.check import Check
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.engine.reading.scan import scan
from kdump.engine.verify.partition import checks_of
from kdump.findings.finding import Finding, Severity
from kdump.storage.log_dir import LogDir

START_MS = 1_700_000_000_000
INTERVAL_BYTES = 300
LONG_AGO = START_MS // 1000


class Entry(NamedTuple):
    """What an index has to know of a batch."""

    position: int
    first: int
    last: int
    max_timestamp_ms: int


def batch(base_offset: int, count: int = 3, **members: object) -> bytes:
    """Write a batch whose times rise with its offsets, ten milliseconds a record."""
    records = [
        builders.record(delta, 10 * delta, key=b"k%d" % (base_offset + delta), value=b"v" * 20)
        for delta in range(count)
    ]
    first_ms = START_MS + 10 * base_offset
    given: dict[str, object] = {
        "base_offset": base_offset,
        "base_timestamp": first_ms,
        "max_timestamp": first_ms + 10 * (count - 1),
    }
    return builders.batch(records, **{**given, **members})  # type: ignore[arg-type]


def batches(base_offset: int, end_offset: int, count: int = 3) -> list[bytes]:
    """Write the batches of [base, end), which hold `count` records each."""
    return [batch(offset, count) for offset in range(base_offset, end_offset, count)]


def entries(log: bytes) -> list[Entry]:
    """Read the headers of a sound log, v0, v1 or v2."""
    found, position = [], 0
    while position < len(log):
        offset, size, _, magic = struct.unpack_from(">qiib", log, position)
        if magic == 2:
            (delta,) = struct.unpack_from(">i", log, position + 23)
            (newest,) = struct.unpack_from(">q", log, position + 35)
            found.append(Entry(position, offset, offset + delta, newest))
        else:
            (newest,) = struct.unpack_from(">q", log, position + 18) if magic else (-1,)
            found.append(Entry(position, offset, offset, newest))
        position += 12 + size
    return found


def indexes(log: bytes, base_offset: int, interval: int = INTERVAL_BYTES) -> tuple[bytes, bytes]:
    """Write both indexes of a sealed segment as recovery does (R2)."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    newest, newest_at, indexed, told = -1, 0, 0, -1
    for entry in entries(log):
        if entry.max_timestamp_ms > newest:
            newest, newest_at = entry.max_timestamp_ms, entry.last - base_offset
        if entry.position - indexed > interval:
            offsets.append((entry.last - base_offset, entry.position))
            indexed = entry.position
            if newest > told:
                times.append((newest, newest_at))
                told = newest
    if newest > told:
        times.append((newest, newest_at))
    return offset_index(offsets), time_index(times)


def name(base_offset: int, extension: str) -> str:
    """Name a file of a segment."""
    return f"{base_offset:020d}.{extension}"


def write_partition(
    parent: Path, segments: Mapping[int, Sequence[bytes]], topic: str = "orders"
) -> Path:
    """Write a partition whose indexes are sound; all files are old."""
    directory = parent / f"{topic}-0"
    directory.mkdir(parents=True)
    for base_offset, parts in segments.items():
        log = b"".join(parts)
        offsets, times = indexes(log, base_offset)
        write(directory, base_offset, "log", log)
        write(directory, base_offset, "index", offsets)
        write(directory, base_offset, "timeindex", times)
    return directory


def write(directory: Path, base_offset: int, extension: str, data: bytes) -> Path:
    """Write one file of a segment, with a time long ago."""
    path = directory / name(base_offset, extension)
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def read(directory: Path, base_offset: int, extension: str) -> bytes:
    """Read one file of a segment."""
    return (directory / name(base_offset, extension)).read_bytes()


#: Find a partition whose files are not listed.
target_of = partial(partitions.target_of, listed=False)


def partition_of(
    directory: Path, *, deep: bool = False, quick: bool = False, settings: Settings | None = None
) -> PartitionScan:
    """Make ready to scan a partition."""
    return PartitionScan(
        target_of(directory),
        directory=LogDir.open(str(directory.parent)),
        settings=settings or Settings(),
        deep=deep,
        quick=quick,
    )


def run_checks(
    directory: Path, *, deep: bool = False, quick: bool = False, settings: Settings | None = None
) -> tuple[Finding, ...]:
    """Return what all checks of `verify` show."""
    partition = partition_of(directory, deep=deep, quick=quick, settings=settings)
    return _scan(partition, checks_of(partition))


def check_logs(directory: Path, *, deep: bool = False, quick: bool = False) -> tuple[Finding, ...]:
    """Return what logs and their indexes show, in a directory that has other files of its own."""
    partition = partition_of(directory, deep=deep, quick=quick)
    checks = [
        one for one in checks_of(partition) if isinstance(one, (Framing, Records, IndexProof))
    ]
    return _scan(partition, checks)


def _scan(partition: PartitionScan, checks: Sequence[Check]) -> tuple[Finding, ...]:
    found = fold(scan(partition, checks))
    assert not partition.errors
    return found


def without_notes(found: Sequence[Finding]) -> list[Finding]:
    """Leave out the findings that are notes."""
    return [one for one in found if one.severity is not Severity.NOTE]


def only(directory: Path, *, deep: bool = False) -> Finding:
    """Return the one finding there is."""
    found = run_checks(directory, deep=deep)
    assert len(found) == 1, found
    return found[0]


def place_of(finding: Finding, directory: Path) -> tuple[str, str, int | None, int | None]:
    """Say which finding it is, and where."""
    path = os.path.relpath(finding.path, directory)
    return finding.code, path, finding.position, finding.size_bytes

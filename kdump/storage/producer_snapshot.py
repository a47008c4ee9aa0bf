"""Read producer snapshots: `.snapshot`, the producers known below the offset of the name.

    0001 crc count, then 46 bytes for each producer (X9)

The crc covers everything from the count on. A snapshot that a broker cannot read is deleted and
the next older one tried, so damage here costs a replay, not records. Order has no meaning, and
producers idle for over a day are missing (R10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump import kernels
from kdump.errors import PathError
from kdump.storage.layout import SNAPSHOT_CRC_START, SNAPSHOT_ENTRY, SNAPSHOT_HEADER
from kdump.storage.problems import Problem
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

VERSION = 1
SIZE_LIMIT = 96 << 20  # two million producers; it is read whole
_HELD_UNSEEN = 8 << 20


class ProducerState(NamedTuple):
    """One producer; `last_*` and `offset_delta` are of its last batch, -1 where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


class ProducerSnapshot:
    """The content of one `.snapshot` file; total on any bytes.

    `version`, `crc` and `declared` (the entry count) are as stored, None where the file ends
    before them. `entries` are those that are there in full. `size_bytes` is that of the file, of
    which the data may be the header alone where that cannot be right.
    """

    def __init__(self, data: bytes, size_bytes: int | None = None) -> None:
        self.data = data
        self.size_bytes = len(data) if size_bytes is None else size_bytes
        self.version: int | None = None
        self.crc: int | None = None
        self.declared: int | None = None
        self.computed_crc: int | None = None
        self.entries = 0
        if len(data) >= SNAPSHOT_HEADER.size:
            self.version, self.crc, self.declared = SNAPSHOT_HEADER.unpack_from(data)
            self.computed_crc = kernels.crc32c(data, SNAPSHOT_CRC_START, len(data))
            whole = (len(data) - SNAPSHOT_HEADER.size) // SNAPSHOT_ENTRY.size
            # Another version may have another layout, unless the checksum says that only the
            # version field, which it does not cover, is wrong.
            if self.version == VERSION or self.crc == self.computed_crc:
                self.entries = max(0, min(self.declared, whole))

    def __len__(self) -> int:
        return self.entries

    def __iter__(self) -> Iterator[ProducerState]:
        start = SNAPSHOT_HEADER.size
        with memoryview(self.data)[start : start + self.entries * SNAPSHOT_ENTRY.size] as view:
            for fields in SNAPSHOT_ENTRY.iter_unpack(view):
                yield ProducerState(*fields)

    def problems(self) -> list[Problem]:
        """Say what is wrong, once: a wrong length also spoils the checksum, a wrong version both.

        A broker drops such a file, but for one: bytes behind the entries under a right checksum.
        """
        size = self.size_bytes
        if self.version is None or self.declared is None:
            return [Problem("snapshot-size", 0, size, SNAPSHOT_HEADER.size, size)]
        if self.version != VERSION:
            return [Problem("snapshot-version", 0, 2, VERSION, self.version)]
        if self.declared < 0:
            return [Problem("snapshot-size", 6, 4, 0, self.declared)]
        expected = SNAPSHOT_HEADER.size + self.declared * SNAPSHOT_ENTRY.size
        if expected != size:
            position = min(expected, size)
            return [Problem("snapshot-size", position, abs(expected - size), expected, size)]
        if self.crc != self.computed_crc:
            return [Problem("snapshot-crc", 2, 4, self.computed_crc, self.crc)]
        return []


def snapshot_of(entries: Iterable[ProducerState]) -> bytes:
    """Write a snapshot as brokers do (X9)."""
    packed = [SNAPSHOT_ENTRY.pack(*entry) for entry in entries]
    counted = b"".join((len(packed).to_bytes(4, "big"), *packed))
    return (
        SNAPSHOT_HEADER.pack(VERSION, kernels.crc32c(counted, 0, len(counted)), len(packed))
        + (counted[4:])
    )


def check_snapshot(path: str) -> ProducerSnapshot:
    """Read a snapshot for a check: of a large one only the header, where that cannot be right."""
    with Source(path) as source:
        if _HELD_UNSEEN < source.size <= SIZE_LIMIT:
            header = ProducerSnapshot(source.read(0, SNAPSHOT_HEADER.size), source.size)
            if any(problem.code != "snapshot-crc" for problem in header.problems()):
                return header
        return ProducerSnapshot(source.read_whole(SIZE_LIMIT))


def sound_snapshot(path: str) -> ProducerSnapshot | None:
    """Read a snapshot; None where it cannot be read, or something is wrong with it."""
    try:
        snapshot = check_snapshot(path)
    except PathError:
        return None
    return None if snapshot.problems() else snapshot

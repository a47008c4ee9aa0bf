"""Take keys and values of many records out of a chunk at once, at the speed of slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk

#: Offset in the topic, timestamp and value of the record that a key has.
Stored = tuple[int, int, bytes]


def keys(chunk: RecordChunk) -> list[bytes]:
    """Return the keys of all records; one that is null is empty."""
    records = chunk.records
    data, start = _bytes_of(chunk, 0, records.count)
    return [
        data[at - start : at - start + size] if size > 0 else b""
        for at, size in zip(records.key_positions, records.key_sizes, strict=True)
    ]


def read_stored(chunk: RecordChunk, first: int, last: int) -> Iterator[Stored]:
    """Give what is kept of the records in [first, last), none of which has a null value."""
    records = chunk.records
    data, start = _bytes_of(chunk, first, last)
    values = [
        data[at - start : at - start + size]
        for at, size in zip(
            records.value_positions[first:last], records.value_sizes[first:last], strict=True
        )
    ]
    offsets, times = records.offsets[first:last], records.timestamps[first:last]
    return zip(offsets, times, values, strict=True)


def _bytes_of(chunk: RecordChunk, first: int, last: int) -> tuple[bytes, int]:
    """Copy the bytes of some records; return where in those of the chunk they begin, too."""
    records = chunk.records
    start = records.position(first)
    end = records.position(last - 1) + records.size_bytes(last - 1)
    return bytes(memoryview(chunk.data)[start:end]), start

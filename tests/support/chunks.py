"""Chunks as the engine makes them, from bytes written by hand."""

from types import ModuleType

import builders

from kdump import kernels
from kdump.findings.rows import BatchChunk, Place, RecordChunk
from kdump.kernels import reasons

PLACE = Place("orders", 7, 0, "orders-7/00000000000000000000.log")


def record_chunk(data: bytes, place: Place = PLACE, kernel: ModuleType = kernels) -> RecordChunk:
    """Decode plain batches into one chunk."""
    batches, _, reason = kernel.walk(data, 0, len(data), 0, -1, True, 1000)
    assert reason == reasons.END
    records, _, _, reason = kernel.decode_run(data, 0, batches, 0, 100_000)
    assert reason == reasons.END
    return RecordChunk(place, data, batches, records)


def batch_chunk(data: bytes, place: Place = PLACE, kernel: ModuleType = kernels) -> BatchChunk:
    """Take the headers of some batches."""
    batches, _, _ = kernel.walk(data, 0, len(data), 0, -1, True, 1000)
    return BatchChunk(place, batches)


def one(key: bytes | None = b"k", value: bytes | None = b"v", **given: object) -> RecordChunk:
    """Make a chunk of one record."""
    return record_chunk(builders.batch([builders.record(0, 0, key, value, **given)]))


def everything(name: str) -> bool:
    """Select every name."""
    return True

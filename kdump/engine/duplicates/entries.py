"""What of a record is compared, and how its copies are laid out to be sorted (see `work/spool.py`).

An entry begins with a checksum of what is compared, which only spreads the work: equal are records
of one topic whose compared bytes are equal. Behind these stands where the record lies, so that
copies come in the order in which neighbours are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from kdump.engine.reading.options import DumpOptions
from kdump.findings.rows import RecordChunk
from kdump.kernels import columns as c
from kdump.kernels.members import sequence_at
from kdump.record.default import headers_of

_START = Struct(">III")  # checksum, topic, size of what is compared
_PART = Struct(">i")  # of each part: its size, -1 for null
_BY_TIME = Struct(">QIQqhii")
_BY_OFFSET = Struct(">IQQqhii")
_SIGN = 1 << 63  # numbers may be negative, and are compared as bytes
_WHERE_BYTES = _BY_TIME.size
_NONE = -1


class DuplicateOptions(DumpOptions):
    """What is asked for, and how logs are read for it.

    `by` holds key, value, header, as many as are compared. At most one of `within_ms` and
    `within_records` is given. `scratch` is where sorted runs are kept meanwhile.
    """

    by: tuple[str, ...] = ("key",)
    header: bytes | None = None
    within_ms: int | None = None
    within_records: int | None = None
    scratch: str | None = None


class Copy(NamedTuple):
    """Where one copy lies, and who sent it."""

    partition: int
    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    value_size: int


class Counts(NamedTuple):
    """What was read, and what of it was not compared."""

    records: int = 0
    control_records: int = 0
    without: int = 0  # what is compared is null, or is not there
    without_time: int = 0

    def plus(self, other: Counts) -> Counts:
        """Add two of them."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class Layout(NamedTuple):
    """How entries are made and read for what is asked for."""

    by: tuple[str, ...]
    header: bytes | None
    by_offset: bool
    timed: bool

    @classmethod
    def of(cls, options: DuplicateOptions) -> Layout:
        """Make that of some options."""
        by_offset = options.within_records is not None
        return cls(options.by, options.header, by_offset, options.within_ms is not None)

    def entry(self, topic: int, parts: list[bytes | None], copy: Copy) -> bytes:
        """Lay out one copy."""
        said = b"".join(
            [_PART.pack(_NONE) if part is None else _PART.pack(len(part)) + part for part in parts]
        )
        time, place = copy.timestamp + _SIGN, copy.offset + _SIGN
        where = (
            _BY_OFFSET.pack(copy.partition, place, time, *copy[3:])
            if self.by_offset
            else _BY_TIME.pack(time, copy.partition, place, *copy[3:])
        )
        return _START.pack(crc32(said, topic), topic, len(said)) + said + where

    def copy(self, entry: bytes) -> Copy:
        """Read where a copy lies."""
        at = len(entry) - _WHERE_BYTES
        if self.by_offset:
            partition, place, time, *whose = _BY_OFFSET.unpack_from(entry, at)
        else:
            time, partition, place, *whose = _BY_TIME.unpack_from(entry, at)
        return Copy(partition, place - _SIGN, time - _SIGN, *whose)

    def entries(self, chunk: RecordChunk, topic: int) -> Iterator[bytes | None]:
        """Yield the entry of each record, None where what is compared is null or not there."""
        records, batches, data = chunk.records, chunk.batches, memoryview(chunk.data)
        partition = chunk.place.partition or 0
        keyed, valued = "key" in self.by, "value" in self.by
        seen, producer_id, epoch, base, sequence = _NONE, _NONE, _NONE, _NONE, _NONE
        for row in chunk.numbers:
            if records.flags_of(row) & c.MARKER:
                continue
            if records.batch(row) != seen:
                seen = records.batch(row)
                base, sequence = batches.base_offset(seen), batches.base_sequence(seen)
                producer_id, epoch = batches.producer_id(seen), batches.producer_epoch(seen)
            parts: list[bytes | None] = []
            if keyed:
                parts.append(records.key(data, row))
            if valued:
                parts.append(records.payload(data, row))
            if self.header is not None:
                parts.append(_header(records.row(row), data, self.header))
            if all(part is None for part in parts):
                yield None
                continue
            offset = records.offset(row)
            number = _NONE if sequence < 0 else sequence_at(sequence, offset - base)
            yield self.entry(
                topic,
                parts,
                Copy(
                    partition, offset, records.timestamp(row), producer_id, epoch, number,
                    records.value_size(row),
                ),
            )  # fmt: skip


def compared(entry: bytes) -> bytes:
    """Give the topic and all that is compared."""
    return entry[4 : len(entry) - _WHERE_BYTES]


def topic_and_parts(said: bytes) -> tuple[int, list[bytes | None]]:
    """Take apart what `compared` gives."""
    parts: list[bytes | None] = []
    at = 8
    while at < len(said):
        size = _PART.unpack_from(said, at)[0]
        at += _PART.size
        parts.append(None if size < 0 else said[at : at + size])
        at += max(size, 0)
    return int.from_bytes(said[:4], "big"), parts


def _header(record: tuple[int, ...], data: memoryview, name: bytes) -> bytes | None:
    """Give the value of the last header of a name, as a client's `lastHeader` does."""
    _, start, size, *_, headers, count, _ = record
    found = None
    for key, value in headers_of(data, headers, count, start + size):
        if key == name:
            found = value
    return found

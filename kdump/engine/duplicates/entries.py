"""The options of `duplicates`, and what is counted; a kernel lays out the entries of records.

Their checksum only spreads the work: equal are records of one topic whose compared bytes are equal.
"""

from __future__ import annotations

from kdump.engine.reading.options import DumpOptions
from kdump.findings.rows import RecordChunk
from kdump.kernels import lay_out_records
from kdump.kernels.entries import BY_KEY, BY_VALUE, lay_out, where_of
from kdump.tuples import NamedTuple


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
        return lay_out(topic, parts, copy, self.by_offset)

    def copy(self, entry: bytes) -> Copy:
        """Read where a copy lies."""
        return Copy(*where_of(entry, self.by_offset))

    def entries(self, chunk: RecordChunk, topic: int) -> tuple[bytes, Counts]:
        """Lay out the records of a chunk, and count them."""
        by = BY_KEY * ("key" in self.by) | BY_VALUE * ("value" in self.by)
        block, seen, without, untimed = lay_out_records(
            chunk.data, chunk.batches, chunk.records, chunk.rows, topic,
            chunk.place.partition or 0, by, self.header, self.by_offset, self.timed,
        )  # fmt: skip
        return block, Counts(seen, len(chunk) - seen, without, untimed)

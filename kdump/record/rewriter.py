"""Write records anew as a leader does that converts or recompresses what it was sent (V24, V26).

What is written is measured and dropped: of LZ4 to the byte, of other codecs as other releases of
the same libraries write it, so that the size may differ by some bytes.
"""

from __future__ import annotations

from kdump.kernels.columns import DecodedRecords
from kdump.record.layout import BATCH_OVERHEAD_V2, FORMATS, TIMESTAMP_TYPE_BIT
from kdump.record.rebuilt_sizes import Data, compute_packed_size, varint_bytes
from kdump.tuples import NamedTuple

NO_TIMESTAMP = -1


class WrittenEntries(NamedTuple):
    """The entries that records became: how many, of how many bytes, and the largest of them."""

    entries: int
    size_bytes: int
    largest_bytes: int


class TooManyBytesError(Exception):
    """The records take more uncompressed bytes than are held."""


class Rewriter:
    """Collects records for entries of one format and codec.

    `stamp_ms` is the append time where messages inside of a wrapper are given that, too. `limit`
    bounds the uncompressed bytes.
    """

    def __init__(
        self, magic: int, codec: int, first_offset: int, stamp_ms: int | None, limit: int
    ) -> None:
        self.magic, self.codec = magic, codec
        self.count = 0
        self._format = FORMATS[magic]
        self._first_offset = first_offset
        self._stamp_ms, self._limit = stamp_ms, limit
        self._plain = bytearray()
        self._base_ms: int | None = None
        self._size = self._largest = 0

    def add(self, data: Data, records: DecodedRecords, *, has_timestamps: bool) -> None:
        """Take more records; those of a format without timestamps have none."""
        view = memoryview(data)
        for row in range(records.count):
            timestamp = records.timestamp(row) if has_timestamps else NO_TIMESTAMP
            if self._base_ms is None:
                self._base_ms = timestamp
            key = _part(view, records.key_position(row), records.key_size(row))
            value = _part(view, records.value_position(row), records.value_size(row))
            if self._format.is_legacy:
                self._add_message(timestamp, key, value)
            else:
                end = records.position(row) + records.size_bytes(row)
                start = records.headers_position(row) if records.headers_count(row) else end
                headers = view[start:end]
                self._add_record(timestamp - self._base_ms, key, value, headers, records, row)
            self.count += 1
            if self._size > self._limit:
                raise TooManyBytesError

    def _add_record(
        self,
        delta_ms: int,
        key: Data | None,
        value: Data | None,
        headers: Data,
        records: DecodedRecords,
        row: int,
    ) -> None:
        body = bytearray(b"\0") + varint_bytes(delta_ms) + varint_bytes(self.count)
        for part in (key, value):
            body += varint_bytes(-1 if part is None else len(part)) + (part or b"")
        body += varint_bytes(records.headers_count(row)) + headers
        self._keep(varint_bytes(len(body)) + body)

    def _add_message(self, timestamp: int, key: Data | None, value: Data | None) -> None:
        size = self._format.smallest_size + len(key or b"") + len(value or b"")
        self._largest = max(self._largest, size)
        if not self.codec:
            self._size += size
            return
        attributes = 0
        if self._stamp_ms is not None and self._format.has_timestamps:
            timestamp, attributes = self._stamp_ms, TIMESTAMP_TYPE_BIT
        offset = self.count + (0 if self._format.relative_offsets else self._first_offset)
        covered = bytes((self.magic, attributes))
        if self._format.has_timestamps:
            covered += timestamp.to_bytes(8, "big", signed=True)
        for part in (key, value):
            covered += (-1 if part is None else len(part)).to_bytes(4, "big", signed=True)
            covered += part or b""
        from zlib import crc32

        head = offset.to_bytes(8, "big", signed=True) + (size - 12).to_bytes(4, "big")
        self._keep(head + crc32(covered).to_bytes(4, "big") + covered)

    def _keep(self, piece: bytes | bytearray) -> None:
        self._size += len(piece)
        if self.codec:
            self._plain += piece

    def summarize(self) -> WrittenEntries:
        """Say what was written; without a record nothing is."""
        if not self.count:
            return WrittenEntries(0, 0, 0)
        if self._format.is_legacy and not self.codec:
            return WrittenEntries(self.count, self._size, self._largest)
        size = compute_packed_size(self.codec, bytes(self._plain)) if self.codec else self._size
        size += self._format.smallest_size if self._format.is_legacy else BATCH_OVERHEAD_V2
        return WrittenEntries(1, size, size)


def _part(view: memoryview, position: int, size: int) -> memoryview | None:
    return None if size < 0 else view[position : position + size]

"""Decode record batches: entries with a header of their own, since magic 2 (F20-F28)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, overload

from kdump import kernels
from kdump.kernels import reasons
from kdump.kernels.varints import varint
from kdump.record.layout import CODEC_MASK

if TYPE_CHECKING:
    from kdump.kernels.columns import RecordBatches
    from kdump.record.decoded_part import DecodedPart

Header = tuple[bytes, bytes | None]
_MANY_HEADERS = 512


def read(
    data: bytes | bytearray | memoryview,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    limit: int,
    max_records: int,
) -> Iterator[DecodedPart]:
    """Yield the records of the batch in `data[start:end]`, decompressing it first where needed.

    A batch with codec bits but no records is never opened (F26, F27).
    """
    from kdump.record.decoded_part import DecodedPart, empty_piece

    position = start + batches.format(index).header_size
    codec = batches.attributes(index) & CODEC_MASK
    count = batches.records_count(index)
    failure, detail = reasons.END, ""
    if codec and count:
        from kdump.record import compression

        plain = compression.decompress(codec, memoryview(data)[position:end], limit)
        if plain.data is None:
            yield empty_piece(b"", plain.reason, plain.detail)
            return
        data, position, end = plain.data, 0, len(plain.data)
        failure, detail = plain.reason, plain.detail
    done = 0
    while True:
        records, stop, reason = kernels.decode_records(
            data, position, end, batches, index, done, max_records
        )
        if reason != reasons.FULL and failure:
            # What came out before the codec gave up is shown; why it ends is the codec's word.
            reason = failure
        yield DecodedPart(data, records, reason, stop, detail if reason == failure else "")
        if reason != reasons.FULL:
            return
        done += records.count
        position = stop


def headers_of(data: memoryview, position: int, count: int, end: int) -> Sequence[Header]:
    """Return `count` record headers that a kernel found sound, from their first byte on (F24).

    `end` is where the record ends. Two bytes may be a header, and as an object it takes a hundred:
    very many are read anew from a copy of their bytes each time they are gone over.
    """
    if count > _MANY_HEADERS:
        return Headers(bytes(data[position:end]), count)
    return tuple(_headers(data, position, count))


class Headers(Sequence[Header]):
    """Very many headers, as their bytes."""

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Header]:
        return _headers(memoryview(self._data), 0, self._count)

    @overload
    def __getitem__(self, index: int) -> Header: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Header, ...]: ...

    def __getitem__(self, index: int | slice) -> Header | tuple[Header, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        return next(islice(self, range(self._count)[index], None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def _headers(data: memoryview, position: int, count: int) -> Iterator[Header]:
    end = len(data)
    for _ in range(count):
        size = data[position]
        if size < 0x80:  # as nearly always: one byte
            size >>= 1
            position += 1
        else:
            size, position = varint(data, position, end)
        key = bytes(data[position : position + size]) if size else b""
        position += size
        size = data[position]
        if size < 0x80:
            size = size >> 1 ^ -(size & 1)
            position += 1
        else:
            size, position = varint(data, position, end)
        value = None
        if size >= 0:
            value = bytes(data[position : position + size])
            position += size
        yield key, value

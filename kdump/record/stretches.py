"""Decode the entries of a run, many in each call of the kernel.

Compressed batches are opened some at a time and laid out one behind the other, so that the kernel
takes them as it takes those that never were compressed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.record.layout import CODEC_MASK, LARGEST_HEADER
from kdump.tuples import NamedTuple

Data = bytes | bytearray | memoryview

_NOT_OPENED = c.WRAPPER | c.CONTROL | c.CRC_BAD | c.TOO_SMALL | c.CODEC_UNKNOWN
_OPENED_BYTES = 1 << 20  # uncompressed: of one batch, and from where on no further one is opened
_LARGE = 1 << 16  # bytes of a batch that is likely to have more than that in it


class Stretch(NamedTuple):
    """Entries `first` to before `behind` of a run.

    `records` are theirs, in `data`. With a `reason` other than END that is what is wrong in the
    last one, whose good records are among them. None: it is one entry that was not decoded, being
    control, a wrapper, flagged or large, or a stream that does not open; `read_batch` takes such.
    """

    data: Data
    records: DecodedRecords | None
    first: int
    behind: int
    reason: int


def stretches(
    data: Data,
    base: int,
    batches: RecordBatches,
    *,
    limit: int,
    max_records: int,
    admitted: bytearray | None = None,
    wrappers: bool = False,
) -> Iterator[Stretch]:
    """Yield the entries of a run in order; none that is not `admitted` is opened.

    `limit` bounds the uncompressed bytes of a compressed entry, `max_records` the records of one
    stretch. `wrappers`: those in which all is sound are opened too.
    """
    row = 0
    opened: tuple[Data, int, RecordBatches] | None = None
    while row < batches.count:
        if admitted is not None:
            row = admitted.find(1, row)
            if row < 0:
                return
        if opened is not None and row >= opened[2].count:
            opened = None
        where = opened or (data, base, batches)
        records, behind, _, reason = kernels.decode_run(*where, row, max_records)
        if reason >= reasons.COUNT_NEGATIVE:
            behind += 1
            yield Stretch(where[0], records, row, behind, reason)
        elif behind > row:
            yield Stretch(where[0], records, row, behind, reasons.END)
        elif opened is None and (
            opened := _open(data, base, batches, row, limit, max_records, admitted)
        ):
            continue
        elif (
            wrappers
            and batches.is_wrapper(row)
            and (one := _inside(data, base, batches, row, limit, max_records, admitted))
        ):
            behind = one.behind
            yield one
        else:
            behind += 1
            yield Stretch(data, None, row, behind, reasons.END)
        row = behind


def _open(
    data: Data,
    base: int,
    batches: RecordBatches,
    first: int,
    limit: int,
    max_records: int,
    admitted: bytearray | None,
) -> tuple[Data, int, RecordBatches] | None:
    """Open batches from `first` on; return what decode_run takes, as if they were plain.

    None: the first is not sound. Headers are not looked at again, so what lies where they would be
    is the end of the text before.
    """
    from kdump.record.compression import decompress

    limit = min(limit, _OPENED_BYTES)
    view = memoryview(data)
    pieces: list[bytes | bytearray] = [bytes(LARGEST_HEADER)]
    size, behind, opened = LARGEST_HEADER, first, []
    while behind < batches.count and size < _OPENED_BYTES:
        flags, count = batches.flags_of(behind), batches.records_count(behind)
        size_bytes = batches.size_bytes(behind)
        if not flags & c.COMPRESSED or flags & _NOT_OPENED or not 0 < count <= max_records:
            break
        if size_bytes > _LARGE or (admitted is not None and not admitted[behind]):
            break
        at, header = batches.position(behind) - base, batches.format(behind).header_size
        packed = view[at + header : at + size_bytes]
        plain = decompress(batches.attributes(behind) & CODEC_MASK, packed, limit)
        if plain.data is None or plain.reason:
            break
        pieces.append(plain.data)
        opened.append((size - header, header + len(plain.data), flags & ~c.COMPRESSED))
        size += len(plain.data)
        behind += 1
    if behind == first:
        return None
    plain_batches = batches.slice(0, behind)
    for row, (position, size_bytes, flags) in enumerate(opened, first):
        plain_batches.put(row, position=position, size_bytes=size_bytes, flags=flags)
    return b"".join(pieces), 0, plain_batches


def _inside(
    data: Data,
    base: int,
    batches: RecordBatches,
    first: int,
    limit: int,
    max_records: int,
    admitted: bytearray | None,
) -> Stretch | None:
    """Open wrappers from `first` on and decode what is in them; None: the first is not sound."""
    from kdump.record.wrapper import open_wrapper

    texts: list[bytes | bytearray] = []
    bases, size, behind = [], 0, first
    while behind < batches.count and size < _OPENED_BYTES:
        wrong = batches.flags_of(behind) & (_NOT_OPENED & ~c.WRAPPER)
        if wrong or not batches.is_wrapper(behind) or batches.size_bytes(behind) > _LARGE:
            break
        if admitted is not None and not admitted[behind]:
            break
        one = open_wrapper(data, base, batches, behind, min(limit, _OPENED_BYTES))
        if one.reason:
            break
        texts.append(one.inner)
        bases.append(one.base)
        size += len(one.inner)
        behind += 1
    text, end = b"".join(texts), 0
    parts: list[DecodedRecords] = []
    for row, (inner, counted_from) in enumerate(zip(texts, bases, strict=True), first):
        start, end = end, end + len(inner)
        records, _, reason = kernels.decode_messages(
            text, start, end, batches, row, counted_from, max_records
        )
        max_records -= records.count
        if reason or records.flags & c.INNER_CRC_BAD:
            break
        parts.append(records)
    if not parts:
        return None
    return Stretch(text, DecodedRecords.join(parts), first, first + len(parts), reasons.END)

"""Dump `.kafka` files (0.6, 0.7): messages, entries, or annotated bytes.

An offset is a byte position here: that of the segment and that in the file, added (F1). All
messages of a wrapper share the offset where the wrapper starts (F4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading.damage import at_place, describe_undecoded
from kdump.findings.catalogue import GAPS
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchRow, HexText, Place, RecordChunk, RecordRow
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.record import bitflip
from kdump.record.layout import PRE08_SMALLEST
from kdump.record.pre08 import Entry, Message, attributes_size, codec_name, messages
from kdump.storage.pre08_records import Pre08Entry, Pre08Gap, Pre08Records, Pre08Run

if TYPE_CHECKING:
    from kdump.storage.source import Source

    Item = RecordChunk | RecordRow | BatchRow | HexText | Finding

RECORDS, BATCHES, HEX = "records", "batches", "hex"
_SHOWN_BYTES = 1 << 16  # of an entry too large to hold, under the glass
LARGE_BYTES = 1 << 16  # of a message that is given as a chunk


def pre08_items(
    source: Source,
    place: Place,
    *,
    mode: str,
    limit: int,
    from_offset: int | None = None,
    to_offset: int | None = None,
    in_chunks: bool = False,
    hex_width: int = 100,
) -> Iterator[Item]:
    """Yield what lies in a `.kafka` file, in order, and findings where something is wrong.

    `mode` is `records`, `batches` or `hex`. `limit` bounds the uncompressed bytes of an entry,
    and the largest entry held in memory, in bytes. Entries that start in
    [`from_offset`, `to_offset`) are shown; there is no index, so what lies before is walked over.
    A broken entry shows as its header, with `crc_valid` false, whatever the mode. `in_chunks`: all
    records are asked for, and plain ones given many at a time.
    `hex_width`: the columns that annotated bytes may take.
    """
    base = place.segment or 0
    for item in Pre08Records(source, limit=limit).runs(base if in_chunks else None):
        if isinstance(item, Pre08Run):
            written_by = _version(item.batches.magic(0))
            yield RecordChunk(place, item.data, item.batches, item.records, format=written_by)
            continue
        offset = base + item.position
        if to_offset is not None and offset >= to_offset:
            return
        # A gap is reported where any of it lies in the range, an entry where it starts there.
        reaches = offset if isinstance(item, Pre08Entry) else offset + item.size_bytes - 1
        if from_offset is not None and reaches < from_offset:
            continue
        if isinstance(item, Pre08Gap):
            yield from _gap(item, source, place, mode, hex_width)
        elif mode == HEX:
            yield HexText(place, item.position, _hex(item, source, limit, hex_width))
        elif mode == BATCHES:
            yield _batch_row(item.entry, item.position, place)
        else:
            yield from pre08_rows(item, place, limit)


def pre08_rows(found: Pre08Entry, place: Place, limit: int) -> Iterator[Item]:
    """Yield the messages of one sound entry, then why there are no more, if that is so."""
    entry, position = found.entry, found.position
    start = (place.segment or 0) + position
    if found.data is None:
        message = f"The entry of {found.size_bytes:,} bytes is too large to be held in memory."
        yield _about("over-decompress-limit", place, found, message=message)
        return
    count = sums_wrong = 0
    magics_unknown: set[int] = set()
    codec = codec_name(entry.codec)
    for item in messages(found.data, entry, limit, start - entry.position):
        if not isinstance(item, Message):
            reason, detail = item
            yield _undecodable(reason, detail, count, place, found)
            continue
        count += 1
        sums_wrong += not item.crc_valid
        if not item.known_magic:
            magics_unknown.add(item.magic)
        yield RecordRow(
            place.topic,
            place.partition,
            place.segment,
            position,
            item.magic,
            codec,
            start,  # timestamps, leaders, producers and keys are of later formats
            value=item.payload,
            format=_version(item.magic),
            next_offset=item.next_offset,
            crc_valid=None if item.crc_valid else False,
        )
    if sums_wrong:
        words = f"{sums_wrong:,} of {count:,} messages inside have a wrong checksum."
        yield _about("inner-crc-mismatch", place, found, message=words)
    if magics_unknown:
        yield _about("magic-unknown", place, found, actual=min(magics_unknown))


def in_chunk(row: RecordRow, place: Place) -> RecordChunk:
    """Give a message as a chunk, of which no sink makes a text in one piece."""
    magic, value, next_offset = row.magic, row.value or b"", row.next_offset or 0
    codec = next(codec for codec in range(4) if codec_name(codec) == row.codec)
    of_entry = row.position, 0, magic, codec, row.offset, next_offset, 1, 0, 0, *(-1,) * 6, 0, 0
    of_record = 0, 0, 0, row.offset, -1, 0, -1, 0, len(value), 0, 0, 0
    return RecordChunk(
        place,
        value,
        RecordBatches.from_rows(c.BATCH_WIDTH, [of_entry]),
        DecodedRecords.from_rows(c.RECORD_WIDTH, [of_record]),
        format=row.format,
    )


def _version(magic: int) -> str:
    return "0.7" if attributes_size(magic) else "0.6"


def _undecodable(reason: int, detail: str, count: int, place: Place, found: Pre08Entry) -> Finding:
    code, word, message = describe_undecoded(reason, detail, count)
    if reason == reasons.CODEC_UNKNOWN:  # no walk has looked at the codec before
        code, message = "codec-unknown", detail or None
    return _about(code, place, found, actual=word, message=message)


def _about(
    code: str, place: Place, found: Pre08Entry, *, actual: object = None, message: str | None = None
) -> Finding:
    return at_place(
        code,
        place,
        position=found.position,
        size_bytes=found.size_bytes,
        offset=(place.segment or 0) + found.position,
        actual=actual,
        message=message,
    )


def _gap(gap: Pre08Gap, source: Source, place: Place, mode: str, hex_width: int) -> Iterator[Item]:
    """Show what can be shown of a gap, then say what it is."""
    if mode == HEX:
        yield HexText(place, gap.position, _gap_hex(gap, source, hex_width))
    elif gap.entry is not None:
        yield _batch_row(gap.entry, gap.position, place)
    yield pre08_gap_finding(gap, source, place)


def pre08_gap_finding(gap: Pre08Gap, source: Source, place: Place) -> Finding:
    """Say what a gap is, and where to read on."""
    start = (place.segment or 0) + gap.position
    end = gap.position + gap.size_bytes
    code = GAPS[gap.reason]
    if gap.to_end and gap.reason == "cut-short":
        code = "torn-tail"
    if any(low < end and high > gap.position for low, high in source.unreadable):
        code = "unreadable"
    expected: object = None
    actual: object = None
    message: str | None = None
    if code == "crc-mismatch" and gap.entry is not None:
        expected, actual = gap.entry.computed_crc, gap.entry.crc
        message = _crc_words(gap, gap.entry)
    elif code == "magic-unknown" and gap.entry is not None:
        actual = gap.entry.magic
    elif code == "batch-length":
        expected = PRE08_SMALLEST
        message = "The length is below that of the smallest message."
    elif code == "torn-tail":
        message = f"The last {gap.size_bytes:,} bytes are an incomplete message."
    elif code == "batch-cut-short":
        message = (
            "By its length field, the message extends past the end of the file, yet others follow."
        )
    return at_place(
        code,
        place,
        position=gap.position,
        size_bytes=gap.size_bytes,
        offset=start,
        expected=expected,
        actual=actual,
        message=message,
        next_offset=None if gap.to_end else start + gap.size_bytes,
    )


def _crc_words(gap: Pre08Gap, entry: Entry) -> str:
    """Give both sums, and the one flipped bit that explains the difference, if one does."""
    words = f"stored {entry.crc:08x}, computed {entry.computed_crc:08x}."
    payload = gap.position + entry.payload - entry.position
    size = gap.position + entry.size_bytes - payload
    flip = bitflip.find_flip(entry.crc, entry.computed_crc, size, bitflip.CRC32_POLYNOMIAL)
    if flip is None:
        return words
    byte, bit = flip.place(payload, payload - 4)  # which follows the checksum
    return f"{words} One flipped bit explains it: bit {bit} of byte {byte:,}."


def _batch_row(entry: Entry, position: int, place: Place) -> BatchRow:
    offset = (place.segment or 0) + position
    return BatchRow(
        place.topic,
        place.partition,
        place.segment,
        position,
        entry.size_bytes,
        entry.magic,
        codec_name(entry.codec),
        offset,
        offset,
        None if entry.codec else 1,
        entry.crc,
        entry.crc_valid,
    )


def _hex(found: Pre08Entry, source: Source, limit: int, width: int) -> tuple[str, ...]:
    from kdump.engine.hex.dump import pre08_hex_lines

    entry = found.entry
    if found.data is None:
        large = source.read(found.position, _SHOWN_BYTES)
        return pre08_hex_lines(large, found.position, width=width)
    data = found.data[entry.position : entry.position + entry.size_bytes]
    return pre08_hex_lines(data, found.position, limit=limit, width=width)


def _gap_hex(gap: Pre08Gap, source: Source, width: int) -> tuple[str, ...]:
    from kdump.engine.hex.dump import gap_hex_lines, pre08_hex_lines

    data = source.read(gap.position, min(gap.size_bytes, _SHOWN_BYTES))
    if gap.entry is not None:
        return pre08_hex_lines(data, gap.position, width=width)
    return gap_hex_lines(data, gap.position, gap.size_bytes, gap.reason, width=width)

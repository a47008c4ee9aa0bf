"""Annotate the bytes of one log entry: every field, its position, value and meaning.

Decodes as far as it goes, whatever the bytes are; then a line says why it stopped, and the rest
follows as bytes. Nothing here raises on data. Unlike the kernels this reads field by field,
for one entry that a person asked to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.hex.lines import WIDTH, Lines
from kdump.engine.hex.messages import message, messages, open_packed, pre08_entry
from kdump.engine.hex.records import records
from kdump.findings.code import Show
from kdump.findings.finding import Finding
from kdump.findings.moments import time_text
from kdump.findings.rows import BatchChunk, HexText, Place
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import BatchHeader, RecordBatches
from kdump.kernels.members import codec_name, sequence_at
from kdump.record import bitflip, compression, layout
from kdump.values.secrets import is_of_metadata, redactor

if TYPE_CHECKING:
    from kdump.engine.reading.segment_reader import Item
    from kdump.storage.source import Source

DEFAULT_LIMIT = 64 << 20
_NOT_ABOVE = "✗ not above the offsets before"
_NO_MAGIC = "✗ not in any version"
_RAW_BYTES = 512  # of what is no entry

_HEADER_V2 = (
    ("baseOffset", 8),
    ("batchLength", 4),
    ("partitionLeaderEpoch", 4),
    ("magic", 1),
    ("crc", 4),
    ("attributes", 2),
    ("lastOffsetDelta", 4),
    ("baseTimestamp", 8),
    ("maxTimestamp", 8),
    ("producerId", 8),
    ("producerEpoch", 2),
    ("baseSequence", 4),
    ("recordsCount", 4),
)
assert sum(size for _, size in _HEADER_V2) == layout.BATCH_OVERHEAD_V2


def hex_items(
    source: Source,
    place: Place,
    items: Iterable[Item],
    limit: int,
    *,
    secrets: bool = False,
    width: int = WIDTH,
) -> Iterator[HexText | Finding]:
    """Yield the bytes of each entry whose header comes by, and of what has none.

    `limit` bounds what is read of one entry, and its uncompressed bytes. Without `secrets` those of
    the metadata log are hidden.
    """
    hidden = None if secrets else place
    for item in items:
        if isinstance(item, BatchChunk):
            rows = range(item.batches.count) if item.rows is None else item.rows
            for row in rows:
                header = item.batches.slice(row, row + 1)
                position, size = header.position(0), header.size_bytes(0)
                data = source.read(position, min(size, limit))
                lines = hex_lines(
                    data, position, header=header, limit=limit, hidden=hidden, width=width
                )
                yield HexText(item.place, position, lines)
        elif isinstance(item, Finding):
            if item.entry.show is Show.RAW and item.position is not None:
                size = item.size_bytes or 0
                data = source.read(item.position, min(size, _RAW_BYTES))
                lines = gap_hex_lines(
                    data, item.position, size, item.code, hidden=hidden, width=width
                )
                yield HexText(place, item.position, lines)
            yield item


def hex_lines(
    data: bytes | bytearray | memoryview,
    position: int,
    *,
    header: RecordBatches,
    limit: int = DEFAULT_LIMIT,
    hidden: Place | None = None,
    width: int = WIDTH,
) -> tuple[str, ...]:
    """Annotate one entry that starts at file position `position` and whose bytes are `data[0:]`.

    `header` is its row of batch columns, sums checked. `data` may hold less than the entry, or
    more. `limit` bounds the uncompressed bytes of a compressed entry. Secrets that a log of the
    place `hidden` may have are asterisks.
    """
    view = memoryview(data).cast("B")
    if not header.count:
        return gap_hex_lines(data, position, len(view), "no entry", hidden=hidden, width=width)
    row = header.header(0)
    size = row.size_bytes
    lines = _lines(size, hidden, width)
    kind = "record batch" if not row.is_legacy else "message"
    if row.flags & c.WRAPPER:
        kind = "wrapper"
    lines.text(f"position {position:,} · {size:,} bytes · {kind} of magic {row.magic}")
    view = view[:size]
    if not row.is_legacy:
        _batch(lines, view, row, limit)
    else:
        _legacy(lines, view, row, limit)
    if len(view) < size:
        lines.text(f"… only {len(view):,} of the entry's {size:,} bytes were read")
    return tuple(lines.lines)


def gap_hex_lines(
    data: bytes | bytearray | memoryview,
    position: int,
    size_bytes: int,
    reason: str,
    *,
    hidden: Place | None = None,
    width: int = WIDTH,
) -> tuple[str, ...]:
    """Show the first bytes of a gap in which not even a header could be read."""
    lines = _lines(size_bytes, hidden, width)
    view = memoryview(data).cast("B")[: max(size_bytes, 0)]
    lines.text(f"position {position:,} · {size_bytes:,} bytes · not an entry: {reason}")
    if reason != "zeros":
        lines.write_rest(0, view)
        if len(view) < size_bytes:
            lines.text(f"… only {len(view):,} of {size_bytes:,} bytes were read")
    return tuple(lines.lines)


def pre08_hex_lines(
    data: bytes | bytearray | memoryview,
    position: int,
    *,
    limit: int = DEFAULT_LIMIT,
    width: int = WIDTH,
) -> tuple[str, ...]:
    """Annotate one entry of a `.kafka` file (0.6, 0.7); its checksum is computed here."""
    view = memoryview(data).cast("B")
    size = 4 + int.from_bytes(view[:4], "big", signed=True)
    lines = Lines(max(size, len(view)), width=width)
    lines.text(f"position {position:,} · {size:,} bytes · message of 0.6 or 0.7")
    pre08_entry(lines, view, 0, len(view), [limit])
    return tuple(lines.lines)


def _lines(size_bytes: int, hidden: Place | None, width: int) -> Lines:
    lines = Lines(size_bytes, width=width)
    if hidden is not None:
        lines.redact, lines.hides_rest = redactor(hidden), is_of_metadata(hidden)
    return lines


def _batch(lines: Lines, view: memoryview, row: BatchHeader, limit: int) -> None:
    """Write a v2 batch: the header's fields, then the records."""
    at = 0
    values: dict[str, int] = {}
    for name, size in _HEADER_V2:
        if at + size > len(view):
            lines.stop(at, "the bytes end inside the header", view[at:])
            return
        raw = view[at : at + size]
        value = values[name] = int.from_bytes(raw, "big", signed=name != "crc")
        shown = f"{value:08x}" if name == "crc" else f"{value:,}"
        if name == "attributes":
            shown = f"{value & 0xFFFF:04x}"
        elif name.endswith("Timestamp"):
            shown = str(value)
        lines.field(at, raw, name, shown, _batch_remark(lines, name, values, row))
        if name == "crc":
            _write_bit_flip(lines, row)
        at += size
    codec = values["attributes"] & layout.CODEC_MASK
    if not codec:
        records(lines, view, at, len(view), values)
    elif not values["recordsCount"]:
        lines.text("The batch is empty, so brokers do not open what follows.")
        lines.write_rest(at, view[at:])
    else:
        text = open_packed(lines, codec_name(codec), codec, view, (at, len(view)), limit)
        if text is not None:
            inside = lines.enter(len(text.data))
            records(inside, text.data, 0, len(text.data), values)
            text.say_end(inside)


def _batch_remark(lines: Lines, name: str, values: dict[str, int], row: BatchHeader) -> str:
    """Say what a field of the header means, or what is wrong with it."""
    value, flags = values[name], row.flags
    attributes = values.get("attributes", 0)
    if name == "baseOffset":
        return _NOT_ABOVE if flags & c.OFFSET_NOT_RISING else ""
    if name == "partitionLeaderEpoch":
        return "outside the checksum"
    if name == "magic":
        return _NO_MAGIC if flags & c.MAGIC_UNKNOWN else ""
    if name == "crc":
        return _crc_remark(lines, row)
    if name == "attributes":
        return _attributes_words(value & 0xFFFF, row)
    if name == "lastOffsetDelta":
        return f"last offset {values['baseOffset'] + value:,}"
    if name == "baseTimestamp":
        kind = "delete horizon " if attributes & layout.DELETE_HORIZON_BIT else ""
        return kind + time_text(value)
    if name == "maxTimestamp":
        return time_text(value)
    if name == "baseSequence" and value >= 0:
        return f"last sequence {sequence_at(value, values['lastOffsetDelta']):,}"
    if name == "recordsCount" and flags & c.DELTA_COUNT:
        return "✗ impossible with this lastOffsetDelta"
    return ""


def _attributes_words(attributes: int, row: BatchHeader) -> str:
    """Spell out the attribute bits of a v2 batch (F21)."""
    words = [codec_name(attributes)]
    if row.flags & c.CODEC_UNKNOWN:
        words = [f"✗ {words[0]}"]
    words.append("LogAppendTime" if attributes & layout.TIMESTAMP_TYPE_BIT else "CreateTime")
    for bit, word in (
        (layout.TRANSACTIONAL_BIT, "transactional"),
        (layout.CONTROL_BIT, "control"),
        (layout.DELETE_HORIZON_BIT, "delete horizon"),
    ):
        if attributes & bit:
            words.append(word)
    if unused := attributes & ~row.format.meant_bits:
        words.append(f"unused bits {unused:04x}")
    return ", ".join(words)


def _crc_remark(lines: Lines, row: BatchHeader) -> str:
    over = f"over {lines.at(row.format.crc_start)}…{lines.at(row.size_bytes)}"
    if row.flags & c.CRC_BAD:
        if row.flags & c.TOO_SMALL:
            return "✗ the entry is smaller than its header"
        return f"✗ computed {row.computed_crc:08x} {over}"
    return f"✓ {over}"


def _write_bit_flip(lines: Lines, row: BatchHeader) -> None:
    """Name the one flipped bit that explains a wrong checksum, if one does."""
    start = row.format.crc_start
    covered = row.size_bytes - start
    if not row.flags & c.CRC_BAD or row.flags & c.TOO_SMALL or covered <= 0:
        return
    polynomial = bitflip.POLYNOMIALS[row.format.crc_kind]
    flip = bitflip.find_flip(row.crc, row.computed_crc, covered, polynomial)
    if flip is not None:
        at, bit = flip.place(start, row.format.crc_position)
        lines.text(f"✗ one flipped bit explains it: {lines.at(at)} bit {bit}")


def _legacy(lines: Lines, view: memoryview, row: BatchHeader, limit: int) -> None:
    """Write a v0 or v1 entry, and what is inside if it is a wrapper."""
    value = message(
        lines,
        view,
        0,
        len(view),
        read=row.format,
        offset_remark=_NOT_ABOVE if row.flags & c.OFFSET_NOT_RISING else "",
        crc_remark=_crc_remark(lines, row),
        magic_remark=_NO_MAGIC if row.flags & c.MAGIC_UNKNOWN else "",
    )
    _write_bit_flip(lines, row)
    if value is None or not row.flags & c.WRAPPER:
        return
    codec = row.attributes & layout.CODEC_MASK
    if codec == compression.ZSTD:
        lines.stop(value[0], reasons.NAMES[reasons.ZSTD_IN_LEGACY], view[slice(*value)])
        return
    text = open_packed(
        lines,
        codec_name(codec),
        codec,
        view,
        value,
        limit,
        broken_lz4_header=row.format.lz4_header_wrong,
    )
    if text is None:
        return
    inside = lines.enter(len(text.data))
    if len(text.data) or not text.words:
        is_appended = row.format.has_timestamps and row.attributes & layout.TIMESTAMP_TYPE_BIT
        append_ms = row.max_timestamp if is_appended else None
        messages(inside, text.data, row.last_offset, row.layout, append_ms)
    text.say_end(inside)

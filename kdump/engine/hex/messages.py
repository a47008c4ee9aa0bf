"""Annotate messages of magic 0 and 1 (F6-F17) and of 0.7 (F2), field by field."""

from __future__ import annotations

from kdump import kernels
from kdump.engine.hex.lines import Lines
from kdump.engine.hex.records import MAX_RECORDS, DecodeStop
from kdump.findings.moments import time_text
from kdump.kernels import reasons
from kdump.kernels.members import codec_name
from kdump.record import compression, layout, pre08
from kdump.tuples import NamedTuple

_CRC_SIZE = 4
_PACKED_BYTES = 64


class PlainBytes(NamedTuple):
    """Uncompressed bytes, and in words why it ends early, if it does."""

    data: memoryview
    words: str

    def say_end(self, lines: Lines) -> None:
        """Say behind what was decoded that the codec gave up there."""
        if self.words:
            lines.stop(len(self.data), self.words)


def open_packed(
    lines: Lines,
    name: str,
    codec: int,
    view: memoryview,
    span: tuple[int, int],
    limit: int,
    *,
    broken_lz4_header: bool = False,
) -> PlainBytes | None:
    """Describe the codec stream in `span` of the view and open it; None where nothing came out."""
    start, end = span
    packed = view[start:end]
    opened = compression.decompress(codec, packed, limit, broken_lz4_header=broken_lz4_header)
    words = ""
    if opened.reason:
        word = reasons.NAMES[opened.reason]
        words = f"{word}: {opened.detail}" if opened.detail else word
    size = f"{len(opened.data):,} bytes" if opened.data is not None else "nothing"
    lines.text(f"compressed with {name}: {len(packed):,} bytes → {size}")
    if lines.hides_rest:
        lines.write_rest(start, packed)
    else:
        lines.rows(start, packed[:_PACKED_BYTES])
    if len(packed) > _PACKED_BYTES and not lines.hides_rest:
        lines.text(f"… {len(packed) - _PACKED_BYTES:,} more compressed bytes")
    if opened.data is None:
        lines.stop(start, words)
        return None
    lines.text(f"uncompressed, {len(opened.data):,} bytes (= marks positions in them):")
    return PlainBytes(memoryview(opened.data), words)


def message(
    lines: Lines,
    view: memoryview,
    start: int,
    end: int,
    *,
    read: layout.Format,
    offset_remark: str,
    crc_remark: str,
    magic_remark: str,
    append_ms: int | None = None,
) -> tuple[int, int] | None:
    """Write the entry in `view[start:end]`; `append_ms` is the time that its wrapper sets.

    The value of a wrapper is not written but returned as (first byte, byte behind it); None where
    there is no such value, or where decoding stopped, which is then said.
    """
    fields = [("offset", 8), ("size", 4), ("crc", 4), ("magic", 1), ("attributes", 1)]
    if read.has_timestamps:
        fields.append(("timestamp", 8))
    at = start
    attributes = 0
    try:
        for name, size in fields:
            if at + size > end:
                raise DecodeStop(at, reasons.INNER_SIZE)
            raw = view[at : at + size]
            value = int.from_bytes(raw, "big", signed=name not in ("crc", "attributes"))
            shown, remark = f"{value:,}", ""
            if name == "offset":
                remark = offset_remark
            elif name == "crc":
                shown, remark = f"{value:08x}", crc_remark
            elif name == "magic":
                remark = magic_remark
            elif name == "attributes":
                attributes = value
                shown, remark = f"{value:02x}", _attributes_words(value, read)
            elif name == "timestamp":
                shown, remark = str(value), time_text(value)
                if append_ms is not None:
                    remark = f"not used: the append time is the wrapper's, {time_text(append_ms)}"
            lines.field(at, raw, name, shown, remark)
            at += size
        _, at = _write_sized(lines, view, at, end, "key", reasons.KEY_LENGTH)
        packed = attributes & layout.CODEC_MASK != 0
        found, at = _write_sized(lines, view, at, end, "value", reasons.VALUE_LENGTH, hidden=packed)
    except DecodeStop as stopped:
        at = stopped.position
        lines.stop(at, reasons.NAMES[stopped.reason], view[at:end])
        return None
    if at < end:
        lines.text("Bytes after the value, which brokers ignore:")
        lines.write_rest(at, view[at:end])
    if packed and found is None:
        lines.stop(at, reasons.NAMES[reasons.VALUE_NULL])
    return found if packed else None


def _write_sized(
    lines: Lines,
    view: memoryview,
    at: int,
    end: int,
    name: str,
    reason: int,
    *,
    hidden: bool = False,
) -> tuple[tuple[int, int] | None, int]:
    """Write a length and that many bytes: (where they lie or None for null, position behind)."""
    if at + 4 > end:
        raise DecodeStop(at, reason)
    size = int.from_bytes(view[at : at + 4], "big", signed=True)
    lines.field(at, view[at : at + 4], f"{name}Length", "null" if size < 0 else f"{size:,}")
    at += 4
    if size < 0:
        return None, at
    if size > end - at:
        raise DecodeStop(at, reason)
    if size and not hidden:
        lines.data(at, view[at : at + size], name)
    return (at, at + size), at + size


def _attributes_words(attributes: int, read: layout.Format) -> str:
    words = [codec_name(attributes)]
    if read.has_timestamps:
        words.append("LogAppendTime" if attributes & layout.TIMESTAMP_TYPE_BIT else "CreateTime")
    return ", ".join(words)


def messages(
    lines: Lines,
    view: memoryview,
    wrapper_offset: int,
    wrapper_layout: int,
    append_ms: int | None = None,
) -> None:
    """Write the messages inside a wrapper, from its uncompressed bytes (F13-F17).

    `append_ms` is the wrapper's time where that is when it was appended, and so that of each.
    """
    end = len(view)
    base, _, count, reason = kernels.inner_base(view, 0, end, wrapper_offset, wrapper_layout)
    if reason in (reasons.INNER_EMPTY, reasons.WRAPPER_OFFSET):
        lines.stop(0, reasons.NAMES[reason])
    at = number = 0
    while at < end:
        if number == MAX_RECORDS or lines.full:
            lines.text(f"… {count - number:,} more messages, {end - at:,} bytes")
            return
        number += 1
        left = end - at
        size = int.from_bytes(view[at + 8 : at + 12], "big", signed=True)
        reason = reasons.END
        if left < layout.LOG_OVERHEAD:
            reason = reasons.INNER_CUT_SHORT
        elif size < layout.SMALLEST_MESSAGE:
            reason = reasons.INNER_SIZE
        elif size > left - layout.LOG_OVERHEAD:
            reason = reasons.INNER_CUT_SHORT
        if reason:
            lines.stop(at, reasons.NAMES[reason], view[at:end])
            return
        behind = at + layout.LOG_OVERHEAD + size
        lines.text(f"message {number:,} of {count:,}")
        _inner(lines, view, at, behind, base, append_ms)
        at = behind


def _inner(
    lines: Lines, view: memoryview, at: int, behind: int, base: int, append_ms: int | None
) -> None:
    stored = int.from_bytes(view[at + 12 : at + 16], "big")
    computed = kernels.crc32(view, at + 16, behind)
    offset = base + int.from_bytes(view[at : at + 8], "big", signed=True)
    read = layout.message_format(view[at + 16])
    found = message(
        lines,
        view,
        at,
        behind,
        read=read,
        offset_remark=f"offset {offset:,}",
        crc_remark="✓" if stored == computed else f"✗ computed {computed:08x}",
        magic_remark="" if read.magic == view[at + 16] else "✗ not in any message",
        append_ms=append_ms,
    )
    if found is not None:
        lines.stop(found[0], reasons.NAMES[reasons.INNER_COMPRESSED], view[slice(*found)])


def pre08_entry(
    lines: Lines, view: memoryview, at: int, end: int, left: list[int], depth: int = 0
) -> int:
    """Write the 0.6 or 0.7 entry at `at`, wrappers opened; return the position behind it, -1: none.

    `left` holds how many uncompressed bytes may still be made.
    """
    entry, reason = pre08.read_entry(view, at, end)
    if entry is None:
        if reason != reasons.END:
            lines.stop(at, reasons.NAMES[reason], view[at:end])
        return -1
    behind = at + entry.size_bytes
    lines.field(at, view[at : at + 4], "length", f"{entry.size_bytes - 4:,}")
    at += 4
    version = ("0.6", "0.7")[entry.magic] if entry.known_magic else "✗ not in any version"
    lines.field(at, view[at : at + 1], "magic", str(entry.magic), version)
    at += 1
    if pre08.attributes_size(entry.magic):
        words = pre08.codec_name(entry.codec)
        lines.field(at, view[at : at + 1], "attributes", f"{entry.attributes:02x}", words)
        at += 1
    verdict = "✓ over the payload" if entry.crc_valid else f"✗ computed {entry.computed_crc:08x}"
    lines.field(at, view[at : at + _CRC_SIZE], "crc", f"{entry.crc:08x}", verdict)
    payload = view[entry.payload : behind]
    if not entry.codec:
        if len(payload):
            lines.data(entry.payload, payload, "payload")
        return behind
    _pre08_inside(lines, entry, view, left, depth)
    return behind


def _pre08_inside(
    lines: Lines, entry: pre08.Entry, view: memoryview, left: list[int], depth: int
) -> None:
    """Open a wrapper of 0.7 and write what is inside."""
    name = pre08.codec_name(entry.codec)
    span = (entry.payload, entry.position + entry.size_bytes)
    unknown = name.startswith("unknown")
    if unknown or depth >= pre08.MAX_DEPTH:
        reason = reasons.CODEC_UNKNOWN if unknown else reasons.INNER_COMPRESSED
        lines.stop(span[0], reasons.NAMES[reason], view[slice(*span)])
        return
    text = open_packed(lines, name, entry.codec, view, span, left[0])
    if text is None:
        return
    end = len(text.data)
    left[0] -= end
    inside = lines.enter(end)
    at = number = 0
    while 0 <= at < end:
        if number == MAX_RECORDS or lines.full:
            lines.text(f"… {end - at:,} more bytes of messages")
            break
        number += 1
        lines.text(f"message {number:,}" + (f" at depth {depth + 1}" if depth else ""))
        at = pre08_entry(inside, text.data, at, end, left, depth + 1)
    text.say_end(inside)

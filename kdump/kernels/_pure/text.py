"""Write records and batches as JSON Lines."""

from __future__ import annotations

import codecs
from binascii import b2a_base64
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels._pure.layout import MAX_SEQUENCE, Bad, view_of
from kdump.kernels._pure.records import batch_row, marker_of, read_header
from kdump.kernels.columns import Columns, DecodedRecords, RecordBatches
from kdump.kernels.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    format_at,
    int64,
    message_format,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.kernels._pure.layout import Data, Row, Rows, Write

_PIECE = 1 << 18
_BLOCK = 3 << 14  # of a long value; a multiple of 3, so that base64 needs no padding inside
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown-5", "unknown-6", "unknown-7")
_TYPES = ('"CreateTime"', '"LogAppendTime"')

# What a terminal might act on: controls, line and paragraph separators, direction marks.
_ESCAPES = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
}
_ESCAPES.update({8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"})


class _Out:
    """Collects output and hands it on in pieces."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.parts: list[bytes] = []
        self.size = 0

    def put(self, text: str) -> None:
        part = text.encode()
        self.parts.append(part)
        self.size += len(part)
        if self.size >= _PIECE:
            self.flush()

    def flush(self) -> None:
        if self.parts:
            self.write(b"".join(self.parts))
            self.parts.clear()
            self.size = 0


def _put_bytes(out: _Out, piece: memoryview, mode: int) -> None:
    """Write bytes as a JSON string (or the base64 object of BYTES_AUTO), block by block."""
    if mode == c.BYTES_AUTO:
        mode = c.BYTES_UTF8 if _is_utf8(piece) else -1
    blocks = (piece[at : at + _BLOCK] for at in range(0, len(piece), _BLOCK))
    out.put('{"base64":"' if mode == -1 else '"')
    if mode == c.BYTES_UTF8:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for block in blocks:
            out.put(decoder.decode(block).translate(_ESCAPES))
        out.put(decoder.decode(b"", final=True))
    elif mode == c.BYTES_HEX:
        for block in blocks:
            out.put(block.hex())
    else:
        for block in blocks:
            out.put(b2a_base64(block, newline=False).decode())
    out.put('"}' if mode == -1 else '"')


def _is_utf8(piece: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(piece), _BLOCK):
            decoder.decode(piece[at : at + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def span_of(view: memoryview, position: int, size: int) -> memoryview | None:
    """Return `size` bytes from `position` on; None for null and for what is not inside."""
    if size < 0 or position < 0 or size > len(view) - position:
        return None
    return view[position : position + size]


def row_numbers(columns: Columns, rows: Rows) -> Sequence[int]:
    if rows is None:
        return range(columns.count)
    for row in rows:
        if not 0 <= row < columns.count:
            raise IndexError(row)
    return rows


def _number(value: int, present: bool) -> str:
    return str(value) if present else "null"


def sequence_at(batch: Row, delta: int) -> int:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    base = batch[c.B_BASE_SEQUENCE]
    return -1 if base < 0 else (base + delta) & MAX_SEQUENCE


def has_time(batch: Row, flags: int) -> bool:
    """Say whether a record has a timestamp: its own magic decides inside a wrapper (F10, F15)."""
    read = format_at(batch[c.B_LAYOUT])
    if read.is_legacy and batch[c.B_FLAGS] & c.WRAPPER:
        read = message_format(flags >> c.INNER_MAGIC_SHIFT & 3)
    return read.has_timestamps


def format_records(
    write: Write,
    data: Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: Rows,
    head: bytes,
    bytes_mode: int,
) -> int:
    """Write `record` rows as JSON Lines and return how many.

    `data` is what the records were decoded from; `rows` the row numbers wanted (None: all); `head`
    the JSON text of the members that are the same in all of them, without braces. `write` gets
    pieces of bytes, none much above 256 KiB: a long value comes in several, so that memory stays
    bounded.

    Members after the head: those of the schema of rows, RECORD; `control` is null but where the
    flag MARKER is set. What a format does not have is null; what it has is written as stored, so -1
    stays -1. Header keys are strings under BYTES_AUTO too.

    Escaped are, besides what JSON asks for, U+007F to U+009F, U+2028, U+2029 and the direction
    marks, since text from a log is hostile to terminals.
    """
    view = view_of(data)
    numbers = row_numbers(records, rows)
    out = _Out(write)
    start = '{"row":"record",' + (head.decode() + "," if head else "")
    key_mode = c.BYTES_UTF8 if bytes_mode == c.BYTES_AUTO else bytes_mode
    batch: Row = ()
    batch_at = -1
    for number in numbers:
        record = records.row(number)
        if record[c.R_BATCH] != batch_at:
            batch = batch_row(batches, record[c.R_BATCH])
            batch_at = record[c.R_BATCH]
        out.put(start + _record_members(batch, record))
        out.put(f',"control":{control_text(view, record) or "null"}')
        for name, at in ((',"key":', c.R_KEY), (',"value":', c.R_VALUE)):
            piece = span_of(view, record[at], record[at + 1])
            out.put(name)
            if piece is None:
                out.put("null")
            else:
                _put_bytes(out, piece, bytes_mode)
        out.put(',"headers":[')
        separator = ""
        for key, key_size, value, value_size in headers_of(view, record):
            out.put(separator + '{"key":')
            _put_bytes(out, view[key : key + key_size], key_mode)
            out.put(',"value":')
            if value_size < 0:
                out.put("null")
            else:
                _put_bytes(out, view[value : value + value_size], bytes_mode)
            out.put("}")
            separator = ","
        out.put("]}\n")
    out.flush()
    return len(numbers)


def _record_members(batch: Row, record: Row) -> str:
    attributes = batch[c.B_ATTRIBUTES]
    read = format_at(batch[c.B_LAYOUT])
    led, produced = read.has_leader_epoch, read.has_producer_fields
    timed = has_time(batch, record[c.R_FLAGS])
    kind = _TYPES[bool(attributes & TIMESTAMP_TYPE_BIT)]
    if not (timed and read.has_timestamps):
        kind = "null"
    sequence = sequence_at(batch, int64(record[c.R_OFFSET] - batch[c.B_BASE_OFFSET]))
    transactional = "true" if attributes & read.meant_bits & TRANSACTIONAL_BIT else "false"
    return (
        f'"position":{batch[c.B_POSITION]},"magic":{batch[c.B_MAGIC]}'
        f',"codec":"{_CODECS[attributes & CODEC_MASK]}"'
        f',"offset":{record[c.R_OFFSET]}'
        f',"timestamp_ms":{_number(record[c.R_TIMESTAMP], timed)}'
        f',"timestamp_type":{kind}'
        f',"leader_epoch":{_number(batch[c.B_LEADER_EPOCH], led)}'
        f',"producer_id":{_number(batch[c.B_PRODUCER_ID], produced)}'
        f',"producer_epoch":{_number(batch[c.B_PRODUCER_EPOCH], produced)}'
        f',"sequence":{_number(sequence, produced)}'
        f',"transactional":{transactional}'
    )


def control_text(view: memoryview, record: Row) -> str:
    """Write what a record with the flag MARKER says, as JSON; nothing of others."""
    marker = marker_of(view, record) if record[c.R_FLAGS] & c.MARKER else None
    if marker is None:
        return ""
    kind, version, epoch = marker
    return f'{{"type":"{kind}","version":{version},"coordinator_epoch":{epoch}}}'


def headers_of(view: memoryview, record: Row) -> Iterator[tuple[int, int, int, int]]:
    """Yield the headers of a decoded record: (key, size, value, size or -1)."""
    if span_of(view, record[c.R_POSITION], record[c.R_SIZE]) is None:
        return
    end = record[c.R_POSITION] + record[c.R_SIZE]
    at = record[c.R_HEADERS]
    if not 0 <= at <= end:
        return
    for _ in range(record[c.R_HEADERS_COUNT]):
        try:
            key, key_size, value, value_size, at = read_header(view, at, end)
        except Bad:
            return
        yield key, key_size, value, value_size


def format_batches(write: Write, batches: RecordBatches, rows: Rows, head: bytes) -> int:
    """Write `batch` rows as JSON Lines and return how many; arguments as in format_records.

    Members after the head: those of the schema of rows, BATCH. base_offset and records_count of a
    wrapper are null while RECORDS_COUNT is negative. base_timestamp_ms is null where the field
    holds the delete horizon (F21).
    """
    numbers = row_numbers(batches, rows)
    out = _Out(write)
    start = '{"row":"batch",' + (head.decode() + "," if head else "")
    for number in numbers:
        out.put(start + _batch_members(batches.row(number)))
    out.flush()
    return len(numbers)


def _batch_members(batch: Row) -> str:
    attributes, flags = batch[c.B_ATTRIBUTES], batch[c.B_FLAGS]
    read = format_at(batch[c.B_LAYOUT])
    led, produced, timed = read.has_leader_epoch, read.has_producer_fields, read.has_timestamps
    meant = attributes & read.meant_bits
    known = not (flags & c.WRAPPER and batch[c.B_RECORDS_COUNT] < 0)
    horizon = bool(meant & DELETE_HORIZON_BIT)
    kind = _TYPES[bool(attributes & TIMESTAMP_TYPE_BIT)] if timed else "null"
    sequence = sequence_at(batch, int64(batch[c.B_LAST_OFFSET] - batch[c.B_BASE_OFFSET]))
    return (
        f'"position":{batch[c.B_POSITION]},"size_bytes":{batch[c.B_SIZE]}'
        f',"magic":{batch[c.B_MAGIC]},"codec":"{_CODECS[attributes & CODEC_MASK]}"'
        f',"base_offset":{_number(batch[c.B_BASE_OFFSET], known)}'
        f',"last_offset":{batch[c.B_LAST_OFFSET]}'
        f',"records_count":{_number(batch[c.B_RECORDS_COUNT], known)}'
        f',"crc":{batch[c.B_CRC]},"crc_valid":{"false" if flags & c.CRC_BAD else "true"}'
        f',"timestamp_type":{kind}'
        f',"base_timestamp_ms":{_number(batch[c.B_BASE_TIMESTAMP], timed and not horizon)}'
        f',"max_timestamp_ms":{_number(batch[c.B_MAX_TIMESTAMP], timed)}'
        f',"leader_epoch":{_number(batch[c.B_LEADER_EPOCH], led)}'
        f',"producer_id":{_number(batch[c.B_PRODUCER_ID], produced)}'
        f',"producer_epoch":{_number(batch[c.B_PRODUCER_EPOCH], produced)}'
        f',"base_sequence":{_number(batch[c.B_BASE_SEQUENCE], produced)}'
        f',"last_sequence":{_number(sequence, produced)}'
        f',"transactional":{"true" if meant & TRANSACTIONAL_BIT else "false"}'
        f',"control":{"true" if meant & CONTROL_BIT else "false"}'
        f',"delete_horizon_ms":{_number(batch[c.B_BASE_TIMESTAMP], horizon)}}}\n'
    )

"""Write records and batches as text, in any form."""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels._pure.layout import U32, view_of
from kdump.kernels._pure.records import batch_row, marker_of, read_header
from kdump.kernels._pure.spelling import Out, put_blocks, put_csv, put_java_text, put_json, speller
from kdump.kernels.columns import BatchHeader, Columns, DecodedRecords, RecordBatches
from kdump.kernels.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    LOG_OVERHEAD,
    SMALLEST_MESSAGE,
    TRANSACTIONAL_BIT,
    format_at,
    int64,
    message_format,
)
from kdump.kernels.members import MEMBERS, codec_name, members_of, sequence_at
from kdump.kernels.text_form import CSV, JSON, KAFKA, MOST_SHOWN, TABLE, Cell, TextForm, time_text
from kdump.kernels.varints import Bad

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.kernels._pure.layout import Data, Row, Rows, Write

_NUMBERS = frozenset(("offset", "timestamp_ms", "time", "sequence"))
#: What each record has for itself; other members are those of its batch.
_OF_RECORDS = _NUMBERS | {
    *("message_crc", "message_crc_valid", "key_size", "value_size"),
    *("key", "value", "headers", "header_names", "said", "note"),
    *("inner_crc_valid", "inner_codec"),
}


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


def has_time(batch: Row, flags: int) -> bool:
    """Say whether a record has a timestamp: its own magic decides inside a wrapper (F10, F15)."""
    read = format_at(batch[c.B_LAYOUT])
    if read.is_legacy and batch[c.B_FLAGS] & c.WRAPPER:
        read = message_format(flags >> c.INNER_MAGIC_SHIFT & 3)
    return read.has_timestamps


def _text(value: int | str | bool | None) -> bytes | None:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return None if value is None else str(value).encode()


def _render(
    cells: tuple[Cell, ...], batch: Row, timed: bool
) -> tuple[list[tuple[bytes, Cell]], bytes]:
    """Write all that an entry's header says of its rows, cut at what differs from row to row.

    Returns each of these cells with the text before it, and the text behind the last.
    """
    read = format_at(batch[c.B_LAYOUT])
    known = {"timestamp_ms": timed, "time": timed, "sequence": read.has_producer_fields}
    said = dict(zip(MEMBERS, members_of(BatchHeader._make(batch)), strict=True))
    if not timed:
        said["timestamp_type"] = None
    pieces = []
    text = b""
    for cell in cells:
        if cell.member not in _OF_RECORDS:
            value = _text(said[cell.member])
            text += cell.without if value is None else cell.before + value + cell.after
        elif cell.member not in _NUMBERS:
            pieces.append((text, cell))
            text = b""
        elif known.get(cell.member, True):
            pieces.append((text + cell.before, cell))
            text = cell.after
        else:
            text += cell.without
    return pieces, text


class _Rows:
    """Writes the rows of one call."""

    def __init__(
        self,
        out: Out,
        data: Data,
        batches: RecordBatches,
        records: DecodedRecords,
        form: TextForm,
        said: list[bytes] | None,
    ) -> None:
        self._out = out
        self._view = view_of(data)
        self._batches = batches
        self._records = records
        self._form = form
        self._said = said
        self._batch: Row = ()
        self._of: tuple[int, bool] = -1, False
        self._pieces: list[tuple[bytes, Cell]] = []
        self._end = b""
        is_json = form.style == JSON
        self._spell = speller(json=is_json, shown=form.shown, doubled=False)
        self._spell_headers = speller(json=True, shown=form.shown, doubled=form.style == CSV)

    def record(self, number: int) -> bool:
        """Write a record; False where a table leaves that to the caller."""
        record = self._records.row(number)
        at = record[c.R_BATCH]
        if at != self._of[0]:
            self._batch = batch_row(self._batches, at)
        timed = has_time(self._batch, record[c.R_FLAGS])
        if (at, timed) != self._of:
            self._of = at, timed
            legacy = format_at(self._batch[c.B_LAYOUT]).is_legacy
            cells = self._form.message if legacy else self._form.record
            self._pieces, self._end = _render(cells, self._batch, timed)
        put = self._out.put
        if self._form.style == TABLE:
            line = self._line(record)
            put(line)
            return line != b""
        for text, cell in self._pieces:
            if cell.member == "offset":
                put(b"%b%d" % (text, record[c.R_OFFSET]))
            elif cell.member == "timestamp_ms":
                put(b"%b%d" % (text, record[c.R_TIMESTAMP]))
            elif cell.member == "sequence":
                delta = int64(record[c.R_OFFSET] - self._batch[c.B_BASE_OFFSET])
                put(b"%b%d" % (text, sequence_at(self._batch[c.B_BASE_SEQUENCE], delta)))
            else:
                self._own(text, cell, record, number)
        put(self._end)
        return True

    def _line(self, record: Row) -> bytes:
        """Return a line of a table; nothing where a cell is not to be written here."""
        line = b""
        if record[c.R_FLAGS] & (c.MARKER | c.INNER_MARKS):
            return line
        for text, cell in self._pieces:
            shown = self._show(cell, record)
            if shown is None:
                return b""
            line += text + shown
        return line.rstrip(b" ") + b"\n"

    def _show(self, cell: Cell, record: Row) -> bytes | None:
        """Return a cell of a table, filled up or cut."""
        member = cell.member
        if member == "offset":
            text = str(record[c.R_OFFSET]).rjust(cell.width)
        elif member == "time":
            text = time_text(record[c.R_TIMESTAMP])
        elif member == "note":
            meant = format_at(self._batch[c.B_LAYOUT]).meant_bits
            notes = ["txn"] if self._batch[c.B_ATTRIBUTES] & meant & TRANSACTIONAL_BIT else []
            if record[c.R_HEADERS_COUNT] > 0:
                notes.append(f"{record[c.R_HEADERS_COUNT]}h")
            text = " ".join(notes)
        else:
            mode = c.BYTES_AUTO if _is_json(record, member) else self._form.bytes_mode
            piece = _piece(self._view, record, member)
            if not piece:
                return cell.without if piece is None else cell.after
            start = piece[: (cell.most // 3 + 1) * 3]  # base64 has no padding inside
            if len(start) > MOST_SHOWN or (len(piece) < 3 and piece[0] in b"?'"):
                return None  # it may look like a mark
            if mode == c.BYTES_HEX:
                text = start.hex()
            elif mode == c.BYTES_BASE64:
                text = b2a_base64(start, newline=False).decode()
            else:
                text = self._spell(str(start, "utf-8", "replace"))
        if not text.isascii() or (len(text) > cell.width and not cell.most):
            return None
        if len(text) > cell.most > 0:
            text = text[: cell.most - 1] + "…"
        before = b"" if member in _NUMBERS else cell.before
        return before + text.ljust(cell.width).encode()

    def _own(self, text: bytes, cell: Cell, record: Row, number: int) -> None:
        """Write a member that each record has for itself, or what stands there in its absence.

        `text` stands before it.
        """
        out, member = self._out, cell.member
        if member in ("key", "value"):
            piece = _piece(self._view, record, member)
            if self._form.style == KAFKA and self._says(record, number) is not None:
                piece = None  # what is said stands in place of the bytes
            if piece is None:
                out.put(text + cell.without)
                return
            out.put(text + cell.before)
            self._bytes(piece, is_json=_is_json(record, member))
            if cell.after:
                out.put(cell.after)
        elif member in ("headers", "header_names"):
            self._headers(text, cell, record)
        else:
            value = self._word(member, record, number)
            out.put(text + (cell.without if value is None else cell.before + value + cell.after))

    def _bytes(self, piece: memoryview, *, is_json: bool) -> None:
        """Write a key or a value in the form's style; `is_json`: it is JSON text already."""
        form = self._form
        if form.style == JSON and is_json:
            put_blocks(self._out, piece)
        elif form.style == JSON:
            put_json(self._out, piece, form.bytes_mode, self._spell)
        elif form.style == CSV:
            put_csv(self._out, piece, form._replace(bytes_mode=c.BYTES_AUTO) if is_json else form)
        else:
            put_java_text(self._out, piece, self._spell)

    def _headers(self, text: bytes, cell: Cell, record: Row) -> None:
        """Write headers as JSON, or their names."""
        view, out, mode = self._view, self._out, self._form.bytes_mode
        if record[c.R_HEADERS_COUNT] <= 0 or not _has_headers(view, record):
            out.put(text + cell.without)
            return
        out.put(text + cell.before)
        separator = b""
        quote = b'""' if self._form.style == CSV else b'"'
        for key, key_size, value, value_size in headers_of(view, record):
            out.put(separator)
            separator = b","
            name = view[key : key + key_size]
            if cell.member == "header_names":
                put_java_text(out, name, self._spell)
                continue
            out.put(b'{"key":'.replace(b'"', quote))
            put_json(out, name, mode, self._spell_headers)
            out.put(b',"value":'.replace(b'"', quote))
            if value_size < 0:
                out.put(b"null")
            else:
                piece = view[value : value + value_size]
                put_json(out, piece, mode, self._spell_headers)
            out.put(b"}")
        out.put(cell.after)

    def _says(self, record: Row, number: int) -> bytes | None:
        """Write what a control record says: as was given, or of a transaction marker."""
        if self._said is not None:
            return self._said[number]
        meant = format_at(self._batch[c.B_LAYOUT]).meant_bits
        if not self._batch[c.B_ATTRIBUTES] & meant & CONTROL_BIT:
            return None
        text = control_text(self._view, record)
        if not text:
            return None
        if self._form.style == KAFKA:
            kind, _, epoch = marker_of(self._view, record) or ("", 0, 0)
            return f"endTxnMarker: {kind} coordinatorEpoch: {epoch}".encode()
        if self._form.style == CSV:
            text = '"' + text.replace('"', '""') + '"'
        return text.encode()

    def _word(self, member: str, record: Row, number: int) -> bytes | None:
        if member == "said":
            return self._says(record, number)
        if member == "message_crc":
            at = record[c.R_POSITION]
            if span_of(self._view, at, SMALLEST_MESSAGE + 2) is None:
                return None
            return b"%d" % U32.unpack_from(self._view, at + LOG_OVERHEAD)[0]
        if member == "message_crc_valid":
            flags = self._batch[c.B_FLAGS]
            bad = flags & c.CRC_BAD
            if flags & c.WRAPPER:
                bad = record[c.R_FLAGS] & c.INNER_CRC_BAD
            return b"false" if bad else b"true"
        if member == "inner_crc_valid":
            return b"false" if record[c.R_FLAGS] & c.INNER_CRC_BAD else None
        if member == "inner_codec":
            codec = record[c.R_FLAGS] >> c.INNER_CODEC_SHIFT & CODEC_MASK
            return codec_name(codec).encode() if codec else None
        piece = _piece(self._view, record, member)
        return None if piece is None else b"%d" % len(piece)


def _is_json(record: Row, member: str) -> bool:
    """Whether a record's key or value is JSON text in place of the bytes on the disk."""
    return bool(record[c.R_FLAGS] & (c.KEY_JSON if member == "key" else c.VALUE_JSON))


def _piece(view: memoryview, record: Row, member: str) -> memoryview | None:
    """Return a record's key or value; `member` is that or its size."""
    at = c.R_KEY if member.startswith("key") else c.R_VALUE
    return span_of(view, record[at], record[at + 1])


def format_records(
    write: Write,
    data: Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: Rows,
    form: TextForm,
    said: list[bytes] | None = None,
    headed: Rows = None,
) -> int:
    """Write the rows of records and return how many.

    `data` is what the records were decoded from; `rows` the row numbers wanted (None: all). `write`
    gets pieces of bytes, none much above 256 KiB: a long value comes in several, so that memory
    stays bounded. `said` is, for control records, what each says, written already. `headed`: rows
    of batches, each of which is written before such of the records as follow and belong to it.

    A table's line is written where it is plain: where no cell but those that may be cut is wider
    than its column, all is ASCII, and nothing has to look unlike data. With the first row that is
    not, writing ends, and the count of rows says where.

    What a format does not have is null; what it has is written as stored, so -1 stays -1. Header
    keys are strings under BYTES_AUTO too. A key or a value that is JSON text (KEY_JSON, VALUE_JSON)
    is written into JSON as it is, and elsewhere as text, whatever the mode of bytes.

    JSON escapes, besides what it must, U+007F to U+009F, U+2028, U+2029 and the direction marks,
    since text from a log is hostile to terminals.
    """
    if said is not None and len(said) < records.count:
        raise ValueError(said)
    numbers = row_numbers(records, rows)
    out = Out(write)
    writer = _Rows(out, data, batches, records, form, said)
    if headed is None:
        done = 0
        while done < len(numbers) and writer.record(numbers[done]):
            done += 1
        out.flush()
        return done
    at = 0
    for head in row_numbers(batches, headed):
        _put_batch(out, batches.row(head), form)
        while at < len(numbers) and records.value(c.R_BATCH, numbers[at]) == head:
            writer.record(numbers[at])
            at += 1
    out.flush()
    return at


def _has_headers(view: memoryview, record: Row) -> bool:
    """Whether a record's columns, which may be anything, place its headers inside it."""
    if span_of(view, record[c.R_POSITION], record[c.R_SIZE]) is None:
        return False
    return 0 <= record[c.R_HEADERS] <= record[c.R_POSITION] + record[c.R_SIZE]


def control_text(view: memoryview, record: Row) -> str:
    """Write what a record with the flag MARKER says, as JSON; nothing of others."""
    marker = marker_of(view, record) if record[c.R_FLAGS] & c.MARKER else None
    if marker is None:
        return ""
    kind, version, epoch = marker
    return f'{{"type":"{kind}","version":{version},"coordinator_epoch":{epoch}}}'


def headers_of(view: memoryview, record: Row) -> Iterator[tuple[int, int, int, int]]:
    """Yield the headers of a decoded record: (key, size, value, size or -1)."""
    if not _has_headers(view, record):
        return
    end = record[c.R_POSITION] + record[c.R_SIZE]
    at = record[c.R_HEADERS]
    for _ in range(record[c.R_HEADERS_COUNT]):
        try:
            key, key_size, value, value_size, at = read_header(view, at, end)
        except Bad:
            return
        yield key, key_size, value, value_size


def format_batches(write: Write, batches: RecordBatches, rows: Rows, form: TextForm) -> int:
    """Write the rows of batches and return how many; arguments as in format_records.

    base_offset and records_count of a wrapper are null while RECORDS_COUNT is negative.
    base_timestamp_ms is null where the field holds the delete horizon (F21).
    """
    numbers = row_numbers(batches, rows)
    out = Out(write)
    for number in numbers:
        _put_batch(out, batches.row(number), form)
    out.flush()
    return len(numbers)


def _put_batch(out: Out, batch: Row, form: TextForm) -> None:
    read = format_at(batch[c.B_LAYOUT])
    cells = form.message_batch if read.is_legacy else form.batch
    out.put(_render(cells, batch, read.has_timestamps)[1])

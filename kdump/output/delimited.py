"""Write CSV as in RFC 4180: a header line, then rows; nested values are JSON in a cell.

Null and empty stay apart as far as the form can tell them: null is an empty cell, an empty string
is a quoted empty cell. Under `--bytes auto` what is no UTF-8 stands as `base64:…`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kdump.findings.rows import RECORD_NAMES, BatchChunk, BatchRow, RecordChunk, RecordRow, Row
from kdump.output.escape import visible
from kdump.output.jsonl import json_text
from kdump.output.large_records import headers_pieces, is_large, is_utf8, text_pieces, write_pieces
from kdump.output.sink import Sink
from kdump.output.values import AUTO, BASE64, UTF8, Said, bytes_text, headers_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.output.items import Item

_QUOTED = re.compile('[",\r\n]')
#: What begins a formula in a spreadsheet, also written wide as in East Asian texts.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_GATHERED = 1 << 16  # characters written at once
_at = RECORD_NAMES.index
# Members that all records of a batch share, and those of each record behind its offset and time.
_PLACE = slice(_at("offset"))
_SHARED = slice(_at("timestamp_type"), _at("sequence"))
_OWN = slice(_at("sequence"), _at("headers"))


class Delimited(Sink):
    """Writes every item as CSV lines to `write`.

    Rows of another kind get a header line of their own: the first column, `row`, tells them apart.
    On a terminal control characters are spelled out; in a file or pipe they are data. `safe`: text
    that a spreadsheet would take for a formula gets an apostrophe before it; such cells are then
    not what the log holds.
    """

    def __init__(
        self, write: Callable[[bytes], object], mode: int, *, terminal: bool, safe: bool = False
    ) -> None:
        self._write = write
        self._safe = safe
        self._mode = mode
        self._terminal = terminal
        self._header: tuple[str, tuple[str, ...]] = ("", ())

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, RecordChunk):
            self._chunk(item)
        elif isinstance(item, BatchChunk):
            for batch in item.iter_batches():
                self._line("batch", batch._fields, batch)
        elif isinstance(item, RecordRow):
            self._record(item)
        elif isinstance(item, BatchRow):
            self._line("batch", item._fields, item)
        elif isinstance(item, Row):
            self._line(item.row, tuple(item.fields), item.fields.values())

    def _chunk(self, chunk: RecordChunk) -> None:
        """Write a chunk's records; what they share with their batch is written out once."""
        self._header_of("record", RECORD_NAMES)
        cell, at = self._cell, -1
        lines: list[str] = []
        size = 0
        for record in chunk.iter_records():
            if is_large(record):
                self._flush(lines)
                write_pieces(self._write, self._pieces(record))
                continue
            values: tuple[object, ...] = record
            if record.position != at:
                at = record.position
                head = ",".join(["record", *map(cell, values[_PLACE])])
                middle = ",".join(map(cell, values[_SHARED]))
            timestamp = "" if record.timestamp_ms is None else record.timestamp_ms
            rest = ",".join(map(cell, values[_OWN]))
            headers = cell(headers_json(record.headers, self._mode)) if record.headers else "[]"
            lines.append(f"{head},{record.offset},{timestamp},{middle},{rest},{headers}\r\n")
            size += len(lines[-1])
            if size > _GATHERED:
                self._flush(lines)
                size = 0
        self._flush(lines)

    def _flush(self, lines: list[str]) -> None:
        if lines:
            self._write("".join(lines).encode("utf-8", "surrogateescape"))
            lines.clear()

    def _record(self, record: RecordRow) -> None:
        if is_large(record):
            self._header_of("record", record.names)
            write_pieces(self._write, self._pieces(record))
            return
        members = dict(record.members())
        members["headers"] = headers_json(record.headers, self._mode) if record.headers else []
        self._line("record", record.names, members.values())

    def _header_of(self, row: str, names: tuple[str, ...]) -> None:
        """Write the header line of a kind of row, where the last one was of another kind."""
        if (row, names) != self._header:
            self._header = (row, names)
            self._write(",".join(("row", *names)).encode() + b"\r\n")

    def _line(self, row: str, names: tuple[str, ...], values: Iterable[object]) -> None:
        self._header_of(row, names)
        cells = [row, *map(self._cell, values)]
        self._write(",".join(cells).encode("utf-8", "surrogateescape") + b"\r\n")

    def _pieces(self, record: RecordRow) -> Iterator[str]:
        """Write a large record's line in pieces."""
        yield "record"
        for name, value in record.members():
            yield ","
            if name == "headers":
                yield '"' if record.headers else ""
                for piece in headers_pieces(record.headers, self._mode, json_text):
                    yield self._shown(piece).replace('"', '""')
                yield '"' if record.headers else ""
            elif isinstance(value, bytes) and value:
                mode, before = self._mode, ""
                if isinstance(value, Said):
                    mode = UTF8
                elif mode == AUTO:
                    mode = UTF8
                    if not is_utf8(value):
                        mode, before = BASE64, "base64:"
                quote = any(_QUOTED.search(piece) for piece in self._text_pieces(value, mode))
                if self._safe and next(self._text_pieces(value, mode)).startswith(_FORMULA):
                    before = "'"
                yield '"' * quote + before
                for piece in self._text_pieces(value, mode):
                    yield piece.replace('"', '""')
                yield '"' * quote
            else:
                yield self._cell(value)
        yield "\r\n"

    def _text_pieces(self, data: bytes, mode: int) -> Iterator[str]:
        return map(self._shown, text_pieces(data, mode))

    def _shown(self, text: str) -> str:
        return visible(text) if self._terminal else text

    def _cell(self, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, bytes):
            text = self._bytes(value)
        elif isinstance(value, str):
            text = value
        else:
            text = json_text(value)
        text = self._shown(text)
        if self._safe and text.startswith(_FORMULA):
            text = f"'{text}"
        if not text or _QUOTED.search(text):
            return '"' + text.replace('"', '""') + '"'
        return text

    def _bytes(self, data: bytes) -> str:
        if self._mode == AUTO:
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError:
                return "base64:" + bytes_text(data, BASE64)
        return bytes_text(data, self._mode)

"""Write CSV as in RFC 4180: a header line, then rows; nested values are JSON in a cell.

Null and empty stay apart as far as the form can tell them: null is an empty cell, an empty string
is a quoted empty cell. Under `--bytes auto` what is no UTF-8 stands as `base64:…`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.findings.escape import json_text
from kdump.findings.rows import (
    MARK_NAMES,
    PRE08_NAMES,
    RECORD_NAMES,
    BatchChunk,
    BatchRow,
    Place,
    RecordChunk,
    RecordRow,
    Row,
)
from kdump.kernels import columns as c
from kdump.kernels.text_form import TextForm
from kdump.output.escape import visible
from kdump.output.sink import Sink
from kdump.output.text_forms import csv_form
from kdump.output.values import AUTO, BASE64, bytes_text, headers_json

if TYPE_CHECKING:
    from kdump.output.sink import Item

_QUOTED = re.compile('[",\r\n]')
#: What begins a formula in a spreadsheet, also written wide as in East Asian texts.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class DelimitedSink(Sink):
    """Writes every item as CSV lines to `write`.

    Rows of another kind get a header line of their own: the first column, `row`, tells them apart.
    So do records from the first on that is marked, with columns for the marks: where none is, as
    nearly everywhere, the header stays as scripts know it.
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
        self._marks = False
        self._of: tuple[Place | None, str | None, bool] = None, None, False
        self._form = csv_form(b"", mode, shown=terminal, safe=safe)

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, RecordChunk):
            self._columns(item, item.rows)
        elif isinstance(item, BatchChunk):
            self._header_of("batch", BatchRow._fields)
            form = self._form_of(item.place)
            kernels.format_batches(self._write, item.batches, item.rows, form)
        elif isinstance(item, RecordRow):
            self._record(item)
        elif isinstance(item, BatchRow):
            self._line("batch", item._fields, item)
        elif isinstance(item, Row):
            self._line(item.row, tuple(item.fields), item.fields.values())

    def _columns(self, chunk: RecordChunk, rows: array[int] | None) -> None:
        if chunk.may_have_marks and not self._marks:
            flags = chunk.records.row_flags
            numbers = array("q", range(len(flags))) if rows is None else rows
            for at, number in enumerate(numbers):
                if flags[number] & c.INNER_MARKS:
                    if at:
                        self._write_rows(chunk, numbers[:at])
                    self._marks, rows = True, numbers[at:]
                    break
        self._write_rows(chunk, rows)

    def _write_rows(self, chunk: RecordChunk, rows: array[int] | None) -> None:
        self._header_of("record", self._names(chunk.format))
        controls = chunk.controls
        said = None if controls is None else [_encode(self._cell(each)) for each in controls]
        form = self._form_of(chunk.place, chunk.format)
        columns = chunk.data, chunk.batches, chunk.records
        kernels.format_records(self._write, *columns, rows, form, said)

    def _form_of(self, place: Place, of_pre08: str | None = None) -> TextForm:
        if (place, of_pre08, self._marks) != self._of:
            self._of = place, of_pre08, self._marks
            head = _encode(",".join(map(self._cell, place[:3])))
            self._form = csv_form(
                head,
                self._mode,
                of_pre08,
                marks=self._marks,
                shown=self._terminal,
                safe=self._safe,
            )
        return self._form

    def _record(self, record: RecordRow) -> None:
        members = record._asdict()
        members["headers"] = headers_json(record.headers, self._mode) if record.headers else []
        self._marks = self._marks or any(members[name] is not None for name in MARK_NAMES)
        names = self._names(record.format)
        self._line("record", names, map(members.__getitem__, names))

    def _names(self, of_pre08: str | None) -> tuple[str, ...]:
        """Return the columns of records."""
        return (
            RECORD_NAMES + (PRE08_NAMES if of_pre08 else ()) + (MARK_NAMES if self._marks else ())
        )

    def _header_of(self, row: str, names: tuple[str, ...]) -> None:
        """Write the header line of a kind of row, where the last one was of another kind."""
        if (row, names) != self._header:
            self._header = (row, names)
            self._write(",".join(("row", *names)).encode() + b"\r\n")

    def _line(self, row: str, names: tuple[str, ...], values: Iterable[object]) -> None:
        self._header_of(row, names)
        cells = [row, *map(self._cell, values)]
        self._write(_encode(",".join(cells)) + b"\r\n")

    def _show(self, text: str) -> str:
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
        text = self._show(text)
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

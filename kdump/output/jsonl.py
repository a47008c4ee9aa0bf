"""Write JSON Lines: one object a line, no spaces, `row` first.

Chunks of columns go to the kernel's formatter whole. What the formatter does not know (entries,
messages of 0.7) takes the slow path below, whose text is the same byte for byte.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.findings.rows import BatchChunk, BatchRow, DecodedChunk, RecordChunk, RecordRow, Row
from kdump.output.escape import escape_json
from kdump.output.sink import Sink
from kdump.output.text_forms import json_form
from kdump.output.values import bytes_json, headers_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.findings.rows import Place
    from kdump.kernels.text_form import TextForm
    from kdump.output.items import Item

_encoder: Callable[[object], str] | None = None
#: What the kernel writes of a record whose key and value are null.
_NO_BYTES = b'"key":null,"value":null,"headers":'
_GATHERED_BYTES = 1 << 18


def json_text(value: object) -> str:
    """Write a value as one line of JSON text, without the line end."""
    global _encoder  # most runs need no encoder, and its import is not free
    if _encoder is None:
        _encoder = _new_encoder()
    return escape_json(_encoder(value))


def _new_encoder() -> Callable[[object], str]:
    """Make an encoder; the one in C once, where `JSONEncoder` makes one for each value."""
    from json import encoder

    made = encoder.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    make = getattr(encoder, "c_make_encoder", None)  # not every Python has it
    if make is None:
        return made.encode
    quoted = encoder.encode_basestring
    write = make(None, made.default, quoted, None, ":", ",", False, False, True)
    return lambda value: "".join(write(value, 0))


#: What a legal topic name has beside letters and digits; such a name needs no escaping.
_LEGAL = {ord(mark): None for mark in "._-"}


def json_line(members: Mapping[str, object]) -> bytes:
    """Write one object as a line of UTF-8."""
    return json_text(members).encode() + b"\n"


def head_of(place: Place) -> bytes:
    """Write the members that name a place, as the kernel's formatters take them."""
    topic = place.topic
    if topic is not None and topic.isascii() and topic.translate(_LEGAL).isalnum():
        segment = "null" if place.segment is None else place.segment
        return f'"topic":"{topic}","partition":{place.partition},"segment":{segment}'.encode()
    return json_line(
        {"topic": place.topic, "partition": place.partition, "segment": place.segment}
    )[1:-2]


def record_members(record: RecordRow, mode: int) -> dict[str, object]:
    """Return the members of a `record` row in order, bytes written under `mode`."""
    members: dict[str, object] = {"row": "record", **dict(record.members())}
    members["key"] = bytes_json(record.key, mode)
    members["value"] = bytes_json(record.value, mode)
    members["headers"] = headers_json(record.headers, mode)
    return members


def said_line(record: RecordRow, key: object, value: object, mode: int) -> bytes:
    """Write a record of which it is said what its key and its value hold."""
    members: dict[str, object] = {"row": "record", **dict(record.members())}
    members |= {"key": key, "value": value, "headers": headers_json(record.headers, mode)}
    return json_line(members)


def batch_members(batch: BatchRow) -> dict[str, object]:
    """Return the members of a `batch` row in order."""
    return {"row": "batch", **batch._asdict()}


def row_members(row: Row, mode: int) -> dict[str, object]:
    """Return the members of any other row; bytes among them are written under `mode`."""
    return {"row": row.row} | {
        name: bytes_json(value, mode) if isinstance(value, bytes) else value
        for name, value in row.fields.items()
    }


class JsonLines(Sink):
    """Writes every item as JSON Lines to `write`."""

    def __init__(self, write: Callable[[bytes], object], mode: int) -> None:
        self._write = write
        self._mode = mode
        self._of: tuple[Place | None, str | None, bool] = None, None, False
        self._form = json_form(b"", mode)

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, RecordChunk):
            self._records(item)
        elif isinstance(item, BatchChunk):
            form = self._form_of(item.place)
            kernels.format_batches(self._write, item.batches, item.rows, form)
        elif isinstance(item, Row):
            self._write(json_line(row_members(item, self._mode)))
        elif isinstance(item, BatchRow):
            self._write(json_line(batch_members(item)))
        elif isinstance(item, RecordRow):
            self._write(json_line(record_members(item, self._mode)))

    def _records(self, chunk: RecordChunk) -> None:
        if not isinstance(chunk, DecodedChunk):
            self._columns(chunk, chunk.rows)
            return
        if not chunk.has_large:
            self._said(chunk)
            return
        for number, (record, key, value) in zip(chunk.numbers, chunk.iter_said(), strict=True):
            if isinstance(key, bytes) or isinstance(value, bytes):
                self._columns(chunk, array("q", (number,)))  # too large to be decoded
            else:
                self._write(said_line(record, key, value, self._mode))

    def _columns(self, chunk: RecordChunk, rows: array[int] | None) -> None:
        controls = chunk.controls
        said = None if controls is None else [json_text(each).encode() for each in controls]
        form = self._form_of(chunk.place, chunk.format, marks=chunk.may_have_marks)
        columns = chunk.data, chunk.batches, chunk.records
        kernels.format_records(self._write, *columns, rows, form, said)

    def _said(self, chunk: DecodedChunk) -> None:
        """Write records with what is said of them; the kernel writes the rest of their lines."""
        records = chunk.records.without_bytes()
        said = None
        if chunk.may_have_controls:
            said = [json_text(chunk.control(number)).encode() for number in range(len(records))]
        lines: list[bytes] = []
        form = self._form_of(chunk.place, marks=chunk.may_have_marks)
        rest = (chunk.data, chunk.batches, records, chunk.rows, form, said)
        kernels.format_records(lines.append, *rest)
        gathered = bytearray()
        for line, (key, value) in zip(
            b"".join(lines).splitlines(keepends=True), chunk.iter_json(), strict=True
        ):
            text = f'"key":{key},"value":{value},"headers":'.encode()
            gathered += line.replace(_NO_BYTES, text, 1)
            if len(gathered) >= _GATHERED_BYTES:
                self._write(bytes(gathered))
                gathered.clear()
        self._write(bytes(gathered))

    def _form_of(
        self, place: Place, of_pre08: str | None = None, *, marks: bool = False
    ) -> TextForm:
        if (place, of_pre08, marks) != self._of:
            self._of = place, of_pre08, marks
            self._form = json_form(head_of(place), self._mode, of_pre08, marks=marks)
        return self._form

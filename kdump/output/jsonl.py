"""Write JSON Lines: one object a line, no spaces, `row` first.

Chunks of columns go to the kernel's formatter whole. What the formatter does not know (entries,
messages of 0.7) takes the slow path below, whose text is the same byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump import kernels
from kdump.findings.escape import json_text
from kdump.findings.rows import BatchChunk, BatchRow, JsonText, RecordChunk, RecordRow, Row
from kdump.output.sink import Sink
from kdump.output.values import bytes_json, headers_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.findings.rows import Place
    from kdump.kernels.text_form import TextForm
    from kdump.output.sink import Item

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


def batch_members(batch: BatchRow) -> dict[str, object]:
    """Return the members of a `batch` row in order."""
    return {"row": "batch", **batch._asdict()}


_BYTES = frozenset((bytes, JsonText))


def row_members(row: Row, mode: int) -> dict[str, object]:
    """Return the members of any other row; bytes among them are written under `mode`."""
    members = {"row": row.row} | row.fields
    if not _BYTES.isdisjoint(map(type, members.values())):
        members = {
            name: bytes_json(value, mode) if isinstance(value, bytes) else value
            for name, value in members.items()
        }
    return members


class JsonLines(Sink):
    """Writes every item as JSON Lines to `write`."""

    _form: TextForm

    def __init__(self, write: Callable[[bytes], object], mode: int) -> None:
        self._write = write
        self._mode = mode
        self._of: tuple[Place | None, str | None, bool] = None, None, False

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, RecordChunk):
            self._columns(item)
        elif isinstance(item, BatchChunk):
            form = self._form_of(item.place)
            kernels.format_batches(self._write, item.batches, item.rows, form)
        elif isinstance(item, Row):
            self._write(json_line(row_members(item, self._mode)))
        elif isinstance(item, BatchRow):
            self._write(json_line(batch_members(item)))
        elif isinstance(item, RecordRow):
            self._write(json_line(record_members(item, self._mode)))

    def _columns(self, chunk: RecordChunk) -> None:
        controls = chunk.controls
        said = None if controls is None else [json_text(each).encode() for each in controls]
        form = self._form_of(chunk.place, chunk.format, marks=chunk.may_have_marks)
        columns = chunk.data, chunk.batches, chunk.records
        kernels.format_records(self._write, *columns, chunk.rows, form, said)

    def _form_of(
        self, place: Place, of_pre08: str | None = None, *, marks: bool = False
    ) -> TextForm:
        from kdump.output.text_forms import json_form

        if (place, of_pre08, marks) != self._of:
            self._of = place, of_pre08, marks
            self._form = json_form(head_of(place), self._mode, of_pre08, marks=marks)
        return self._form

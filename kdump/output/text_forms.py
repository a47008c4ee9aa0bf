"""The forms that rows of records and batches are written in, made from the schema of rows."""

from __future__ import annotations

from functools import cache

from kdump.findings.schema import BATCH, MARKS, RECORD
from kdump.kernels.text_form import CSV, JSON, KAFKA, Cell, TextForm
from kdump.rows.declarations import Field

Cells = tuple[Cell, ...]

_PLACE = 3  # topic, partition and segment, which are the same in all rows of a chunk
#: Members of a record that the kernels know by another name than the schema.
_SAID = {"control": "said"}
_MARKS = {"crc_valid": "inner_crc_valid"}

#: What stands around a value in JSON, by its type.
_AROUND = {"dictionary": (b'"', b'"'), "headers": (b"[", b"]")}


def json_form(
    head: bytes, mode: int, of_pre08: str | None = None, *, marks: bool = False
) -> TextForm:
    """Return the form of JSON Lines; `head` is the text of the members of the place.

    `of_pre08`: the format of messages of a `.kafka` file, which have two members more. `marks`:
    some records have a mark, so that these members are to be looked for.
    """
    start = head + b"," if head else b""
    record = _prepend(_json_cells(RECORD, of_pre08, marks=marks), b'{"row":"record",' + start)
    batch = _prepend(_json_cells(BATCH), b'{"row":"batch",' + start)
    return TextForm(JSON, mode, record, record, batch, batch)


def csv_form(
    head: bytes,
    mode: int,
    of_pre08: str | None = None,
    *,
    marks: bool = False,
    shown: bool,
    safe: bool,
) -> TextForm:
    """Return the form of CSV; `head` is the cells of the place, `marks`: marks have columns."""
    record = _prepend(_csv_cells(RECORD, of_pre08, marks=marks), b"record," + head)
    batch = _prepend(_csv_cells(BATCH), b"batch," + head)
    return TextForm(CSV, mode, record, record, batch, batch, shown=shown, safe=safe)


@cache
def kafka_form(*, shown: bool) -> TextForm:
    """Return the form of kafka-dump-log."""
    record, message = (*_START, *_RECORD, *_CONTENT), (*_START, *_MESSAGE, *_CONTENT)
    return TextForm(
        KAFKA,
        0,
        _append(record, b"\n"),
        _append(message, b"\n"),
        _append((*_BATCH, *_ENTRY), b"\n"),
        _append((Cell("last_offset", b"offset: "), *_ENTRY), b"\n"),
        shown=shown,
    )


def _prepend(cells: Cells, start: bytes) -> Cells:
    first = cells[0]
    return (first._replace(before=start + first.before, without=start + first.without), *cells[1:])


def _append(cells: Cells, end: bytes) -> Cells:
    last = cells[-1]
    return (*cells[:-1], last._replace(after=last.after + end, without=last.without + end))


@cache
def _json_cells(
    fields: tuple[Field, ...], of_pre08: str | None = None, *, marks: bool = False
) -> Cells:
    cells = []
    for number, field in enumerate(fields[_PLACE:]):
        before = (b"," if number else b"") + f'"{field.name}":'.encode()
        around = _AROUND.get(field.type, (b"", b""))
        without = b"[]" if field.type == "headers" else b"null"
        cells.append(_cell(fields, field, before + around[0], around[1], before + without))
    if of_pre08:
        cells.append(Cell("last_offset", f',"format":"{of_pre08}","next_offset":'.encode()))
    for field in MARKS if marks else ():  # members that are there only where they are not null
        opening, closing = _AROUND.get(field.type, (b"", b""))
        before = f',"{field.name}":'.encode() + opening
        cells.append(Cell(_MARKS.get(field.name, field.name), before, closing))
    return _append(tuple(cells), b"}\n")


@cache
def _csv_cells(
    fields: tuple[Field, ...], of_pre08: str | None = None, *, marks: bool = False
) -> Cells:
    cells = []
    for field in fields[_PLACE:]:
        if field.type == "headers":
            cells.append(_cell(fields, field, b',"[', b']"', b",[]"))
        else:
            cells.append(_cell(fields, field, b",", b"", b","))
    if of_pre08:
        cells.append(Cell("last_offset", f",{of_pre08},".encode()))
    if marks:
        cells += [Cell(_MARKS.get(field.name, field.name), b",", b"", b",") for field in MARKS]
    return _append(tuple(cells), b"\r\n")


def _cell(
    fields: tuple[Field, ...], field: Field, before: bytes, after: bytes, without: bytes
) -> Cell:
    member = _SAID.get(field.name, field.name) if fields is RECORD else field.name
    return Cell(member, before, after, without)


def _words(**cells: str) -> Cells:
    """Make the cells of members that are never null, each with a word of the tool's before it."""
    return tuple(Cell(member, f" {word}: ".encode()) for member, word in cells.items())


_TIMED = (Cell("timestamp_type", b" ", b"", b" NoTimestampType"),)
_START = (
    Cell("offset", b"| offset: "),
    *_TIMED,
    Cell("timestamp_ms", b": ", b"", b": -1"),
    Cell("key_size", b" keySize: ", b"", b" keySize: -1"),
    Cell("value_size", b" valueSize: ", b"", b" valueSize: -1"),
)
_RECORD = (
    Cell("sequence", b" sequence: "),
    Cell("header_names", b" headerKeys: [", b"]", b" headerKeys: []"),
)
_MESSAGE = (
    Cell("message_crc_valid", b" isValid: "),
    Cell("message_crc", b" crc: ", b"}"),  # the brace is the tool's own
)
_CONTENT = (Cell("said", b" "), Cell("key", b" key: "), Cell("value", b" payload: "))
_BATCH = (
    Cell("base_offset", b"baseOffset: "),
    *_words(
        last_offset="lastOffset",
        records_count="count",
        base_sequence="baseSequence",
        last_sequence="lastSequence",
        producer_id="producerId",
        producer_epoch="producerEpoch",
        leader_epoch="partitionLeaderEpoch",
        transactional="isTransactional",
        control="isControl",
    ),
    Cell(
        "delete_horizon_ms",
        b" deleteHorizonMs: OptionalLong[",
        b"]",
        b" deleteHorizonMs: OptionalLong.empty",
    ),
)
_ENTRY = (
    Cell("position", b" position: "),
    *_TIMED,
    Cell("max_timestamp_ms", b": ", b"", b": -1"),
    *_words(
        size_bytes="size",
        magic="magic",
        codec="compresscodec",
        crc="crc",
        crc_valid="isvalid",
    ),
)

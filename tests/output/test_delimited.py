"""CSV: one header, quoting as in RFC 4180, null and empty apart."""

import csv
import io

import builders
from chunks import batch_chunk, one
from declared_rows import make_row

from kdump.output.delimited import DelimitedSink
from kdump.output.values import AUTO, HEX


def written(*items: object, mode: int = AUTO, terminal: bool = False) -> str:
    pieces: list[bytes] = []
    sink = DelimitedSink(lambda piece: pieces.append(bytes(piece)), mode, terminal=terminal)
    for item in items:
        sink.write(item)  # type: ignore[arg-type]
    return b"".join(pieces).decode()


def test_one_header_and_a_line_for_each_record() -> None:
    text = written(one(b"a", b"1"), one(b"b", b"2"))
    header, first, second = csv.reader(io.StringIO(text, newline=""))
    assert header[:3] == ["row", "topic", "partition"]
    assert dict(zip(header, first, strict=True))["key"] == "a"
    assert dict(zip(header, second, strict=True))["value"] == "2"


def test_null_is_bare_and_empty_is_quoted() -> None:
    assert written(one(None, b"")).endswith(',false,,,"",[]\r\n')


def test_quotes_commas_and_line_ends_survive() -> None:
    value = b'a "quoted", text\r\nand\nmore'
    rows = list(csv.reader(io.StringIO(written(one(b"k", value)), newline="")))
    assert value.decode() in rows[1]


def test_bytes_in_the_requested_form() -> None:
    assert ",base64:/w==," in written(one(b"k", b"\xff"))
    assert ",6b,ff," in written(one(b"k", b"\xff"), mode=HEX)


def test_headers_are_json() -> None:
    text = written(one(headers=[(b"h", None)]))
    row = list(csv.reader(io.StringIO(text, newline="")))[1]
    assert row[-1] == '[{"key":"h","value":null}]'


def test_terminal_gets_no_control_characters() -> None:
    assert "\x1b" not in written(one(b"k", b"\x1b[2J"), terminal=True)
    assert "\x1b" in written(one(b"k", b"\x1b[2J"), terminal=False)


def test_another_kind_of_row_brings_its_header() -> None:
    text = written(batch_chunk(builders.batch()), make_row("property", name="a", value="b"))
    kinds = [line.split(",")[0] for line in text.splitlines()]
    assert kinds == ["row", "batch", "row", "property"]

"""The slow path writes what the kernels' formatters write, byte for byte."""

import json
from types import ModuleType

import builders
from chunks import PLACE, batch_chunk, one, record_chunk
from declared_rows import make_row
from each import each
from generated import given, st

from kdump.findings.rows import Place, RecordChunk
from kdump.kernels import _pure
from kdump.output.jsonl import JsonLines, batch_members, head_of, json_line, record_members
from kdump.output.text_forms import json_form
from kdump.output.values import AUTO, BASE64, HEX, UTF8


def fast(chunk: RecordChunk, mode: int, kernel: ModuleType) -> bytes:
    pieces: list[bytes] = []
    kernel.format_records(
        lambda piece: pieces.append(bytes(piece)),
        chunk.data,
        chunk.batches,
        chunk.records,
        chunk.rows,
        json_form(head_of(chunk.place), mode),
    )
    return b"".join(pieces)


def slow(chunk: RecordChunk, mode: int) -> bytes:
    return b"".join(json_line(record_members(row, mode)) for row in chunk.iter_records())


SAMPLES = [
    b"",
    b'"\\/\b\f\n\r\t\x00\x1b\x7f',
    "\x80\x9f\u2028\u202e\u2066\u200f é 鍵 🔑".encode(),
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    bytes(range(256)),
]


@each("mode", [AUTO, UTF8, HEX, BASE64])
def test_paths_agree_on_values(kernel: ModuleType, mode: int) -> None:
    for data in [None, *SAMPLES]:
        chunk = one(data, data, headers=[(data or b"", data), (b"h", None)])
        assert slow(chunk, mode) == fast(chunk, mode, kernel)


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from([AUTO, UTF8, HEX, BASE64]))
def test_paths_agree_on_any_bytes(key: bytes, value: bytes, mode: int) -> None:
    chunk = one(key, value, headers=[(value, key)])
    assert slow(chunk, mode) == fast(chunk, mode, _pure)


def test_paths_agree_on_headers_of_batches(kernel: ModuleType) -> None:
    data = b"".join([
        builders.message(0, magic=0),
        builders.message(1, magic=1, attributes=8),
        builders.wrapper([builders.message(0), builders.message(1)], 3),
        builders.batch(base_offset=4, attributes=0x10, producer_id=9, base_sequence=2**31 - 1),
        builders.batch(base_offset=5, attributes=0x40),
        builders.batch(base_offset=6, crc=1),
        builders.marker(1, base_offset=7),
    ])  # fmt: skip
    chunk = batch_chunk(data)
    pieces: list[bytes] = []
    kernel.format_batches(
        lambda piece: pieces.append(bytes(piece)), chunk.batches, None, json_form(head_of(PLACE), 0)
    )
    wanted = [json_line(batch_members(row)) for row in chunk.iter_batches()]
    assert b"".join(pieces).splitlines(keepends=True) == wanted


def test_only_filtered_rows_are_written() -> None:
    chunk = record_chunk(builders.batch([builders.record(n, value=b"%d" % n) for n in range(5)]))
    chunk.rows = type(chunk.records.block)("q", [1, 3])
    written: list[bytes] = []
    JsonLines(lambda piece: written.append(bytes(piece)), AUTO).write(chunk)
    rows = [json.loads(line) for line in b"".join(written).splitlines()]
    assert [row["value"] for row in rows] == ["1", "3"]


def test_control_records_include_their_meaning() -> None:
    chunk = one()
    chunk.controls = [{"type": "COMMIT", "version": 0, "coordinator_epoch": 3}]
    written: list[bytes] = []
    JsonLines(lambda piece: written.append(bytes(piece)), AUTO).write(chunk)
    assert json.loads(b"".join(written))["control"] == chunk.controls[0]


def test_null_and_empty_stay_apart() -> None:
    assert b'"key":null,"value":""' in slow(one(None, b""), AUTO)


def test_hostile_topic_is_escaped() -> None:
    head = head_of(Place('a"\x1b\u202e', None, None, ""))
    assert json.loads(b"{" + head + b"}") == {
        "topic": 'a"\x1b\u202e',
        "partition": None,
        "segment": None,
    }
    assert b"\x1b" not in head


def test_other_rows_have_their_kind() -> None:
    written: list[bytes] = []
    JsonLines(written.append, HEX).write(make_row("property", name="a", value=b"\xff"))
    assert written == [b'{"row":"property","file":"","name":"a","value":"ff"}\n']

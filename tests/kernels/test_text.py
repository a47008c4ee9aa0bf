"""Records and batches written as JSON Lines, in either kernel."""

import base64
import json
import random
import struct
from array import array
from types import ModuleType

import pytest
from builders import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    ZSTD,
    batch,
    control_record,
    marker,
    message,
    record,
    wrapper,
)
from each import each
from kernel_calls import MANY, decode, lines, walk
from twins import both

from kdump.kernels import _pure
from kdump.kernels import columns as c
from kdump.kernels.text_form import TABLE, Cell, TextForm
from kdump.output.text_forms import csv_form, json_form, kafka_form


def test_record_has_this_exact_text(kernel: ModuleType) -> None:
    data = batch(
        [record(1, 7, b"k", b"v", [(b"h", b"1"), (b"", None)])],
        base_offset=41,
        leader_epoch=3,
        attributes=TRANSACTIONAL,
        base_timestamp=1000,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0x7FFFFFFF,
        last_offset_delta=1,
    )
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    head = b'"topic":"orders","partition":7,"segment":41'
    assert kernel.format_records(out.append, data, batches, records, None, json_form(head, 0)) == 1
    assert b"".join(out) == (
        b'{"row":"record","topic":"orders","partition":7,"segment":41,"position":0,"magic":2,'
        b'"codec":"none","offset":42,"timestamp_ms":1007,"timestamp_type":"CreateTime",'
        b'"leader_epoch":3,"producer_id":9,"producer_epoch":2,"sequence":0,"transactional":true,'
        b'"control":null,"key":"k","value":"v",'
        b'"headers":[{"key":"h","value":"1"},{"key":"","value":null}]}\n'
    )


def test_json_key_or_value_is_written_unchanged(kernel: ModuleType) -> None:
    data = batch([record(0, 0, b'{"a":1}', b'{"b":"\xc3\xbc"}'), record(1, 0, b"k", b"v")])
    batches, records = decode(kernel, data)
    records.mark(0, c.KEY_JSON | c.VALUE_JSON)
    records.mark(1, c.VALUE_JSON)
    cells = (Cell("key", width=9, most=9), Cell("value", b" ", width=4, most=99))
    table = TextForm(TABLE, c.BYTES_HEX, cells, cells, (), (), shown=True)
    csv = csv_form(b"", c.BYTES_HEX, shown=False, safe=False)
    found = []
    for form in (json_form(b"", c.BYTES_HEX), csv, table):
        out: list[bytes] = []
        kernel.format_records(out.append, data, batches, records, array("q", (1, 0)), form)
        found.append(b"".join(out).splitlines())
    assert found[0][0].endswith(b'"key":"6b","value":v,"headers":[]}')
    assert found[0][1].endswith(b'"key":{"a":1},"value":{"b":"\xc3\xbc"},"headers":[]}')
    assert found[1][0].endswith(b",6b,v,[]")
    assert found[1][1].endswith(b',"{""a"":1}","{""b"":""\xc3\xbc""}",[]')
    assert found[2] == [b"6b        v"]  # a line with more than ASCII is left to the caller


def test_json_rows_contain_the_records() -> None:
    """Text of any length that needs escapes or is none, and numbers near the last and far off."""
    rng = random.Random(7)
    some = (b"plain words", b'"', b"\\", b"a" * 31, b"\n", b"\x7f", b"\x01", "ü→😀".encode())
    texts = [
        b"".join(rng.choices(some, (8, 4, 2, 1, *few), k=rng.randrange(14)))[: rng.randrange(140)]
        for few in ((0, 0, 0, 0), (1, 1, 1, 1)) * 150
    ]
    texts += [b"x" * size + b'"' * (size % 3) for size in range(70)] + [b"\xff", b"a" * 9000]
    rng.shuffle(texts)
    records, at = [], 0
    for number, text in enumerate(texts):
        at += 1 if number < 30 else rng.choice((1, 1, 1, 1, 7, 130))
        headers = [(text[:40], None), (b"h", text)] if number % 5 == 0 else []
        headers += [(b"many", b"")] * (20 if number % 50 == 0 else 0)
        key = None if number % 7 == 0 else text[::-1]
        records.append(record(at, rng.choice((0, 3, at)), key, text, headers))
    for base, sequence in ((0, -1), (95, 95), ((1 << 63) - 10, (1 << 31) - 60)):
        data = batch(records, base_offset=base, base_timestamp=base, base_sequence=sequence)
        batches, rows = decode(_pure, data)
        assert rows.count == len(texts)
        both("format_records", data, batches, rows, None, json_form(b'"topic":"t"', 0))


def test_marker_has_this_exact_text(kernel: ModuleType) -> None:
    last = batch([control_record(1, struct.pack(">hi", 0, -2), version=9)], attributes=CONTROL)
    data = marker(0, coordinator_epoch=7) + batch(base_offset=1) + last
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    assert (
        kernel.format_records(out.append, data, batches, records, None, json_form(b"", c.BYTES_HEX))
        == 3
    )
    abort, other, commit = b"".join(out).splitlines()
    assert abort.endswith(
        b'"transactional":true,"control":{"type":"ABORT","version":0,"coordinator_epoch":7},'
        b'"key":"00000000","value":"000000000007","headers":[]}'
    )
    assert b'"control":null,' in other
    told = b'"control":{"type":"COMMIT","version":9,"coordinator_epoch":-2},"key":'
    assert told in commit


def test_format_record_of_older_versions(kernel: ModuleType) -> None:
    old, new = message(1, None, b"", magic=0), message(2, timestamp=-1, attributes=8)
    first, second = lines(kernel, old + new)
    for row in (first, second):
        for name in ("leader_epoch", "producer_id", "producer_epoch", "sequence", "control"):
            assert row[name] is None
        assert (row["transactional"], row["codec"], row["headers"]) == (False, "none", [])
    assert (first["timestamp_ms"], first["timestamp_type"]) == (None, None)
    assert (first["key"], first["value"]) == (None, "")
    assert (second["timestamp_ms"], second["timestamp_type"]) == (-1, "LogAppendTime")
    assert second["position"] == len(old)


def test_format_messages_inside_a_wrapper(kernel: ModuleType) -> None:
    inner = message(0, timestamp=5) + message(1, magic=0)
    batches = walk(kernel, wrapper([], 101, attributes=LOG_APPEND_TIME, timestamp=77))
    records, _, _ = kernel.decode_messages(inner, 0, len(inner), batches, 0, 100, MANY)
    out: list[bytes] = []
    kernel.format_records(out.append, inner, batches, records, None, json_form(b"", 0))
    rows = [json.loads(line) for line in b"".join(out).splitlines()]
    assert [(row["offset"], row["timestamp_ms"], row["timestamp_type"]) for row in rows] == [
        (100, 77, "LogAppendTime"),
        (101, None, None),
    ]
    assert rows[0]["codec"] == "gzip"


def test_format_no_sequence(kernel: ModuleType) -> None:
    (row,) = lines(kernel, batch())
    assert (row["producer_id"], row["sequence"]) == (-1, -1)


@each(
    ("text", "escaped"),
    [
        ('"\\/', '\\"\\\\/'),
        ("\b\f\n\r\t", "\\b\\f\\n\\r\\t"),
        ("\0\x1b\x1f ~\x7f", "\\u0000\\u001b\\u001f ~\\u007f"),
        ("\x80\x9b\x9f\xa0é", "\\u0080\\u009b\\u009f\xa0é"),
        ("\u2027\u2028\u2029\u202a\u202e\u202f", "\u2027\\u2028\\u2029\\u202a\\u202e\u202f"),
        ("\u200d\u200e\u200f\u2010", "\u200d\\u200e\\u200f\u2010"),
        ("\u2065\u2066\u2069\u206a", "\u2065\\u2066\\u2069\u206a"),
        ("\u0928\u20ac\ud7ff\ue000\uffff\U0001f600\U0010ffff", None),
    ],
)
def test_format_escapes(kernel: ModuleType, text: str, escaped: str | None) -> None:
    # At every place of the eight bytes that are looked at together.
    for before in range(18):
        plain = "." * before
        data = batch([record(value=(plain + text + plain).encode())])
        batches, records = decode(kernel, data)
        out: list[bytes] = []
        kernel.format_records(out.append, data, batches, records, None, json_form(b"", 0))
        line = b"".join(out).decode()
        assert f'"value":"{plain}{text if escaped is None else escaped}{plain}"' in line
        assert json.loads(line)["value"] == plain + text + plain


INVALID = [
    b"\x80",
    b"\xbf\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc2",
    b"\xc2A",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xe1\x80",
    b"\xe1\x80A",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80",
    b"\xf0\x90\x80A",
    b"\xf0\x90A",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xfe\xff",
]


@each("bad", INVALID)
def test_format_binary_bytes(kernel: ModuleType, bad: bytes) -> None:
    for value in (bad, b"a" + bad, b"before it" + bad + b"behind it", bad * 7):
        data = batch([record(key=value, value=value, headers=[(value, value)])])
        in_base64 = base64.b64encode(value).decode()
        replaced = value.decode("utf-8", "replace")
        (row,) = lines(kernel, data)
        assert row["key"] == row["value"] == {"base64": in_base64}
        assert row["headers"] == [{"key": {"base64": in_base64}, "value": {"base64": in_base64}}]
        for mode, expected in (
            (c.BYTES_UTF8, replaced),
            (c.BYTES_HEX, value.hex()),
            (c.BYTES_BASE64, in_base64),
        ):
            (row,) = lines(kernel, data, mode)
            assert row["key"] == row["value"] == expected
            assert row["headers"] == [{"key": expected, "value": expected}]


@each("value", [None, b"", b"a", b"ab", b"abc", b"abcd"])
@each("mode", range(4))
def test_format_null_is_not_empty(kernel: ModuleType, value: bytes | None, mode: int) -> None:
    (row,) = lines(kernel, batch([record(key=value)]), mode)
    if value is None:
        expected = None
    else:
        encoded = [value.decode(), value.decode(), value.hex(), base64.b64encode(value).decode()]
        expected = encoded[mode]
    assert row["key"] == expected


@each("mode", range(4))
@each("unit", [b"plain.", "né".encode(), b"\0", b"\xff\xe2\x80", b"\xf0\x9f\x98\x80"])
def test_format_long_values_in_pieces(kernel: ModuleType, unit: bytes, mode: int) -> None:
    value = b"." + unit * (1_500_000 // len(unit))
    data = batch([record(value=value, key=b"k")])
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, json_form(b"", mode))
    assert max(map(len, pieces)) <= 1 << 20
    row = json.loads(b"".join(pieces))
    if mode == c.BYTES_HEX:
        assert row["value"] == value.hex()
    elif mode == c.BYTES_BASE64 or (mode == c.BYTES_AUTO and b"\xff" in unit):
        in_base64 = row["value"]["base64"] if mode == c.BYTES_AUTO else row["value"]
        assert base64.b64decode(in_base64) == value
    else:
        assert row["value"] == value.decode("utf-8", "replace")


def test_written_pieces_are_not_modified(kernel: ModuleType) -> None:
    data = batch([record(i, value=b"%06d" % i * 40) for i in range(5000)])
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, json_form(b"", 0))
    assert len(pieces) > 3
    offsets = [json.loads(line)["offset"] for line in b"".join(pieces).splitlines()]
    assert offsets == list(range(5000))


def test_format_long_head(kernel: ModuleType) -> None:
    data = batch([record(0), record(1)])
    batches, records = decode(kernel, data)
    head = b'"topic":"' + b"t" * 700_000 + b'"'
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, json_form(head, 0))
    kernel.format_batches(pieces.append, batches, None, json_form(head, 0))
    rows = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert [len(row["topic"]) for row in rows] == [700_000] * 3


def test_format_chosen_rows(kernel: ModuleType) -> None:
    data = batch([record(i) for i in range(5)])
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    rows = array("q", [4, 1, 1])
    assert kernel.format_records(out.append, data, batches, records, rows, json_form(b"", 0)) == 3
    assert [json.loads(line)["offset"] for line in b"".join(out).splitlines()] == [4, 1, 1]
    assert (
        kernel.format_records(out.append, data, batches, records, array("q"), json_form(b"", 0))
        == 0
    )
    for wrong in (-1, 5):
        with pytest.raises(IndexError):
            kernel.format_records(
                out.append, data, batches, records, array("q", [wrong]), json_form(b"", 0)
            )


def test_format_stops_when_write_raises(kernel: ModuleType) -> None:
    data = batch([record(i, value=b"v" * 1000) for i in range(2000)])
    batches, records = decode(kernel, data)
    calls = 0

    def write(piece: bytes) -> None:
        nonlocal calls
        calls += 1
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        kernel.format_records(write, data, batches, records, None, json_form(b"", 0))
    assert calls == 1
    with pytest.raises(BrokenPipeError):
        kernel.format_batches(write, batches, None, json_form(b"", 0))


def test_batch_has_this_exact_text(kernel: ModuleType) -> None:
    data = batch(
        base_offset=41,
        leader_epoch=3,
        attributes=TRANSACTIONAL | CONTROL | LOG_APPEND_TIME,
        base_timestamp=1000,
        max_timestamp=1001,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0x7FFFFFFF,
        last_offset_delta=1,
        crc=5,
    )
    out: list[bytes] = []
    batches = walk(kernel, data)
    assert kernel.format_batches(out.append, batches, None, json_form(b'"topic":null', 0)) == 1
    assert b"".join(out) == (
        b'{"row":"batch","topic":null,"position":0,"size_bytes":76,"magic":2,"codec":"none",'
        b'"base_offset":41,"last_offset":42,"records_count":1,"crc":5,"crc_valid":false,'
        b'"timestamp_type":"LogAppendTime","base_timestamp_ms":1000,"max_timestamp_ms":1001,'
        b'"leader_epoch":3,"producer_id":9,"producer_epoch":2,"base_sequence":2147483647,'
        b'"last_sequence":0,"transactional":true,"control":true,"delete_horizon_ms":null}\n'
    )


def test_format_batches_of_all_versions(kernel: ModuleType) -> None:
    data = message(1, magic=0) + wrapper([message(0)], 2, timestamp=5)
    data += batch(
        base_offset=3, attributes=DELETE_HORIZON | ZSTD, base_timestamp=6, max_timestamp=7
    )
    batches = walk(kernel, data)
    out: list[bytes] = []
    kernel.format_batches(out.append, batches, None, json_form(b"", 0))
    first, second, third = (json.loads(line) for line in b"".join(out).splitlines())
    assert (first["base_offset"], first["last_offset"], first["records_count"]) == (1, 1, 1)
    assert (first["timestamp_type"], first["max_timestamp_ms"]) == (None, None)
    assert (second["base_offset"], second["last_offset"], second["records_count"]) == (
        None,
        2,
        None,
    )
    assert (second["codec"], second["base_timestamp_ms"], second["max_timestamp_ms"]) == (
        *("gzip", 5, 5),
    )
    for row in (first, second):
        for name in ("leader_epoch", "producer_id", "base_sequence", "last_sequence"):
            assert row[name] is None
        assert (row["transactional"], row["control"]) == (False, False)
    assert (third["base_timestamp_ms"], third["delete_horizon_ms"]) == (None, 6)
    assert (third["max_timestamp_ms"], third["last_sequence"], third["codec"]) == (7, -1, "zstd")
    # Once a wrapper was opened, what was found in it is shown.
    batches.block[c.B_BASE_OFFSET * batches.stride + 1] = 2
    batches.block[c.B_RECORDS_COUNT * batches.stride + 1] = 1
    out.clear()
    kernel.format_batches(out.append, batches, array("q", [1]), json_form(b"", 0))
    row = json.loads(out[0])
    assert (row["base_offset"], row["records_count"]) == (2, 1)


def written(kernel: ModuleType, data: bytes, form: TextForm) -> str:
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    kernel.format_records(out.append, data, batches, records, None, form)
    return b"".join(out).decode()


MARK = "\ufffd"


@each(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("é鍵🔑".encode(), "é鍵🔑"),
        (b"\xff\xfe", MARK * 2),
        (b"\xed\xa0\x80", MARK),  # a surrogate is one malformed sequence
        (b"\xed\xa0\x80\xed\xb0\x80", MARK * 2),
        (b"\xed\xa0A", MARK + "A"),
        (b"\xed\xa0", MARK),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xe0\x80\x80", MARK * 3),
        (b"\xe2\x82", MARK),
        (b"\xe2\x82A", MARK + "A"),
        (b"\xf0\x9f\x98", MARK),
        (b"\xf0\x80\x80\x80", MARK * 4),
        (b"\xf4\x90\x80\x80", MARK * 4),
        (b"\xf8\x88\x80\x80\x80", MARK * 5),
        (b"\xc0\xaf", MARK * 2),
        (b"\xc2", MARK),
    ],
)
def test_malformed_sequences_as_java_has_them(kernel: ModuleType, data: bytes, text: str) -> None:
    form = kafka_form(shown=False)
    line = written(kernel, batch([record(0, 0, data, data)]), form)
    assert line.endswith(f" key: {text} payload: {text}\n")


@each(
    ("value", "cell", "shown_cell"),
    [
        (b"plain", "plain", "plain"),
        (b"", '""', '""'),
        (b'a "b", c', '"a ""b"", c"', '"a ""b"", c"'),
        (b"a\r\nb", '"a\r\nb"', "a\\r\\nb"),
        (b"\x1b[m", "\x1b[m", "\\x1b[m"),
        ("\u061c\x9b\u202e".encode(), "\u061c\x9b\u202e", "\\u061c\\x9b\\u202e"),
        (b"=1", "'=1", "'=1"),
        (b"\t1", "'\t1", "\\t1"),
        ("\uff1d1,".encode(), '"\'\uff1d1,"', '"\'\uff1d1,"'),
        (b"\xfb\xff", "base64:+/8=", "base64:+/8="),
    ],
)
def test_cells_of_csv(kernel: ModuleType, value: bytes, cell: str, shown_cell: str) -> None:
    for shown, wanted in ((False, cell), (True, shown_cell)):
        form = csv_form(b"t,0,0", c.BYTES_AUTO, shown=shown, safe=True)
        line = written(kernel, batch([record(0, 0, None, value)]), form)
        assert line.endswith(f",false,,,{wanted},[]\r\n")


def test_headers_in_a_cell_of_csv(kernel: ModuleType) -> None:
    form = csv_form(b"t,0,0", c.BYTES_AUTO, shown=True, safe=True)
    headers = [('"\u061c'.encode(), b"\xff"), (b"b", None), (b"\xfe", b"")]
    line = written(kernel, batch([record(0, 0, b"k", b"v", headers)]), form)
    first = '{""key"":""\\""\\u061c"",""value"":{""base64"":""/w==""}}'
    last = '{""key"":{""base64"":""/g==""},""value"":""""}'
    assert line.endswith(f',k,v,"[{first},{{""key"":""b"",""value"":null}},{last}]"\r\n')


def test_batches_before_their_records(kernel: ModuleType) -> None:
    data = b"".join(batch([record(0), record(1)], base_offset=2 * n) for n in range(3))
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    rows = array("q", [0, 3, 4])
    form = kafka_form(shown=False)
    heads = array("q", [0, 1, 2])
    count = kernel.format_records(out.append, data, batches, records, rows, form, None, heads)
    words = [line.split()[:3] for line in b"".join(out).decode().splitlines()]
    assert count == 3
    assert [line[1] if line[0] != "|" else f"record {line[2]}" for line in words] == [
        *("0", "record 0", "2", "record 3", "4", "record 4"),
    ]


def test_text_of_a_control_record(kernel: ModuleType) -> None:
    data = batch([record(0, 0, b"k", b"v"), record(1)])
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    form = kafka_form(shown=False)
    said = [b"one", b"two"]
    kernel.format_records(out.append, data, batches, records, None, form, said)
    ends = [line.partition("headerKeys: [] ")[2] for line in b"".join(out).decode().splitlines()]
    assert ends == ["one", "two"]
    with pytest.raises(ValueError, match="one"):
        kernel.format_records(out.append, data, batches, records, None, form, said[:1])


def test_markers_in_csv_and_as_the_dump_tool_has_them(kernel: ModuleType) -> None:
    data = marker(0, coordinator_epoch=7) + batch([record(0, 0, b"k", b"v")], base_offset=1)
    csv = written(kernel, data, csv_form(b"t,0,0", c.BYTES_HEX, shown=False, safe=True))
    said = '"{""type"":""ABORT"",""version"":0,""coordinator_epoch"":7}"'
    abort, plain = csv.splitlines()
    assert abort.endswith(f",true,{said},00000000,000000000007,[]")
    assert plain.endswith(",false,,6b,76,[]")
    abort, plain = written(kernel, data, kafka_form(shown=False)).splitlines()
    assert abort.endswith(" headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 7")
    assert plain.endswith(" headerKeys: [] key: k payload: v")


def test_inner_messages_are_marked(kernel: ModuleType) -> None:
    """A wrong checksum of its own, another codec inside, both, and neither."""
    inner = message(0, b"a", b"") + message(1, b"b", b"", crc=7) + message(2, b"c", b"", crc=7)
    inner += message(3, b"d", b"")
    batches = walk(kernel, wrapper([], 3))
    records, _, _ = kernel.decode_messages(inner, 0, len(inner), batches, 0, 0, MANY)
    records.mark(2, 3 << c.INNER_CODEC_SHIFT)
    records.mark(3, 1 << c.INNER_CODEC_SHIFT)
    assert records.flags & c.INNER_MARKS == c.INNER_CRC_BAD | 3 << c.INNER_CODEC_SHIFT

    def ends(form: TextForm) -> list[str]:
        out: list[bytes] = []
        assert kernel.format_records(out.append, inner, batches, records, None, form) == 4
        return [line.partition("[]")[2] for line in b"".join(out).decode().splitlines()]

    crc, codec = ',"crc_valid":false', ',"inner_codec":"%s"'
    assert ends(json_form(b"", 0, marks=True)) == [
        "}", crc + "}", crc + codec % "lz4" + "}", codec % "gzip" + "}",
    ]  # fmt: skip
    assert ends(json_form(b"", 0, "0.7", marks=True))[1] == (
        ',"format":"0.7","next_offset":3,"crc_valid":false}'
    )
    form = csv_form(b"t,0,0", 0, marks=True, shown=False, safe=False)
    assert ends(form) == [",,", ",false,", ",false,lz4", ",,gzip"]
    assert set(ends(json_form(b"", 0))) == {"}"}


def test_table_leaves_marked_records_to_the_caller(kernel: ModuleType) -> None:
    inner = b"".join(message(n, crc=7 if n == 1 else None) for n in range(4))
    batches = walk(kernel, wrapper([], 3))
    records, _, _ = kernel.decode_messages(inner, 0, len(inner), batches, 0, 0, MANY)
    records.mark(2, 1 << c.INNER_CODEC_SHIFT)
    cells = (Cell("offset", width=3), Cell("value", b" ", b"''", b" -", width=9, most=9))
    form = TextForm(TABLE, 0, cells, cells, (), (), shown=True)
    found = []
    for row in range(4):
        out: list[bytes] = []
        kernel.format_records(out.append, inner, batches, records, array("q", (row,)), form)
        found.append(b"".join(out))
    assert found == [b"  0 value\n", b"", b"", b"  3 value\n"]

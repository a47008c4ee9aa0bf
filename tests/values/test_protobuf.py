"""Protobuf by the text of its schema: values as JSON, unknown fields, and what is none."""

from typing import Any

import pytest
from each import each

from kdump.values.schemas import wire
from kdump.values.schemas.errors import UndecodedError
from kdump.values.schemas.protobuf import Files

PROTO3 = 'syntax = "proto3";'


def read(text: str, data: bytes, path: list[int] | None = None, imported: str = "") -> Any:
    files = Files(text, [imported] if imported else [])
    return wire.decode(files.message(path or [0]), data, 0)


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


def field(number: int, value: int | bytes, *, wire_type: int | None = None) -> bytes:
    """Write a varint, or bytes with their length; with another type as they are."""
    if isinstance(value, int):
        return varint(number << 3 | (wire_type or 0)) + varint(value)
    if wire_type is not None:
        return varint(number << 3 | wire_type) + value
    return varint(number << 3 | 2) + varint(len(value)) + value


def group(number: int, inside: bytes) -> bytes:
    return varint(number << 3 | 3) + inside + varint(number << 3 | 4)


MINUS = (1 << 64) - 1


@each(
    ("type_", "data", "value"),
    [
        ("int32", field(1, MINUS), -1),
        ("int32", field(1, 1 << 32 | 5), 5),
        ("int64", field(1, MINUS), -1),
        ("uint32", field(1, MINUS), 0xFFFFFFFF),
        ("uint64", field(1, MINUS), MINUS),
        ("sint32", field(1, 3), -2),
        ("sint64", field(1, MINUS), -(1 << 63)),
        ("bool", field(1, 2), True),
        ("fixed32", field(1, b"\xff" * 4, wire_type=5), 0xFFFFFFFF),
        ("sfixed32", field(1, b"\xff" * 4, wire_type=5), -1),
        ("fixed64", field(1, b"\xff" * 8, wire_type=1), MINUS),
        ("sfixed64", field(1, b"\xff" * 8, wire_type=1), -1),
        ("float", field(1, b"\0\0\x80\x3f", wire_type=5), 1.0),
        ("double", field(1, b"\0" * 6 + b"\xf8\x7f", wire_type=1), "NaN"),
        ("string", field(1, "ü".encode()), "ü"),
        ("bytes", field(1, b"\0"), "AA=="),
    ],
)
def test_scalars_are_decoded(type_: str, data: bytes, value: Any) -> None:
    found = read(f"{PROTO3} message M {{ {type_} x = 0x1; }}", data)
    assert found == {"x": value}
    assert type(found["x"]) is type(value)
    again = read(f"{PROTO3} message M {{ repeated {type_} x = 01; }}", data + data)
    assert again == {"x": [value, value]}


def test_defaults_are_omitted_for_fields_with_presence() -> None:
    data = (
        field(1, 0)
        + field(2, 0)
        + field(3, b"")
        + field(4, 0)
        + field(5, b"\0\0\0\x80" * 2, wire_type=1)
    )
    text = """message M { int32 a = 1; optional int32 b = 2; M c = 3;
      oneof o { int32 d = 4; } double e = 5; }"""
    assert read(PROTO3 + text, data[:-9]) == {"b": 0, "c": {}, "d": 0}
    assert str(read(PROTO3 + text, field(5, b"\0" * 7 + b"\x80", wire_type=1))) == "{'e': -0.0}"
    assert read("message M { optional int32 a = 1; }", field(1, 0)) == {"a": 0}
    edition = 'edition = "2023"; option features.field_presence = IMPLICIT; message M {'
    assert read(edition + " int32 a = 1; }", field(1, 0)) == {}
    explicit = " int32 a = 1 [features = { field_presence: EXPLICIT }, deprecated = true]; }"
    assert read(edition + explicit, field(1, 0)) == {"a": 0}


def test_enums_open_and_closed() -> None:
    enum = "enum E { option allow_alias = true; A = 0; B = 1; C = 1; D = -1; } message M { "
    data = field(1, 1) + field(1, 7) + field(1, MINUS)
    assert read(PROTO3 + enum + "repeated E x = 1; }", data) == {"x": ["B", 7, "D"]}
    assert read(enum + "repeated E x = 1; }", data) == {"x": ["B", "D"], "1": [7]}
    packed = field(1, b"\1\7")
    assert read(enum + "repeated E x = 1; }", packed) == {"x": ["B"], "1": [7]}


def test_oneof_has_its_last_field() -> None:
    text = "message M { oneof o { int32 a = 1; M b = 2; string c = 3; } }"
    assert read(PROTO3 + text, field(1, 1) + field(3, b"x")) == {"c": "x"}
    assert read(PROTO3 + text, field(3, b"x") + field(2, field(1, 4))) == {"b": {"a": 4}}


def test_repeated_message_is_merged() -> None:
    text = "message M { M m = 1; repeated int32 n = 2; int32 k = 3; }"
    data = field(1, field(2, 1) + field(3, 5)) + field(1, field(2, b"\2\3") + field(3, 6))
    assert read(PROTO3 + text, data) == {"m": {"n": [1, 2, 3], "k": 6}}


def test_maps_are_decoded() -> None:
    text = """message M { map<string, M> m = 1; map<bool, int32> b = 2; map<int32, E> e = 3; }
      enum E { Z = 0; }"""
    entry = field(1, b"k") + field(2, field(2, field(1, 1) + field(2, 7)))
    data = field(1, entry) + field(2, b"") + field(3, field(1, MINUS))
    assert read(PROTO3 + text, data) == {
        "m": {"k": {"b": {"true": 7}}},
        "b": {"false": 0},
        "e": {"-1": "Z"},
    }


def test_unknown_fields_by_number() -> None:
    data = (
        field(2, 5)
        + field(2, b"ab")
        + field(3, b"\1\0\0\0", wire_type=5)
        + group(4, field(1, 1) + group(1, b""))
        + field(1, b"\1" + b"\0" * 7, wire_type=1)
    )
    assert read(PROTO3 + "message M { string s = 1; }", data) == {
        "2": [5, "YWI="],
        "3": [1],
        "4": [{"1": [1, {}]}],
        "1": [1],
    }


def test_groups_and_extensions() -> None:
    text = """package p; message M { optional group Res = 1 { optional int32 a = 1; }
      extensions 100 to max; extend .p.M { optional int32 in = 101; } }
      extend M { repeated group Gr = 100 { optional bool b = 1; } }"""
    data = group(1, field(1, 5)) + group(100, field(1, 1)) + field(101, 3)
    assert read(text, data) == {
        "res": {"a": 5},
        "[p.gr]": [{"b": True}],
        "[p.M.in]": 3,
    }


def test_types_are_resolved_from_the_inner_scope() -> None:
    text = """package a.b; import "x.proto"; message T { int32 outer = 1; }
      message M { message T { int32 inner = 1; } T t = 1; .a.b.T u = 2; c.X x = 3; b.T y = 4; }"""
    imported = 'syntax = "proto3"; package a.c; message X { int32 far = 1; }'
    data = b"".join(field(n, field(1, 1)) for n in (1, 2, 3, 4))
    found = read(PROTO3 + text, data, [1], imported)
    assert found == {"t": {"inner": 1}, "u": {"outer": 1}, "x": {"far": 1}, "y": {"outer": 1}}


def test_paths_to_messages() -> None:
    text = """message A { map<int32, int32> m = 1; message B { message C { int32 c = 1; } } }
      message D { int32 d = 1; } service S { rpc R (A) returns (stream D) { option x = {}; } }"""
    files = Files(PROTO3 + text, [])
    paths = {(0,): "A", (1,): "D", (0, 0): "A.B", (0, 0, 0): "A.B.C", (0, 1): "A.B"}
    assert {path: files.message(list(path)).full for path in paths} == paths
    for path in ([2], [-1], [0, 2], [1, 0], []):
        with pytest.raises(UndecodedError, match="no such message"):
            files.message(path)
    assert wire.indexes(b"\0", 0) == ([0], 1)
    assert wire.indexes(b"\4\2\0", 0) == ([1, 0], 3)
    for data in (b"\1", b"\xff\xff\3", b"\4\2"):
        with pytest.raises(UndecodedError):
            wire.indexes(data, 0)


KNOWN = """message M { google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2;
  google.protobuf.Int64Value n = 3; google.protobuf.Struct free = 4; google.protobuf.Value v = 5;
  google.protobuf.ListValue list = 6; google.protobuf.Empty e = 7; google.protobuf.Any any = 8;
  google.protobuf.BoolValue yes = 9; }"""


@each(
    ("data", "value"),
    [
        (field(1, b""), {"at": "1970-01-01T00:00:00Z"}),
        (field(1, field(1, 1) + field(2, 1000)), {"at": "1970-01-01T00:00:01.000001Z"}),
        (field(1, field(1, 1 << 62)), {"at": {"seconds": 1 << 62}}),
        (field(2, field(1, 1) + field(2, 500_000_000)), {"took": "1.500s"}),
        (field(2, field(2, MINUS)), {"took": "-0.000000001s"}),
        (field(2, field(1, 1) + field(2, MINUS)), {"took": {"seconds": 1, "nanos": -1}}),
        (field(3, b""), {"n": 0}),
        (field(3, field(1, MINUS)), {"n": -1}),
        (field(3, field(9, 1)), {"n": {"9": [1]}}),
        (field(9, b""), {"yes": False}),
        (field(5, b""), {"v": None}),
        (field(5, field(1, 0)), {"v": None}),
        (field(5, field(4, 0)), {"v": False}),
        (field(4, field(1, field(1, b"k") + field(2, field(3, b"x")))), {"free": {"k": "x"}}),
        (field(6, field(1, field(1, 0)) + field(1, field(6, b""))), {"list": [None, []]}),
        (field(7, b""), {"e": {}}),
        (field(8, field(1, b"u") + field(2, b"\0")), {"any": {"type_url": "u", "value": "AA=="}}),
    ],
)
def test_well_known_types_are_decoded(data: bytes, value: Any) -> None:
    assert read(PROTO3 + 'import "google/protobuf/any.proto";' + KNOWN, data) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x08", "truncated"),
        (b"\x08\x80", "truncated"),
        (b"\x12\5a", "truncated"),
        (b"\x0d\0", "truncated"),
        (b"\x1b\x08\1", "truncated"),
        (b"\0\0", "malformed"),
        (b"\x0f", "malformed"),
        (b"\x0c", "malformed"),
        (b"\x1b\x24", "malformed"),
        (b"\x08" + b"\xff" * 11, "malformed"),
        (field(2, b"\xff"), "malformed"),
        (b"\x1b" * 5000, "nested too deeply"),
        (field(9, b"\1" * (1 << 21)), "too many items"),
    ],
)
def test_invalid_messages(data: bytes, why: str) -> None:
    with pytest.raises(UndecodedError) as caught:
        read(PROTO3 + "message M { int32 a = 1; string s = 2; repeated bool b = 9; }", data)
    assert caught.value.reason == why


def test_nesting_is_bounded() -> None:
    data = b""
    for _ in range(200):
        data = field(1, data)
    with pytest.raises(UndecodedError, match="nested too deeply"):
        read(PROTO3 + "message M { M m = 1; }", data)


@each(
    "text",
    [
        "nonsense {",
        "message M {",
        "message M { int32 a = ; }",
        "message M { int32 a = 1 }",
        "message M { no.such.Type a = 1; }",
        "message M { int32 a = 1; int32 b = 1; }",
        "message M { int32 a = 0; }",
        "message M { map<float, int32> a = 1; }",
        "message M { int32 a = 1 [x = ",
        "message M {} message M {}",
        "message M { string s = \"",
        "/* not closed",
        "service S {",
        "extend No { int32 a = 1; }",
        "message M {" * 5000,
        "message M { optional group G = 1 {" * 2000,
        "option x = " + "{" * 100_000,
        "x" * (5 << 20),
    ],
)  # fmt: skip
def test_invalid_schemas(text: str) -> None:
    with pytest.raises(UndecodedError, match="schema cannot be read"):
        Files(text, [])


def test_schema_text_may_contain_other_statements() -> None:
    text = """\ufeff// a comment
      syntax = 'proto3'; /* another { */ package p.q; import public "a.proto";
      option java_package = "x;y"; option (custom).opt = { a: 1 b { c: "}" } };
      message M { reserved 4, 6 to max; reserved "x"; option deprecated = true; ;
        string message = 1 [json_name = "m", (opt) = { a: [1, 2] }]; int32 option = 2;
        repeated string reserved = 3; enum E { option x = 1; reserved 3; Z = 0 [y = -1.5e+3]; } }
      enum Other { A = 0; }; service S { rpc X (M) returns (M); }"""
    data = field(1, b"x") + field(2, 1) + field(3, b"y")
    assert read(text, data) == {"message": "x", "option": 1, "reserved": ["y"]}

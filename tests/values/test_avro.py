"""Avro by the writer's schema: values as JSON, and what no value, or no schema, is."""

import io
import json
import random
from typing import Any

import pytest
from each import each

from kdump.values.schemas import avro
from kdump.values.schemas.errors import MOST_ITEMS, UndecodedError


def read(schema: Any, data: bytes, *referred: Any, framed: bool = False) -> Any:
    return avro.reader(schema, list(referred), framed=framed)(data, 0)


def reason(schema: Any, data: bytes) -> str:
    with pytest.raises(UndecodedError) as caught:
        read(schema, data)
    return caught.value.reason


def record(*fields: tuple[str, Any], name: str = "R", **more: object) -> dict[str, Any]:
    made = [{"name": field, "type": type_} for field, type_ in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def logical(base: str, name: str, **more: object) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: object) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


@each(
    ("schema", "data", "value"),
    [
        ("null", b"", None),
        ("boolean", b"\1", True),
        ("int", b"\x01", -1),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", -(1 << 63)),
        ("float", b"\0\0\xc0\x7f", "NaN"),
        ("double", b"\0\0\0\0\0\0\xf0\xff", "-Infinity"),
        ("bytes", b"\4\0\xff", "AP8="),
        ("string", "\4ü".encode(), "ü"),
        ({"type": {"type": "string"}}, b"\2a", "a"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", "B"),
        (fixed(2), b"ab", "YWI="),
        ({"type": "array", "items": "int"}, b"\3\4\2\4\2\6\0", [1, 2, 3]),
        ({"type": "map", "values": "int"}, b"\2\2a\4\0", {"a": 2}),
        (["null", "int"], b"\0", None),
        (["null", "int"], b"\2\4", 2),
        (["int"], b"\0\4", 2),
        (["int", "string"], b"\2\2a", {"string": "a"}),
        (["null", "int", record(name="a.R")], b"\4", {"a.R": {}}),
        (["null", "int", record(name="a.R")], b"\0", None),
        (record(), b"", {}),
        (logical("int", "date"), b"\x02", "1970-01-02"),
        (logical("int", "date"), b"\xfe\xff\xff\xff\x0f", 0x7FFFFFFF),
        (logical("int", "time-millis"), b"\2", "00:00:00.001"),
        (logical("int", "time-millis"), b"\1", -1),
        (logical("long", "time-micros"), b"\2", "00:00:00.000001"),
        (logical("long", "timestamp-millis"), b"\1", "1969-12-31T23:59:59.999Z"),
        (logical("long", "timestamp-micros"), b"\2", "1970-01-01T00:00:00.000001Z"),
        (logical("long", "timestamp-nanos"), b"\2", "1970-01-01T00:00:00.000000001Z"),
        (logical("long", "local-timestamp-millis"), b"\2", "1970-01-01T00:00:00.001"),
        (logical("long", "timestamp-millis"), b"\xfe" + b"\xff" * 8 + b"\1", (1 << 63) - 1),
        (logical("bytes", "decimal", precision=4, scale=2), b"\2\xfb", "-0.05"),
        (logical("bytes", "decimal", precision=4), b"\2\x0c", "12"),
        (logical("bytes", "decimal", precision=4, scale=2), b"\0", "0.00"),
        (logical("bytes", "decimal", precision=10**9, scale=10**9), b"\2\x0c", "DA=="),
        (logical("bytes", "decimal", precision=2, scale=3), b"\2\x0c", "DA=="),
        (fixed(2, logicalType="decimal", precision=4, scale=1), b"\0\x0c", "1.2"),
        (fixed(16, logicalType="uuid"), bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (
            fixed(12, logicalType="duration"),
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
            {"months": 1, "days": 2, "millis": 3},
        ),
        (fixed(2, logicalType="uuid"), b"ab", "YWI="),
        (logical("string", "uuid"), b"\2a", "a"),
        (logical("int", "no-such"), b"\2", 1),
    ],
)
def test_values_are_decoded(schema: Any, data: bytes, value: Any) -> None:
    found = read(schema, data)
    assert found == value
    assert type(found) is type(value)


@each(
    ("schema", "data", "why"),
    [
        ("long", b"", "truncated"),
        ("long", b"\x80", "truncated"),
        ("double", b"\0\0", "truncated"),
        ("string", b"\4a", "truncated"),
        (fixed(2), b"a", "truncated"),
        ("long", b"\0\0", "trailing bytes"),
        ("null", b"a", "trailing bytes"),
        ("boolean", b"\2", "malformed"),
        ("string", b"\1", "malformed"),
        ("string", b"\2\xff", "malformed"),
        ("int", b"\xff\xff\xff\xff\x7f", "malformed"),
        ("long", b"\xff" * 9 + b"\2", "malformed"),
        ("long", b"\xff" * 12, "malformed"),
        (["null", "int"], b"\4", "malformed"),
        (["null", "int"], b"\1", "malformed"),
        (["string", "int"], b"\1", "malformed"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\1", "malformed"),
        ({"type": "array", "items": "int"}, b"\1\1\0\0", "malformed"),
    ],
)
def test_invalid_values(schema: Any, data: bytes, why: str) -> None:
    assert reason(schema, data) == why


@each(
    "schema",
    [
        {},
        {"type": "record"},
        {"type": "record", "name": "R", "fields": 7},
        "no.such",
        {"type": "array", "items": ["null", "null"]},
        [["null"], "int"],
        record(("a", "int"), ("a", "int")),
        record(name="int"),
        record(("a", record())),
        fixed(-1),
        fixed(True),  # type: ignore[arg-type]
        {"type": "enum", "name": "E", "symbols": [1]},
        7,
        None,
    ],
)
def test_invalid_schemas(schema: Any) -> None:
    with pytest.raises(UndecodedError, match="schema cannot be read"):
        avro.reader(schema, [], framed=True)


def test_texts_of_schemas() -> None:
    assert avro.parse("long") == "long"
    assert avro.parse('"long"') == "long"
    for text in ("{", "[" * 100_000, "x" * (5 << 20)):
        with pytest.raises(UndecodedError, match="schema cannot be read"):
            avro.parse(text)


def test_bytes_after_a_frame_have_no_length() -> None:
    for schema in ("bytes", {"type": "bytes"}):
        assert read(schema, b"ab", framed=True) == "YWI="
    assert read("bytes", b"\4ab") == "YWI="


def test_names_are_resolved_in_their_namespace() -> None:
    inner = record(("n", "int"), name="In", namespace="a.b")
    schema = record(("x", inner), ("y", "a.b.In"), ("z", ["null", "a.b.In"]), namespace="a")
    assert read(schema, b"\2\4\2\6") == {"x": {"n": 1}, "y": {"n": 2}, "z": {"n": 3}}
    assert avro.record_name(inner) == "a.b.In"
    assert avro.record_name("int") is None
    assert avro.record_name({"type": "record", "name": "c.R", "namespace": "a"}) == "c.R"
    assert read(record(("x", "In"), namespace="a.b"), b"\2", inner) == {"x": {"n": 1}}


def test_recursive_schema() -> None:
    chain = record(("n", "int"), ("next", ["null", "R"]))
    assert read(chain, b"\2\2\4\0") == {"n": 1, "next": {"n": 2, "next": None}}
    assert reason(chain, b"\2\2" * 10_000) == "nested too deeply"
    endless = record(("again", "R"))
    assert reason(endless, b"") in ("nested too deeply", "too many items")


def test_expansion_of_small_values_is_bounded() -> None:
    nulls = {"type": "array", "items": "null"}
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1"
    assert reason(nulls, many + b"\0") == "too many items"
    wide = record(*((f"f{n}", "null") for n in range(1000)))
    assert reason({"type": "array", "items": wide}, b"\x90\x4e" + b"\0") == "too many items"
    doubling: Any = record(("a", "null"), name="Wide0")
    fields = []
    for n in range(1, 60):
        fields.append(("first", doubling))
        doubling = record(("a", doubling), ("b", f"Wide{n - 1}"), name=f"Wide{n}")
    with pytest.raises(UndecodedError, match="too many items"):
        avro.reader(doubling, [], framed=False)
    deep: Any = "int"
    for _ in range(10_000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UndecodedError, match="nested too deeply"):
        avro.reader(deep, [], framed=False)
    assert MOST_ITEMS < 10_000_000


def random_schema(made: random.Random, depth: int, names: list[str]) -> Any:
    kinds = ["null", "boolean", "int", "long", "double", "bytes", "string", "enum", "fixed"]
    if depth:
        kinds += ["array", "map", "record", "record", "option"]
    kind = made.choice(kinds)
    name = f"N{len(names)}"
    if kind == "enum":
        names.append(name)
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
    if kind == "fixed":
        names.append(name)
        return {"type": "fixed", "name": name, "size": made.randrange(5)}
    if kind == "array":
        return {"type": "array", "items": random_schema(made, depth - 1, names)}
    if kind == "map":
        return {"type": "map", "values": random_schema(made, depth - 1, names)}
    if kind == "option":
        inner = random_schema(made, 0, names)
        return inner if inner == "null" else ["null", inner]
    if kind == "record":
        names.append(name)
        fields = [
            (f"f{n}", random_schema(made, depth - 1, names)) for n in range(made.randrange(5))
        ]
        return record(*fields, name=name)
    return kind


def test_random_values_match_fastavro() -> None:
    fastavro = pytest.importorskip("fastavro", reason="no fastavro to compare with")
    from fastavro.utils import generate_many

    made = random.Random(1)
    for _ in range(60):
        schema = random_schema(made, 3, [])
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        reader = avro.reader(schema, [], framed=False)
        for value in generate_many(parsed, 5):
            written = io.BytesIO()
            fastavro.schemaless_writer(written, parsed, value)
            data = written.getvalue()
            theirs = fastavro.schemaless_reader(io.BytesIO(data), parsed)
            assert reader(data, 0) == plain(theirs)
            for end in range(len(data)):
                with pytest.raises(UndecodedError):
                    reader(data[:end] + b"\xff" * 12, 0)


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return avro.base64(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value

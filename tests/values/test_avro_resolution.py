"""What one of Avro's schemas wrote, read as another one has it."""

import io
import json
from typing import Any

import pytest
from each import each

from kdump.values.schemas.avro_resolution import make_resolver
from kdump.values.schemas.errors import UndecodedError


def record(*fields: Any, name: str = "R", **more: object) -> dict[str, Any]:
    made = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def field(name: str, type_: Any, **more: object) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: object) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def map_of(values: str) -> dict[str, Any]:
    return {"type": "map", "values": values}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def read(writer: Any, reader: Any, data: bytes) -> Any:
    return make_resolver(writer, [], reader, [])(data, 0)


@each(
    ("writer", "reader", "data", "value"),
    [
        ("int", "long", b"\3", -2),
        ("int", "double", b"\4", 2.0),
        ("long", "float", b"\4", 2.0),
        ("float", "double", b"\0\0\x80\x3f", 1.0),
        ("float", "double", b"\0\0\xc0\x7f", "NaN"),
        ("string", "bytes", b"\2a", "YQ=="),
        ("bytes", "string", b"\2a", "a"),
        ("int", ["null", "int"], b"\4", 2),
        ("int", ["null", "string", "long"], b"\4", {"long": 2}),
        (["null", "int"], "int", b"\2\4", 2),
        (["int", "string"], ["string", "long"], b"\0\4", {"long": 2}),
        (["null", "int"], ["null", "long", "string"], b"\0", None),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, b"\2\4\0", [2.0]),
        (map_of("int"), map_of("long"), b"\2\2k\4\0", {"k": 2}),
        (enum("A", "B"), enum("B", "A"), b"\0", "A"),
        (enum("A", "B"), enum("B", "C", default="C"), b"\0", "C"),
        (record(("a", "int"), ("b", "string")), record(("b", "string")), b"\4\2x", {"b": "x"}),
        (
            record(("old", "int")),
            record(field("new", "double", aliases=["old"]), name="x.New", aliases=["R"]),
            b"\4",
            {"new": 2.0},
        ),
        (fixed(1), {**fixed(1), "name": "x.F"}, b"a", "YQ=="),
        ("int", TIMESTAMP, b"\2", "1970-01-01T00:00:00.001Z"),
    ],
)  # fmt: skip
def test_values_are_resolved(writer: Any, reader: Any, data: bytes, value: Any) -> None:
    found = read(writer, reader, data)
    assert found == value
    assert type(found) is type(value)


def test_defaults_are_shown_like_values() -> None:
    inner = record(("n", "int"), field("s", "string", default="new"), name="In")
    fields = [
        field("n", "null", default=None),
        field("b", "boolean", default=True),
        field("i", "long", default=-300),
        field("f", "float", default=1.5),
        field("raw", "bytes", default="\u00ff"),
        field("fixed", {"type": "fixed", "name": "F", "size": 1}, default="a"),
        field("e", enum("A", "B"), default="B"),
        field("list", {"type": "array", "items": "int"}, default=[1, 2]),
        field("map", {"type": "map", "values": "string"}, default={"k": "v"}),
        field("union", ["int", "string"], default=4),
        field("record", inner, default={"n": 3}),
        field("again", "In", default={"n": 4, "s": "x"}),
        field("money", DECIMAL, default="\u0005"),
        field("empty", {"type": "array", "items": "int"}, default=[]),
    ]  # fmt: skip
    assert read(record(), record(*fields), b"") == {
        "n": None, "b": True, "i": -300, "f": 1.5, "raw": "/w==", "fixed": "YQ==", "e": "B",
        "list": [1, 2], "map": {"k": "v"}, "union": {"int": 4}, "record": {"n": 3, "s": "new"},
        "again": {"n": 4, "s": "x"}, "money": "0.05", "empty": [],
    }  # fmt: skip


def test_recursive_schema() -> None:
    writer = record(("n", "int"), ("next", ["null", "R"]))
    reader = record(("next", ["null", "R"]), ("n", "long"), field("more", "int", default=7))
    assert read(writer, reader, b"\2\2\4\0") == {
        "n": 1, "more": 7, "next": {"n": 2, "next": None, "more": 7}
    }  # fmt: skip


@each(
    ("writer", "reader", "data"),
    [
        ("long", "int", b"\2"),
        (enum("A"), "string", b"\0"),
        (enum("A"), enum("B"), b"\0"),
        (["null", "int"], "int", b"\0"),
        ("int", ["null", "string"], b"\2"),
        (record(), record(("a", "int")), b""),
        (record(), record(name="Other"), b""),
        (fixed(1), fixed(2), b"a"),
    ],
)  # fmt: skip
def test_incompatible_schemas_are_refused(writer: Any, reader: Any, data: bytes) -> None:
    with pytest.raises(UndecodedError, match="no resolution"):
        read(writer, reader, data)


def test_unbounded_growth_is_refused() -> None:
    """Records that hold the one before twice, and defaults of nothing in them."""
    doubling: Any = record(field("a", "null", default=None), name="Twice0")
    for n in range(1, 60):
        fields = [field("a", doubling, default={}), field("b", f"Twice{n - 1}", default={})]
        doubling = record(*fields, name=f"Twice{n}")
    for writer in (doubling, record(name="Twice59")):
        with pytest.raises(UndecodedError):
            read(writer, doubling, b"")
    with pytest.raises(UndecodedError):
        read(record(("a", "R")), record(("a", "R")), b"")
    for bad in (
        7,
        {},
        record(field("a", "int", default="x")),
        record(field("a", enum("A"), default="B")),
    ):
        with pytest.raises(UndecodedError):
            read(record(), bad, b"")


def test_resolution_matches_fastavro() -> None:
    fastavro = pytest.importorskip("fastavro", reason="no fastavro to compare with")
    writer = record(
        ("a", "int"), ("b", ["null", "string"]), ("c", {"type": "array", "items": "float"})
    )
    reader = record(
        ("c", {"type": "array", "items": "double"}),
        field("bb", ["null", "string", "int"], aliases=["b"]),
        field("d", "long", default=5),
        ("a", "double"),
    )
    of, to = (fastavro.parse_schema(json.loads(json.dumps(one))) for one in (writer, reader))
    for value in (
        {"a": 1, "b": None, "c": []},
        {"a": -7, "b": "x", "c": [1.5, 2.5]},
    ):
        written = io.BytesIO()
        fastavro.schemaless_writer(written, of, value)
        data = written.getvalue()
        theirs = fastavro.schemaless_reader(io.BytesIO(data), of, to)
        theirs["bb"] = None if theirs["bb"] is None else {"string": theirs["bb"]}
        assert read(writer, reader, data) == theirs

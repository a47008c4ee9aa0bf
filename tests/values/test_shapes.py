"""The types of SQL for the data of a topic, by the schemas that a registry has of it."""

import json
from typing import Any

from registry_log import schema_record

from kdump.values.schemas.framed_values import Schemas
from kdump.values.schemas.registry import Registry
from kdump.values.schemas.shapes import TEXT, Data, shapes_of_topics, sql_type


def shapes(*records: tuple[bytes | None, bytes | None]) -> dict[tuple[str, str], Data]:
    registry = Registry()
    for offset, record in enumerate(records):
        registry.take(offset, *record)
    return shapes_of_topics(Schemas(registry, {}))


def of(*schemas: Any, **more: str) -> str:
    """Return the type of the values of a topic with these versions."""
    records = [schema_record("t-value", n, n, one, **more) for n, one in enumerate(schemas, 1)]
    return sql_type(shapes(*records)["t", "value"].shape)


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "n",
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def test_avro() -> None:
    inner = record(("x", ["null", "double"]), name="Inner")
    fields = [
        ("id", "long"), ("ok", "boolean"), ("list", {"type": "array", "items": inner}),
        ("again", ["null", "Inner"]), ("map", {"type": "map", "values": "int"}),
        ("either", ["null", "string", "Inner"]), ("nothing", "null"),
        ("when", {"type": "long", "logicalType": "timestamp-millis"}),
        ("grade", {"type": "enum", "name": "E", "symbols": ["A"]}),
    ]  # fmt: skip
    assert of(record(*fields)) == (
        'STRUCT("id" BIGINT, "ok" BOOLEAN, "list" STRUCT("x" DOUBLE)[], "again" STRUCT("x" DOUBLE),'
        ' "map" MAP(VARCHAR, BIGINT), "either" STRUCT("string" VARCHAR,'
        ' "n.Inner" STRUCT("x" DOUBLE)), "nothing" VARCHAR, "when" VARCHAR, "grade" VARCHAR)'
    )
    assert (of('"long"'), of('"bytes"'), of(record())) == ("BIGINT", TEXT, TEXT)


def test_versions_are_merged() -> None:
    first = record(
        ("a", "int"), ("b", "string"), ("c", "int"), ("d", {"type": "array", "items": "int"})
    )
    second = record(
        ("a", "double"), ("b", "int"), ("d", {"type": "array", "items": "double"}), ("e", "int")
    )
    assert of(first, second) == (
        'STRUCT("a" DOUBLE, "b" VARCHAR, "c" BIGINT, "d" DOUBLE[], "e" BIGINT)'
    )
    assert of(record(("a", "int"), ("A", "int"))) == TEXT


def test_protobuf() -> None:
    text = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
        message A { uint64 big = 1; repeated B bs = 2; map<string, sint32> m = 3; A again = 4;
            google.protobuf.Timestamp at = 5; message Inner { string only = 1; } }
        message B { float f = 1; }"""
    data = shapes(schema_record("t-value", 1, 1, text, schemaType="PROTOBUF"))["t", "value"]
    assert data.messages == {"p.A", "p.B"}
    assert sql_type(data.shape) == (
        'STRUCT("big" UBIGINT, "bs" STRUCT("f" DOUBLE)[], "m" MAP(VARCHAR, BIGINT),'
        ' "again" VARCHAR, "at" VARCHAR, "f" DOUBLE)'
    )


def test_json_schema() -> None:
    schema = {
        "title": "T",
        "type": "object",
        "$defs": {"s": {"type": ["null", "integer"]}},
        "properties": {
            "a": {"$ref": "#/$defs/s"},
            "b": {"type": "array", "items": {"type": "number"}},
            "c": {"oneOf": [{"type": "string"}]},
            "d": {"type": ["string", "integer"]},
            "e": {"$ref": "elsewhere.json"},
        },
    }
    assert of(schema, schemaType="JSON") == (
        'STRUCT("a" BIGINT, "b" DOUBLE[], "c" VARCHAR, "d" VARCHAR, "e" VARCHAR)'
    )


def test_subjects_have_their_topics() -> None:
    found = shapes(
        schema_record("a-b-key", 1, 1, '"int"'),
        schema_record("a-n.R", 1, 2, record(("x", "int"))),
        schema_record("n.R", 1, 2, record(("x", "int"))),
        schema_record(":.ctx:c-value", 1, 3, '"int"'),
        schema_record("bad-value", 1, 4, "{"),
        schema_record("lost-value", 1, 5, record(("x", "Unknown"))),
    )
    assert found.keys() == {("a-b", "key"), ("a", "value"), ("c", "value"), ("lost", "value")}


def test_endless_schemas_become_text() -> None:
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    assert of(deep).endswith("[]")
    wide = [record(("a", "int"), name="Rec0")]
    for number in range(1, 40):
        name = f"Rec{number - 1}"
        wide.append(record(("a", wide[-1]), ("b", name), ("c", name), name=f"Rec{number}"))
    assert of(wide[-1]) == TEXT
    messages = "".join(
        f"message Msg{number - 1} {{ Msg{number} a = 1; Msg{number} b = 2; }}"
        for number in range(1, 31)
    )
    text = f'syntax = "proto3"; message Msg30 {{ int32 a = 1; }} {messages}'
    assert of(text, schemaType="PROTOBUF") == TEXT
    nested = [
        {"type": "object", "properties": {key: {"$ref": f"#/$defs/{n + 1}"} for key in "abc"}}
        for n in range(30)
    ]
    many = {"$defs": dict(zip(map(str, range(30)), nested, strict=True)), "$ref": "#/$defs/0"}
    assert of(many, schemaType="JSON") == TEXT
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert of(json.loads(json.dumps(circle)), schemaType="JSON") == TEXT

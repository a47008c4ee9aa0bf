"""`kdump dump` of keys and values that were written by a schema, beside the registry's topic."""

import importlib.util
import json
import traceback
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import Result
from commands import run
from corpus import corpus, find_shared
from registry_log import LOG, frame, schema_record, tombstone, topic

import kdump
from kdump.values.schemas.errors import UndecodedError
from kdump.values.schemas.framed_values import Schemas
from kdump.values.schemas.registry import Registry

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
PROTO = 'syntax = "proto3"; package p; message A { int32 a = 1; } message B { string b = 1; }'
A, B = {"id": 1, "note": None}, {"id": -1, "note": "x"}
OF_A, OF_B = b"\2\0", b"\1\2\2x"


def dump(*args: object) -> Result:
    return run("dump", *args)


def rows(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump("--format", "jsonl", *args).stdout.splitlines()]


def values(*args: object) -> list[Any]:
    return [row["value"] for row in rows(*args) if row["row"] == "record"]


def said(
    id_: int, subject: str, version: int = 1, type_: str = "avro", **more: str
) -> dict[str, Any]:
    return {"id": id_, "subject": subject, "version": version, "type": type_, **more}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Give a data directory with a registry's topic."""
    found = tmp_path / "data"
    records = [
        schema_record("orders-value", 1, 7, ORDER),
        schema_record("orders-key", 1, 8, '"string"'),
        schema_record("p-value", 1, 9, PROTO, schemaType="PROTOBUF"),
        schema_record("p.B", 3, 9, PROTO, schemaType="PROTOBUF"),
        schema_record("docs-value", 1, 10, "{}", schemaType="JSON"),
        schema_record("bad-value", 1, 11, "{"),
        schema_record("odd-value", 1, 12, "x", schemaType="ODD"),
        schema_record("gone-value", 1, 13, "int"),
        tombstone("gone-value", 1),
        schema_record(":.blue:far-value", 1, 7, "int"),
        schema_record("needs-value", 1, 14, '"x.Y"', references=[reference("x.Y", "none")]),
        schema_record("circle-value", 1, 15, '"x"', references=[reference("x", "circle-value")]),
        schema_record(
            "uses-value", 1, 16, '"shop.Order"', references=[reference("o", "orders-value")]
        ),
    ]
    topic(found, "_schemas", records)
    return found


def reference(name: str, subject: str) -> dict[str, object]:
    return {"name": name, "subject": subject, "version": 1}


def test_keys_and_values_are_decoded(data: Path) -> None:
    topic(data, "orders", [(frame(8, b"\4k1"), frame(7, OF_A)), (b"plain", None), (None, b"x")])
    first, second, third = rows("--topic", "orders", data)
    assert first["key"] == {"schema": said(8, "orders-key"), "data": "k1"}
    assert first["value"] == {"schema": said(7, "orders-value"), "data": A}
    assert (second["key"], second["value"]) == ("plain", None)
    assert (third["key"], third["value"]) == (None, "x")
    assert values("--topic", "orders", "--decode", "raw", data)[2] == "x"
    assert values("--topic", "orders", "--decode", "raw", data)[0] == frame(7, OF_A).decode()


def test_window_key_is_decoded(data: Path) -> None:
    start = 1_795_642_500_000
    window, session = pack(">qi", start, 3), pack(">qq", start + 5, start)
    keys = [frame(8, b"\4k1") + window, frame(8, b"\4k1") + session, b"key" + window]
    keys += [frame(8, b"\4k") + window, pack(">q", 5) + window]
    topic(data, "app-store-changelog", [(key, frame(7, OF_A)) for key in keys])
    shown = [row["key"] for row in rows("--topic", "app-*", data) if row["row"] == "record"]
    decoded = {"schema": said(8, "orders-key"), "data": "k1"}
    times = {"window_start_ms": start}
    assert shown[0] == {"type": "window_key", "data": {"key": decoded, **times, "sequence": 3}}
    ends = {"window_end_ms": start + 5}
    assert shown[1] == {"type": "session_key", "data": {"key": decoded, **times, **ends}}
    assert shown[2]["data"]["key"] == "key"
    assert shown[3]["data"]["key"]["why"] == "truncated"
    assert shown[4]["data"]["key"] == "\0" * 7 + "\5"
    assert values("--topic", "app-*", data)[0]["data"] == A


def test_each_kind_of_schema(data: Path) -> None:
    topic(
        data,
        "p",
        [
            (None, frame(9, b"\0\x08\5")),
            (None, frame(9, b"\2\2\x0a\1x")),
            (None, frame(10, b' {"n": 1.10,\n"t":[1e400]}')),
            (None, frame(16, OF_B)),
        ],
    )
    lines = dump("--format", "jsonl", "--topic", "p", data).stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [
        {"schema": said(9, "p-value", 1, "protobuf", message="p.A"), "data": {"a": 5}},
        {"schema": said(9, "p-value", 1, "protobuf", message="p.B"), "data": {"b": "x"}},
        {"schema": said(10, "docs-value", 1, "json"), "data": {"n": 1.1, "t": [float("inf")]}},
        {"schema": said(16, "uses-value"), "data": B},
    ]
    assert '{"n": 1.10, "t":[1e400]}' in lines[2]
    topic(data, "other", [(None, frame(9, b"\2\2\x0a\1x"))])
    (value,) = values("--topic", "other", data)
    assert value["schema"] == said(9, "p.B", 3, "protobuf", message="p.B")


def test_headers_name_a_schema(data: Path) -> None:
    (row,) = [
        row
        for row in rows("--topic", "_schemas", data)
        if row.get("id") == 7 and row["version"] == 1 and row["subject"] == "orders-value"
    ]
    guid = bytes.fromhex(row["guid"].replace("-", ""))
    name, key_name = b"__value_schema_id", b"__key_schema_id"
    topic(
        data,
        "orders",
        [
            (None, OF_A, [(b"other", None), (name, b"\1" + guid)]),
            (None, OF_B, [(name, b"\0\0\0\0\7")]),
            (b"\2k", b"v", [(key_name, b"\0\0\0\0\x08")]),
            (None, b"\1" + guid + OF_A),
            (None, OF_A, [(name, b"\2")]),
            (None, OF_A, [(name, b"\1" + bytes(16))]),
            (None, b"\1" + bytes(16)),
        ],
    )
    found = rows("--topic", "orders", data)
    assert [row["value"]["data"] for row in found[:2]] == [A, B]
    assert found[2]["key"] == {"schema": said(8, "orders-key"), "data": "k"}
    assert found[2]["value"] == "v"
    assert found[3]["value"]["data"] == A
    assert [row["value"]["why"] for row in found[4:6]] == [
        "malformed header",
        "unknown id: " + "0" * 32,
    ]
    assert found[6]["value"] == "\1" + "\0" * 16


def test_undecoded_values_stay_bytes_with_a_reason(data: Path) -> None:
    bad = {
        frame(99, b"x"): "unknown id: 99",
        frame(7, b""): "truncated",
        frame(7, OF_A + b"!"): "trailing bytes: 1 after the value",
        frame(7, b"\2\4"): "malformed: no such branch of a union",
        frame(9, b"\6\2"): "truncated",
        frame(9, b"\2\4"): "no such message: [2]",
        frame(10, b"{"): "truncated or malformed: ",
        frame(10, b"{}{}"): "trailing bytes: Extra data",
        frame(10, b"NaN"): "malformed: not JSON in UTF-8",
        frame(11, b""): "schema cannot be read: ",
        frame(12, b""): "unknown type of schema: ODD",
        frame(14, b""): "reference is missing: none version 1",
        frame(15, b""): "schema cannot be read: its references are circular",
    }
    topic(data, "x", [(None, value) for value in [*bad, frame(7, OF_A), frame(13, b"\2")]])
    result = dump("--format", "jsonl", "--topic", "x", data)
    found = [json.loads(line)["value"] for line in result.stdout.splitlines()]
    for one, why in zip(found[:-2], bad.values(), strict=True):
        assert one["why"].startswith(why)
    assert all("data" not in one and "base64" in one for one in found[:-2])
    assert found[-2]["data"] == A
    assert found[-1] == {"schema": said(13, "gone-value"), "data": 1}
    assert (
        "kdump: keys and values not decoded: 2 truncated, 2 trailing bytes, 2 malformed"
        in result.stderr
    )
    assert "not decoded" not in dump("-q", "--topic", "x", data).stderr


def test_mismatched_subjects_and_invalid_records_are_reported(data: Path) -> None:
    topic(data, "orders", [(frame(8, b"\2k"), frame(7, OF_A))])
    assert "subject" not in dump("--format", "jsonl", "--topic", "orders", data).stderr
    topic(data, "x", [(frame(8, b"\2k"), frame(7, OF_A)), (None, frame(9, b"\2\2"))])
    said = dump("--format", "jsonl", "--topic", "x", data).stderr
    assert "subject does not belong to the topic: x by orders-key, x by orders-value" in said
    assert "cannot be read" not in said
    odd = data / "odd"
    topic(odd, "_schemas", [(b"{", b"{}"), schema_record("x-value", 1, 7, ORDER)])
    topic(odd, "x", [(None, frame(7, OF_A))])
    assert (
        "records of the registry's topic that cannot be read: 1" in dump("--topic", "x", odd).stderr
    )


def test_number_that_looks_like_a_frame_is_not_decoded(data: Path) -> None:
    topic(data, "n", [(None, (5).to_bytes(8, "big")), (None, b"\0\0\0\5"), (None, b"")])
    assert values("--topic", "n", data) == ["\0" * 7 + "\5", "\0\0\0\5", ""]


def test_context_id_applies_to_topics_of_its_subjects(data: Path) -> None:
    topic(data, "far", [(None, frame(7, b"\6"))])
    assert values("--topic", "far", data) == [{"schema": said(7, ":.blue:far-value"), "data": 3}]


def test_filters_see_decoded_values(data: Path) -> None:
    topic(
        data,
        "orders",
        [(frame(8, b"\4k1"), frame(7, OF_A)), (frame(8, b"\4k2"), frame(7, OF_B)), (b"k1", b"y")],
    )
    assert [row["offset"] for row in rows("--topic", "orders", "--key", "k1", data)] == [0, 2]
    assert [row["offset"] for row in rows("--topic", "orders", "--key", '"k2"', data)] == [1]
    assert [row["offset"] for row in rows("--topic", "orders", "--grep", '"note":"x"', data)] == [1]
    assert [row["offset"] for row in rows("--topic", "orders", "--limit", "1", data)] == [0]


def test_schema_files_are_used(data: Path, tmp_path: Path) -> None:
    (tmp_path / "o.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "p.proto").write_text(PROTO)
    alone = tmp_path / "alone"
    topic(alone, "a", [(None, OF_A), (None, frame(3, OF_B)), (None, b"\2")])
    topic(alone, "b", [(None, b"\x08\5"), (None, frame(3, b"\2\2\x0a\1x"))])
    topic(alone, "c", [(None, frame(7, OF_A))])
    given = ["--schemas", f"a={tmp_path}/o.avsc", "--schemas", f"b={tmp_path}/p.proto"]
    found = values(*given, alone)
    assert [one.get("data") for one in found] == [A, B, None, {"a": 5}, {"b": "x"}, None]
    assert found[0]["schema"] == {"file": "o.avsc", "type": "avro"}
    assert found[2]["why"] == "not a value of the given schema"
    assert found[4]["schema"] == {"file": "p.proto", "type": "protobuf", "message": "p.B"}
    assert found[5]["why"] == "no registry"
    assert values("--schemas", data, "--topic", "c", alone)[0]["data"] == A
    assert values("--topic", "c", alone) == [frame(7, OF_A).decode()]
    assert values("--decode", "schema", "--topic", "c", alone)[0]["why"] == "no registry"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--schemas", "a=none.avsc"], "No such file"),
        (["--schemas", "a=x.txt"], "must end in .avsc, .proto, .json"),
        (["--schemas", "a=x.avsc", "--decode", "raw"], "needs --decode schema"),
        (["--decode", "schema", "--batches"], "exclude each other"),
    ],
)
def test_wrong_usage_exits_with_2(data: Path, args: list[str], words: str) -> None:
    result = dump(*args, data)
    assert (result.exit_code, words in result.stderr) == (2, True)


def test_registry_topic_and_time_may_be_given(data: Path) -> None:
    (data / "_schemas-0").rename(data / "registry-0")
    topic(data, "orders", [(None, frame(7, OF_A))])
    assert values("--topic", "orders", data) == [frame(7, OF_A).decode()]
    named = ["--schemas", "registry", "--topic", "orders", data]
    assert values(*named)[0]["data"] == A
    assert values("--schemas-at", "@0", *named)[0]["why"] == "unknown id: 7"


def test_rows_of_schemas(data: Path) -> None:
    found = [row for row in rows("--topic", "_schemas", data) if row["row"] == "schema"]
    assert len(found) == 12
    gone = next(row for row in found if row["subject"] == "gone-value")
    assert (gone["deleted"], gone["state"], gone["offset"], gone["schema"]) == (
        True,
        "hard",
        7,
        "int",
    )
    uses = next(row for row in found if row["subject"] == "uses-value")
    assert uses["references"] == [reference("o", "orders-value")]
    assert not any(row["row"] == "schema" for row in rows(data))
    assert any(row["row"] == "schema" for row in rows("--decode", "schema", data))


def test_registry_damage_is_reported(data: Path) -> None:
    path = data / "_schemas-0" / LOG
    made = path.read_bytes()
    path.write_bytes(made[:200] + b"!" + made[201:])
    topic(data, "orders", [(None, frame(7, OF_A))])
    result = dump("--format", "jsonl", "--topic", "orders", data)
    assert json.loads(result.stdout)["value"]["why"] == "unknown id: 7"
    assert "the registry's topic is damaged" in result.stderr


def test_parquet_and_library_have_decoded_values(data: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    topic(data, "orders", [(b"k", frame(7, OF_A))])
    out = tmp_path / "o.parquet"
    dump("--topic", "orders", "--decode", "auto", "--output", out, data)
    table = parquet.read_table(out).to_pylist()
    assert json.loads(table[0]["value_json"])["data"] == A
    assert table[0]["key"] == b"k"
    parts = tmp_path / "parts"
    dump(
        "--topic",
        "orders",
        "--decode",
        "auto",
        "--format",
        "parquet",
        "--output",
        f"{parts}/",
        data,
    )
    (part,) = parts.rglob("*.parquet")
    assert json.loads(parquet.read_table(part).to_pylist()[0]["value_json"])["data"] == A
    with kdump.open(data, topic="orders") as opened:
        (row,) = opened.records(decode=True)
        assert not isinstance(row, kdump.Finding)
        assert row.value == {"schema": said(7, "orders-value"), "data": A}
    with kdump.open(data, topic="_schemas") as opened:
        assert opened.table("schema").num_rows == 12


def test_values_are_resolved_to_the_newest_version(data: Path) -> None:
    newer = {**ORDER, "fields": [ORDER["fields"][0] | {"type": "double"}, NEW]}
    records = [
        schema_record("orders-value", 1, 7, ORDER),
        schema_record("orders-value", 2, 8, newer),
        schema_record("orders-value", 3, 9, '"int"', deleted=True),
        schema_record("p-value", 1, 10, ORDER),
        schema_record("p-value", 2, 11, '"int"'),
    ]
    found = data / "more"
    topic(found, "_schemas", records)
    topic(found, "orders", [(None, frame(7, OF_B)), (None, frame(9, b"\2"))])
    topic(found, "p", [(None, frame(10, OF_A)), (None, frame(10, OF_B)), (None, frame(11, b"\4"))])
    latest = ["--reader-schema", "latest", found]
    first, second = values("--topic", "orders", *latest)
    assert first == {"schema": said(7, "orders-value"), "data": {"id": -1.0, "more": "x"}}
    assert second["why"].startswith("no resolution")
    assert [one.get("why") for one in values("--topic", "p", *latest)] == [
        "no resolution: record as int", "no resolution: record as int", None
    ]  # fmt: skip
    assert values("--topic", "orders", found)[0]["data"] == B


NEW = {"name": "more", "type": "string", "default": "x"}


def test_unreadable_value_leaves_no_partial_output() -> None:
    """A traceback grows with each time that one error is raised, and holds the value."""
    registry = Registry()
    registry.take(0, *schema_record("a-value", 1, 7, "{"))
    schemas = Schemas(registry, {})
    found = schemas.of("a")
    assert found is not None
    (_, side) = found._sides
    for id_ in (7, 9) * 50:
        assert b'"why"' in (found._text(side, frame(id_, b"x"), None, None) or b"")
    held = [*side._writers.values(), *schemas._ready.values()]
    held += [one._failed for one in held if hasattr(one, "_failed")]
    errors = [one for one in held if isinstance(one, UndecodedError)]
    assert len(errors) > 2
    for error in errors:
        assert len(list(traceback.walk_tb(error.__traceback__))) < 10


@pytest.mark.parametrize("copy", ["clean", "killed"])
def test_values_equal_those_of_the_deserializers(copy: str, tmp_path: Path) -> None:
    """And every schema, and every value of a topic whose schema a file has."""
    found = corpus(f"values/data/{copy}") / "data"
    root = find_shared()
    assert root is not None
    check = load_check(root / "corpus" / "values" / "check.py")
    files = root / "corpus" / "values" / "expected" / "files"
    given = [
        f"--schemas={topic}={files}/{topic}.{end}"
        for topic, end in (("bare-avro", "avsc"), ("bare-proto", "proto"))
    ]
    mine = rows("--decode", "schema", found)
    latest = rows("--reader-schema", "latest", found) if copy == "clean" else []
    for part, all_ in (
        ("projected", latest),
        ("values", mine),
        ("schemas", mine),
        ("unframed", rows(*given, found)),
    ):
        if not all_:  # the truth has no second version
            continue
        count = check.Count(0)
        judge, name = check.PARTS[part]
        judge(
            all_,
            check.load(root / "corpus" / "values" / "expected" / f"{name}.jsonl.xz"),
            copy,
            count,
        )
        assert (part, count.good, count.words) == (part, count.total, {})
        assert count.total > 99


def load_check(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("check_values", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made

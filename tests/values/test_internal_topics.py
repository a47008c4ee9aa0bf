"""What records of internal topics say, in each form of output."""

import base64
import csv
import io
import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import builders
import pyarrow.parquet as pq
import pytest
from chunks import record_chunk
from click.testing import CliRunner, Result
from corpus import corpus, files
from internal_topics import as_json, raw_records
from message_writing import message_bytes
from pyarrow import ipc

from kdump.cli import cli
from kdump.engine.dump.run import dump as dumped
from kdump.engine.reading.options import DumpOptions
from kdump.findings.rows import JsonText, Place, RecordChunk
from kdump.messages.records import TOPICS, decode
from kdump.messages.table import UNKNOWN_TAGS, message, tables
from kdump.output.jsonl import JsonLines, json_line
from kdump.output.values import AUTO, headers_json
from kdump.values.decoded_values import MOST_BYTES, values_of
from kdump.values.decoders.internal_topics import members

LOG = "00000000000000000000.log"
COMMIT_KEY = b"\0\1" + message_bytes(
    message("OffsetCommitKey"), 0, {"group": "billing", "topic": "orders", "partition": 3}
)
COMMIT = b"\0\3" + message_bytes(
    message("OffsetCommitValue"), 3, {"offset": 5, "metadata": "€ \x1b[31m"}
)
SAID_KEY = {
    "type": "offset_commit",
    "version": 1,
    "data": {"group": "billing", "topic": "orders", "partition": 3},
}
SAID = {
    "type": "offset_commit",
    "version": 3,
    "data": {"offset": 5, "leaderEpoch": -1, "metadata": "€ \x1b[31m", "commitTimestamp": 0},
}


def metadata(name: str, fields: dict[str, Any]) -> bytes:
    known = message(name)
    assert known.id is not None
    return bytes([1, known.id, 0]) + message_bytes(known, 0, fields)


SCRAM = metadata("UserScramCredentialRecord", {"name": "a", "salt": b"hush", "storedKey": b"hush"})


def partition(root: Path, name: str, pairs: Iterable[tuple[bytes | None, bytes | None]]) -> Path:
    directory = root / name
    directory.mkdir(parents=True)
    records = [builders.record(n, 0, key, value) for n, (key, value) in enumerate(pairs)]
    (directory / LOG).write_bytes(builders.batch(records))
    return directory


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    """A partition of `__consumer_offsets`: a commit, its tombstone, and what nobody knows."""
    pairs = [(COMMIT_KEY, COMMIT), (COMMIT_KEY, None), (b"\0\x63?", b"\0\7\xff"), (b"", None)]
    return partition(tmp_path, "__consumer_offsets-0", pairs)


SAID_PAIRS = [
    (SAID_KEY, SAID),
    (SAID_KEY, None),
    (
        {
            "type": "unknown",
            "type_id": 99,
            "version": 99,
            "problem": "unknown-type",
            "bytes": "Pw==",
        },
        {
            "type": "unknown",
            "type_id": 99,
            "version": 7,
            "problem": "unknown-type",
            "bytes": "/w==",
        },
    ),
    ({"type": "unknown", "problem": "malformed", "bytes": ""}, None),
]


def dump(*args: object, **env: str) -> Result:
    return CliRunner().invoke(cli, ["dump", *map(str, args)], env=env)


def pairs(result: Result) -> list[tuple[object, object]]:
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [(line["key"], line["value"]) for line in lines]


def test_json_lines_contain_decoded_keys_and_values(offsets: Path) -> None:
    for args in ((), ("--decode", "auto"), ("--format", "jsonl")):
        result = dump(*args, offsets)
        assert result.exit_code == 0
        assert pairs(result) == SAID_PAIRS


def test_filters_match_the_bytes_and_the_text(offsets: Path, tmp_path: Path) -> None:
    key_text = json.dumps(SAID_KEY, separators=(",", ":"))
    for words, numbers in (
        (("--key", key_text), [0, 1]),
        (("--key", COMMIT_KEY.decode()), [0, 1]),
        (("--key", key_text, "--decode", "raw"), []),
        (("--grep", '"type":"offset_commit","version":3'), [0]),
        (("--grep", "unknown-type|u001b.31m"), [0, 2]),
        (("--grep", "unknown-type", "--decode", "raw"), []),
        (("--grep", r"\x07billing"), [0, 1]),  # as stored, with a length before it
        (("--key", key_text, "--grep", "offset_commit", "--limit", "1"), [0]),
        (("--key", key_text, "--from-offset", "1"), [1]),
    ):
        lines = map(json.loads, dump(*words, offsets).stdout.splitlines())
        assert [line["offset"] for line in lines] == numbers, words
        output = tmp_path / "out.parquet"
        decode = () if "--decode" in words else ("--decode", "auto")
        dump(*words, *decode, "--force", "-o", output, offsets)
        assert pq.read_table(output)["offset"].to_pylist() == numbers, words


def test_members_keep_their_order(offsets: Path) -> None:
    said, raw = dump(offsets), dump("--decode", "raw", offsets)
    for one, other in zip(said.stdout.splitlines(), raw.stdout.splitlines(), strict=True):
        assert list(json.loads(one)) == list(json.loads(other))
        same = {k: v for k, v in json.loads(one).items() if k not in ("key", "value")}
        assert same.items() <= json.loads(other).items()


@pytest.mark.parametrize("mode", ["utf8", "hex", "base64"])
def test_bytes_option_shows_bytes(offsets: Path, mode: str) -> None:
    asked = dump("--bytes", mode, offsets)
    assert asked.stdout == dump("--bytes", mode, "--decode", "raw", offsets).stdout
    assert isinstance(pairs(asked)[0][0], str)
    assert pairs(dump("--bytes", mode, "--decode", "auto", offsets)) == SAID_PAIRS


def test_raw_shows_internal_topics_like_others(offsets: Path) -> None:
    raw = dump("--decode", "raw", offsets).stdout.replace("__consumer_offsets", "orders")
    assert dump(offsets.rename(offsets.with_name("orders-0"))).stdout == raw


def test_a_table_shows_the_text_of_json(offsets: Path) -> None:
    shown = dump("--format", "table", "--wide", offsets).stdout
    assert '{"type":"offset_commit","version":1,"data":{"group":"billing"' in shown
    assert '"metadata":"€ \\u001b[31m"' in shown
    assert "\x1b[31m" not in shown
    hexed = dump("--format", "table", "--wide", "--bytes", "hex", "--decode", "auto", offsets)
    assert '{"type":"offset_commit"' in hexed.stdout


def test_table_is_completed(offsets: Path) -> None:
    shown = dump("--format", "table", offsets, COLUMNS="50").stdout
    assert shown.splitlines()[-1].endswith("--wide shows all.")


def test_csv_is_raw_by_default(offsets: Path) -> None:
    raw = dump("--format", "csv", offsets).stdout
    assert "offset_commit" not in raw
    for mode in ("auto", "hex"):
        said = dump("--format", "csv", "--decode", "auto", "--bytes", mode, offsets).stdout
        lines = list(csv.DictReader(io.StringIO(said)))
        told = [
            tuple(json.loads(line[name]) if line[name] else None for name in ("key", "value"))
            for line in lines
        ]
        assert told == SAID_PAIRS


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_decoded_fields_have_their_own_columns(offsets: Path, tmp_path: Path, form: str) -> None:
    before = partition(tmp_path, "orders-0", [(b"k", b"v")])
    after = partition(tmp_path, "orders-1", [(b"k", b"v")])
    output = tmp_path / f"out.{form}"
    assert dump("--decode", "auto", "-o", output, before, offsets, after).exit_code == 0
    if form == "parquet":
        table = pq.read_table(output)
    else:
        with ipc.open_file(output) as file:
            table = file.read_all()
    rows = table.to_pylist()
    plain = [(b"k", b"v", None, None)]
    found = [
        tuple(row[name] for name in ("key", "value", "key_json", "value_json")) for row in rows
    ]
    assert found[:1] + found[-1:] == plain * 2
    said = [
        (key, value, *(None if one is None else json.loads(one) for one in texts))
        for key, value, *texts in found[1:-1]
    ]
    assert said == [(None, None, *pair) for pair in SAID_PAIRS]
    assert [row["topic"] for row in rows] == ["orders", *["__consumer_offsets"] * 4, "orders"]
    raw = tmp_path / f"raw.{form}"
    assert dump("-o", raw, offsets).exit_code == 0
    if form == "parquet":
        names = pq.read_table(raw)
        assert "key_json" not in names.schema.names
        assert names["key"].to_pylist()[0] == COMMIT_KEY


def test_part_files_have_the_same_columns(offsets: Path, tmp_path: Path) -> None:
    output = f"{tmp_path / 'parts'}/"
    result = dump("--decode", "auto", "--format", "parquet", "-o", output, offsets)
    assert result.exit_code == 0, result.stderr
    (part,) = Path(output).rglob("*.parquet")
    table = pq.ParquetFile(part).read()
    assert json.loads(table["value_json"][0].as_py()) == SAID
    assert table["value"].null_count == 4


def test_control_records_have_their_types(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    (directory / LOG).write_bytes(builders.marker(1, base_offset=0))
    (line,) = map(json.loads, dump(directory).stdout.splitlines())
    assert line["control"]["type"] == "COMMIT"
    assert line["key"] == {"type": "commit", "version": 0, "data": {"type": 1}}
    assert line["value"]["type"] == "commit"
    assert list(line["value"]["data"]) == ["coordinatorEpoch"]


@pytest.mark.parametrize(
    "options",
    [
        ("--batches",),
        ("--entries",),
        ("--hex",),
        ("--format", "kafka"),
    ],
)
def test_undecodable_records_are_shown_as_bytes(offsets: Path, options: tuple[str, ...]) -> None:
    result = dump("--decode", "auto", *options, offsets)
    assert result.exit_code == 2
    assert dump("--decode", "raw", *options, offsets).stdout == dump(*options, offsets).stdout


@pytest.mark.parametrize("name", ["__consumer_offsets-0", "__cluster_metadata-0"])
def test_oversize_record_is_shown_as_bytes(tmp_path: Path, name: str) -> None:
    value = SCRAM + bytes(MOST_BYTES)
    result = dump(partition(tmp_path, name, [(None, value)]))
    ((key, shown),) = pairs(result)
    assert key is None
    if name.startswith("__cluster"):
        assert shown == {"type": "unknown", "problem": "too-large"}
    else:
        assert shown == value.decode("latin-1")


def test_large_records_are_written_completely(tmp_path: Path) -> None:
    group = {"protocolType": "connect", "members": [{"memberId": "m" * 30_000}] * 4}
    value = b"\0\3" + message_bytes(message("GroupMetadataValue"), 3, group)
    key = b"\0\2" + message_bytes(message("GroupMetadataKey"), 0, {"group": "g"})
    directory = partition(tmp_path, "__consumer_offsets-0", [(key, value)])
    ((said_key, said),) = pairs(dump(directory))
    for mode in ("auto", "hex"):
        text = dump("--format", "csv", "--decode", "auto", "--bytes", mode, directory).stdout
        csv.field_size_limit(1 << 20)
        (line,) = csv.DictReader(io.StringIO(text))
        assert json.loads(line["value"]) == said
    assert said_key == {"type": "group_metadata", "version": 2, "data": {"group": "g"}}
    assert isinstance(said, dict)
    assert len(said["data"]["members"]) == 4


def test_numbers_outside_json(tmp_path: Path) -> None:
    """And text that is no UTF-8, tags that nobody knows, and what stands behind a message."""
    quota = metadata("ClientQuotaRecord", {"value": 0.5})
    values = [
        quota.replace(struct.pack(">d", 0.5), struct.pack(">d", number))
        for number in (float("nan"), float("inf"), float("-inf"), 1e300)
    ]
    values.append(metadata("TopicRecord", {"name": b"\xff".decode("utf-8", "surrogateescape")}))
    tags = {UNKNOWN_TAGS: [{"tag": 7, "bytes": b"later"}]}
    values.append(metadata("NoOpRecord", tags) + b"more")
    directory = partition(tmp_path, "__cluster_metadata-0", [(None, value) for value in values])
    result = dump(directory)
    told: list[Any] = [value for _, value in pairs(result)]
    assert [one["data"]["value"] for one in told[:4]] == ["NaN", "Infinity", "-Infinity", 1e300]
    assert told[4]["data"]["name"] == "\udcff"
    assert told[5]["data"] == {UNKNOWN_TAGS: [{"tag": 7, "bytes": "bGF0ZXI="}]}
    assert told[5]["trailing"] == "bW9yZQ=="
    output = tmp_path / "out.parquet"
    assert dump("--decode", "auto", "-o", output, directory).exit_code == 0
    assert [json.loads(one.as_py()) for one in pq.read_table(output)["value_json"]] == told


def test_no_form_reveals_a_secret(tmp_path: Path) -> None:
    config = {"resourceType": 4, "name": "sasl.jaas.config", "value": "hush"}
    values = [SCRAM, SCRAM + b"hush", SCRAM[:-2], metadata("ConfigRecord", config)]
    directory = partition(tmp_path, "__cluster_metadata-0", [(None, value) for value in values])
    secrets = (b"hush", base64.b64encode(b"hush"), b"hush".hex().encode())
    for form in ("jsonl", "table", "csv", "parquet", "arrow"):
        output = tmp_path / f"out.{form}"
        result = dump("--decode", "auto", "--format", form, "--wide", "-o", output, directory)
        assert result.exit_code == 0
        data = output.read_bytes()
        if form == "parquet":
            data = repr(pq.read_table(output).to_pylist()).encode()
        assert b"redacted" in data
        assert not [secret for secret in secrets if secret in data]
    assert b"hush" not in dump("--decode", "raw", directory).stdout_bytes
    assert b"hush" in dump("--decode", "raw", "--show-secrets", directory).stdout_bytes


def test_every_record_of_a_real_broker_is_shown(tmp_path: Path) -> None:
    """The rows of both log directories, and in them what the decoder says of each."""
    root = corpus("newest/data/killed")
    lines = [json.loads(line) for line in dump(root / "d1", root / "d2").stdout.splitlines()]
    shown = [line for line in lines if line["topic"] in TOPICS]
    assert len(shown) > 700
    assert not [line for line in shown if "problem" in (line["value"] or {})]
    expected: dict[tuple[str, int], object] = {}
    for path in files(root, "__transaction_state-*/*.log"):
        for one in raw_records(path):
            if not one.control:
                value = one.decoded("__transaction_state")[1]
                assert value is not None
                expected[path.parent.name, one.offset] = as_json(value.data)
    ours = {
        (f"{line['topic']}-{line['partition']}", line["offset"]): line["value"]["data"]
        for line in shown
        if line["topic"] == "__transaction_state" and line["control"] is None
    }
    assert ours == expected


def test_bootstrap_file_has_cluster_metadata_records(tmp_path: Path) -> None:
    """Before 4.4 `kafka-storage format` put credentials there."""
    path = tmp_path / "bootstrap.checkpoint"
    path.write_bytes(builders.batch([builders.record(0, 0, None, SCRAM)]))
    result = dump(path)
    ((_, value),) = pairs(result)
    assert isinstance(value, dict)
    assert value["type"] == "user_scram_credential_record"
    assert "hush" not in result.stdout
    other = path.rename(tmp_path / LOG)  # nobody knows what a segment without a name is of
    assert isinstance(pairs(dump(other))[0][1], str)


def decoded_rows(chunk: RecordChunk) -> bytes:
    written: list[bytes] = []
    values = values_of(chunk.place, decode=True, secrets=False)
    assert values is not None
    for part in values.chunks(chunk):
        JsonLines(written.append, AUTO).write(part)
    return b"".join(written)


@pytest.mark.fuzz
def test_hostile_records_are_valid_json_lines() -> None:
    """Whatever is in a record, it is one line, no traceback, and no control characters."""
    rng = random.Random(5)
    names = [name for name, table in tables().items() if table.get("kind")]
    areas = {area: topic for topic, area in TOPICS.items()}
    for _ in range(400):
        known = message(rng.choice(names))
        assert known.id is not None
        version = rng.randint(known.versions.first, known.versions.last)
        body = bytearray(message_bytes(known, version, {}) + rng.randbytes(rng.choice((0, 3, 40))))
        for _ in range(rng.randrange(4) if body else 0):
            body[rng.randrange(len(body))] = rng.randrange(256)
        if known.kind == "record":
            key, value = None, bytes([1, known.id, version]) + body
        else:
            key, value = struct.pack(">h", known.id), struct.pack(">h", version) + body
            key += bytes(body) if known.kind == "key" else b"\0\1g"
        data = builders.batch([builders.record(0, 0, key, value)])
        line = decoded_rows(record_chunk(data, Place(areas[known.area], 0, 0, "path")))
        assert line.count(b"\n") == 1
        told = json.loads(line)
        assert told["value"]["type"]
        assert line.decode().isprintable() or not any(ord(c) < 32 for c in line.decode()[:-1])


def test_members_of_a_key() -> None:
    key, value = decode("__consumer_offsets", COMMIT_KEY, COMMIT + b"!")
    assert key is not None
    assert value is not None
    assert members(key) == SAID_KEY
    assert members(value) == SAID | {"trailing": "IQ=="}


SAMPLES = Path(__file__).parents[2] / "sample-data/clean"


def test_kernel_lines_match_the_encoder() -> None:
    """Decoded records are written by the kernel; the lines are those of rows, byte for byte."""
    seen = set()
    for path in sorted(SAMPLES.glob("*/*/__*")):
        written: list[bytes] = []
        sink = JsonLines(written.append, 0)
        expected = b""
        for item in dumped([str(path)], DumpOptions(decode=True)):
            if not isinstance(item, RecordChunk):
                continue
            sink.write(item)
            for record in item.iter_records():
                line: dict[str, object] = {"row": "record", **dict(record.members())}
                for name, text in (("key", record.key), ("value", record.value)):
                    assert text is None or isinstance(text, JsonText)
                    line[name] = None if text is None else text.value()
                expected += json_line(line | {"headers": headers_json(record.headers, 0)})
                seen.add((record.control is None, record.key is None, record.value is None))
        assert b"".join(written) == expected
    assert len(seen) == 4  # plain ones, tombstones, those without a key, control records

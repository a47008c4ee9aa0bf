"""Messages that are wrong inside a wrapper whose own checksum is right, marked in every form."""

import csv
import io
from pathlib import Path
from types import ModuleType
from typing import Any

import builders
import pytest
from commands import run
from corpus import corpus
from dumped import json_lines

from kdump import kernels
from kdump.findings.schema import fields_of

#: By their offsets.
CRC_VALID = {2: False, 6: False}
INNER_CODEC = {5: "gzip", 6: "gzip"}


@pytest.fixture(autouse=True)
def _chosen(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("decode_messages", "format_records", "gather"):
        monkeypatch.setattr(kernels, name, getattr(kernel, name))


@pytest.fixture(params=[0, 1])
def partition(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Messages 0 to 8: of magic 1 they count from their wrapper's first."""
    magic = request.param

    def messages(first: int, *crcs: int | None) -> list[bytes]:
        start = 0 if magic else first
        return [
            builders.message(start + n, value=b"v%d" % (first + n), magic=magic, crc=crc)
            for n, crc in enumerate(crcs)
        ]

    def nested(offset: int, crc: int | None = None) -> bytes:
        return builders.wrapper(messages(offset, None), offset, magic=magic, crc=crc)

    log = [
        *messages(0, None),
        builders.wrapper(messages(1, None, 7, None), 3, magic=magic),
        builders.wrapper([*messages(4, None), nested(1 if magic else 5)], 5, magic=magic),
        builders.wrapper([nested(0 if magic else 6, crc=9), *_last(magic)], 7, magic=magic),
        builders.message(8, magic=magic),
    ]
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(log))
    return path


def _last(magic: int) -> list[bytes]:
    return [builders.message(1 if magic else 7, magic=magic)]


def dump(*args: object, status: int = 3) -> str:
    result = run("dump", *args)
    assert result.exit_code == status, result.stderr
    return result.stdout


def given(rows: list[dict[str, Any]], name: str) -> dict[int, object]:
    """Give the marks by the offsets of their records; CSV has text of them all."""
    return {int(row["offset"]): row[name] for row in rows if row.get(name) not in (None, "")}


def test_json_lines_have_a_member_only_for_marks(partition: Path) -> None:
    rows = json_lines(dump(partition).encode())
    assert [row["offset"] for row in rows] == list(range(9))
    assert {n: row["crc_valid"] for n, row in enumerate(rows) if "crc_valid" in row} == CRC_VALID
    marked = {n: row["inner_codec"] for n, row in enumerate(rows) if "inner_codec" in row}
    assert marked == INNER_CODEC
    assert list(rows[6])[-3:] == ["headers", "crc_valid", "inner_codec"]
    of_record = [field for field in fields_of()["record"] if not field.omitted]
    assert list(rows[4])[1:] == [field.name for field in of_record]
    assert set(rows[6]) - {"row"} <= {field.name for field in fields_of()["record"]}


def tables_of(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Split CSV at its header lines."""
    tables: list[tuple[list[str], list[list[str]]]] = []
    for cells in csv.reader(io.StringIO(text, newline="")):
        if cells[0] == "row":
            tables.append((cells, []))
        else:
            tables[-1][1].append(cells)
    return tables


def test_csv_adds_columns_at_the_first_mark(partition: Path) -> None:
    (usual, before), (wide, behind) = tables_of(dump("--format", "csv", partition))
    assert wide == [*usual, "crc_valid", "inner_codec"]
    offset = usual.index("offset")
    assert [row[offset] for row in before] == ["0", "1"]
    rows = [dict(zip(wide, row, strict=True)) for row in behind]
    assert [row["offset"] for row in rows] == [str(n) for n in range(2, 9)]
    assert given(rows, "crc_valid") == dict.fromkeys(CRC_VALID, "false")
    assert given(rows, "inner_codec") == INNER_CODEC


def test_csv_without_marks_is_unchanged(partition: Path) -> None:
    ((header, rows),) = tables_of(dump("--format", "csv", "--grep", "v1|v3|v4|value", partition))
    assert "crc_valid" not in header
    offset = header.index("offset")
    assert [row[offset] for row in rows] == ["1", "3", "4", "7", "8"]


def test_tables_mention_it_in_the_note(partition: Path) -> None:
    lines = dump("--format", "table", partition).splitlines()[3:]
    notes = {
        int(line.split()[0]): words
        for line in lines
        if (words := line.partition("✗")[0].split()[2:]) and "✗" in line
    }
    assert notes == {2: ["crc"], 5: ["nested"], 6: ["crc", "nested"]}


def test_markdown_has_table_notes(partition: Path) -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in dump("--format", "markdown", partition).splitlines()
        if "✗" in line
    ]
    assert {row[0]: row[2] for row in rows} == {"2": "crc ✗", "5": "nested ✗", "6": "crc nested ✗"}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_parquet_and_arrow_have_columns(partition: Path, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    path = tmp_path / "out"
    dump("--format", form, "-o", path, partition)
    table = parquet.read_table(path) if form == "parquet" else ipc.open_file(path).read_all()
    table.validate(full=True)
    rows = table.to_pylist()
    assert (given(rows, "crc_valid"), given(rows, "inner_codec")) == (CRC_VALID, INNER_CODEC)
    assert table.schema.field("crc_valid").type == "bool"


def test_spark_table_has_the_same_columns(partition: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from kdump.engine.dump.run import dump as dumped_items
    from kdump.engine.reading.options import DumpOptions
    from kdump.spark.columns import of_items
    from kdump.spark.owners import FileFacts
    from kdump.spark.schema import columns_of

    kinds = columns_of("records")
    assert (kinds["crc_valid"], kinds["inner_codec"]) == ("boolean", "string")
    schema = pa.schema([
        ("offset", pa.int64()), ("crc_valid", pa.bool_()), ("inner_codec", pa.string()),
    ])  # fmt: skip
    items = dumped_items([str(partition)], DumpOptions())
    (batch,) = of_items([(FileFacts("path"), items)], schema, headers=False)
    rows = batch.to_pylist()
    assert (given(rows, "crc_valid"), given(rows, "inner_codec")) == (CRC_VALID, INNER_CODEC)


def test_kafka_format_equals_kafka_dump_log(partition: Path) -> None:
    lines = dump("--format", "kafka", partition).splitlines()
    wrong = [line.split()[2] for line in lines if "isValid: false" in line]
    assert wrong == ["2"]  # the tool ends at a message that is compressed again
    assert not [line for line in lines if line.startswith(("| offset: 5", "| offset: 6"))]


def test_annotated_bytes_show_both_marks(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = dump("--hex", partition, status=0).splitlines()
    wrong = [line.split()[6] for line in lines if "crc " in line and "✗" in line]
    assert wrong == ["00000007", "00000009"]
    assert sum("✗ decoding stops at" in line and "compressed" in line for line in lines) == 2


def test_messages_of_0_7_with_a_wrong_checksum_are_marked(tmp_path: Path) -> None:
    inner = [builders.pre08_message(b"a"), builders.pre08_message(b"b", crc=7)]
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.kafka").write_bytes(builders.pre08_wrapper(inner))
    rows = json_lines(dump(path).encode())
    assert [row.get("crc_valid") for row in rows] == [None, False]
    (usual, _), (wide, _) = tables_of(dump("--format", "csv", path))
    assert wide == [*usual, "crc_valid", "inner_codec"]
    assert "crc ✗" in dump("--format", "table", path).splitlines()[-1]


def test_messages_accepted_by_a_real_0_9_broker_are_marked() -> None:
    """Its topic `bad` was sent a message with a wrong checksum and two that were nested."""
    log = next(corpus("old/v0-0901.clean").rglob("bad-0"))
    rows = json_lines(dump("--records-only", log).encode())
    assert given(rows, "crc_valid") == {7: False}
    assert given(rows, "inner_codec") == {8: "gzip", 12: "gzip"}

"""Parquet and Arrow files hold what JSON Lines says, with null where it says null."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import builders
import pytest
from chunks import batch_chunk, one, record_chunk

from kdump import kernels
from kdump.errors import PathError, UsageError
from kdump.findings.escape import json_text
from kdump.findings.rows import BatchChunk, Place, RecordChunk, RecordRow
from kdump.kernels.gather_buffers import header_name
from kdump.output import arrow, arrow_columns
from kdump.output.arrow import ArrowUnavailableError, arrow_sink
from kdump.output.arrow_columns import RecordColumns
from kdump.output.arrow_schema import AS_KAFKA
from kdump.rows.dump import ProducerState, Property

pyarrow = pytest.importorskip("pyarrow")

MIXED = b"".join([
    builders.message(0, None, b"plain", magic=0),
    builders.message(1, b"", None, magic=1, attributes=8),
    builders.batch(
        [
            builders.record(0, 0, b"a", b"1", [(b"h", b"x"), (b"", None), (b"\xff", b"")]),
            builders.record(1, 5, None, b""),
        ],
        base_offset=2,
        attributes=0x10,
        producer_id=9,
        producer_epoch=3,
        base_sequence=2**31 - 1,
    ),
    builders.batch(base_offset=4, attributes=0x48, max_timestamp=1_700_000_000_999),
    builders.batch([builders.record(n) for n in range(3)], base_offset=5),
])  # fmt: skip


def read(path: Path, form: str) -> object:
    if form == "parquet":
        from pyarrow.parquet import read_table

        return read_table(path)
    with pyarrow.memory_map(str(path)) as file:
        return pyarrow.ipc.open_file(file).read_all()


def written(tmp_path: Path, form: str, *items: object) -> object:
    path = tmp_path / f"out.{form}"
    with path.open("wb") as file:
        sink = arrow_sink(form, file, "output")
        try:
            for item in items:
                sink.write(item)  # type: ignore[arg-type]
            sink.finish()
        finally:
            sink.abandon()
    table = read(path, form)
    table.validate(full=True)  # type: ignore[attr-defined]
    made = [name for name in AS_KAFKA if name in table.column_names]  # type: ignore[attr-defined]
    assert len(made) in ((0, 2) if form == "parquet" else (0,))
    return table.drop_columns(made)  # type: ignore[attr-defined]


def plain(chunk: RecordChunk | BatchChunk) -> list[dict[str, object]]:
    if isinstance(chunk, BatchChunk):
        return [row._asdict() for row in chunk.iter_batches()]
    rows = []
    for record in chunk.iter_records():
        row = record._asdict()
        if record.control is not None:
            row["control"] = json_text(record.control)
        row["headers"] = [
            {"key": header_name(key).decode(), "value": value} for key, value in record.headers
        ]
        rows.append(row)
    return rows


@pytest.fixture(params=["parquet", "arrow"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_records(
    tmp_path: Path, form: str, kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gather", "room_for"):
        monkeypatch.setattr(kernels, name, getattr(kernel, name))
    chunks = [
        record_chunk(MIXED),
        one(),
        record_chunk(builders.batch(), Place("other", 0, 5, "")),
        record_chunk(builders.batch(), Place(None, None, None, "")),
    ]
    table = written(tmp_path, form, *chunks)
    assert table.to_pylist() == [row for chunk in chunks for row in plain(chunk)]


def test_parquet_names_timestamps_like_the_spark_kafka_source(tmp_path: Path) -> None:
    far = builders.batch([builders.record(0)], base_timestamp=2**62, max_timestamp=2**62)
    chunks = [record_chunk(MIXED), record_chunk(far)]
    written(tmp_path, "parquet", *chunks)
    table = read(tmp_path / "out.parquet", "parquet")
    rows = [row for chunk in chunks for row in plain(chunk)]
    kinds = {"CreateTime": 0, "LogAppendTime": 1, None: -1}
    assert table["timestampType"].to_pylist() == [kinds[row["timestamp_type"]] for row in rows]
    numbers = table["timestamp"].cast(pyarrow.int64()).to_pylist()
    assert numbers[:-1] == [row["timestamp_ms"] for row in rows[:-1]]
    assert numbers[-1] is None
    assert str(table.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"


def test_records_in_many_record_batches(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "ROWS_A_BATCH", 4)
    chunks = [record_chunk(MIXED, Place(f"topic-{n}", n, 0, "")) for n in range(5)]
    table = written(tmp_path, form, *chunks)
    assert table.to_pylist() == [row for chunk in chunks for row in plain(chunk)]


def test_filtered_rows_are_written(tmp_path: Path, form: str) -> None:
    chunk = record_chunk(MIXED)
    chunk.rows = type(chunk.records.block)("q", [1, 2, 6])
    assert written(tmp_path, form, chunk).to_pylist() == plain(chunk)


def test_control_is_json(tmp_path: Path, form: str) -> None:
    chunk = one()
    chunk.controls = [{"type": "COMMIT", "version": 0}]
    rows = written(tmp_path, form, one(), chunk).to_pylist()
    assert [row["control"] for row in rows] == [None, '{"type":"COMMIT","version":0}']


def test_control_of_markers_among_other_records(tmp_path: Path, form: str) -> None:
    data = MIXED + builders.marker(1, base_offset=90, coordinator_epoch=5)
    data += builders.batch(base_offset=91) + builders.marker(0, base_offset=92)
    chunk, told = record_chunk(data), one()
    told.controls = [{"type": "UNKNOWN"}]
    rows = written(tmp_path, form, one(), chunk, told, chunk).to_pylist()
    assert rows[1:] == [*plain(chunk), *plain(told), *plain(chunk)]
    commit = '{"type":"COMMIT","version":0,"coordinator_epoch":5}'
    assert [row["control"] for row in rows[-3:-1]] == [commit, None]


def test_batches(tmp_path: Path, form: str) -> None:
    data = MIXED + builders.wrapper([builders.message(0)], 9) + builders.batch(crc=1)
    chunk = batch_chunk(data)
    empty = batch_chunk(b"")
    rows = written(tmp_path, form, empty, chunk).to_pylist()
    assert rows == plain(chunk)


def test_columns_without_bytes(tmp_path: Path, form: str) -> None:
    chunk = one(None, None)
    assert written(tmp_path, form, chunk).to_pylist() == plain(chunk)


def test_file_is_written_without_rows(tmp_path: Path, form: str) -> None:
    table = written(tmp_path, form)
    assert table.num_rows == 0
    assert "key" in table.column_names


def test_messages_of_0_7(tmp_path: Path, form: str) -> None:
    row = RecordRow(
        "t", 0, 0, 0, 1, "none", 0, None, None, None, None, None, None, False, None, None,
        b"v", (), "0.7", 20,
    )  # fmt: skip
    first, second = written(tmp_path, form, row, one()).to_pylist()
    assert (first["format"], first["next_offset"], first["value"]) == ("0.7", 20, b"v")
    assert (second["format"], second["next_offset"]) == (None, None)


def test_entries(tmp_path: Path, form: str) -> None:
    rows = [
        ProducerState("t", 0, 1, 2, 3, 4, 5, 6, 7, current_txn_first_offset=None),
        ProducerState("u", 0, 2, 2, 3, 4, 5, 6, 7, current_txn_first_offset=7),
    ]
    assert written(tmp_path, form, *rows).to_pylist() == [row.fields for row in rows]


def test_file_has_one_kind_of_row(tmp_path: Path, form: str) -> None:
    with pytest.raises(UsageError, match="one kind of row"):
        written(tmp_path, form, one(), Property("f", "a", "b"))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("size_bytes", [0, 8, 40])
def test_record_batches_are_limited_in_size(
    tmp_path: Path, form: str, rows: int, size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that need more room than there is at all, between ones that do not."""
    monkeypatch.setattr(arrow, "ROWS_A_BATCH", rows)
    monkeypatch.setattr(arrow, "BYTES_A_BATCH", size_bytes)
    many = [(b"", None), (b"\xff" * 30, b"x" * 30)] * 5
    large = builders.batch([
        builders.record(0, 0, b"k" * 50, b"v" * 50),
        builders.record(1, 0, b"k", b"v"),
        builders.record(2, 0, None, None, many),
    ])  # fmt: skip
    filtered = record_chunk(large)
    filtered.rows = type(filtered.records.block)("q", [2, 0])
    chunks = [record_chunk(MIXED), record_chunk(large), one(), filtered, record_chunk(MIXED)]
    wanted = [row for chunk in chunks for row in plain(chunk)]
    assert written(tmp_path, form, *chunks).to_pylist() == wanted


def test_oversize_record_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "BYTES_A_BATCH", 8)
    monkeypatch.setattr(arrow_columns, "MAX_INT32", 20)
    with pytest.raises(PathError, match="offset 0 is too large"):
        written(tmp_path, "arrow", one(value=b"v" * 21))


def test_record_batches_are_immutable_after_write(tmp_path: Path) -> None:
    """Buffers are filled again after each; a writer must not hold on to them."""
    chunk = record_chunk(b"".join(
        builders.batch([builders.record(n, 0, None if n % 3 else b"k%d" % n, b"%d" % at)
                        for n in range(7)], base_offset=7 * at) for at in range(60)
    ))  # fmt: skip
    path = tmp_path / "out.arrow"
    with path.open("wb") as file:
        sink = arrow_sink("arrow", file, "output")
        sink._columns = RecordColumns(50, 4000)
        for _ in range(3):
            sink.write(chunk)
        sink.finish()
    with pyarrow.memory_map(str(path)) as file:
        reader = pyarrow.ipc.open_file(file)
        assert reader.num_record_batches == 26
        assert reader.read_all().to_pylist() == 3 * plain(chunk)


def test_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArrowUnavailableError, match=r"kdump\[arrow\]"):
        arrow_sink("parquet", None, "")  # type: ignore[arg-type]


def test_pandas_is_not_imported(tmp_path: Path, form: str) -> None:
    """PyArrow imports it where it is installed beside NumPy, as where Spark is."""
    pytest.importorskip("pandas")
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(MIXED)
    command = [sys.executable, "-X", "importtime", "-m", "kdump", "dump", "--format", form]
    run = subprocess.run(
        [*command, "--output", str(tmp_path / "out"), str(log)],
        capture_output=True,
        text=True,
    )
    assert "pyarrow" in run.stderr
    assert "pandas\n" not in run.stderr
    assert read(tmp_path / "out", form)


def test_bytes_and_numbers_that_differ_have_no_dictionary_in_parquet(tmp_path: Path) -> None:
    written(tmp_path, "parquet", record_chunk(MIXED))
    group = pyarrow.parquet.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    plain = {
        one.path_in_schema.partition(".")[0]
        for one in columns
        if "RLE_DICTIONARY" not in one.encodings
    }
    assert {"offset", "timestamp_ms", "timestamp", "key", "value", "headers"} <= plain
    assert not plain & {"topic", "partition", "segment", "position", "magic", "codec"}

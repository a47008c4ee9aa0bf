"""Datasets that engines push into: what they give, how little is read, and what they refuse."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.storage.source import Source

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
import pyarrow.compute as pc  # noqa: E402

SAMPLES = Path(__file__).parents[2] / "sample-data"
CLEAN = SAMPLES / "clean/4.4.0"
BOTH = (CLEAN / "d1", CLEAN / "d2")
ORDERS = pc.field("topic") == "orders"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the files that are opened."""
    paths: list[str] = []
    before = Source.__init__

    def init(self: Source, path: str, *args: Any, **given: Any) -> None:
        paths.append(f"{Path(path).parent.name}/{Path(path).name}")
        before(self, path, *args, **given)

    monkeypatch.setattr(Source, "__init__", init)
    return paths


def logs(opened: list[str]) -> set[str]:
    return {name for name in opened if name.endswith(".log")}


def test_rows_and_columns() -> None:
    records = kdump.dataset(*BOTH)
    table = records.to_table(columns=["offset", "key"], filter=ORDERS & (pc.field("offset") < 3))
    assert table.column_names == ["offset", "key"]
    assert sorted(table["offset"].to_pylist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert records.schema.field("topic").type == pa.string()
    assert records.head(5, columns=["topic"]).num_rows == 5
    assert records.head(0).num_rows == 0
    assert records.head(9, filter=pc.field("offset") < 0).num_rows == 0
    assert records.count_rows() == 418 == sum(one.num_rows for one in records.to_batches())
    assert records.count_rows(filter=ORDERS) == 102
    assert records.filter(ORDERS).filter(pc.field("partition") == 0).count_rows() == 52
    assert [one.scanner().count_rows() for one in records.get_fragments(ORDERS)] == [102]
    assert records.to_table(columns=[]).num_rows == 418
    assert records.scanner(columns=["key"]).projected_schema.names == ["key"]


def test_kinds_and_options() -> None:
    assert kdump.dataset(*BOTH, kind="batches").count_rows() == 190
    assert kdump.dataset(*BOTH, kind="committed-offset").count_rows() == 25
    assert kdump.dataset(*BOTH, topic="orders").count_rows() == 102
    decoded = kdump.dataset(*BOTH, decode=True).to_table(columns=["key_json"])
    assert decoded["key_json"].null_count < decoded.num_rows
    data = kdump.open(*BOTH, topic="orders", partition=0)
    assert data.dataset(limit=7).count_rows() == 7
    assert data.dataset(from_offset=20).count_rows() == 32
    narrowed = data.dataset(from_offset=20).count_rows(filter=pc.field("offset") < 25)
    assert narrowed == 5


def test_what_is_refused() -> None:
    records = kdump.dataset(*BOTH)
    with pytest.raises(kdump.KdumpError, match="nope"):
        records.to_table(columns=["nope"])
    with pytest.raises(kdump.KdumpError, match="returns a single answer"):
        kdump.dataset(*BOTH, kind="offset-lookup")
    with pytest.raises(kdump.KdumpError, match="unknown row kind"):
        kdump.dataset(*BOTH, kind="nope")
    with pytest.raises(kdump.KdumpError, match="No such file"):
        kdump.dataset("no/such/directory").count_rows()
    for call in (records.sort_by, records.join, records.take, pickle.dumps):
        with pytest.raises(NotImplementedError):
            call(records)


FILTERS: list[tuple[Any, int]] = [
    (pc.field("offset") == 900, 1),
    (pc.field("offset").isin([3, 900]), 2),
    ((pc.field("offset") < 5) | (pc.field("offset") > 100_000), 2),
    (~(pc.field("offset") >= 5), 1),
    (pc.field("timestamp_ms") > 1_700_080_000_000, 2),
    (pc.field("timestamp") > pa.scalar(1_700_080_000_000_000, pa.timestamp("us", "UTC")), 2),
    (pc.field("offset").is_null(), 4),
    ((pc.field("offset") > 900) | pc.field("key").is_null(), 4),
]


@pytest.mark.parametrize(("condition", "most"), FILTERS, ids=[str(one) for one, _ in FILTERS])
def test_segments_that_cannot_match_are_not_read(
    condition: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = SAMPLES / "clean/4.1.1"
    read: dict[str, int] = {}
    before = Source.read_into

    def read_into(self: Source, *args: Any) -> int:
        filled = before(self, *args)
        if self.path.endswith(".log"):
            read[self.path] = read.get(self.path, 0) + filled
        return filled

    monkeypatch.setattr(Source, "read_into", read_into)
    columns = ["offset", "value"]
    pushed = kdump.dataset(data).to_table(
        columns=columns, filter=(pc.field("topic") == "orders.plain") & condition
    )
    assert all("orders.plain-0" in path for path in read)
    whole = [path for path, count in read.items() if count > 0.9 * Path(path).stat().st_size]
    assert len(whole) <= most
    every = kdump.dataset(data).to_table()
    wanted = every.filter((pc.field("topic") == "orders.plain") & condition).select(columns)
    assert pushed.to_pylist() == wanted.to_pylist()


def test_partitions_that_cannot_match_are_not_opened(opened: list[str]) -> None:
    records = kdump.dataset(*BOTH)
    one = ORDERS & (pc.field("partition") == 1)
    assert records.to_table(columns=["value"], filter=one).num_rows == 34
    assert {name.split("/")[0] for name in opened} == {"orders-1"}


def test_only_consumed_rows_are_read(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.output.arrow.ROWS_A_BATCH", 50)
    data = SAMPLES / "clean/4.1.1"
    assert kdump.dataset(data).head(3).num_rows == 3
    assert len(logs(opened)) == 1
    batches = iter(kdump.dataset(data).to_batches(columns=["offset"]))
    next(batches)
    before = len(logs(opened))
    del batches
    assert len(logs(opened)) == before < 20


@pytest.mark.parametrize("sample", ["clean/0.7.2", "clean/0.10.2.2", "clean/2.8.2", "clean/4.1.1"])
def test_headers_count_what_is_read(sample: str) -> None:
    records = kdump.dataset(SAMPLES / sample)
    places = ["topic", "partition", "segment"]
    counted = records.to_table(columns=places)
    read = records.to_table(columns=[*places, "magic"]).select(places)
    assert counted.to_pylist() == read.to_pylist()
    assert records.count_rows() == read.num_rows > 0


def test_polars() -> None:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    frame = kdump.scan_polars(*BOTH)
    orders = frame.filter(polars.col("topic") == "orders")
    assert orders.select(polars.len()).collect().item() == 102
    assert frame.head(3).collect().height == 3
    some = orders.filter(polars.col("offset").is_in([3, 4]), polars.col("key").is_not_null())
    assert "SELECTION: " in some.select("offset").explain()
    assert sorted(some.select("offset").collect()["offset"]) == [3, 3, 3, 4, 4, 4]
    batches = kdump.scan_polars(*BOTH, kind="batches").select(polars.col("records_count").sum())
    assert batches.collect().item() == 418


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_limit_leaves_no_open_files(engine: str) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    take = {
        "duckdb": "import duckdb; c = duckdb.connect(); c.register('r', kdump.dataset(p));"
        "assert len(c.sql('select \"offset\", value from r limit 3').fetchall()) == 3",
        "polars": "f = kdump.scan_polars(p).select('offset', 'value').head(3);"
        "assert f.collect().height == 3",
    }[engine]
    code = f"import kdump; p = {str(SAMPLES / 'clean/4.1.1')!r}; {take}"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")

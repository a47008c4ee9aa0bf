"""A directory of Parquet parts: what is in it, when it is there, and what never is."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import damage
import pytest
from bulk import HERE, batches, digest_files, run_bulk_dump, two_partitions
from corpus import corpus
from drivers import Through
from dumped import run_dump

from kdump.engine.work.pipeline import Driver, Workers
from kdump.engine.work.splits import Split
from kdump.errors import KdumpError, PathError, RefusedError, UsageError
from kdump.output.part_directory import NotEmpty, PartDirectory

pq = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return two_partitions(tmp_path / "data")


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows = []
    for part in sorted(output.rglob("part-*.parquet"), key=lambda path: path.name):
        topic, partition = part.parts[-3:-1]
        place = {"topic": topic.removeprefix("topic="), "partition": int(partition[10:])}
        rows += [place | row for row in pq.ParquetFile(part).read().to_pylist()]
    return rows


def test_rows_equal_those_of_dump(directory: Path, tmp_path: Path) -> None:
    for number, split_bytes in enumerate((1, 5000, 1 << 20, None)):
        output = tmp_path / str(number)
        count, found = run_bulk_dump(directory, output, split_bytes=split_bytes)
        assert count == 2400
        assert not found
        ours = [
            (row["topic"], row["partition"], row["segment"], row["position"], row["offset"])
            for row in rows_of(output)
        ]
        theirs = [
            (row["topic"], row["partition"], row["segment"], row["position"], row["offset"])
            for row in run_dump(directory)[0]
        ]
        assert ours == theirs


def test_files_are_laid_out_by_partition(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run_bulk_dump(directory, output)
    assert [*digest_files(output)] == [
        "_SUCCESS",
        *(f"topic=orders/partition=0/part-{n:08}.parquet" for n in range(3)),
        *(f"topic=orders/partition=1/part-{n:08}.parquet" for n in range(3, 6)),
    ]
    told = json.loads((output / "_SUCCESS").read_text())
    assert (told["parts"], told["rows"], told["findings"]) == (6, 2400, 0)


def test_any_number_of_workers_writes_the_same_bytes(directory: Path, tmp_path: Path) -> None:
    run_bulk_dump(directory, tmp_path / "one", split_bytes=5000)
    run_bulk_dump(directory, tmp_path / "two", Workers(2), split_bytes=5000)
    assert digest_files(tmp_path / "one") == digest_files(tmp_path / "two")


def test_statistics_let_readers_skip(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run_bulk_dump(directory, output)
    part = pq.ParquetFile(output / "topic=orders/partition=0/part-00000001.parquet")
    ranges = {}
    for number in range(part.metadata.num_columns):
        column = part.metadata.row_group(0).column(number)
        if column.path_in_schema in ("offset", "timestamp_ms"):
            ranges[column.path_in_schema] = (column.statistics.min, column.statistics.max)
    assert ranges["offset"] == (400, 799)
    assert ranges["timestamp_ms"] == (1_700_000_000_400, 1_700_000_000_799)
    assert "topic" not in part.schema_arrow.names


def test_arrow_reads_the_directory_as_one_table(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run_bulk_dump(directory, output)
    table = pq.read_table(output, filters=[("partition", "=", 1), ("offset", "<", 5)])
    assert table.column("topic").to_pylist() == ["orders"] * 5
    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 4]


def test_duckdb_reads_the_directory(directory: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    output = tmp_path / "out"
    run_bulk_dump(directory, output)
    query = f"select partition, count(*), max(\"offset\") from '{output}/**/*.parquet'"
    counted = duckdb.sql(query + " group by partition order by partition").fetchall()
    assert [tuple(map(int, row)) for row in counted] == [(0, 1200, 1199), (1, 1200, 1199)]


def test_batches(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    count, _ = run_bulk_dump(directory, output, split_bytes=5000, mode="batches")
    assert count == 240
    assert len(rows_of(output)) == 240


def test_findings_are_in_dump_order(directory: Path, tmp_path: Path) -> None:
    for log in directory.rglob("*.log"):
        log.write_bytes(damage.flip(log.read_bytes(), 5000))
    for number, driver in enumerate((HERE, Workers(2))):
        count, found = run_bulk_dump(directory, tmp_path / str(number), driver, split_bytes=9000)
        rows, theirs = run_dump(directory)
        assert found == theirs
        assert count == len([row for row in rows if row["row"] == "record"])


def test_names_unsafe_for_file_systems_or_hive(tmp_path: Path) -> None:
    path = tmp_path / "a=b%c d-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(batches(0))
    run_bulk_dump(path, tmp_path / "out")
    assert (tmp_path / "out/topic=a%3Db%25c%20d/partition=0/part-00000000.parquet").is_file()


def test_log_outside_a_partition_has_null_columns(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batches(0))
    run_bulk_dump(path, tmp_path / "elsewhere/out")
    null = "__HIVE_DEFAULT_PARTITION__"
    part = tmp_path / f"elsewhere/out/topic={null}/partition={null}/part-00000000.parquet"
    assert part.is_file()


def test_nonempty_directory_is_refused(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run_bulk_dump(directory, output)
    before = digest_files(output)
    with pytest.raises(NotEmpty, match="not empty"):
        run_bulk_dump(directory, output)
    (output / "_SUCCESS").unlink()
    (output / "_staging").mkdir()
    with pytest.raises(NotEmpty, match="killed"):
        run_bulk_dump(directory, output)
    assert digest_files(output).keys() == before.keys() - {"_SUCCESS"}


def test_output_inside_the_input_is_refused(directory: Path) -> None:
    with pytest.raises(RefusedError, match="inside a partition directory"):
        PartDirectory(str(directory / "orders-0/out"), [str(directory)])
    with pytest.raises(UsageError, match="inside an input directory"):
        PartDirectory(str(directory / "out"), [str(directory)])


def test_failed_step_leaves_nothing(directory: Path, tmp_path: Path) -> None:
    @partial(Through, HERE)
    def driver(driver: Driver, splits: Any, step: Any, progress: Any) -> Any:
        yield from driver(splits[:-1], step, progress)
        yield splits[-1], PathError("disk", "No space left on device")

    with pytest.raises(PathError, match="No space"):
        run_bulk_dump(directory, tmp_path / "out", driver)
    assert not (tmp_path / "out").exists()


def test_failed_split_is_retried(directory: Path, tmp_path: Path) -> None:
    calls = []

    @partial(Through, HERE)
    def driver(driver: Driver, splits: Any, step: Any, progress: Any) -> Any:
        calls.append(len(splits))
        for split, result in driver(splits, step, progress):
            # The part was written, and whoever wrote it died before it could say so.
            died = len(calls) == 1 and split.number in (1, 4)
            yield split, KdumpError("died") if died else result

    run_bulk_dump(directory, tmp_path / "tried", driver)
    run_bulk_dump(directory, tmp_path / "out")
    assert calls == [6, 2]
    assert digest_files(tmp_path / "tried") == digest_files(tmp_path / "out")


def test_repeated_attempts_leave_one_part(directory: Path, tmp_path: Path) -> None:
    """As under speculation: two workers write the same split, and one of them is believed."""

    @partial(Through, HERE)
    def driver(driver: Driver, splits: Any, step: Any, progress: Any) -> Any:
        for _ in driver(splits, step, progress):
            pass
        yield from driver(splits, step, progress)

    run_bulk_dump(directory, tmp_path / "twice", driver)
    run_bulk_dump(directory, tmp_path / "out")
    assert digest_files(tmp_path / "twice") == digest_files(tmp_path / "out")


def test_late_attempt_cannot_bring_the_directory_back(directory: Path, tmp_path: Path) -> None:
    late = []

    @partial(Through, HERE)
    def driver(driver: Driver, splits: Any, step: Any, progress: Any) -> Any:
        late.append((step, splits[0]))
        return driver(splits, step, progress)

    run_bulk_dump(directory, tmp_path / "out", driver)
    before = digest_files(tmp_path / "out")
    step, split = late[0]
    with pytest.raises(PathError, match="_staging"):
        step(split, lambda size: None)  # type: ignore[arg-type]
    assert digest_files(tmp_path / "out") == before


def test_killed_worker_is_replaced(directory: Path, tmp_path: Path) -> None:
    once = tmp_path / "once"

    @partial(Through, HERE)
    def driver(driver: Driver, splits: Any, step: Any, progress: Any) -> Any:
        def killed_once(split: Split, pace: Any) -> Any:
            result = step(split, pace)
            if split.number == 2 and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return Workers(2)(splits, killed_once, progress)

    run_bulk_dump(directory, tmp_path / "killed", driver)
    run_bulk_dump(directory, tmp_path / "out")
    assert once.exists()
    assert digest_files(tmp_path / "killed") == digest_files(tmp_path / "out")


def command(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kdump", "dump", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **settings,
    )


def test_command(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    done = command("--format", "parquet", "--output", f"{output}/", "-j", 2, directory)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(rows_of(output)) == 2400
    again = command("--format", "parquet", "--output", f"{output}/", directory)
    assert again.returncode == 5
    assert "not empty" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--format", "jsonl"], "need --format parquet --output DIR/"),
        (["--format", "parquet", "--entries"], "--entries cannot be split"),
        (["--format", "parquet", "--limit", "3"], "--limit needs a single output"),
        (["--format", "parquet", "--master", "local"], "require --engine spark"),
    ],
)
def test_wrong_usage_exits_with_2(
    directory: Path, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    done = command(*arguments, "--output", f"{tmp_path}/out/", directory)
    assert done.returncode == 2
    assert reason in done.stderr
    assert not (tmp_path / "out").exists()


def test_missing_path_exits_with_1(directory: Path, tmp_path: Path) -> None:
    form = ("--format", "parquet", "--output", f"{tmp_path}/out/")
    done = command(*form, tmp_path / "nowhere")
    assert done.returncode == 1
    assert not (tmp_path / "out").exists()
    done = command(*form, tmp_path / "nowhere", directory)
    assert done.returncode == 1
    assert len(rows_of(tmp_path / "out")) == 2400


def test_visible(tmp_path: Path) -> None:
    path = corpus("modern/data/clean")
    root = next(log.parent.parent for log in sorted(path.rglob("*.txnindex")))
    options = {"visible": True, "isolation": "read_committed"}
    count, found = run_bulk_dump(root, tmp_path / "out", split_bytes=4096, **options)
    rows, theirs = run_dump(root, **options)
    assert count == len(rows)
    assert found == theirs

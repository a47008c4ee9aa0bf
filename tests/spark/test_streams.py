"""Streams of closed segments: each record once, whatever retention and compaction do between."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from directories import DataDirectory, batches, write_segment
from view_rows import view_rows

from kdump.engine.reading.options import DumpOptions
from kdump.errors import UsageError
from kdump.spark import streams
from kdump.spark.request import Request
from kdump.spark.scope import Scope


class Stream:
    """A stream as Spark drives one: its offset is all that it keeps."""

    def __init__(self, path: Path, scope: Scope = Scope(), **options: Any) -> None:  # noqa: B008
        self.request = Request("records", [str(path)], DumpOptions(**options), scope=scope)
        self.path = path
        self.offset: streams.Offsets = {}

    def batch(self, *, fail: bool = False) -> tuple[list[int], list[str]]:
        """Read the next batch; give its offsets, and what is reported."""
        logs = streams.logs_under(self.request)
        end = streams.latest(self.offset, logs)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            streams.report(streams.describe_losses(self.offset, logs), fail=fail)
        scope = streams.scope_of(self.offset, end, logs, self.request)
        options = self.request.options
        rows = view_rows("records", [self.path], options, scope, columns=["offset"])
        self.offset = end
        found = [str(one.message) for one in told]
        return sorted(row["offset"] for row in rows), [text.partition(": ")[2] for text in found]


def roll(directory: Path, base: int, end: int) -> None:
    write_segment(directory, base, batches(base, (end - base) // 2), next_offset=end)


def test_batches_of_a_stream(tmp_path: Path) -> None:
    made = DataDirectory(tmp_path / "data")
    at = made.partition("orders", 0, (0, 10, 20))
    stream, from_15 = Stream(made.path), Stream(made.path, Scope({"orders": {0: 15}}))
    assert stream.batch() == ([*range(20)], [])
    assert from_15.batch() == ([*range(15, 20)], [])
    assert stream.batch() == ([], [])
    roll(at, 30, 40)
    made.partition("orders", 1, (100, 110))
    assert stream.batch() == ([*range(20, 30), *range(100, 110)], [])
    # The cleaner makes one segment of several, and takes records out of it.
    roll(at, 40, 50)
    roll(at, 50, 60)
    for base in (10, 20, 30, 40):
        for file in at.glob(f"{base:020}.*"):
            file.unlink()
    log = batches(0, 5) + batches(30, 3) + batches(44, 3)
    (at / f"{0:020}.log").write_bytes(log)
    assert stream.batch() == ([*range(30, 36), *range(44, 50)], [])
    assert from_15.batch() == ([*range(30, 36), *range(44, 50), *range(100, 110)], [])


@pytest.mark.filterwarnings("ignore:no rows")
def test_records_deleted_before_the_read_are_reported(tmp_path: Path) -> None:
    made = DataDirectory(tmp_path / "data")
    at = made.partition("orders", 0, (0, 10, 20))
    stream, strict = Stream(made.path), Stream(made.path)
    for one in (stream, strict):
        one.batch()
    for base in (0, 10, 20):
        for file in at.glob(f"{base:020}.*"):
            file.unlink()
    roll(at, 36, 40)
    roll(at, 40, 50)
    lost = "offsets 20 to 35 were deleted before they were read"
    with pytest.raises(UsageError, match=f"{lost}; stopped, because failOnDataLoss"):
        strict.batch(fail=True)
    assert stream.batch() == ([*range(36, 40)], [lost])
    for base in (36, 40):
        for file in at.glob(f"{base:020}.*"):
            file.unlink()
    roll(at, 4, 10)  # another leader's log, which is shorter
    roll(at, 10, 20)
    cut = "the log was truncated below offset 40, up to which it was read"
    assert stream.batch() == ([], [cut])
    for file in at.iterdir():
        file.unlink()
    at.rmdir()
    assert stream.batch()[0] == []
    assert stream.offset == {str(at): 40}  # so that what comes back is not read again


def ended(start: Callable[[], Any]) -> None:
    """Run a query to its end; again where a busy machine kept Python from Spark's ten seconds."""
    for _ in range(20):
        try:
            start().awaitTermination()
        except Exception as error:  # Spark's and Py4J's have no base in common
            if "failed to connect back" not in str(error):
                raise
        else:
            return
    raise AssertionError


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_stream_reads_each_record_once(spark: Any, tmp_path: Path) -> None:
    made = DataDirectory(tmp_path / "data")
    at = made.partition("orders", 0, (0, 10, 20))

    def run(**options: str) -> list[int]:
        table = spark.readStream.format("kdump").options(**options).load(str(made.path))
        writer = table.writeStream.trigger(availableNow=True).format("parquet")
        places = {name: str(tmp_path / name) for name in ("checkpoint", "out")}
        query = writer.options(checkpointLocation=places["checkpoint"]).start(places["out"])
        query.awaitTermination()
        return sorted(row.offset for row in spark.read.parquet(places["out"]).collect())

    assert run() == [*range(20)]
    assert run() == [*range(20)]
    roll(at, 30, 40)
    assert run() == [*range(30)]
    roll(at, 50, 60)
    for base in (0, 10, 20, 30):
        for file in at.glob(f"{base:020}.*"):
            file.unlink()
    with pytest.raises(Exception, match=r"offsets 30 to 49 were deleted before they were read"):
        run(failOnDataLoss="true")
    assert run() == [*range(30)]
    for view, options, why in (
        ("findings", {}, "view findings does not support streams; records and batches do"),
        ("records", {"isolation": "read_committed"}, "a stream excludes visible"),
        ("records", {"endingOffsets": "latest"}, "a stream excludes endingOffsets"),
    ):
        table = spark.readStream.format("kdump").options(view=view, **options)
        writer = table.load(str(made.path)).writeStream.format("noop")
        with pytest.raises(Exception, match=why):
            ended(writer.start)

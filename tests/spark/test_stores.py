"""Files that a URI names, read and written by Spark's workers."""

from pathlib import Path
from typing import Any

import pytest
from bulk import HERE, digest_files, two_partitions

from kdump.engine.reading.options import DumpOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pipeline import Driver
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.output.bulk_dump import dump_parts
from kdump.output.part_directory import PartDirectory
from kdump.spark.driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
DATA = Path(__file__).parents[2] / "sample-data"


def told(root: str, **driven: Any) -> list[tuple[object, ...]]:
    """Give what verify says of a directory, by names inside it."""
    found: list[tuple[object, ...]] = []
    for item in verify([root], VerifyOptions(), **driven):
        if isinstance(item, Finding):
            found.append((item.code, item.path.removeprefix(root), item.position, item.offset))
        else:
            assert isinstance(item, Row)
            found.append(tuple(sorted(map(str, item.fields.keys() - {"seconds"}))))
    return found


def test_verify(spark: Any) -> None:
    directory = DATA / "damaged/4.1.1-stopped/d1"
    assert told(f"file://{directory}", driver=SparkDriver(spark)) == told(str(directory))


def test_parts(spark: Any, tmp_path: Path) -> None:
    directory = two_partitions(tmp_path / "data")

    def write(source: str, output: str, driver: Driver) -> None:
        into = PartDirectory(output, [source])
        for item in dump_parts([source], DumpOptions(), into, driver, split_bytes=None):
            assert not isinstance(item, Exception)

    write(str(directory), str(tmp_path / "here"), HERE)
    write(f"file://{directory}", f"file://{tmp_path}/there/", SparkDriver(spark, decodes=True))
    assert digest_files(tmp_path / "there") == digest_files(tmp_path / "here")


@pytest.mark.parametrize("prefix", ["file:", "file://"])
def test_spark_path_spellings_are_accepted(spark: Any, prefix: str) -> None:
    path = DATA / "clean/4.1.1/d2/orders.plain-0"
    rows = spark.read.format("kdump").schema("path string").load(f"{prefix}{path}")
    assert {Path(row["path"]).parent for row in rows.distinct().collect()} == {path}

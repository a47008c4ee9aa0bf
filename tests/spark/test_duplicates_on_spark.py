"""Duplicates and misplaced keys on Spark: the rows that come in process, in the same order."""

from pathlib import Path
from typing import Any

import pytest
from bulk import two_partitions

from kdump.engine.duplicates.entries import DuplicateOptions
from kdump.engine.duplicates.run import duplicates
from kdump.engine.usage.placement import PlacementOptions
from kdump.engine.usage.placement_rows import placement
from kdump.spark.driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
SAMPLES = Path(__file__).parents[2] / "sample-data"
DIRECTORIES = sorted(
    {str(path.parent.parent) for end in ("log", "kafka") for path in SAMPLES.rglob(f"*.{end}")}
)


def test_duplicates_in_sample_data_are_the_same(spark: Any) -> None:
    for options in (DuplicateOptions(by=("key", "value")), DuplicateOptions(by=("value",))):
        ours = list(duplicates(DIRECTORIES, options))
        assert len(ours) > 100
        assert list(map(repr, duplicates(DIRECTORIES, options, driver=SparkDriver(spark, 3)))) == (
            list(map(repr, ours))
        )


def test_placement_of_sample_data_is_the_same(spark: Any) -> None:
    options = PlacementOptions(partitions=3)
    ours = list(placement(DIRECTORIES, options))
    theirs = placement(DIRECTORIES, options, driver=SparkDriver(spark, 3))
    assert list(map(repr, theirs)) == list(map(repr, ours))


def test_pieces_of_logs(spark: Any, tmp_path: Path) -> None:
    two_partitions(tmp_path)
    options = DuplicateOptions(by=("key",))
    ours = list(duplicates([str(tmp_path)], options))
    driver = SparkDriver(spark, 4)
    assert list(duplicates([str(tmp_path)], options, driver=driver, split_bytes=1000)) == ours

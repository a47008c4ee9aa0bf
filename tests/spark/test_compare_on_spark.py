"""`compare` on Spark says what it says in process, in the same order."""

from pathlib import Path
from typing import Any

import damage
import pytest
from comparing import batches, replica
from corpus import corpus
from declared_rows import without_times

from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.spark.driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def told(*paths: Path, driver: Driver = ONE_BY_ONE) -> list[Any]:
    """Give what compare yields, without how long it took."""
    items = compare([str(path) for path in paths], CompareOptions(), driver=driver)
    return [repr(item) if isinstance(item, Exception) else without_times(item) for item in items]


def test_replicas_with_every_difference_are_compared(spark: Any, tmp_path: Path) -> None:
    log = batches(0, 100)
    epoch = [each._replace(epoch=9) for each in log[16:]]
    others = [
        log,
        log[:-3],
        log[4:],
        [*log[:8], damage.flip(log[8].data(), 90), *log[9:]],
        [*log[:8], *log[9:]],
        [*log[:16], *epoch],
        [*log[:-1], log[-1].data()[:70]],
        [*log[:4], *batches(20, 60, size=8), *log[12:]],
    ]
    for number, other in enumerate(others):
        replica(tmp_path / "left", "", log, partition=f"orders-{number}")
        replica(tmp_path / "right", "", other, partition=f"orders-{number}")
    replica(tmp_path / "left", "", log, partition="alone-0")
    roots = (tmp_path / "left", tmp_path / "right")
    ours = told(*roots)
    assert told(*roots, driver=SparkDriver(spark, 3)) == ours
    assert [row.fields["verdict"] for row in ours if row.row == "replica-comparison"] == [
        "equal",
        "behind",
        "start-differs",
        "damaged",
        "missing",
        "diverged",
        "truncated",
        "compacted-differently",
    ]


def test_copies_of_a_broker_are_compared(spark: Any) -> None:
    roots = [
        next(path for path in corpus(f"modern/data/{copy}").rglob("d2") if path.is_dir())
        for copy in ("clean", "killed")
    ]
    ours = told(*roots)
    assert told(*roots, driver=SparkDriver(spark, 2)) == ours
    assert ours[-1].fields["partitions"] == 23

"""`find-offset` and `find-time` on Spark answer what they answer in process, in the same order."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import builders
import pytest
from corpus import corpus, names
from drivers import Through, after

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import Item, find_offset, find_time, look_up
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import Driver
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.spark.driver import (
    PARTITION_BYTES,
    PARTITION_TASK_BYTES,
    SparkDriver,
    SparkJobError,
    group_items,
)
from kdump.storage.targets import Selection

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
SAMPLES = Path(__file__).parents[2] / "sample-data"
TIME = 1_700_000_000_000

Find = Callable[..., Iterator[Any]]
EXPLAINED = FindOptions(explain=True, check=True, isolation="read_committed")
QUESTIONS: list[tuple[Find, int, FindOptions]] = [
    (find_offset, 150, EXPLAINED),
    (find_offset, 0, FindOptions(Selection(retired=True), as_is=True)),
    (find_time, TIME + 100_000, EXPLAINED),
    (find_time, -1, FindOptions()),
    (find_time, -3, FindOptions(broker_version=(3, 0))),
    (find_time, 1_900_000_000_000, FindOptions(list_offsets_version=0, max_offsets=3, now_ms=TIME)),
]


def shown(items: Iterator[Any]) -> list[Any]:
    return [repr(item) if isinstance(item, Exception) else item for item in items]


def directories(root: Path) -> list[str]:
    logs = [path for path in root.rglob("*") if path.suffix in (".log", ".kafka")]
    return [str(path) for path in sorted({log.parent.parent for log in logs})]


@pytest.mark.parametrize(("find", "target", "options"), QUESTIONS)
def test_sample_data_has_the_same_rows(
    spark: Any, find: Find, target: int, options: FindOptions
) -> None:
    paths = [*directories(SAMPLES), str(SAMPLES / "nonesuch")]
    ours = shown(find(paths, target, options))
    progress = Progress()
    theirs = shown(find(paths, target, options, progress=progress, driver=SparkDriver(spark, 3)))
    assert theirs == ours
    rows = sum(isinstance(item, Row) for item in ours)
    assert rows > 30
    assert progress.items_done == progress.planned_items == rows


@pytest.mark.parametrize(("find", "target", "options"), QUESTIONS[::3])
def test_modern_corpora_have_the_same_rows(
    spark: Any, find: Find, target: int, options: FindOptions
) -> None:
    paths = [path for name in names("modern/data") for path in directories(corpus(name))]
    if not paths:
        pytest.skip("no corpora")
    ours = shown(find(paths, target, options))
    assert shown(find(paths, target, options, driver=SparkDriver(spark))) == ours
    assert sum(isinstance(item, Row) for item in ours) > 100


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in range(3):
        directory = tmp_path / "data" / f"orders-{number}"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(builders.batch(base_offset=0))
    return tmp_path / "data"


def test_vanished_partition_is_a_note(spark: Any, data: Path) -> None:
    driver = after(lambda: shutil.rmtree(data / "orders-1"), SparkDriver(spark))
    found = list(find_offset([str(data)], 0, FindOptions(), driver=driver))
    assert [item.fields["partition"] for item in found if isinstance(item, Row)] == [0, 2]
    gone = [item for item in found if isinstance(item, Finding) and item.code == "file-vanished"]
    assert [item.path for item in gone] == [str(data / "orders-1")]


def test_relative_paths_are_printed_as_given(
    spark: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    paths = [f"orders-{number}" for number in range(3)]
    found = list(find_offset(paths, 0, FindOptions(), driver=SparkDriver(spark)))
    assert found == list(find_offset(paths, 0, FindOptions()))


def test_executor_error_has_one_line_with_its_partition(spark: Any, data: Path) -> None:
    @partial(Through, SparkDriver(spark))
    def driver(driver: Driver, items: Any, step: Any, progress: Progress) -> Any:
        def broken(item: Item, pace: Pace) -> Any:
            if item.partition == 1:
                raise OSError("the disk went away")
            return look_up(item, pace, **step.keywords)

        return driver(items, broken, progress)

    with pytest.raises(SparkJobError, match=r"^.*orders-1: OSError: the disk .*\(on ") as told:
        list(find_offset([str(data)], 0, FindOptions(), driver=driver))
    assert "\n" not in str(told.value)


def test_lookups_are_distributed_by_number() -> None:
    pack = partial(group_items, task_bytes=PARTITION_TASK_BYTES)
    assert [len(group) for group in pack([PARTITION_BYTES] * 1024)] == [256] * 4
    assert len(pack([PARTITION_BYTES] * 200)) == 1
    checked = [PARTITION_BYTES + (1 << 30)] * 3
    assert len(pack(checked)) == 3

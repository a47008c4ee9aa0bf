"""`verify` on Spark says what it says in process, in the same order, however it is cut."""

from pathlib import Path
from typing import Any

import pytest
import segments
from corpus import corpus, files, names
from drivers import after
from every_code import count_differing
from long_runs import LONG
from oracle import PROFILES, oracle
from verifying import run_verify

from kdump.spark.driver import SparkDriver, compute_packed_bytes

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
TASKS = 8
WHOLE = 1 << 40
FOLDERS = (
    *("modern/data", "modern/extras", "modern/recovery/clean", "modern/recovery/killed"),
    *("modern/recovery/killed-norp", "old"),
)
CORPORA = [name for folder in FOLDERS for name in names(folder)]
CHOSEN = CORPORA if LONG else ["modern/data/clean", "old/damage-01022.all.before"]


def partitions(name: str) -> list[Path]:
    path = corpus(name)
    return sorted({log.parent for log in (*files(path, "*.log"), *files(path, "*.kafka"))})


def same(spark: Any, roots: list[Path], split_bytes: int, **options: Any) -> int:
    """Compare with one process that cuts nothing; give how many logs were replayed."""
    whole, none = run_verify(*roots, **options)
    told, replays = run_verify(
        *roots, split_bytes=split_bytes, driver=SparkDriver(spark, TASKS), **options
    )
    assert told == whole
    assert none == 0
    assert whole[-1].row == "summary"
    return replays


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("split_bytes", [64 << 10, 16 << 20, WHOLE] if LONG else [64 << 10])
def test_corpora(spark: Any, split_bytes: int, deep: bool) -> None:
    """All in one run: a data directory here, and a job for each size."""
    roots = sorted({path.parent for name in CHOSEN for path in partitions(name)})
    replays = same(spark, roots, split_bytes, deep=deep)
    assert bool(replays) == (split_bytes == 64 << 10) or not roots


def test_smallest_directories_cut_at_every_batch(spark: Any) -> None:
    sized = [
        (sum(log.stat().st_size for log in files(path, "*.log")), str(path), path)
        for name in CHOSEN
        for path in partitions(name)
        if len([*files(path, "*.log")]) > 1
    ]
    smallest = [path for _, _, path in sorted(sized)[: 20 if LONG else 4]]
    assert same(spark, smallest, 1) or not smallest


@pytest.mark.oracle
@pytest.mark.skipif(not LONG, reason="takes minutes; KDUMP_FUZZ=long asks for it")
def test_directories_made_by_the_brokers_code(spark: Any, tmp_path: Path) -> None:
    for seed in range(100):
        oracle().make(PROFILES[seed % len(PROFILES)], seed + 1, tmp_path / f"made-{seed}")
    for split_bytes in (3000, 64 << 10, 16 << 20, WHOLE):
        for deep in (False, True):
            same(spark, [tmp_path], split_bytes, deep=deep)


def test_changed_log_is_read_again(spark: Any, tmp_path: Path) -> None:
    ends = {0: 600, 600: 1200, 1200: 1230}
    path = segments.write_partition(
        tmp_path, {base: segments.batches(base, end) for base, end in ends.items()}
    )

    def change() -> None:
        data = segments.read(path, 0, "log")
        (path / segments.name(0, "log")).write_bytes(data[:-40])

    driver = after(change, SparkDriver(spark, TASKS), run=2)
    told, replays = run_verify(path, split_bytes=5000, driver=driver)
    assert (told, replays) == (run_verify(path)[0], 1)
    assert len(told) > 1


@pytest.mark.parametrize(
    ("memory", "expected_bytes"),
    [("1g", 64 << 20), ("8g", 512 << 20), ("512m", 32 << 20), ("2048", 128 << 20), ("?", 64 << 20)],
)
def test_split_results_fit_the_memory_of_the_session(memory: str, expected_bytes: int) -> None:
    class Session:
        class conf:
            @staticmethod
            def get(name: str, default: object) -> object:
                return {"spark.driver.memory": memory, "spark.executor.memory": "9g"}[name]

    assert compute_packed_bytes(Session()) == expected_bytes  # type: ignore[arg-type]


def test_view_of_each_code_of_the_catalogue(spark: Any, tmp_path: Path) -> None:
    """All at once by a session's own plan and tasks; those that need settings one by one."""
    codes, odd = count_differing(spark, tmp_path)
    assert not odd
    assert codes > 100

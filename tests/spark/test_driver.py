"""The Spark driver against the one in process: same parts, same findings, whatever happens."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from bulk import batches, digest_files, run_bulk_dump, two_partitions
from corpus import corpus, files, names
from drivers import Through, after
from long_runs import LONG
from oracle import oracle
from patience import PATIENCE_SECONDS

from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import Driver
from kdump.engine.work.splits import Split
from kdump.spark import preflight
from kdump.spark.driver import SparkDriver, SparkJobError, group_items
from kdump.spark.errors import one_line
from kdump.spark.preflight import ExecutorError

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
TASKS = 8


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return two_partitions(tmp_path / "data")


def compare(
    spark: Any, path: Path, tmp_path: Path, split_bytes: int | None, **options: Any
) -> None:
    here, there = tmp_path / f"here-{split_bytes}", tmp_path / f"there-{split_bytes}"
    ours = run_bulk_dump(path, here, split_bytes=split_bytes, **options)
    theirs = run_bulk_dump(
        path, there, SparkDriver(spark, TASKS, decodes=True), split_bytes, **options
    )
    assert theirs == ours
    assert digest_files(there) == digest_files(here)


def roots(name: str) -> list[Path]:
    path = corpus(name)
    logs = [*files(path, "*.log"), *files(path, "*.kafka")]
    return sorted({log.parent.parent for log in logs})


CORPORA = [
    name
    for folder in ("modern/data", "modern/recovery/clean", "modern/recovery/killed", "old")
    for name in names(folder)
]


@pytest.mark.parametrize("name", CORPORA if LONG else CORPORA[1::11])
def test_corpus_has_the_same_findings_on_spark(spark: Any, name: str, tmp_path: Path) -> None:
    for number, root in enumerate(roots(name)):
        for split_bytes in (64 << 10, 16 << 20, None) if LONG else (64 << 10,):
            compare(spark, root, tmp_path / str(number), split_bytes)


@pytest.mark.skipif(not LONG, reason="takes minutes; KDUMP_FUZZ=long asks for it")
def test_small_directories_split_at_every_batch_have_the_same_findings(
    spark: Any, tmp_path: Path
) -> None:
    sized = []
    for name in CORPORA:
        for root in roots(name):
            size = sum(log.stat().st_size for log in files(root, "*.log"))
            sized.append((size, str(root), root))
    for number, (_, _, root) in enumerate(sorted(sized)[:20]):
        compare(spark, root, tmp_path / str(number), 1)


@pytest.mark.oracle
def test_generated_directories_have_the_same_findings(spark: Any, tmp_path: Path) -> None:
    """All of them in one data directory, so that there is one job for each size."""
    root = tmp_path / "data"
    root.mkdir()
    profiles = ("mixed-all", "mixed-v0", "mixed-v1", "mixed-v2", "txn", "compacted", "restarts")
    for seed in range(100 if LONG else 2):
        oracle().make(profiles[seed % len(profiles)], seed + 1, root / f"made-{seed}")
    for split_bytes in (64 << 10, 16 << 20, None) if LONG else (1000, None):
        compare(spark, root, tmp_path, split_bytes)


def test_wrong_index_changes_nothing(spark: Any, directory: Path, tmp_path: Path) -> None:
    """It names a batch that is part of a value: both drivers read that log again as one."""
    inner = batches(155, 1)
    outer = builders.batch(
        [builders.record(0, 0, b"", inner)], base_offset=100, last_offset_delta=9
    )
    data = batches(0, 10) + outer + batches(110, 29)
    log = directory / "orders-0" / f"{0:020}.log"
    log.write_bytes(data)
    at = data.index(inner)
    entry = (109).to_bytes(4, "big") + at.to_bytes(4, "big")
    log.with_suffix(".index").write_bytes(entry)
    compare(spark, directory, tmp_path, at - 50)


def test_damage(spark: Any, directory: Path, tmp_path: Path) -> None:
    for log in files(directory, "*.log"):
        log.write_bytes(damage.flip(log.read_bytes(), 5000))
    compare(spark, directory, tmp_path, 9000)
    compare(spark, directory, tmp_path, None, mode="batches")


@pytest.mark.parametrize("options", [{"visible": True}, {"from_offset": 333, "to_offset": 801}])
def test_options(spark: Any, directory: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    compare(spark, directory, tmp_path, 9000, **options)


@pytest.mark.parametrize("split_bytes", [9000, None])
def test_log_changed_after_the_plan_is_reported(
    spark: Any, directory: Path, tmp_path: Path, split_bytes: int | None
) -> None:
    shrunk = directory / "orders-0" / f"{0:020}.log"
    gone = directory / "orders-1" / f"{400:020}.log"

    def change() -> None:
        shrunk.write_bytes(batches(0, 30))
        gone.unlink(missing_ok=True)

    driver = after(change, SparkDriver(spark, TASKS, decodes=True))
    rows, found = run_bulk_dump(directory, tmp_path / "out", driver, split_bytes)
    assert rows == 2400 - 100 - 400
    assert sorted((one.code, one.path) for one in found) == [
        ("file-shrank", str(shrunk)),
        ("file-vanished", str(gone)),
    ]


def sabotaged(driver: Driver, act: Callable[[Split, Any], None]) -> Driver:
    """Do something in the worker after a part was written, and before it is told."""

    def hurt(driver: Driver, splits: Any, step: Any, progress: Progress) -> Any:
        keywords = step.keywords

        def hurting(split: Split, pace: Any) -> Any:
            from kdump.output.bulk_dump import write_part

            result = write_part(split, pace, **keywords)
            act(split, result)
            return result

        return driver(splits, hurting, progress)

    return Through(driver, hurt)


def test_failed_task_is_retried(tmp_path: Path) -> None:
    """In a process of its own: Spark does nothing again in the session of the other tests."""
    tests = f"{__file__}::done_again"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", tests]
    names = ["-o", "python_functions=done_again", "--basetemp", str(tmp_path / "again")]
    environment = {**os.environ, "KDUMP_TEST_TASK_FAILURES": "4"}
    done = subprocess.run([*command, *names], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("way", ["raise", "kill"])
def done_again(spark: Any, directory: Path, tmp_path: Path, way: str) -> None:
    once = tmp_path / "once"

    def act(split: Split, result: Any) -> None:
        if split.number == 3 and not once.exists():
            once.touch()
            if way == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk went away for a moment")

    run_bulk_dump(directory, tmp_path / "here")
    run_bulk_dump(
        directory, tmp_path / "there", sabotaged(SparkDriver(spark, 3, decodes=True), act)
    )
    assert once.exists()
    assert digest_files(tmp_path / "there") == digest_files(tmp_path / "here")


def test_task_error_has_one_line_with_its_file(spark: Any, directory: Path, tmp_path: Path) -> None:
    def act(split: Split, result: Any) -> None:
        if split.number == 3:
            raise OSError("the disk went away")

    with pytest.raises(
        SparkJobError, match=r"^.*orders-1/0+\.log: OSError: the disk .*\(on "
    ) as told:
        run_bulk_dump(
            directory, tmp_path / "out", sabotaged(SparkDriver(spark, 3, decodes=True), act)
        )
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


def test_interruption_cancels_the_job(spark: Any, directory: Path, tmp_path: Path) -> None:
    """Spark says what came of a job some time after that."""
    tracker = spark.sparkContext.statusTracker()
    jobs: list[int] = []

    def act(split: Split, result: Any) -> None:
        import time

        time.sleep(30)

    @partial(Through, sabotaged(SparkDriver(spark, 3, decodes=True), act))
    def interrupted(driver: Driver, splits: Any, step: Any, progress: Progress) -> Any:
        def tick() -> None:
            jobs.extend(tracker.getActiveJobsIds())
            if jobs:
                raise KeyboardInterrupt

        progress.tick = tick
        return driver(splits, step, progress)

    with pytest.raises(KeyboardInterrupt):
        run_bulk_dump(directory, tmp_path / "out", interrupted)
    assert not (tmp_path / "out").exists()
    end = time.monotonic() + PATIENCE_SECONDS
    while any(tracker.getJobInfo(job).status == "RUNNING" for job in jobs):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert {tracker.getJobInfo(job).status for job in jobs} == {"FAILED"}


def test_different_version_is_refused(
    spark: Any, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "__version__", "9.9")
    with pytest.raises(ExecutorError, match=r"executor on \S+ has kdump .*, but this is 9\.9"):
        run_bulk_dump(directory, tmp_path / "out", SparkDriver(spark, decodes=True))
    assert not (tmp_path / "out").exists()


def test_executor_without_the_files_is_refused(
    spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine is said to see what no executor does."""
    missing = str(directory / "nowhere.log")
    monkeypatch.setattr(preflight, "_size", lambda path: 100)
    with pytest.raises(ExecutorError, match=r"executor on \S+: .*nowhere\.log: No such file"):
        preflight.preflight(spark, [missing])
    monkeypatch.setattr(preflight, "_size", lambda path: 1_000_000)
    with pytest.raises(ExecutorError, match=r"has \d+ bytes there, and 1000000 here"):
        preflight.preflight(spark, [str(directory / "orders-0" / f"{0:020}.log")])


def test_progress_counts_tasks(spark: Any, directory: Path, tmp_path: Path) -> None:
    seen = []

    @partial(Through, SparkDriver(spark, 3, decodes=True))
    def driver(driver: Driver, splits: Any, step: Any, progress: Progress) -> Any:
        progress.tick = lambda: seen.append((progress.done_bytes, progress.at[0]))
        return driver(splits, step, progress)

    run_bulk_dump(directory, tmp_path / "out", driver)
    assert seen[-1] == (
        sum(log.stat().st_size for log in files(directory, "*.log")),
        "3 of 3 tasks on Spark",
    )
    assert [size for size, _ in seen] == sorted(size for size, _ in seen)


def test_spark_reads_the_parts(spark: Any, directory: Path, tmp_path: Path) -> None:
    run_bulk_dump(directory, tmp_path / "out")
    table = spark.read.parquet(str(tmp_path / "out"))
    assert table.count() == 2400
    assert table.where("topic = 'orders' and partition = 1 and offset < 5").count() == 5


def test_groups_contain_each_item_once_largest_first() -> None:
    sizes = [5, 100, 1, 1, 60, 0, 40, 7]
    for most in (1, 3, None):
        groups = group_items(sizes, 70, most)
        assert sorted(number for group in groups for number in group) == list(range(8))
        totals = [sum(sizes[number] for number in group) for group in groups]
        assert totals == sorted(totals, reverse=True)
        assert len(groups) == (most or 4)
    assert group_items([]) == []


def test_errors_have_one_line() -> None:
    trace = "[X] failed:\nTraceback (most recent call last):\n  File x\n"
    trace += "kdump.errors.PathError: a: b\n\tat y"
    assert one_line(RuntimeError(trace)) == "kdump.errors.PathError: a: b"
    assert one_line(RuntimeError("lost\nRuntimeError: kdump-task: x.log: gone (on h)\n at")) == (
        "x.log: gone (on h)"
    )
    assert one_line(ValueError()) == "ValueError"

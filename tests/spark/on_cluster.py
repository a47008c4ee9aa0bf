"""Run by test_cluster.py: dump and verify on clusters that lose things, in process beside it.

    python on_cluster.py SCENARIO DATA OUT

Scenarios are the functions below. What a dump leaves is compared by who ran this; what else came
of it is printed as JSON.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import pyspark
from bulk import HERE, run_bulk_dump
from clusters import connect_server, packed_environment, python_without, standalone
from declared_rows import without_times
from drivers import Through

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError
from kdump.spark.driver import SparkDriver
from kdump.spark.session import spark_session

SPLIT_BYTES = 9000
TASKS = 8
SLOW_SECONDS = 900
Act = Callable[[Any, Any], None]


def nothing(item: Any, result: Any) -> None:
    """Let everything be."""


def acting(step: Any, act: Act) -> Any:
    """Do something in the worker when an item was done, before it is told."""

    def both(item: Any, pace: Any) -> Any:
        result = step(item, pace)
        act(item, result)
        return result

    return both


def ticket(directory: Path) -> int:
    """Give each caller, in whatever process, another number."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in count():
        try:
            (directory / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError


def acted(driver: Driver, act: Act, change: Any) -> Driver:
    """Have something change before the work, and something be done in each step."""

    def do(driver: Driver, items: Any, step: Any, progress: Any) -> Any:
        if change is not None:
            change()
        return driver(items, acting(step, act), progress)

    return Through(driver, do)


def dumped(data: Path, out: Path, driver: Any, act: Act = nothing, change: Any = None) -> list[Any]:
    """Dump; give the number of rows and what was found."""

    rows, found = run_bulk_dump(data, out, acted(driver, act, change), SPLIT_BYTES)
    return [rows, *map(repr, found)]


def verified(data: Path, driver: Any, act: Act = nothing, change: Any = None) -> list[str]:
    """Verify; give what comes of it, without how long it took."""

    items = verify([str(data)], VerifyOptions(), driver=acted(driver, act, change))
    return [repr(without_times(item)) for item in items]


@contextmanager
def with_settings(**settings: str) -> Iterator[None]:
    """Set what the next session of Spark has, with `_` for a point."""
    words = [f"--conf {name.replace('_', '.')}={value}" for name, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*words, "pyspark-shell"])
    try:
        yield
    finally:
        del os.environ["PYSPARK_SUBMIT_ARGS"]


@contextmanager
def local_cluster() -> Iterator[Any]:
    """Give a session on two executors, and remove the logs that they keep beside the library."""
    work = Path(pyspark.__file__).parent / "work"
    name = ""
    try:
        with spark_session("local-cluster[2,1,1024]", None) as spark:
            name = spark.sparkContext.applicationId
            yield spark
    finally:
        if name:
            shutil.rmtree(work / name, ignore_errors=True)
        if work.is_dir() and not any(work.iterdir()):
            work.rmdir()


def losses(data: Path, out: Path) -> dict[str, Any]:
    """Lose a Python worker, then an executor, in mid-job; then files between plan and run."""

    def killing(name: str, whom: Callable[[], int]) -> Act:
        def act(item: Any, result: Any) -> None:
            if ticket(out / f"done-{name}") == 2:
                (out / f"killed-{name}").touch()
                os.kill(whom(), signal.SIGKILL)
                time.sleep(5)
                os._exit(1)

        return act

    def executor() -> int:
        """The JVM that a worker belongs to: its parent's parent."""
        told = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(told.rpartition(")")[2].split()[1])

    def losing(copy: Path) -> Callable[[], None]:
        def change() -> None:
            """Called once more for what has to be read again."""
            log, other = (copy / f"orders-{number}" / f"{400:020}.log" for number in (0, 1))
            log.write_bytes(log.read_bytes()[:6000])
            other.unlink(missing_ok=True)

        return change

    told: dict[str, Any] = {}
    told["dump"] = {"here": dumped(data, out / "here", HERE)}
    told["verify"] = {"here": verified(data, ONE_BY_ONE)}
    with local_cluster() as spark:
        on_splits, on_items = SparkDriver(spark, TASKS, decodes=True), SparkDriver(spark, TASKS)
        for name, whom in (("worker", os.getpid), ("executor", executor)):
            act = killing(f"dump-{name}", whom)
            told["dump"][name] = dumped(data, out / name, on_splits, act)
            told["verify"][name] = verified(data, on_items, killing(f"verify-{name}", whom))
        copy = out / "data"
        for name, driver in (("here", HERE), ("spark", on_splits)):
            shutil.copytree(data, copy)
            told[f"lost-dump-{name}"] = dumped(
                copy, out / f"lost-{name}", driver, change=losing(copy)
            )
            shutil.rmtree(copy)
        for name, driver in (("here", ONE_BY_ONE), ("spark", on_items)):
            shutil.copytree(data, copy)
            told[f"lost-verify-{name}"] = verified(copy, driver, change=losing(copy))
            shutil.rmtree(copy)
    told["killed"] = sorted(path.name for path in out.glob("killed-*"))
    return told


def copies(data: Path, out: Path) -> dict[str, Any]:
    """Let one attempt be slow, so that Spark starts a copy of it on another host."""

    def slow(name: str, chosen: Callable[[Any], bool]) -> Act:
        def act(item: Any, result: Any) -> None:
            from pyspark import TaskContext

            if chosen(item):
                attempt = TaskContext.get().attemptNumber()  # type: ignore[union-attr]
                written = getattr(result, "name", None)
                (out / f"{name}-{attempt}").write_text(str(written))
                first = out / f"{name}-0"
                until = time.monotonic() + SLOW_SECONDS
                # A copy waits for the first attempt to come this far: Spark starts copies of
                # attempts whose worker is still starting, too, and ends these when a copy is done.
                while not (attempt and first.exists()):
                    if time.monotonic() > until:
                        (out / "waited-for").touch()
                        break
                    time.sleep(0.1)

        return act

    told: dict[str, Any] = {"dump": {}, "verify": {}}
    told["dump"]["here"] = dumped(data, out / "here", HERE)
    told["verify"]["here"] = verified(data, ONE_BY_ONE)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    speculation = {
        "spark_speculation": "true",
        "spark_speculation_interval": "100ms",
        "spark_speculation_multiplier": "1.1",
        "spark_speculation_quantile": "0.5",
        "spark_speculation_minTaskRuntime": "500ms",
        "spark_executor_memory": "512m",
    }
    with (
        standalone(out / "cluster") as url,
        with_settings(**speculation),
        spark_session(url, None) as spark,
    ):
        on_splits, on_items = SparkDriver(spark, TASKS, decodes=True), SparkDriver(spark, TASKS)
        slow_dump = slow("dump", lambda split: split.number == 0)
        told["dump"]["copied"] = dumped(data, out / "copied", on_splits, slow_dump)
        slow_verify = slow("verify", lambda item: item.path.endswith("orders-3"))
        told["verify"]["copied"] = verified(data, on_items, slow_verify)
        told["waited_for"] = (out / "waited-for").exists()
    for name in ("dump", "verify"):
        told[f"{name}-attempts"] = {
            path.name: path.read_text() for path in sorted(out.glob(f"{name}-*"))
        }
    shutil.rmtree(out / "cluster")
    return told


def shipped(data: Path, out: Path) -> dict[str, Any]:
    """Executors whose Python has no kdump: refused; then the same with one sent along."""
    archive = packed_environment(out)
    os.environ["PYSPARK_PYTHON"] = str(python_without("kdump", out))
    told: dict[str, Any] = {"dump": {}, "verify": {}}
    told["dump"]["here"] = dumped(data, out / "here", HERE)
    told["verify"]["here"] = verified(data, ONE_BY_ONE)
    with standalone(out / "cluster") as url, with_settings(spark_executor_memory="512m"):
        with spark_session(url, None, str(archive)) as spark:
            told["dump"]["sent"] = dumped(
                data, out / "sent", SparkDriver(spark, TASKS, decodes=True)
            )
            told["verify"]["sent"] = verified(data, SparkDriver(spark, TASKS))
            spark.conf.unset("spark.sql.execution.pyspark.python")
            told["refused"] = _refusal(data, spark)
        with (
            connect_server(out / "server", url) as remote,
            spark_session(None, remote, str(archive)) as spark,
        ):
            told["verify"]["connect"] = verified(data, SparkDriver(spark, TASKS))
            told["dump"]["connect"] = dumped(
                data, out / "connect", SparkDriver(spark, TASKS, decodes=True)
            )
    shutil.rmtree(out / "cluster")
    return told


def _refusal(data: Path, spark: Any) -> list[Any]:
    try:
        verified(data, SparkDriver(spark, TASKS))
    except KdumpError as error:
        return [error.status, str(error)]
    return []


def main() -> None:
    """Run one scenario."""
    scenario, data, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).absolute()
    out.mkdir()
    print(json.dumps({"losses": losses, "copies": copies, "shipped": shipped}[scenario](data, out)))


if __name__ == "__main__":
    main()

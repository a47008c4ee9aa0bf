"""Run by test_connect.py: everything that runs on Spark, on a Connect server of this machine.

    python on_connect.py OUT

A process has either classic sessions or Connect's, so this is one of its own. Prints, as JSON, for
each kind of work whether it gave what it gives in process, and what was seen of progress.
"""

import json
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from bulk import digest_files, run_bulk_dump
from declared_rows import without_times
from drivers import Through
from reusing import PUSHDOWN, VIEWS_OF_LOGS, refusal, uses

from kdump.engine.dump.run import dump
from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import Item, find_offset, look_up
from kdump.engine.reading.options import DumpOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import Driver
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk
from kdump.spark.driver import SparkDriver, SparkJobError
from kdump.spark.session import spark_session
from kdump.storage.targets import Selection

SAMPLES = Path(__file__).parents[2] / "sample-data"
SOUND, DAMAGED = SAMPLES / "clean/4.1.1/d2", SAMPLES / "damaged/4.1.1-stopped/d1"
FIND = FindOptions(explain=True, check=True)


def verified(**driver: Any) -> list[Any]:
    """Give what verify yields, without how long it took."""
    items = verify([str(DAMAGED)], VerifyOptions(), progress=Progress(), **driver)
    return [*map(without_times, items)]


def found(**driver: Any) -> list[Any]:
    """Give what find-offset yields."""
    paths = [str(SOUND), str(SAMPLES / "nonesuch")]
    return [repr(item) for item in find_offset(paths, 100, FIND, **driver)]


def read(spark: Any) -> list[tuple[str, int]]:
    """Give topic and offset of each record, as Spark reads them."""
    few = spark.read.format("kdump").schema("topic string, offset bigint")
    return sorted((row.topic, row.offset) for row in few.load(str(SOUND)).collect())


def read_here() -> list[tuple[str, int]]:
    """Give the same, in process."""
    rows = []
    for item in dump([str(SOUND)], DumpOptions()):
        if isinstance(item, RecordChunk):
            rows += [(item.place.topic or "", record.offset) for record in item.iter_records()]
    return sorted(rows)


def seen(spark: Any) -> bool:
    """Whether the view of findings, and that of records by broker, are what they are in process."""
    found = spark.read.format("kdump").option("view", "findings").load(str(DAMAGED)).collect()
    theirs = verify([str(DAMAGED)], VerifyOptions(selection=Selection(retired=True)))
    due = sorted(
        (one.code, one.path, one.position or 0) for one in theirs if isinstance(one, Finding)
    )
    node = spark.read.format("kdump").schema("node_id int, data_directory string")
    owners = {tuple(row) for row in node.load(str(SOUND)).distinct().collect()}
    came = sorted((row.code, row.path, row.position or 0) for row in found)
    return came == due != [] and owners == {(1, str(SOUND))}


def reused(spark: Any) -> bool:
    """Whether each use of one frame gives its rows, and narrowing by conditions is refused."""
    spark.conf.set(PUSHDOWN, "true")
    ways = [way for view in VIEWS_OF_LOGS for way in uses(spark, view).values()]
    refused = "use topic, partition, fromOffset" in refusal(spark, "groups")
    spark.conf.unset(PUSHDOWN)
    return all(came == due for came, due in ways) and refused


def slowly(spark: Any, seconds: float, progress: Progress, ended: Path | None = None) -> list[Any]:
    """Look partitions up, one a task, each in so much time; then it leaves a mark."""

    @partial(Through, SparkDriver(spark, 7))
    def driver(driver: Driver, items: Any, step: Any, progress: Progress) -> Any:
        def slow(item: Item, pace: Pace) -> Any:
            time.sleep(seconds)
            if ended is not None:
                ended.touch()
            return look_up(item, pace, **step.keywords)

        return driver(items, slow, progress)

    asked = FindOptions(check=True)
    return list(find_offset([str(SOUND)], 0, asked, progress=progress, driver=driver))


def moving(spark: Any) -> list[tuple[int, int]]:
    """Give what a bar is shown of a job of seven tasks: partitions and bytes."""
    progress = Progress()
    seen: list[tuple[int, int]] = []

    def tick() -> None:
        now = progress.items_done, progress.done_bytes
        if not seen or seen[-1] != now:
            seen.append(now)

    progress.tick = tick
    slowly(spark, 2.0, progress)
    return seen


def interrupted(spark: Any, ended: Path) -> list[object]:
    """Press Ctrl-C during a job of an hour; say what came of it, and whether a task went on."""
    timer = threading.Timer(5.0, os.kill, (os.getpid(), signal.SIGINT))
    progress = Progress()

    def tick() -> None:
        if timer.ident is None:  # the job has begun
            timer.start()

    progress.tick = tick
    try:
        slowly(spark, 900.0, progress, ended)
    except KeyboardInterrupt:
        came = "KeyboardInterrupt"
    except SparkJobError as error:
        came = str(error)
    spark.range(4, numPartitions=2).collect()  # waits for tasks that were left
    return [came, ended.exists()]


def main(out: Path) -> None:
    """Compare."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where it was ignored
    out.mkdir()
    here = run_bulk_dump(SOUND, out / "here", split_bytes=9000)
    with spark_session(None, "local[2]") as spark:
        driver = {"driver": SparkDriver(spark)}
        there = run_bulk_dump(SOUND, out / "there", SparkDriver(spark, 4, decodes=True), 9000)
        told = {
            "connect": not hasattr(spark, "_sc"),
            "dump": there == here and digest_files(out / "there") == digest_files(out / "here"),
            "verify": verified(**driver) == verified(),
            "find": found(**driver) == found(),
            "read": read(spark) == read_here() != [],
            "seen": seen(spark),
            "reused": reused(spark),
            "moving": moving(spark),
            "interrupted": interrupted(spark, out / "ended"),
            "handlers": len(spark.client._progress_handlers),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

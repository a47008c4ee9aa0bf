"""Run by test_cluster.py: bulk dumps on a cluster of two executors, one of which is killed.

    python on_cluster.py DATA OUT

Writes `here` and `killed` into OUT: by the in-process driver, and by a job that loses an executor.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyspark
from bulk import bulk_dumped

from kdump.engine.pace import Progress
from kdump.engine.splits import Split
from kdump.output.bulk_dump import Driver, Outcome
from kdump.spark.driver import splits_on
from kdump.spark.session import spark_session

SPLIT_BYTES = 9000


def acting(driver: Driver, act: Any) -> Driver:
    """Do something in the worker when a part was written, before it is told."""

    def acted(splits: Sequence[Split], step: Any, progress: Progress) -> Iterator[Outcome]:
        keywords = step.keywords

        def both(split: Split, pace: Any) -> Any:
            from kdump.output.parquet_parts import write_part

            result = write_part(split, pace, **keywords)
            act(split)
            return result

        both.keywords = keywords  # type: ignore[attr-defined]
        return driver(splits, both, progress)

    return acted


def main(data: Path, out: Path) -> None:
    """Write the directories."""
    out.mkdir()
    bulk_dumped(data, out / "here", split_bytes=SPLIT_BYTES)
    once = out / "once"

    def kill(split: Split) -> None:
        """End the executor that this worker belongs to: its parent's parent, a JVM."""
        if split.number == 5 and not once.exists():
            once.touch()
            told = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(told.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(60)

    # Spark starts no copy of a task on the host of the first one, and here is only one host.
    settings = {"spark.speculation": "true", "spark.speculation.minTaskRuntime": "1s"}
    words = [f"--conf {name}={value}" for name, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*words, "pyspark-shell"])
    with spark_session("local-cluster[2,1,1024]", None) as spark:
        assert spark.conf.get("spark.speculation") == "true"
        bulk_dumped(data, out / "killed", acting(splits_on(spark, tasks=8), kill), SPLIT_BYTES)
        name = spark.sparkContext.applicationId
    # Where such a cluster keeps its logs, whatever it is told: beside the library.
    work = Path(pyspark.__file__).parent / "work"
    shutil.rmtree(work / name, ignore_errors=True)
    if not any(work.iterdir()):
        work.rmdir()
    print("killed" if once.exists() else "spared")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

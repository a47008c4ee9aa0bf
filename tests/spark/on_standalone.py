"""Run by test_standalone.py: everything on a real cluster of one master and one worker.

    python on_standalone.py OUT [--one-by-one]

Prints, as JSON, where the view of findings is not what `verify` says, in a session of the cluster
and in one of a Connect server before it; and what gave other rows when its executor was killed.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from clusters import connect_server, standalone
from declared_rows import without_times
from every_code import count_differing

from kdump.engine.registry import COMMANDS
from kdump.spark.driver import SparkDriver
from kdump.spark.schema import VIEWS
from kdump.spark.session import spark_session

SAMPLES = Path(__file__).parents[2] / "sample-data"
PATHS = [
    str(SAMPLES / name)
    for name in ("clean/4.1.1/d1", "clean/4.1.1/d2", "clean/4.4.0", "damaged/4.1.1-stopped/d1")
]
NODES = sorted(map(str, (SAMPLES / "damaged/4.4.0-three-nodes").glob("n*")))
NOW_MS = 1_800_000_000_000

#: Kills the executor of a worker in the midst of a task, once each time that a file is there.
KILLER = """
import os, signal, time

def once(armed={armed!r}):
    try:
        os.rename(armed, armed + ".used")
    except OSError:
        return
    with open(f"/proc/{{os.getppid()}}/stat") as file:
        executor = int(file.read().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    time.sleep(30)

if os.path.exists({active!r}):
    from kdump.spark import driver, views

    def result_of(*given, before=driver._result_of):
        found = before(*given)
        once()
        return found

    def rows_of(*given, before=views.rows_of):
        for batch in before(*given):
            yield batch
            once()

    driver._result_of, views.rows_of = result_of, rows_of
"""


class Killer:
    """Has the next job lose its executor."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "killer"
        self._armed, self._active = self.folder / "armed", self.folder / "active"
        self.folder.mkdir()
        text = KILLER.format(armed=str(self._armed), active=str(self._active))
        (self.folder / "sitecustomize.py").write_text(text)

    def around(self, do: Callable[[], Any]) -> tuple[Any, bool]:
        """Do something, and say whether an executor was killed meanwhile."""
        self._armed.touch()
        found = do()
        killed = not self._armed.exists()
        self._armed.unlink(missing_ok=True)
        return found, killed

    def start(self) -> None:
        """Have the workers that start from now on do it."""
        self._active.touch()


def jobs() -> Iterator[tuple[str, Callable[[Any], list[str]]]]:
    """Name all commands that run on Spark, each with what runs it by a driver or in process."""
    given: dict[str, tuple[list[str], tuple[Any, ...], dict[str, Any]]] = {
        name: (PATHS, (), {})
        for name in ("verify", "predict", "usage", "sequences", "transactions", "cluster", "why")
    }
    given["duplicates"] = PATHS, (), {"by": ("key", "value")}
    given["placement"] = PATHS, (), {"partitions": 3}
    given["compare"] = given["elect"] = NODES, (), {}
    given["find-offset"] = PATHS, (100,), {"check": True}
    given["find-time"] = PATHS, (1_763_683_200_000,), {"check": True}
    for name, (paths, asked, options) in given.items():
        command = COMMANDS[name]
        if hasattr(command.options(), "now_ms"):
            options = {**options, "now_ms": NOW_MS}

        def run(
            driver: Any, command: Any = command, paths: Any = paths, asked: Any = asked,
            options: Any = options,
        ) -> list[str]:  # fmt: skip
            more = {} if driver is None else {"driver": driver}
            items = command.run(paths, *asked, command.options(**options), **more)
            return [
                repr(item if isinstance(item, Exception) else without_times(item)) for item in items
            ]

        yield name, run


def read(spark: Any, view: str) -> Counter[str]:
    """Count the rows of a view."""
    frame = spark.read.format("kdump").options(view=view).load(PATHS)
    return Counter(repr(row) for row in frame.collect())


def main() -> None:
    """Compare."""
    out = Path(sys.argv[1]).absolute()
    out.mkdir()
    one_by_one = "--one-by-one" in sys.argv
    killer = Killer(out)
    python = out / "python"
    path = f"{killer.folder}:{os.environ.get('PYTHONPATH', '')}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = str(python)
    told: dict[str, Any] = {"not_killed": [], "lost_rows": []}
    with standalone(out / "cluster", ("127.0.0.2",)) as url:
        with spark_session(url, None) as spark:
            told["classic"] = count_differing(spark, out / "made", one_by_one=one_by_one)
            views = {view: read(spark, view) for view in VIEWS}
        killer.start()
        with spark_session(url, None) as spark:
            for view, due in views.items():
                rows, killed = killer.around(lambda view=view: read(spark, view))
                told["lost_rows"] += [] if rows == due else [f"view {view}"]
                told["not_killed"] += [] if killed else [f"view {view}"]
            driver = SparkDriver(spark, 4, decodes=True)
            for name, run in jobs():
                came, killed = killer.around(lambda run=run: run(driver))
                told["lost_rows"] += [] if came == run(None) else [name]
                told["not_killed"] += [] if killed else [name]
        (killer.folder / "active").unlink()
        with connect_server(out / "server", url) as remote, spark_session(None, remote) as spark:
            told["connect"] = count_differing(spark, out / "made again", one_by_one=one_by_one)
    print(json.dumps(told))


if __name__ == "__main__":
    main()

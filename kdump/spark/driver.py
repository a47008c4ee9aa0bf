"""The Spark driver: the same steps over the same items as `engine/work/pipeline.py`, on a cluster.

Items are rows of a DataFrame, one `mapInArrow` does the step, and its results are rows again. Not
chosen: RDDs, which cost half as much a task but do not exist on Spark Connect; a closure over the
items, which would go to every task whole. A step writes its bulk where it runs, so that no record
crosses into the JVM. Steps are pure, and Spark hands over one result for each task however often
it ran one.

Before any work a probe runs on as many executors as answer: each must have this very kdump, and
see the files that were planned.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, nullcontext
from functools import partial
from typing import Any

from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import make_error
from kdump.errors import KdumpError
from kdump.spark.errors import one_line
from kdump.spark.job import Job
from kdump.spark.preflight import preflight
from kdump.spark.session import Session
from kdump.storage import places

#: Log bytes of one task: seconds of work, against a tenth of a second to start one.
TASK_BYTES = 256 << 20
#: The same where nothing is decoded, which is many times faster.
PARTITION_TASK_BYTES = 1 << 30
#: What a partition costs beside what is read of its logs, in such bytes: a listing and some files
#: that are opened, milliseconds on a disk and tenths of a second far away. 256 make a task.
PARTITION_BYTES = PARTITION_TASK_BYTES // 256
#: Above this a job is only bookkeeping.
MOST_TASKS = 100_000
#: Of the JVM's memory, so much less is a row that it can hold.
_HEAP_SHARE = 16
_DEFAULT_HEAP_BYTES = 1 << 30
_RESULT = "item bigint, result binary"


class SparkJobError(KdumpError):
    """The job ended before all of the work was done."""


class SparkDriver:
    """Runs the items of a plan on a session that is there, in at most so many tasks.

    They are grouped into tasks by their bytes of log: `decodes` says that records are decoded.
    `what` is what Spark's own pages call the job, with its tasks and bytes.
    """

    #: No memory is shared by executors, to keep a rate together.
    bytes_per_second: int | None = None

    def __init__(
        self,
        session: Session,
        jobs: int | None = None,
        *,
        decodes: bool = False,
        what: str = "kdump",
    ) -> None:
        self.jobs = jobs
        self.packed_bytes = compute_packed_bytes(session)
        self._session = session
        self._what = what
        self._task_bytes, self._item_bytes = (
            (TASK_BYTES, 0) if decodes else (PARTITION_TASK_BYTES, PARTITION_BYTES)
        )
        self._written: list[str] = []

    def will_write(self, directory: str) -> None:
        """Have a probe see that executors can write to a directory of theirs and ours."""
        if not places.is_uri(directory):
            self._written.append(directory)

    def __call__(
        self, items: Sequence[Any], step: Callable[[Any, Pace], Any], progress: Progress
    ) -> Iterator[tuple[Any, Any]]:
        """Do the step for each item."""
        if not items:
            return
        progress.slots = [0]
        paths = [path for item in items for path in getattr(item, "paths", (item.path,))]
        paths += self._written
        preflight(self._session, [places.absolute(path) for path in paths])
        sizes = [item.size_bytes for item in items]
        groups = group_items(
            [size + self._item_bytes for size in sizes], self._task_bytes, self.jobs
        )
        rows = [pickle.dumps([(number, items[number]) for number in group]) for group in groups]
        # Findings name paths as they were given, so that is how executors open them.
        absolute = all(os.path.isabs(path) or places.is_uri(path) for path in paths)
        do = partial(_do_tasks, step, None if absolute else os.getcwd())
        job = Job(self._session, self._what, len(rows), sum(sizes), progress)
        try:
            came = job.collect(partial(_frame, self._session, rows, do))
        except KdumpError:
            raise
        except Exception as error:  # Spark's, gRPC's and Py4J's have no base in common
            raise SparkJobError(one_line(error)) from None
        results: dict[int, bytes] = {row["item"]: row["result"] for row in came}
        for number, item in enumerate(items):
            if number not in results:
                raise SparkJobError(f"Spark handed over no result for {item.path}")
            yield item, pickle.loads(results[number])


def group_items(
    sizes: Sequence[int], task_bytes: int = TASK_BYTES, most: int | None = None
) -> list[list[int]]:
    """Group items into tasks of about a size, at most so many; the largest tasks come first.

    The largest first, so that the last ones to end are short.
    """
    from heapq import heapreplace

    wanted = max(1, -(-sum(sizes) // max(task_bytes, 1)))
    count = min(len(sizes), wanted, MOST_TASKS)
    if most is not None:
        count = min(len(sizes), most)
    if not count:
        return []
    groups: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    heap = [(0, 0, group) for group in range(count)]
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        total, held, group = heap[0]
        groups[group].append(number)
        totals[group] = total + sizes[number]
        heapreplace(heap, (totals[group], held + 1, group))
    order = sorted(range(count), key=lambda group: (-totals[group], group))
    return [groups[group] for group in order]


def _frame(session: Session, rows: list[bytes], do: Callable[[Iterator[Any]], Any]) -> Any:
    """Make the DataFrame whose rows are the results. Nothing runs yet."""
    import pyarrow as pa

    table = pa.table({"items": pa.array(rows, pa.binary())})
    frame = session.createDataFrame(table)
    # From one partition rows are dealt out in turn, which gives each task just one.
    frame = frame.coalesce(1).repartition(len(rows))
    return frame.mapInArrow(do, _RESULT)


def _do_tasks(
    step: Callable[[Any, Pace], Any], base: str | None, batches: Iterator[Any]
) -> Iterator[Any]:
    """Do the items of a task, in a worker of Spark's; relative paths start at `base`."""
    import pyarrow as pa

    from kdump.output.process_tuning import prepare_for_bulk

    prepare_for_bulk()
    pace = Pace([0], 0, None, lambda: None)
    schema = pa.schema([("item", pa.int64()), ("result", pa.binary())])
    for batch in batches:
        for row in batch.column(0).to_pylist():
            for number, item in pickle.loads(row):
                with nullcontext() if base is None else chdir(base):
                    result = pickle.dumps(_result_of(step, item, pace))
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int64()), pa.array([result], pa.binary())], schema=schema
                )


def _result_of(step: Callable[[Any, Pace], Any], item: Any, pace: Pace) -> Any:
    """Do one item. What the item is to blame for is a result; what the machine is, is an error,
    so that Spark tries another. An exception that nobody foresaw is the item's, as in process.
    """
    import socket

    from kdump.spark.errors import MARK

    try:
        return step(item, pace)
    except KdumpError as error:
        message = f"{MARK} {error} (on {socket.gethostname()})"
        raise RuntimeError(message) from error
    except OSError as error:
        message = f"{MARK} {item.path}: {type(error).__name__}: {error} (on {socket.gethostname()})"
        raise RuntimeError(message) from error
    except Exception as error:
        return make_error(item, error)


def compute_packed_bytes(session: Session) -> int:
    """Say how much of what some items leave may be collected and go with others.

    A row on its way is held several times by the JVM of the driver and of an executor: of 1 GiB,
    Spark's default, rows of 64 MiB were seen to pass and rows of 96 MiB to end it.
    """
    heaps = [
        session.conf.get(f"spark.{whose}.memory", None) or "1g" for whose in ("driver", "executor")
    ]
    return min(map(_size_of, heaps)) // _HEAP_SHARE


def _size_of(text: str) -> int:
    """Read a size as Spark writes memory settings, e.g. `4g`; 1 GiB where it is none."""
    letters = text.strip().lower().removesuffix("b")
    number, unit = letters.rstrip("kmgt"), letters[-1:]
    if not number.isdecimal():
        return _DEFAULT_HEAP_BYTES
    # Without a unit they are mebibytes.
    return int(number) << {"k": 10, "m": 20, "g": 30, "t": 40}.get(unit, 20)

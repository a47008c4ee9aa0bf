"""Run one Spark job in a thread of its own, watch it, and cancel it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kdump.engine.work.pace import Progress
from kdump.output.amounts import count_text, size_text
from kdump.spark.session import Session

_TICK_SECONDS = 0.2
_FAREWELL_SECONDS = 10.0


class Job:
    """Runs one DataFrame. `planned_bytes` is what all tasks read together, `what` who asks.

    What the tasks have done is only known by their number, so progress is that share of the bytes
    and of the items. A classic session is asked for it; a Connect server reports every few seconds.
    """

    def __init__(
        self, session: Session, what: str, tasks: int, planned_bytes: int, progress: Progress
    ) -> None:
        self._session = session
        self._context = _context_of(session)
        self._tasks = tasks
        self._description = f"{what}: {count_text(tasks, 'task')}, {size_text(planned_bytes)}"
        self._planned_bytes = planned_bytes
        self._progress = progress
        self._before = progress.slots[0]
        self._tag = f"kdump-{uuid.uuid4().hex}"
        self._thread: threading.Thread | None = None
        self._reported = 0  # tasks that ended, as a Connect server said last
        self._rows: list[Any] = []
        self._error: BaseException | None = None

    def collect(self, frame: Callable[[], Any]) -> list[Any]:
        """Return all rows; raise what Spark raises. An interruption cancels the job."""
        thread = threading.Thread(target=self._collect, args=(frame,), daemon=True)
        self._thread = thread
        with self._reports():
            thread.start()
            try:
                while thread.is_alive():
                    thread.join(_TICK_SECONDS)
                    self._show(self._done())
            except BaseException:
                with suppress(Exception):  # whatever Spark says then, it is to end
                    self._cancel()
                thread.join(_FAREWELL_SECONDS)
                raise
        if self._error is not None:
            raise self._error
        self._show(self._tasks)
        return self._rows

    def _collect(self, frame: Callable[[], Any]) -> None:
        try:
            if self._context is None:
                self._session.addTag(self._tag)  # of this thread, as the group is
            else:
                self._context.setJobGroup(self._tag, self._description, interruptOnCancel=True)
            self._rows = frame().collect()
        except BaseException as error:
            self._error = error

    def _cancel(self) -> None:
        if self._context is None:
            self._session.interruptTag(self._tag)
        else:
            self._context.cancelJobGroup(self._tag)

    @contextmanager
    def _reports(self) -> Iterator[None]:
        """Have a Connect server's reports come in meanwhile."""
        if self._context is not None:
            yield
            return
        report = self._report  # one object: a bound method is a new one each time
        self._session.registerProgressHandler(report)
        try:
            yield
        finally:
            self._session.removeProgressHandler(report)

    def _report(self, stages: Iterable[Any] | None, **others: object) -> None:
        """Take note of what a server reports; others in this session may have work there too."""
        if threading.current_thread() is self._thread:
            ended = [
                one.num_completed_tasks for one in stages or () if one.num_tasks == self._tasks
            ]
            self._reported = max(self._reported, *ended, 0)

    def _done(self) -> int:
        """How many tasks have ended."""
        if self._context is None:
            return self._reported
        tracker = self._context.statusTracker()
        most = 0
        for job in tracker.getJobIdsForGroup(self._tag):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None and stage_info.numTasks == self._tasks:
                    most = max(most, stage_info.numCompletedTasks)
        return most

    def _show(self, done: int) -> None:
        progress = self._progress
        progress.slots[0] = self._before + self._planned_bytes * done // max(self._tasks, 1)
        items_done = progress.planned_items * done // max(self._tasks, 1)
        progress.items_done = max(progress.items_done, items_done)
        progress.at = [f"{done} of {self._tasks} tasks on Spark"]
        progress.tick()


def _context_of(session: Session) -> Any:
    """Return the context of a classic session; a Connect session has none, and says so."""
    try:
        return session.sparkContext
    except Exception:  # which one, PySpark does not promise
        return None

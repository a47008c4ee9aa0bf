"""Run a plan: do each item by itself, here or in workers, and keep the order.

    plan     yields items: small, picklable, with the bytes each will read
    step     does one item: a pure function of the item and the files, `step(item, pace)`
    merge    takes the results in the order of the plan, whoever finished first

What does the steps of a plan is a `Driver`. `Workers` is the one in process: it calls the step
itself or keeps worker processes at it. What comes out is the same for any driver and any number of
workers. A worker that dies (out of memory, killed) is an error of the item it had, and another
takes its place. So is an exception that nobody foresaw, in any driver: `run_item` is where every
item of every command is worked on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kdump.engine.work.pace import Pace, Progress, Throttle
from kdump.errors import KdumpError, PathError, guard, unforeseen
from kdump.storage import places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess


class Item(Protocol):
    """What a plan yields; a driver needs its name, and how many bytes of log it will read."""

    @property
    def path(self) -> str:
        """What errors about the item name."""

    @property
    def size_bytes(self) -> int:
        """What will be read, in bytes of logs."""


ItemType = TypeVar("ItemType", bound=Item)
ResultType = TypeVar("ResultType")
Step = Callable[[ItemType, Pace], ResultType]


class Driver(Protocol):
    """Does the step for each item of a plan; yields each with what came of it, in the plan's order.

    An item that could not be done comes with the error that ended it.
    """

    @property
    def jobs(self) -> int | None:
        """How many items are worked on at a time; None: as the work has it."""

    @property
    def bytes_per_second(self) -> int | None:
        """The rate that all reads together keep."""

    @property
    def packed_bytes(self) -> int:
        """How much of what some items leave may be collected, to go with others."""

    def will_write(self, directory: str) -> None:
        """Take note that the steps write to a directory."""

    def __call__(
        self, items: Sequence[ItemType], step: Step[ItemType, ResultType], progress: Progress
    ) -> Iterator[tuple[ItemType, ResultType | KdumpError]]:
        """Do the step for each item."""


#: Results that wait for an earlier one; the workers pause when there are more.
_AHEAD = 1024
#: Items that a worker is handed in one go, while they are so small that asking would cost more.
_HANDED_ITEMS = 32
_HANDED_BYTES = 4 << 20
_TICK_SECONDS = 0.1


def take_up(
    plan: Iterable[ItemType | KdumpError], items: list[ItemType], progress: Progress
) -> Iterator[KdumpError]:
    """Gather the items of a plan, tell the progress, and yield what could not be planned."""
    for one in guard("the plan", plan):
        if isinstance(one, KdumpError):
            yield one
        else:
            items.append(one)
    progress.planned_items = len(items)
    progress.planned_bytes = sum(item.size_bytes for item in items)


class Workers(NamedTuple):
    """The driver in process: one worker is this process, several are processes of their own."""

    jobs: int = 1
    bytes_per_second: int | None = None
    packed_bytes: int = 512 << 20

    def will_write(self, directory: str) -> None:
        """Do nothing: workers may write where this process may."""

    def __call__(
        self, items: Sequence[ItemType], step: Step[ItemType, ResultType], progress: Progress
    ) -> Iterator[tuple[ItemType, ResultType | KdumpError]]:
        """Do the step for each item."""
        jobs = min(self.jobs, len(items))
        if jobs <= 1:
            return _run_in_process(items, step, self.bytes_per_second, progress)
        return _run_workers(items, step, jobs, self.bytes_per_second, progress)


#: One item after the other, at full speed.
ONE_BY_ONE = Workers()


def _run_in_process(
    items: Sequence[ItemType],
    step: Step[ItemType, ResultType],
    bytes_per_second: int | None,
    progress: Progress,
) -> Iterator[tuple[ItemType, ResultType | KdumpError]]:
    throttle = Throttle(bytes_per_second) if bytes_per_second else None
    pace = Pace(progress.slots, 0, throttle, progress.tick)
    for item in items:
        progress.at = [item.path]
        result = run_item(step, item, pace)
        progress.items_done += 1
        yield item, result


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection
    slot: int


def _run_workers(
    items: Sequence[ItemType],
    step: Step[ItemType, ResultType],
    jobs: int,
    bytes_per_second: int | None,
    progress: Progress,
) -> Iterator[tuple[ItemType, ResultType | KdumpError]]:
    from multiprocessing import get_context

    # A fork shares what is loaded and starts in a millisecond; elsewhere it is not safe, nor where
    # a store's client has threads.
    forks = sys.platform == "linux" and not places.is_any_store_open()
    context: BaseContext = get_context("fork" if forks else "spawn")
    pool = _Pool(context, step, jobs, bytes_per_second)
    progress.slots = pool.slots
    done: dict[int, ResultType | KdumpError] = {}
    handed = 0
    try:
        for number, item in enumerate(items):
            while number not in done:
                while pool.idle and pool.again:
                    pool.hand(items, [pool.again.pop()])
                while handed < min(len(items), number + _AHEAD) and pool.idle:
                    together = choose_batch(items, handed, jobs)
                    pool.hand(items, together)
                    handed = together.stop
                progress.at = [items[busy].path for busy in sorted(pool.busy)]
                done.update(pool.collect(items))
                progress.items_done = number + len(done)
                progress.tick()
            yield item, done.pop(number)
    finally:
        pool.close()


def choose_batch(items: Sequence[Item], start: int, jobs: int) -> range:
    """Say which items a worker is handed next: fewer towards the end, so that all end together."""
    most = min(_HANDED_ITEMS, (len(items) - start) // (2 * jobs))
    stop, size_bytes = start + 1, items[start].size_bytes
    while (
        stop - start < most and (size_bytes := size_bytes + items[stop].size_bytes) <= _HANDED_BYTES
    ):
        stop += 1
    return range(start, stop)


class _Pool:
    """The worker processes, what each is at, and what they share.

    `busy` are those at work, by the number of the first item they were handed; `again` are numbers
    of items that a worker left when it died, none of which need be to blame.
    """

    def __init__(
        self,
        context: BaseContext,
        step: Callable[[Any, Pace], object],
        jobs: int,
        bytes_per_second: int | None,
    ) -> None:
        self.slots: Any = context.RawArray("q", jobs)
        self._context = context
        self._step = step
        self._throttle = None
        if bytes_per_second:
            free_at: Any = context.RawArray("d", 1)
            self._throttle = Throttle(bytes_per_second, free_at, context.Lock())
        self.busy: dict[int, tuple[_Worker, Sequence[int]]] = {}
        self.again: list[int] = []
        self.idle: list[_Worker] = [self._start(slot) for slot in range(jobs)]

    def _start(self, slot: int) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work,
            args=(theirs, self._step, self.slots, slot, self._throttle, os.getpid()),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, slot)

    def hand(self, items: Sequence[object], numbers: Sequence[int]) -> None:
        """Give items to a worker that has none."""
        worker = self.idle.pop()
        self.busy[numbers[0]] = worker, numbers
        try:
            worker.pipe.send([items[number] for number in numbers])
        except BrokenPipeError:
            pass  # it died; `collect` says so

    def collect(self, items: Sequence[Item]) -> dict[int, Any]:
        """Wait a moment for results; give those that came, by number."""
        from multiprocessing.connection import wait

        ready = set(wait([worker.pipe for worker, _ in self.busy.values()], _TICK_SECONDS))
        came: dict[int, Any] = {}
        for first, (worker, numbers) in list(self.busy.items()):
            if worker.pipe not in ready:
                continue
            del self.busy[first]
            try:
                results = worker.pipe.recv()
            except (EOFError, OSError):
                error = _death(worker, items[first].path)
                if len(numbers) > 1:
                    self.again += reversed(numbers)
                else:
                    came[first] = error
                self.idle.append(self._start(worker.slot))
                continue
            self.idle.append(worker)
            came.update(zip(numbers, results, strict=True))
        return came

    def close(self) -> None:
        """End all workers, whatever they are at."""
        workers = [*self.idle, *(worker for worker, _ in self.busy.values())]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.pipe.close()


def _death(worker: _Worker, path: str) -> PathError:
    worker.pipe.close()
    worker.process.join()
    code = worker.process.exitcode or 0
    how = f"signal {-code}" if code < 0 else f"status {code}"
    return PathError(path, f"the worker process that was reading it died ({how})")


def _work(
    pipe: Connection,
    step: Callable[[Any, Pace], object],
    slots: Any,
    slot: int,
    throttle: Throttle | None,
    parent: int,
) -> None:
    """Do items until there are no more, or until nobody is left to take a result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def leave_with_parent() -> None:
        if os.getppid() != parent:
            os._exit(1)

    pace = Pace(slots, slot, throttle, leave_with_parent)
    while True:
        while not pipe.poll(1.0):
            leave_with_parent()
        try:
            items = pipe.recv()
        except (EOFError, OSError):
            return
        results = [run_item(step, item, pace) for item in items]
        try:
            pipe.send(results)
        except OSError:
            raise
        except Exception as error:  # a result that cannot be sent
            pipe.send([make_error(item, error) for item in items])


def run_item(
    step: Step[ItemType, ResultType], item: ItemType, pace: Pace
) -> ResultType | KdumpError:
    """Do one item: the last line of defense, so that no item ends the work on the others."""
    try:
        return step(item, pace)
    except Exception as error:
        return make_error(item, error)


def make_error(item: Item, error: Exception) -> KdumpError:
    """Return the error of an item that an exception ended."""
    of = getattr(item, "target", item)
    topic, partition = getattr(of, "topic", None), getattr(of, "partition", None)
    return unforeseen(item.path, error, topic=topic, partition=partition)

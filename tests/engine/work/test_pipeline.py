"""The driver in process: order, errors, and workers that die."""

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from kdump.engine.work import pace
from kdump.engine.work.pace import Pace, Progress, Throttle
from kdump.engine.work.pipeline import Workers, choose_batch
from kdump.errors import TRACEBACK, InternalError, PathError


class Item(NamedTuple):
    path: str
    number: int
    size_bytes: int = 10


ITEMS = [Item(f"p{number}", number) for number in range(40)]
each_count = pytest.mark.parametrize("jobs", [1, 3])


def square(item: Item, pace: Pace) -> int:
    pace(10)
    time.sleep((item.number * 7 % 5) / 1000)  # those handed out first are not the first to end
    return item.number**2


def results(step: object, items: Sequence[Item], jobs: int, **asked: Any) -> list[object]:
    progress = asked.pop("progress", None) or Progress()
    return [result for _, result in Workers(jobs, **asked)(items, step, progress)]  # type: ignore[arg-type]


@each_count
def test_results_are_in_plan_order(jobs: int) -> None:
    assert results(square, ITEMS, jobs) == [number**2 for number in range(40)]


@each_count
def test_bytes_of_all_workers_are_counted(jobs: int) -> None:
    progress = Progress()
    results(square, ITEMS, jobs, progress=progress)
    assert progress.done_bytes == 400
    assert progress.items_done == 40


def refuse_odd(item: Item, pace: Pace) -> int:
    if item.number % 2:
        raise PathError(item.path, "is odd")
    return item.number


@each_count
def test_error_ends_only_its_item(jobs: int) -> None:
    came = results(refuse_odd, ITEMS[:4], jobs)
    assert came[::2] == [0, 2]
    assert [str(error) for error in came[1::2]] == ["p1: is odd", "p3: is odd"]


def die_at_three(item: Item, pace: Pace) -> int:
    if item.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item.number


def test_killed_worker_is_an_error_of_its_item() -> None:
    came = results(die_at_three, ITEMS, 2)  # handed to a worker together with others
    assert str(came.pop(3)) == "p3: the worker process that was reading it died (signal 9)"
    assert came == [number for number in range(40) if number != 3]


@pytest.mark.parametrize(("is_open", "way"), [(False, "fork"), (True, "spawn")])
def test_processes_are_not_forked_with_an_open_store(
    monkeypatch: pytest.MonkeyPatch, is_open: bool, way: str
) -> None:
    asked = []

    def get_context(name: str) -> None:
        asked.append(name)
        raise NotImplementedError

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("multiprocessing.get_context", get_context)
    monkeypatch.setattr("kdump.storage.places.is_any_store_open", lambda: is_open)
    with pytest.raises(NotImplementedError):
        results(square, ITEMS, 2)
    assert asked == [way]


def test_large_items_are_distributed_one_by_one() -> None:
    large = [item._replace(size_bytes=3 << 20) for item in ITEMS]
    together = [len(choose_batch(large, start, 2)) for start in (0, 20, 39)]
    assert together == [1, 1, 1]
    assert [len(choose_batch(ITEMS, start, 2)) for start in (0, 20, 39)] == [10, 5, 1]
    assert len(choose_batch(ITEMS * 10, 0, 2)) == 32


def die_always(item: Item, pace: Pace) -> int:
    os._exit(7)


def test_run_ends_if_all_workers_die() -> None:
    came = results(die_always, ITEMS[:5], 2)
    assert [str(each).partition(": ")[2] for each in came] == [
        "the worker process that was reading it died (status 7)"
    ] * 5


def fail(item: Item, pace: Pace) -> int:
    raise ZeroDivisionError("ours")


@pytest.mark.parametrize("jobs", [1, 2])
def test_unexpected_exception_is_an_error_of_its_item(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACK)
    came = results(fail, ITEMS[:3], jobs)
    assert [type(each) for each in came] == [InternalError] * 3
    assert [each.path for each in came] == [item.path for item in ITEMS[:3]]
    assert all("ZeroDivisionError: ours" in str(each) for each in came)


def unsendable(item: Item, pace: Pace) -> object:
    return lambda: 0


def test_unpicklable_result_is_an_error_of_its_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(TRACEBACK)
    assert [type(each) for each in results(unsendable, ITEMS[:2], 2)] == [InternalError] * 2


def sleep_long(item: Item, pace: Pace) -> int:
    time.sleep(3600)
    return 0


def test_closing_ends_busy_workers() -> None:
    from multiprocessing import active_children

    going = Workers(2)(ITEMS, sleep_long, progress := Progress())
    workers = []

    def stop() -> None:
        workers.extend(active_children())
        raise KeyboardInterrupt

    progress.tick = stop
    with pytest.raises(KeyboardInterrupt):
        next(going)
    assert active_children() == []
    assert [worker.exitcode for worker in workers] == [-signal.SIGTERM] * 2


def read(item: Item, pace: Pace, size: int) -> int:
    for _ in range(10):
        pace(size // 10)
    return 0


@each_count
def test_workers_share_the_rate_limit(jobs: int) -> None:
    started = time.monotonic()
    results(partial(read, size=100_000), ITEMS[:4], jobs, bytes_per_second=1_000_000)
    assert time.monotonic() - started > 0.25  # 400,000 bytes, less the burst


class Clock:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


def test_throttle_sleeps_only_as_long_as_the_bytes_take(clock: Clock) -> None:
    shared = [0.0]
    throttles = [Throttle(1_000_000, shared) for _ in range(2)]
    for number in range(40):
        throttles[number % 2].wait(10_000, lambda: None)
    assert sum(clock.naps) == pytest.approx(0.3)  # 400,000 bytes, less the burst


def test_throttle_ticks_while_it_sleeps(clock: Clock) -> None:
    ticks: list[float] = []
    Throttle(1000).wait(600, lambda: ticks.append(clock.now))
    assert ticks == pytest.approx([1000.2, 1000.4, 1000.5])

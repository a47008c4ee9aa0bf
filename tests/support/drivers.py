"""Drivers that do something of a test's between the plan and the work."""

from collections.abc import Callable, Iterator
from typing import Any

from kdump.engine.work.pipeline import Driver


class Through:
    """Works by `do(driver, items, step, progress)`; all else is as the driver has it."""

    def __init__(self, driver: Driver, do: Callable[..., Iterator[tuple[Any, Any]]]) -> None:
        self._driver = driver
        self._do = do

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def __call__(self, items: Any, step: Any, progress: Any) -> Any:
        return self._do(self._driver, items, step, progress)


def after(change: Callable[[], object], driver: Driver, *, run: int = 1) -> Driver:
    """Have something happen just before the driver's first run, or a later one."""
    runs = 0

    def do(driver: Driver, *given: Any) -> Iterator[tuple[Any, Any]]:
        nonlocal runs
        runs += 1
        if runs == run:
            change()
        return driver(*given)

    return Through(driver, do)

"""Do the steps of a replay, and keep the progress of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.engine.coordinators.partitions import Item
    from kdump.engine.work.pace import Progress
    from kdump.engine.work.pipeline import Driver


class Work:
    """Does the steps of items, as a driver does them."""

    def __init__(self, options: object, progress: Progress, driver: Driver) -> None:
        self.progress = progress
        self._options = options
        self._driver = driver

    def do(self, items: list[Item], step: Callable[..., Any]) -> Iterator[tuple[Item, Any]]:
        """Yield each item with what came of it."""
        self.progress.planned_items += len(items)
        self.progress.planned_bytes += sum(item.size_bytes for item in items)
        bound = partial(step, options=self._options)
        return self._driver(items, bound, self.progress)

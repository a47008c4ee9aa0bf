"""What a frame asks for, as the reader carries it to the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from kdump.engine.work.splits import SPLIT_BYTES
from kdump.errors import KdumpError, NothingToDo
from kdump.spark.driver import PARTITION_BYTES
from kdump.spark.scope import EVERYTHING, ClosedSegments, Scope
from kdump.storage import places
from kdump.tuples import NamedTuple

Planned = TypeVar("Planned")

#: What a file costs beside its bytes, in bytes of log: it is opened, and named in the plan.
FILE_BYTES = 1 << 20
#: Files and partitions of a machine's own disk cost so much less than those of a store: a task
#: takes a tenth of a second by itself, 2,000 tiny partitions half a second.
_NEARER = 8


class Request(NamedTuple):
    """What a frame asks for. `options` are those of the command that the view is of."""

    view: str
    paths: list[str]
    options: Any
    pack_bytes: int = SPLIT_BYTES
    scope: Scope | ClosedSegments = EVERYTHING
    fail_on_missing: bool = False

    def sound(self, items: Iterable[Planned | KdumpError]) -> Iterator[Planned]:
        """Yield what is to be read, and raise errors; that nothing is there need not be one."""
        for one in items:
            if isinstance(one, NothingToDo) and not self.fail_on_missing:
                import warnings

                warnings.warn(f"no rows: {one}", RuntimeWarning, stacklevel=2)
                continue
            if isinstance(one, KdumpError):
                raise one
            yield one


def cost(far_bytes: int, path: str) -> int:
    """Return what a file or a partition costs in bytes of log, here or in a store."""
    return far_bytes if places.is_uri(path) else far_bytes // _NEARER


def partition_cost(path: str) -> int:
    """Return what a partition costs beside its bytes."""
    return cost(PARTITION_BYTES, path)

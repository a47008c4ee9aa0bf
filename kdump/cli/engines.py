"""Choose the engine that runs the work: processes of this machine, or Spark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from kdump.cli.run_context import Engine


@contextmanager
def item_driver(engine: Engine) -> Iterator[dict[str, Any]]:
    """Give what an engine call is given to run its items elsewhere; nothing: in process."""
    if not engine.is_spark:
        yield {}
        return
    from kdump.spark.driver import ItemDriver

    with _session(engine) as session:
        yield {"driver": ItemDriver(session)}


@contextmanager
def split_driver(engine: Engine, in_process: Callable[[int], object], jobs: int) -> Iterator[Any]:
    """Give what does the work on splits; `jobs` are the workers where none are asked for."""
    if not engine.is_spark:
        yield in_process(engine.jobs or jobs)
        return
    from kdump.spark.driver import splits_on

    with _session(engine) as session:
        yield splits_on(session, tasks=engine.jobs)


def _session(engine: Engine) -> AbstractContextManager[Any]:
    """Start a session, or join one; it lasts as long as the context."""
    from kdump.spark.session import spark_session

    return spark_session(engine.master, engine.remote, engine.archive)

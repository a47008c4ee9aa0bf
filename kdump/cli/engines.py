"""Which engine runs the work: this machine's processes, or a session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options import ARCHIVE
from kdump.errors import UsageError

if TYPE_CHECKING:
    from contextlib import ExitStack


def refuse_without_spark(engine: str, master: str | None, remote: str | None) -> None:
    """Say that options are given which have no meaning in process, or exclude each other."""
    given = (master, remote, _archive())
    if engine != "spark" and any(value is not None for value in given):
        raise UsageError("--master, --remote and --archive go with --engine spark")
    if master is not None and remote is not None:
        raise UsageError("--master and --remote exclude each other")


def session(stack: ExitStack, master: str | None, remote: str | None) -> Any:
    """Start a session, or join one; it lasts as long as the stack."""
    from kdump.spark.session import spark_session

    return stack.enter_context(spark_session(master, remote, _archive()))


def _archive() -> str | None:
    """The environment for executors that the command line names."""
    context = click.get_current_context(silent=True)
    archive = context.meta.get(ARCHIVE) if context else None
    assert archive is None or isinstance(archive, str)
    return archive


def item_driver(
    stack: ExitStack, engine: str, master: str | None, remote: str | None
) -> dict[str, Any]:
    """Return what an engine call is given to run its items elsewhere; nothing: in process."""
    if engine != "spark":
        return {}
    from kdump.spark.driver import items_on

    return {"driver": items_on(session(stack, master, remote))}

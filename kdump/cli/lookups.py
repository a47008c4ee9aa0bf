"""What both lookup commands do with their arguments and their results."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options import LOOKUP_FORMATS
from kdump.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.engine.findings import Finding
    from kdump.engine.rows import Row
    from kdump.errors import KdumpError

    Find = Callable[..., Iterator[Row | Finding | KdumpError]]


def split_target(
    words: tuple[str, ...], name: str, read: Callable[[str], int], *, elsewhere: bool
) -> tuple[tuple[str, ...], int]:
    """Split the arguments into paths and the target, which stands last.

    `elsewhere`: paths come from a broker's settings too, so none need be given.
    """
    if not words:
        raise click.UsageError(f"give PATHS and, last, {name}")
    *paths, last = words
    try:
        target = read(last)
    except ValueError as error:
        raise click.UsageError(f"the last argument is {name}; {last!r} {error}") from None
    if not paths and not elsewhere:
        raise click.UsageError("give a path, or --server-properties FILE")
    return tuple(paths), target


def run(
    find: Find,
    paths: tuple[str, ...],
    target: int,
    *,
    form: str | None,
    output: str | None,
    quiet: bool,
    fail_on: str,
    jobs: int | None,
    engine: str,
    master: str | None,
    remote: str | None,
    broker_version: tuple[int, ...] | None,
    **asked: Any,
) -> int:
    """Look up, write the rows, and return the exit status.

    4, "none", is that of a run in which no partition had an answer.
    """
    from kdump.cli import status
    from kdump.cli.engines import item_driver, refuse_without_spark
    from kdump.cli.results import Results, form_of
    from kdump.engine.find.run import FindOptions
    from kdump.engine.rows import Row

    if broker_version is not None:
        asked["broker_version"] = broker_version
    jobs = jobs or 1
    try:
        refuse_without_spark(engine, master, remote)
        options = FindOptions(**asked)
        results = Results(
            form_of(form, output, LOOKUP_FORMATS),
            output=output,
            inputs=paths,
            bytes_mode="auto",
            quiet=quiet,
            fail_on=fail_on,
            records=False,
        )
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    many: dict[str, Any] = {}
    if jobs > 1 or engine == "spark":
        from kdump.engine.pace import Progress

        many = {"jobs": jobs, "progress": Progress()}
        results.follow_lookups(many["progress"])
    answered = False

    def watched(found: Iterator[Row | Finding | KdumpError]) -> Iterator[Any]:
        nonlocal answered
        for item in found:
            results.rows_begin()
            answered |= isinstance(item, Row) and item.fields["offset"] is not None
            yield item

    with ExitStack() as stack:
        many |= item_driver(stack, engine, master, remote)
        reached = results.take(watched(find(paths, target, options, **many)))
    return status.first_of(reached, status.DONE if answered else status.NONE)

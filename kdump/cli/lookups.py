"""What both lookup commands do with their arguments and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options import LOOKUP_FORMATS
from kdump.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.engine.find import FindOptions
    from kdump.engine.findings import Finding
    from kdump.errors import KdumpError
    from kdump.output.sink import Item

    Find = Callable[[Iterable[str], int, FindOptions], Iterator[Item | Finding | KdumpError]]


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
    broker_version: tuple[int, ...] | None,
    **asked: Any,
) -> int:
    """Look up, write the rows, and return the exit status.

    4, "none", is that of a run in which no partition had an answer.
    """
    from kdump.cli import status
    from kdump.cli.results import Results, form_of
    from kdump.engine.find import FindOptions
    from kdump.engine.rows import Row

    if broker_version is not None:
        asked["broker_version"] = broker_version
    try:
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
    answers = set()

    def watched() -> Iterator[Item | Finding | KdumpError]:
        for item in find(paths, target, options):
            if isinstance(item, Row):
                answers.add(item.fields["offset"] is not None)
            yield item

    reached = results.take(watched())
    return status.first_of(reached, status.NONE if answers == {False} else status.DONE)

"""Share what both lookup commands do with their arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.broker.versions import Version
    from kdump.cli.run_context import Engine, Writing
    from kdump.errors import KdumpError
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Row

    Find = Callable[..., Iterator[Row | Finding | KdumpError]]


def split_target(
    words: tuple[str, ...], name: str, read: Callable[[str], int], asked: Mapping[str, Any]
) -> tuple[tuple[str, ...], int]:
    """Split the arguments into paths and the target, which stands last."""
    from kdump.cli.run_context import need_paths, wrong_usage

    if not words:
        raise click.UsageError(f"give PATHS and, last, {name}")
    *paths, last = words
    try:
        target = read(last)
    except ValueError as error:
        raise click.UsageError(f"the last argument is {name}; {last!r} {error}") from None
    with wrong_usage():
        need_paths(paths, asked, asked["writing"])
    return tuple(paths), target


def run(
    find: Find,
    paths: tuple[str, ...],
    target: int,
    *,
    engine: Engine,
    writing: Writing,
    broker_version: Version | None,
    **asked: Any,
) -> int:
    """Look up, write the rows, and return the exit status.

    4, "none", is that of a run in which no partition had an answer.
    """
    from kdump.cli import status
    from kdump.cli.engines import check_engine_options, item_driver
    from kdump.cli.results import Results, form_of
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.find.run import FindOptions
    from kdump.findings.rows import Row

    if broker_version is not None:
        asked["broker_version"] = broker_version
    jobs = engine.jobs or 1
    with wrong_usage():
        check_engine_options(engine)
        options = FindOptions(**asked)
        results = Results(form_of(writing), writing, inputs=paths)
    many: dict[str, Any] = {}
    if jobs > 1 or engine.is_spark:
        from kdump.engine.work.pace import Progress

        many = {"jobs": jobs, "progress": Progress()}
        results.follow_lookups(many["progress"])
    answered = False

    def watched(found: Iterator[Row | Finding | KdumpError]) -> Iterator[Any]:
        nonlocal answered
        for item in found:
            results.rows_begin()
            answered |= isinstance(item, Row) and item.fields["offset"] is not None
            yield item

    with item_driver(engine) as driver:
        reached = results.take(watched(find(paths, target, options, **many, **driver)))
    return status.first_of(reached, status.DONE if answered else status.NONE)

"""`kdump usage`: what takes up the bytes of logs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options import Read, spark_path_options, usage_output_options
from kdump.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.cli.results import Results
    from kdump.engine.findings import Finding
    from kdump.engine.rows import Row
    from kdump.errors import KdumpError

_WORDS = ("topic", "partition", "producer", "codec", "key")
#: Rows by default where there may be very many of them.
_TOP = 20


def read_grouping(text: str) -> tuple[str, ...]:
    """Read WORD[,WORD...], in whatever order."""
    given = [word.strip() for word in text.split(",")]
    if unknown := [word for word in given if word not in _WORDS]:
        raise ValueError(f"has {unknown[0]!r}, which is none of {', '.join(_WORDS)}")
    if "key" in given and {"producer", "codec"} & {*given}:
        raise ValueError("joins key with what is told by batches; key goes with topic, partition")
    return tuple(word for word in _WORDS if word in given)


@click.command(short_help="Bytes and records by topic, partition, producer, codec or key.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option(
    "--by",
    type=Read("words", read_grouping),
    default="topic",
    show_default=True,
    metavar="WORD[,WORD]",
    help="What to add up by: topic, partition, producer, codec, key.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show the N largest; 0: all. Default: 20 by key or producer, else all.",
)
@click.option(
    "--deep", is_flag=True, help="Open wrappers of magic 0 and 1 to count what is inside."
)
@spark_path_options
@usage_output_options
def usage(
    paths: tuple[str, ...],
    *,
    by: tuple[str, ...],
    top: int | None,
    form: str | None,
    output: str | None,
    bytes_mode: str,
    quiet: bool,
    fail_on: str,
    jobs: int | None,
    engine: str,
    master: str | None,
    remote: str | None,
    **asked: Any,
) -> None:
    """Add up what lies in the logs under PATHS, as du does for files: batches, records and bytes by
    topic, partition, producer, codec or key, the largest first.

    All but keys are read off the headers of batches: each log is read once and its checksums are
    checked, and nothing is decompressed. size_bytes are those on disk, control batches among them.
    By key every record is read; plain_bytes are those of keys, values and headers as they were
    before compression, and control records are left out.

    Memory is bounded, whatever the number of keys. Up to half a million groups are exact; beyond
    that the largest are still found, and each row says how much more it may be at most. Damage
    on the way is a finding on standard error and is not counted.

    \b
    Examples:
        kdump usage /var/lib/kafka
        kdump usage --by topic,producer --top 10 /var/lib/kafka
        kdump usage --by key --topic orders -j 4 /var/lib/kafka
    """
    from kdump.cli.engines import refuse_without_spark
    from kdump.cli.options import VERIFY_FORMATS
    from kdump.cli.results import Results, form_of
    from kdump.engine.pace import Progress
    from kdump.engine.usage.run import UsageOptions
    from kdump.engine.usage.run import usage as count

    if not paths and asked["server_properties"] is None:
        raise click.UsageError("give a path, or --server-properties FILE")
    try:
        refuse_without_spark(engine, master, remote)
        if top is None:
            top = _TOP if {"key", "producer"} & {*by} else 0
        options = UsageOptions(by=by, top=top, **asked)
        form = form_of(form, output, VERIFY_FORMATS)
        results = Results(
            form,
            output=output,
            inputs=paths,
            bytes_mode=bytes_mode,
            quiet=quiet,
            fail_on=fail_on,
            records=False,
        )
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    progress = Progress()
    results.follow_plan(progress, "piece")
    with ExitStack() as stack:
        driver = _driver(stack, engine, jobs, master, remote)
        items = count(paths, options, driver=driver, progress=progress)
        raise SystemExit(results.take(_shown(items, form, results)))


def _driver(
    stack: ExitStack, engine: str, jobs: int | None, master: str | None, remote: str | None
) -> Any:
    if engine == "spark":
        from kdump.cli.engines import session
        from kdump.spark.driver import splits_on

        return splits_on(session(stack, master, remote), tasks=jobs)
    from kdump.engine.usage.run import in_process

    return in_process(jobs or 1)


def _shown(
    items: Iterable[Row | Finding | KdumpError], form: str, results: Results
) -> Iterator[Row | Finding | KdumpError]:
    """Leave the summary out where all rows have to be alike."""
    from kdump.engine.rows import Row

    for item in items:
        if isinstance(item, Row):
            results.rows_begin()
            if form == "csv" and item.row == "usage-summary":
                continue
        yield item

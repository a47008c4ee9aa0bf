"""`kdump sql`: questions in SQL."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kdump.cli import MultilineUsageError
from kdump.cli.headings import Command, under
from kdump.cli.options import POSITIVE_SIZE, scratch_option, shared_options
from kdump.errors import UsageError

if TYPE_CHECKING:
    from kdump.api.sql import Session
    from kdump.cli.run_context import OutputSpec

_QUERY = under("Query")


class _Sql(Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; the first or the last word is the query, if it can be no path."""
        left = super().parse_args(ctx, args)
        paths = list(ctx.params["paths"])
        ends = (0, -1) if paths else ()
        at = next(
            (at for at in ends if len(paths[at].split()) > 1 and not _is_path(paths[at])), None
        )
        ctx.params["query"] = None if at is None else paths.pop(at)
        ctx.params["paths"] = tuple(paths)
        return left


def _is_path(word: str) -> bool:
    return "\0" not in word and os.path.lexists(word)


@click.command(cls=_Sql, common="--explain --memory --topic --format --output")
@_QUERY("--explain", help="List the partitions and segments that were skipped, and why.")
@_QUERY(
    "--memory",
    type=POSITIVE_SIZE,
    default="1GiB",
    help="Memory limit of DuckDB; larger queries use files in --scratch.",
)
@scratch_option(_QUERY, on_spark=False)
@shared_options(on_spark=False, decompresses=False, has_bytes=True, metavar="[QUERY] [PATHS]...")
def sql(paths: tuple[str, ...], *, query: str | None, **asked: Any) -> int:
    """Run a SELECT statement (DuckDB SQL) on records, batches, groups, and all other rows.

    Every row kind is a table, named in the plural (kdump schema lists the kinds): records,
    batches, committed_offsets, findings. Each topic is a view of records. Names that are SQL
    words need quotes: "offset", "group".

    Only what a query needs is read: a WHERE on topic, partition, offset, or time lets kdump skip
    segments, a LIMIT lets it stop early, and for count(*) it reads batch headers only. A query
    cannot write, open other files, or use the network.

    Without QUERY on a terminal there is a prompt; in a pipe the query is read from standard
    input. Needs DuckDB: pip install 'kdump[sql]'.

    \b
    Examples:
        kdump sql "select topic, count(*) from records group by 1" /var/lib/kafka
        kdump sql 'select max("offset") from orders' /var/lib/kafka
        kdump sql /var/lib/kafka
    """
    from kdump.api.data import Data
    from kdump.api.sql import session
    from kdump.output.escape import is_terminal

    writing, is_prompt = asked["writing"], query is None and is_terminal(sys.stdin)
    take = None if is_prompt else _make_answer(paths, writing)
    with session(
        Data(paths, asked["selection"], asked["server_properties"]).scan_target,
        memory_bytes=asked["memory"],
        scratch=asked["scratch"],
        threads=asked["engine"].jobs,
        explain=asked["explain"],
    ) as opened:
        if take is None:
            return _prompt(opened, paths, writing)
        return take(opened, sys.stdin.read() if query is None else query)


# Of the kinds that --rows chooses among an answer has one.
sql.params = [param for param in sql.params if param.name != "rows"]


def _make_answer(paths: tuple[str, ...], writing: OutputSpec) -> Callable[[Session, str], int]:
    """Open where an answer goes; return what answers."""
    from kdump.cli.results import Results, form_of
    from kdump.output.answers import answers_of
    from kdump.output.escape import visible
    from kdump.output.values import BYTES_MODES

    results = Results(writing, inputs=paths)
    mode = BYTES_MODES.index(writing.bytes_mode)
    as_batches = form_of(writing) in ("parquet", "arrow")

    def items(opened: Session, answer: Any) -> Iterator[Any]:
        for batch in opened.batches(answer):
            yield from (batch,) if as_batches else answers_of(batch, mode)
        yield from opened.drain_reports()
        for line in opened.drain_skipped():
            results.messages.line(f"kdump: {line}")

    def answered(opened: Session, query: str) -> int:
        try:
            answer = opened.ask(query)
        except UsageError as error:  # DuckDB's message has lines, and points at a place below one
            raise MultilineUsageError("\n".join(map(visible, str(error).splitlines()))) from None
        return results.take(items(opened, answer))

    return answered


def _prompt(opened: Session, paths: tuple[str, ...], writing: OutputSpec) -> int:
    """Answer queries as they are typed, until the input ends; return the worst status."""
    from contextlib import suppress

    from kdump.cli.status import first_of

    with suppress(ImportError):
        import readline  # noqa: F401 - lines can be edited and come again; none is kept
    click.echo("End queries with ; and use .tables, .schema TABLE, or .quit.", err=True)
    status, query = 0, ""
    while True:
        try:
            line = input("   ...> " if query else "kdump> ").strip()
        except EOFError:
            return status
        if line.startswith(".quit"):
            return status
        if line.startswith(".tables"):
            line = "show tables;"
        elif line.startswith(".schema"):
            line = f"describe {line.partition(' ')[2]};"
        query += f"{line}\n"
        if not query.strip() or not line.endswith(";"):
            query = query if query.strip() else ""
            continue
        try:
            status = first_of(status, _make_answer(paths, writing)(opened, query))
        except click.ClickException as error:
            click.echo(error.message, err=True)
        query = ""

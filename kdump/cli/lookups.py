"""Share what both lookup commands have: options, and what becomes of the results."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    ISOLATION,
    VERSION,
    config_option,
    tier_key_option,
    tier_option,
    together,
    topic_configs_option,
    version_option,
)
from kdump.errors import UsageError

if TYPE_CHECKING:
    from click.core import Context

    from kdump.cli.run_context import Engine, OutputSpec

_ANSWER = under("Answer")
_EXPLANATION = under("Explanation")

#: What both lookups have: whose answer is asked for, and how much is said about it.
lookup_options = together(
    _ANSWER(
        "--isolation",
        type=ISOLATION,
        default="read_uncommitted",
        help="read_committed: ignore aborted data and everything from the last stable offset on.",
    ),
    _ANSWER(
        "--as-is",
        help="Answer from the files as they are, not as a broker start would repair them.",
    ),
    version_option(_ANSWER, "Answer as this version does."),
    _ANSWER(
        "--message-format",
        type=VERSION,
        help="The topic's message.format.version, as it was in ZooKeeper. With a "
        "format below 0.10, brokers reject lookups by time.",
    ),
    tier_option(_ANSWER),
    tier_key_option(_ANSWER),
    config_option(_ANSWER),
    topic_configs_option(_ANSWER),
    _ANSWER(
        "--none",
        type=click.Choice(("latest", "earliest", "skip")),
        help="Offset for partitions without an answer: --format reset-csv writes it, and other "
        "formats show it as reset_offset. Default: latest, as in Kafka's own tool.",
    ),
    _EXPLANATION(
        "--explain", help="Show how the answer is found, step by step; in JSON as `steps`."
    ),
    _EXPLANATION(
        "--check", help="Also scan the log, and report an index that gives a different answer."
    ),
)


def _is_distance(word: str) -> bool:
    return word.startswith("-") and re.fullmatch(r"-\d+[a-z]\w*", word) is not None


class LookupCommand(Command):
    """A command that takes negative numbers as they stand: `find-time DIR -2` needs no `--`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ignore_unknown_options = True

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Accept a number or a distance back that looks like an option; reject unknown options."""
        args = [f"now{word}" if _is_distance(word) else word for word in args]
        literal = args[args.index("--") + 1 :] if "--" in args else []
        rest = super().parse_args(ctx, args)
        for word in () if ctx.resilient_parsing else ctx.params.get("paths") or ():
            if word.startswith("-") and re.match(r"-[^\d]", word) and word not in literal:
                raise click.NoSuchOption(word.partition("=")[0], ctx=ctx)
        return rest


def run(
    name: str,
    paths: tuple[str, ...],
    *,
    target: int,
    engine: Engine,
    writing: OutputSpec,
    **asked: Any,
) -> int:
    """Look up, write the rows, and return the exit status."""
    from kdump.cli.reports import LookupReport
    from kdump.cli.results import Results
    from kdump.engine.registry import COMMANDS
    from kdump.engine.work.pace import Progress
    from kdump.output.progress import LookupTally

    # One worker needs no driver: each answer is shown as soon as it is found.
    alone = not engine.is_spark and engine.jobs in (None, 1)
    if writing.form == "reset-csv" and asked["none"] is None:
        asked["none"] = "latest"
    bytes_to = None
    if asked.get("max_bytes") is not None:
        writing, bytes_to = _take_fetch_file(writing, paths, asked)
    elif asked.get("max_offset") is not None:
        raise UsageError("--max-offset requires --max-bytes")
    command, progress = COMMANDS[name], Progress()
    options = command.options(**asked)
    tally = None if alone else LookupTally(progress)
    results = Results(writing, inputs=paths, report=LookupReport(bytes_to), tally=tally)
    with nullcontext() if alone else engine.driver() as driver:
        return results.take(command.run(paths, target, options, driver=driver, progress=progress))


def _take_fetch_file(
    writing: OutputSpec, paths: tuple[str, ...], asked: dict[str, Any]
) -> tuple[OutputSpec, str | None]:
    """Take the file of a fetch's bytes out of where rows are written; refuse what does not fit."""
    from kdump.output.target import prepare_output

    if writing.form == "reset-csv" or asked["none"] is not None or asked["check"]:
        raise UsageError("--max-bytes shows what a fetch returns: it excludes --check and --none")
    if writing.output is not None:
        prepare_output(writing.output, paths, force=writing.force)
    return writing._replace(output=None), writing.output

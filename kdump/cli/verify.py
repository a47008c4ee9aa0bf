"""`kdump verify`: what is wrong, what it means, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, Decorator, under
from kdump.cli.options import (
    DURATION,
    FILE_PATH,
    LOOKUP_FORMATS,
    RATE,
    SLICE,
    TIER_ALONE,
    TIME,
    Read,
    config_option,
    shared_options,
    tier_key_option,
    tier_option,
    together,
    topic_configs_option,
    version_option,
)
from kdump.cli.process import tell
from kdump.errors import KdumpError, UsageError

if TYPE_CHECKING:
    from click.core import Context

    from kdump.cli.run_context import Engine, OutputSpec

_CHECKS = under("Checks")
_APPEND_CHECK = under("Append check")
_SCOPE_AND_PACE = under("Scope and pace")
_MONITORING = under("Monitoring")
_OUTPUT = under("Output")
_UNKNOWN = 3  # of a monitoring plug-in: could not be done


class PluginCommand(Command):
    """A command whose every end is one line and a plug-in's status where `--nagios` is given.

    A monitoring system takes 2 for "critical" and 1 for "warning"; wrong usage is neither.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        plugin = "--nagios" in args and not ctx.resilient_parsing
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if plugin:
                _end_as_plugin(error.format_message())
            raise

    def invoke(self, ctx: Context) -> object:
        """Run the command."""
        if not ctx.params.get("nagios"):
            return super().invoke(ctx)
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _end_as_plugin(error.format_message())
        except KdumpError as error:
            _end_as_plugin(str(error))
        except KeyboardInterrupt:
            _end_as_plugin("interrupted")
        return None


_SUMMED = ("broker", "topic")


def read_words(text: str) -> tuple[str, ...]:
    """Read what to sum up by, in whatever order; nothing: no such sums."""
    words = [word.strip() for word in text.split(",")] if text else []
    for word in words:
        if word not in _SUMMED:
            raise ValueError(f"contains {word!r}, which is neither broker nor topic")
    return tuple(word for word in _SUMMED if word in words)


def _end_as_plugin(why: str) -> None:
    from kdump.output.verify_nagios import plugin_line

    click.echo(plugin_line(None, None, 1, why))
    raise SystemExit(_UNKNOWN)


def limits(under_heading: Callable[..., Decorator]) -> Decorator:
    """Make the options that limit the time and the rate of a run."""
    return together(
        under_heading(
            "--max-duration",
            "max_duration_s",
            type=DURATION,
            help="Stop after this time, for example 2h, once the current segment is finished; "
            "the summary counts what remains.",
        ),
        under_heading(
            "--bwlimit",
            "bytes_per_second",
            type=RATE,
            help="Read at most this many bytes per second, for example 50MiB.",
        ),
    )


#: What both `verify` and `predict` have.
NOTES = together(
    _OUTPUT("--notes", help="List every note in the table; by default they are only counted."),
    _OUTPUT(
        "--all",
        "all_findings",
        help="Show every finding in full in the table; by default the ten worst.",
    ),
)
MONITORING = together(
    _MONITORING(
        "--textfile",
        type=FILE_PATH,
        help="Write metrics to FILE for the textfile collector of the Prometheus node exporter.",
    ),
    _MONITORING(
        "--nagios",
        help="Print one line for Nagios, then the ten worst findings. Exit with 0 if there are "
        "only notes, 1 for rebuild, 2 for damage, 3 if the check failed. With an "
        "explicit --fail-on damage, rebuild findings exit with 0 instead of 1.",
    ),
)


@click.command(
    cls=PluginCommand,
    common="--deep --quick --topic --state --nagios --fail-on --jobs --format",
)
@_CHECKS("--deep", help="Decompress and check every record, too.")
@_CHECKS("--quick", help="Check names, sizes, indexes, and log ends only; read no log completely.")
@tier_option(_CHECKS)
@tier_key_option(_CHECKS)
@NOTES
@version_option(
    _CHECKS,
    "For damage, show what a broker of this version can still serve.",
)
@config_option(_CHECKS, "--topic-config")
@topic_configs_option(_CHECKS)
@_APPEND_CHECK(
    "--append",
    metavar="FILE|-",
    type=FILE_PATH,
    help="Instead of checking for damage, show how a broker with the log in PATHS would answer a "
    "produce request. FILE has the request's batches, or is a packet capture with such requests.",
)
@_APPEND_CHECK(
    "--follower", help="With --append: check the batches as a follower does after a fetch."
)
@_APPEND_CHECK("--now", "now_ms", type=TIME, help="With --append: the broker's time. Default: now.")
@_APPEND_CHECK("--explain", help="With --append: show how the answer is found; in JSON as `steps`.")
@_SCOPE_AND_PACE(
    "--state",
    type=FILE_PATH,
    help="Record checked segments in FILE. Later runs skip sealed segments that did not change, "
    "and repeat their findings.",
)
@_SCOPE_AND_PACE(
    "--recheck-after",
    "recheck_s",
    type=DURATION,
    help="With --state: check a segment again if its last check is older than this, for example "
    "30d. Default: never.",
)
@_SCOPE_AND_PACE(
    "--subset",
    type=SLICE,
    help="Check slice N of T. A segment is always in the same slice; 1/T to T/T cover everything.",
)
@limits(_SCOPE_AND_PACE)
@MONITORING
@_MONITORING(
    "--summary-by",
    type=Read("words", read_words, _SUMMED),
    default="",
    metavar="WORD[,WORD]",
    help="Add a summary per broker (data directory), per topic, or per combination (broker,topic).",
)
@shared_options(LOOKUP_FORMATS, is_wide=False, missing=TIER_ALONE)
def verify(paths: tuple[str, ...], **asked: Any) -> int:
    """Check the segments, indexes, snapshots, and checkpoints under PATHS for damage.

    PATHS are segment files, partition directories, or data directories, with or without a running
    broker. By default every log is read once and the checksum of every batch is checked; nothing is
    decompressed without --deep. kdump takes no lock, writes only files that an option names, and
    leaves the page cache as it was. Normal activity of a running broker is not reported as damage.

    Fields outside the checksum (base offset, leader epoch, size, and magic of a batch) are
    checked only against neighboring batches. A loss that leaves no trace, such as when all the
    newest segments are gone, cannot be detected: use kdump compare.

    A finding is damage (records are lost or cannot be read), rebuild (an index or checkpoint is
    wrong, the records are intact), or a note. The exit status is 3 if a finding is at or above
    --fail-on. --format reset-csv writes the file for kafka-consumer-groups --reset-offsets
    --from-file: for each damaged partition, the first offset that the broker serves after the
    first damage.

    \b
    Examples:
        kdump verify /var/lib/kafka
        kdump verify --deep --topic 'orders*' -j 4 /var/lib/kafka
        kdump verify --nagios --state /var/lib/kdump/state --bwlimit 50MiB /var/lib/kafka
        kdump verify --append batch.bin --broker-version 2.8 /var/lib/kafka/orders-7
        kdump verify --format jsonl /var/lib/kafka | jq -r 'select(.row == "finding").code'
    """
    from kdump.cli.run_context import wrong_usage

    with wrong_usage():
        for one, given in (("deep", asked["deep"]), ("state", asked["state"] is not None)):
            if given and asked["quick"]:
                raise UsageError(f"--{one} and --quick exclude each other")
        if asked["recheck_s"] is not None and asked["state"] is None:
            raise UsageError("--recheck-after requires --state")
        if asked["append"] is not None:
            return _append(paths, asked)
        for name in ("follower", "now_ms", "explain"):
            if asked[name]:
                raise UsageError(f"--{name.removesuffix('_ms')} requires --append")
    return run_verify("verify", paths, asked)


_REQUEST_BYTES = 100 << 20  # socket.request.max.bytes, unless set
#: Headings whose options do not go with --append, but for those that follow.
_NOT_OF_APPEND = ("Checks", "Scope and pace", "Monitoring")
#: What goes with --append, beside what all commands have.
_OF_APPEND = frozenset(
    "append follower now_ms explain broker_version configs topic_configs".split()
)


def _append(paths: tuple[str, ...], asked: dict[str, Any]) -> int:
    """Show what a broker answers to a set, and return the exit status."""
    from kdump.cli.reports import AppendReport
    from kdump.cli.results import Results
    from kdump.engine.registry import COMMANDS
    from kdump.output.progress import Tally
    from kdump.stores.view_store import STDIN, root_of

    engine: Engine = asked.pop("engine")
    writing: OutputSpec = asked.pop("writing")
    for option in click.get_current_context().command.params:
        name, heading = option.name or "", getattr(option, "heading", "")
        if heading in _NOT_OF_APPEND and name not in _OF_APPEND and _is_given(name):
            raise UsageError(f"{option.opts[0]} cannot be used with --append")
    if engine.is_spark or writing.form == "reset-csv":
        raise UsageError("--append excludes --engine spark and --format reset-csv")
    file = asked["append"]
    if file == "-" and any(path.startswith(root_of(STDIN)) for path in paths):
        raise UsageError("standard input is already one of PATHS: give --append a file")
    sent, problems = _read_set(file)
    command = COMMANDS["verify"]
    names = command.options(now_ms=0)._asdict().keys() & asked.keys()
    given = {name: asked[name] for name in names} | {"append": sent}
    results = Results(writing, inputs=(*paths, file), report=AppendReport(), tally=Tally())
    return results.take(chain(problems, command.run(paths, command.options(**given))))


def _read_set(file: str) -> tuple[bytes | str, list[KdumpError]]:
    """Read the batches to be sent, no more than a request may hold; of a capture give the path."""
    from kdump.cli.run_context import show_unpacked
    from kdump.storage import names, places
    from kdump.storage.data_directories import spread_all
    from kdump.storage.inputs import FileOverrides, open_inputs
    from kdump.storage.source import read_whole

    (path,) = open_inputs((file,), FileOverrides(), tell=tell, progress=show_unpacked())
    _, problems = spread_all([path])
    if names.parse(places.file_name(path)).kind in (names.Kind.CAPTURE, names.Kind.FRAMES):
        return path, problems
    return read_whole(path, _REQUEST_BYTES), problems


def run_verify(name: str, paths: tuple[str, ...], asked: dict[str, Any]) -> int:
    """Run `verify` or `predict`, and return the exit status."""
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.cli.verify_report import VerifyReport
    from kdump.engine.registry import COMMANDS
    from kdump.engine.work.pace import Progress
    from kdump.output.progress import PlannedTally
    from kdump.output.textfile import is_textfile

    engine: Engine = asked.pop("engine")
    writing: OutputSpec = asked.pop("writing")
    notes, nagios = asked.pop("notes"), asked.pop("nagios")
    all_findings = asked.pop("all_findings")
    textfile, state = asked.pop("textfile"), asked.pop("state", None)
    command, progress = COMMANDS[name], Progress()
    with wrong_usage():
        if nagios and (writing.form is not None or writing.output is not None):
            raise UsageError("--nagios prints one line and does not allow --format or --output")
        paced = asked["max_duration_s"] is not None or asked["bytes_per_second"] is not None
        if engine.is_spark and paced:
            raise UsageError("--max-duration and --bwlimit do not work with --engine spark")
        kept = None
        if state is not None:
            from kdump.api.verify_state import StateFile

            kept = StateFile(state, paths, lambda said: tell(f"kdump: {said}"), force=writing.force)
        if textfile is not None:
            from kdump.output.target import prepare_output

            prepare_output(textfile, paths, "--textfile", force=writing.force, is_ours=is_textfile)
        if nagios and not _is_given("fail_on"):
            writing = writing._replace(fail_on="rebuild")
        report = VerifyReport(
            progress,
            fail_on=writing.fail_on,
            all_notes=notes,
            all_findings=all_findings,
            nagios=nagios,
            textfile=textfile,
            state=kept,
        )
        results = Results(
            writing,
            inputs=paths,
            form="jsonl" if nagios else None,
            report=report,
            tally=PlannedTally(progress),
        )
    for only in ("follower", "now_ms", "explain"):
        asked.pop(only, None)
    asked["selection"] = asked["selection"]._replace(retired=True)  # everything is looked at
    with engine.driver(bytes_per_second=asked.pop("bytes_per_second")) as driver:
        options = command.options(**asked)
        seen = kept and kept.seen
        found = command.run(paths, options, progress=progress, state=seen, driver=driver)
        return results.take(found)


def _is_given(name: str) -> bool:
    """Whether an option was said, and is not its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, click.core.ParameterSource.DEFAULT)

"""The command line: a group whose commands are imported when they are called.

Start-up is what a shell script pays a thousand times over, so only click and this module are loaded
for `--help`. Click's own handling of errors is kept, but for two things: Ctrl-C says "interrupted",
and a reader that went away ends the run without a word.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from kdump import __version__
from kdump.cli.process import ended_by_signals, fill_standard_files, leave_quietly, tell
from kdump.errors import InternalError, KdumpError, unforeseen

#: What the commands are for, in the order of the help: name -> the line that it shows.
_COMMANDS = {
    "Look": {
        "info": "Show topics, sizes, the release that wrote them, and problems.",
        "dump": "Show records, batch headers, or index entries.",
        "groups": "Show consumer groups, committed offsets, and who moved them.",
        "transactions": "Show transactions, and which are open or hanging.",
        "cluster": "Show the cluster metadata at any offset or time.",
        "usage": "Sum bytes and records by topic, partition, producer, or key.",
        "sql": "Query records, batches, groups, and all other rows in SQL.",
        "schema": "Show the row kinds: fields, types, units, and meaning.",
    },
    "Check": {
        "verify": "Check logs, indexes, and checkpoints for damage.",
        "predict": "Predict whether a broker starts, and what the start does.",
        "compare": "Compare replicas: what differs, and who lost what.",
        "sequences": "Find gaps and repeats in producers' sequence numbers.",
        "duplicates": "Find records with equal keys, values, or headers.",
        "placement": "Find keys on the wrong partition for their hash.",
    },
    "Find": {
        "find-offset": "Find an offset as a broker does.",
        "find-time": "Find the first record at or after a time.",
    },
    "Explain": {
        "why": "Explain why a disk is full, and what retention deletes next.",
        "timeline": "Show what happened on all brokers, in order of time.",
        "report": "Write all findings to one page, for a postmortem.",
        "elect": "Find the leader that loses the fewest records.",
    },
    "Repair": {
        "reindex": "Rebuild indexes as log recovery does.",
        "salvage": "Rebuild partitions from damaged or deleted copies.",
        "carve": "Recover batches from raw disk images.",
        "produce": "Send the records of damaged copies to a running cluster.",
    },
}
#: Commands that people try first, which `--help` and `--version` stand for.
_UNLISTED = ("help", "version")
HELP = {name: line for lines in _COMMANDS.values() for name, line in lines.items()}


class MultilineUsageError(click.UsageError):
    """Wrong usage whose message has lines of its own, and of the arguments only `repr`."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a path is one for `info`, and for another word one is suggested."""
        if args and self.get_command(ctx, args[0]) is None and _is_path(args[0]):
            if len(args) > 1 and args[-1].isdigit() and not os.path.lexists(args[-1]):
                from kdump.cli.suggestions import number_without_command

                raise MultilineUsageError(number_without_command(args), ctx)
            args = ["info", *args]
        if args and self.get_command(ctx, args[0]) is None and args[0][:1] not in ("", "-"):
            from kdump.cli.suggestions import no_such_command

            raise MultilineUsageError(no_such_command(args[0], HELP), ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command from the module that has its name."""
        if cmd_name not in HELP and cmd_name not in _UNLISTED:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"kdump.cli.{name}"), name)
        assert isinstance(command, click.Command)
        command.short_help = HELP.get(cmd_name, "")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under headings, without importing them."""
        widest = max(map(len, HELP))
        for heading, lines in _COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), line) for name, line in lines.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an interruption and a reader gone away end it in one place."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            tell("kdump: interrupted")
        except BrokenPipeError:
            leave_quietly()
        except click.ClickException as error:
            raise escape_message(error) from None
        except KdumpError as error:
            tell(f"kdump: {error}")
            raise SystemExit(error.status) from None
        except (OSError, click.exceptions.Exit):  # the latter ends a run as it should, after --help
            raise
        except Exception as error:
            tell(f"kdump: {_internal_error(error)}")
        raise SystemExit(1)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments before the command."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            text = f"{error.option_name} is not an option of kdump; options follow the command"
            raise click.UsageError(f"{text}, as in kdump info --wide PATH", error.ctx) from None
        except click.ClickException as error:
            raise escape_message(error) from None


def _is_path(word: str) -> bool:
    return word[:1] not in ("", "-") and (os.sep in word or os.path.lexists(word))


def _internal_error(error: Exception) -> str:
    """Say where a command failed that nobody foresaw to fail, before or after its work."""
    reported = unforeseen("internal error", error)
    assert isinstance(reported, InternalError)
    return f"{reported}; KDUMP_TRACEBACK=1 prints the traceback to report"


def escape_message(error: click.ClickException) -> click.ClickException:
    """Spell out what a message repeats of the arguments, which may be names of any kind."""
    if isinstance(error, (MultilineUsageError, click.exceptions.NoArgsIsHelpError)):
        return error
    from kdump.output.escape import visible

    error.message = visible(error.message)  # type: ignore[misc]
    return error


def print_version(ctx: click.Context) -> None:
    """Print the version, and end."""
    from kdump.output.process_tuning import KERNEL

    click.echo(f"kdump {__version__} ({KERNEL} kernel)")
    ctx.exit()


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print_version(ctx)


@click.command("kdump", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version, and whether compiled code is in use.",
)
def cli() -> None:
    """Inspect, check, and rescue the data directories of Kafka brokers.

    Reads data of every Kafka version, damaged or not, with or without a running broker. Only
    reindex --write changes a data directory. salvage --out, carve --out, and reindex --out create
    new directories; the produce command writes to a running cluster.

    \b
    Examples:
        kdump /var/lib/kafka                    what is here?
        kdump verify /var/lib/kafka             is anything damaged?
        kdump predict /var/lib/kafka            does the broker start?
        kdump why /var/lib/kafka                what fills the disk?
        kdump help "consumer stuck"             which command do I need?

    \b
    Exit status: 0 done, 1 failed or incomplete, 2 wrong usage,
    3 findings at or above --fail-on, 4 lookup without answer, 5 refused.
    """


def _drop_unfinished() -> None:
    """Remove what was written and not finished, whatever ended the run."""
    writing = sys.modules.get("kdump.writing")
    if writing is not None:
        writing.drop_unfinished()


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its status."""
    gc.disable()  # until rows are made: of what is imported nothing can be dropped
    fill_standard_files()
    try:
        with ended_by_signals():
            try:
                cli.main(args, prog_name="kdump")
            finally:
                _drop_unfinished()
                sys.stdout.flush()
    except BrokenPipeError:
        leave_quietly()
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(1) from None
    except OSError as error:  # what click writes, such as --help; all else is reported by its path
        tell(f"kdump: {error.filename or 'output'}: {error.strerror or error}")
        leave_quietly()
        raise SystemExit(1) from None
    raise SystemExit(0)  # unreachable in practice: click leaves by SystemExit

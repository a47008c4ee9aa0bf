"""The command line: a group whose commands are imported when they are called.

Start-up is what a shell script pays a thousand times over, so only click and this module are loaded
for `--help`. Click's own handling of errors is kept, but for two things: Ctrl-C says "interrupted",
and a reader that went away ends the run without a word.
"""

from __future__ import annotations

import gc
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
        "dump": "Show the records, batch headers or index entries that lie on disk.",
        "groups": "Show groups, their members and committed offsets, and who moved them.",
        "transactions": "Show transactions: whose they are, which are open, which hang.",
        "cluster": "Show what the metadata of a cluster says, at any offset or time.",
        "usage": "Bytes and records by topic, partition, producer, codec or key.",
        "schema": "Show the kinds of rows that commands write: members, types, units, meaning.",
    },
    "Check": {
        "verify": "Check logs, indexes and checkpoints, and say what is wrong and what it means.",
        "predict": "Say whether a node starts, and what the start does to each partition.",
        "compare": "Compare replicas of partitions, and say what differs and who lost what.",
        "sequences": "Find gaps and repeats in what producers sent.",
        "duplicates": "Find records that say the same, whoever sent them.",
        "placement": "Find keys that lie on another partition than their hash says.",
    },
    "Find": {
        "find-offset": "Find an offset as a broker does, and what a consumer is given.",
        "find-time": "Find the first record at or after a time as a broker does.",
    },
    "Explain": {
        "why": "Say why a disk is full, why a segment is still there, and when it goes.",
        "elect": "Say who should lead each partition, and what every other choice loses.",
    },
    "Repair": {
        "reindex": "Rebuild indexes as a broker's recovery would.",
        "salvage": "Make of damaged and deleted copies a directory that a broker serves.",
        "carve": "Find batches in raw images of disks, and make a directory of them.",
        "produce": "Send the records of damaged and deleted copies to a running cluster.",
    },
}
_HELP = {name: line for lines in _COMMANDS.values() for name, line in lines.items()}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command from the module that has its name."""
        if cmd_name not in _HELP:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"kdump.cli.{name}"), name)
        assert isinstance(command, click.Command)
        command.short_help = _HELP[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under headings, without importing them."""
        widest = max(map(len, _HELP))
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
            raise spelled_out(error) from None
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
        except click.ClickException as error:
            raise spelled_out(error) from None


def _internal_error(error: Exception) -> str:
    """Say where a command failed that nobody foresaw to fail, before or after its work."""
    reported = unforeseen("internal error", error)
    assert isinstance(reported, InternalError)
    return f"{reported}; KDUMP_TRACEBACK=1 gives the traceback to report"


def spelled_out(error: click.ClickException) -> click.ClickException:
    """Spell out what a message repeats of the arguments, which may be names of any kind."""
    from kdump.output.escape import visible

    error.message = visible(error.message)  # type: ignore[misc]
    return error


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kdump.output.process_tuning import KERNEL

        click.echo(f"kdump {__version__} ({KERNEL} kernel)")
        ctx.exit()


@click.command("kdump", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and which kernel runs.",
)
def cli() -> None:
    """Look into Kafka data directories as they lie on disk.

    Reads segments, indexes, snapshots and checkpoints of every Kafka version, sound or damaged,
    with or without a broker running on them, and changes nothing.

    \b
    Exit status: 0 done, 1 not done or not finished, 2 wrong usage,
    3 findings at or above --fail-on, 4 a lookup had no answer, 5 refused.
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

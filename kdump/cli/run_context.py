"""Options that every command has: where it runs, and where results go.

The decorators of `options` gather these options, so that a command is given one value of each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kdump.errors import UsageError
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import TopicConfig
    from kdump.engine.work.pipeline import Driver


_SHOWN_SECONDS = 0.3


class Engine(NamedTuple):
    """What runs the work, and how widely: processes of this machine, or Spark."""

    name: str
    #: Workers, or tasks on Spark; each command has a default of its own.
    jobs: int | None
    master: str | None = None
    remote: str | None = None
    archive: str | None = None

    @property
    def is_spark(self) -> bool:
        """Say whether the work leaves this process and its children."""
        return self.name == "spark"

    @classmethod
    def take(cls, asked: dict[str, Any]) -> Engine:
        """Take the engine's options out of all; not all commands have them all."""
        others = (asked.pop(name, None) for name in cls._fields[1:])
        return cls(asked.pop("engine", "local"), *others)

    @contextmanager
    def driver(
        self, *, jobs: int = 1, bytes_per_second: int | None = None, decodes: bool = False
    ) -> Iterator[Driver]:
        """Give what does the steps of a plan; `jobs` are the workers where none are asked for.

        `decodes`: the steps decode records, so that on Spark fewer bytes make a task.
        """
        if not self.is_spark:
            from kdump.engine.work.pipeline import Workers

            yield Workers(self.jobs or jobs, bytes_per_second)
            return
        from kdump.spark.driver import SparkDriver
        from kdump.spark.session import spark_session

        with spark_session(self.master, self.remote, self.archive) as session:
            what = click.get_current_context().command_path
            yield SparkDriver(session, self.jobs, decodes=decodes, what=what)

    def check(self) -> None:
        """Refuse options that have no meaning in process, or exclude each other."""
        given = (self.master, self.remote, self.archive)
        if not self.is_spark and any(value is not None for value in given):
            raise UsageError("--master, --remote, and --archive require --engine spark")
        if self.master is not None and self.remote is not None:
            raise UsageError("--master and --remote exclude each other")


class OutputSpec(NamedTuple):
    """Where results go, in which form, how much of them, and what counts as failure."""

    #: As asked for; `cli.results.form_of` settles what it is where nothing was.
    form: str | None
    output: str | None
    bytes_mode: str
    quiet: bool
    fail_on: str
    #: Those that the command has.
    forms: tuple[str, ...]
    wide: bool = False
    csv_safe: bool = False
    #: Whether `output` may replace a file.
    force: bool = False
    #: Only rows of this kind.
    rows: str | None = None
    no_pager: bool = False

    @classmethod
    def take(cls, asked: dict[str, Any], forms: tuple[str, ...]) -> OutputSpec:
        """Take the options of output out of all; not all commands have them all."""
        given = {name: asked.pop(name) for name in cls._fields if name in asked}
        return cls(**{"bytes_mode": "auto"} | given, forms=forms)


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Tell what is wrong with the arguments as click does, with the command's usage before it.

    What goes wrong later, as with a session of Spark, is reported without: the arguments fit
    together.
    """
    try:
        yield
    except UsageError as error:
        raise click.UsageError(str(error)) from None


#: Data directories below a folder that are named.
_NAMED = 5


def report_directories(paths: Iterable[str]) -> None:
    """Name the data directories that are read in place of a folder above them."""
    from kdump.storage.data_directories import look_below

    for path in paths:
        found, _, tiers = look_below(path)
        if found:
            names = ", ".join(os.path.relpath(each, path) for each in found[:_NAMED])
            more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
            tell(f"{path} is not a data directory; reading {names}{more} below it")
            for tier in tiers[:_NAMED]:
                tell(
                    f"{tier} is remote storage: skipped (pass it as the only PATH, or with --tier)"
                )


def report_unmatched(
    configs: Iterable[TopicConfig], paths: Iterable[str], asked: dict[str, Any]
) -> None:
    """Report the settings given for some topics only that match no topic here."""
    named = [config for config in configs if config.topic is not None]
    if not named:
        return
    from kdump.storage.targets import Target, resolve

    found = resolve(paths, asked["selection"], asked["server_properties"], listed=False)
    topics = {one.topic for one in found if isinstance(one, Target) and one.topic is not None}
    for config in named:
        if not any(config.is_of(topic) for topic in topics):
            setting = f"{config.topic}:{config.name}={config.value}"
            tell(f"--config {setting}: no topic here matches, so it has no effect")


def tell(text: str) -> None:
    """Write a line to standard error."""
    from kdump.output.escape import visible

    click.echo(visible(f"kdump: {text}"), err=True)


def show_unpacked() -> Callable[[int], None]:
    """Return what shows, where a person waits at a terminal, how much was unpacked."""
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda total: None
    from time import monotonic

    from kdump.output.amounts import size_text

    shown = [monotonic()]

    def show(total: int) -> None:
        if monotonic() - shown[0] > _SHOWN_SECONDS:
            shown[0] = monotonic()
            click.echo(f"\r\x1b[Kkdump: unpacked {size_text(total)} \r", err=True, nl=False)

    return show

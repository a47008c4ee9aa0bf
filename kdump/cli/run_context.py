"""Options that every command has: where it runs, and where results go.

The decorators of `options` gather these options, so that a command is given one value of each.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kdump.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Engine(NamedTuple):
    """What runs the work, and how widely; `cli.engines` starts it."""

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


class Writing(NamedTuple):
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


def need_paths(paths: Sequence[str], asked: Mapping[str, Any], writing: Writing) -> None:
    """Refuse to start without a path; a broker's settings name some as well."""
    if not paths and asked["server_properties"] is None:
        raise UsageError("give a path, or --server-properties FILE")
    tell_directories(paths, writing)


def tell_directories(paths: Sequence[str], writing: Writing) -> None:
    """Say which data directories are read in the place of a folder above them."""
    from kdump.output.escape import visible
    from kdump.storage.data_directories import data_directories_below

    if writing.quiet:
        return
    for path in paths:
        if below := data_directories_below(path):
            told = f"kdump: {path} is no data directory; reading {', '.join(below)} below it"
            click.echo(visible(told), err=True)

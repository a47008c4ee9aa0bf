"""Group the options of a command under headings in its help.

The headings are those of the command's manual page, where each option is described at length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

Decorator = Callable[[Callable[..., object]], Callable[..., object]]

#: Headings that every command has.
_LAST = ("Paths", "Engine", "Output", "Help")


class Option(click.Option):
    """An option that knows the heading it stands under.

    It shows its default; one that takes no value, and so has none and no type, is a switch.
    """

    def __init__(self, *args: Any, heading: str, **settings: Any) -> None:
        settings.setdefault("is_flag", settings.keys() <= {"help"} or None)
        settings.setdefault("show_default", bool(settings.get("default")))
        super().__init__(*args, **settings)
        self.heading = heading


def under(heading: str) -> Callable[..., Decorator]:
    """Return a `click.option` for options that stand under a heading."""
    return partial(click.option, cls=Option, heading=heading)


#: Options that are commands of their own now -> the command, by the command that had them.
MOVED = {
    "verify": dict.fromkeys(
        ("--predict", "--as-user", "--recovery-rate", "--measure", "--recovery-threads"), "predict"
    ),
    "compare": {"--elect": "elect"},
    "sequences": dict.fromkeys(
        ("--duplicates-by", "--within", "--visible", "--isolation", "--scratch"), "duplicates"
    ),
    "usage": dict.fromkeys(("--partitioner", "--partitions", "--scratch"), "placement"),
    "salvage": {"--carve": "carve", "--propose-map": "carve"}
    | dict.fromkeys(
        (
            *("--produce", "--resume", "--rate", "--client-properties"),
            *("--groups", "--apply-groups", "--groups-at"),
        ),
        "produce",
    ),
}


class Command(click.Command):
    """A command whose help lists its options under their headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; name the command to which an option has moved."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            moved = MOVED.get(str(self.name), {}).get(error.option_name)
            if moved is None:
                raise
            text = f"{error.option_name} is now: kdump {moved}"
            raise click.UsageError(text, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a command's own headings in the order of its options, then those of all."""
        lines: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if not isinstance(parameter, click.Option):
                continue  # newer releases of click have a line for arguments, too
            heading = parameter.heading if isinstance(parameter, Option) else "Help"
            if line := parameter.get_help_record(ctx):
                lines.setdefault(heading, []).append(line)
        for heading in sorted(lines, key=lambda one: _LAST.index(one) if one in _LAST else -1):
            with formatter.section(heading):
                formatter.write_dl(lines[heading])

"""Group the options of a command under headings in its help.

The headings are those of the command's manual page, where each option is described at length.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
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

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the environment variable that gave the value, where one did."""
        hint = super().get_error_hint(ctx)
        source = ctx and ctx.get_parameter_source(str(self.name))
        is_from_variable = source is click.core.ParameterSource.ENVIRONMENT
        return f"{self.envvar}, for {hint}" if is_from_variable else hint

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out bounds that go without saying, and a default that the sentence names."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if "Default:" in (self.help or ""):
            extra.pop("default", None)
        return extra


def under(heading: str) -> Callable[..., Decorator]:
    """Return a `click.option` for options that stand under a heading."""
    return partial(click.option, cls=Option, heading=heading)


_EXAMPLES = 3  # on the first screen
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
    """A command whose help begins with what most people need: purpose, examples, few options.

    The docstring of its function has the purpose as its first paragraph, and the examples as its
    last. `common`: the options that the short help lists, separated by spaces.
    """

    def __init__(self, *args: Any, common: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.context_settings = {**self.context_settings, "help_option_names": ["--help"]}
        self._common = common.split()
        self.params.append(
            Option(
                ["-h"],
                heading="Help",
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_short_help,
                help="Show the most used options.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; name the command to which an option has moved, or why it has none.

        The word help alone, which is not a path here, is the option.
        """
        if args == ["help"] and not os.path.lexists("help"):
            args = ["--help"]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            moved = MOVED.get(str(self.name), {}).get(error.option_name)
            if moved is not None:
                text = f"{error.option_name} was replaced by: kdump {moved}"
            elif error.option_name == "--engine":
                text = f"kdump {self.name} has no --engine: it runs on this machine only"
            else:
                from kdump.cli.suggestions import suggest_options

                names = [name for option in self._options(ctx) for name in option.opts]
                text = f"No such option {error.option_name!r}."
                if meant := suggest_options(error.option_name, names):
                    text += f" Did you mean {' or '.join(meant)}?"
            raise click.UsageError(text, ctx) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help: the first screen, the description, and the other options."""
        description, examples = self._first_screen(ctx, formatter)
        with formatter.indentation():
            for paragraph in description:
                formatter.write_paragraph()
                formatter.write_text(paragraph)
        if examples:
            with formatter.section("More examples"):
                _write_examples(formatter, examples)
        self.format_options(ctx, formatter)

    def format_short_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first screen of the help."""
        self._first_screen(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(f"All options: {ctx.command_path} --help")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a command's own headings in the order of its options, then those of all."""
        lines: dict[str, list[tuple[str, str]]] = {}
        for option in self._options(ctx):
            if not set(option.opts) & set(self._common) and (line := option.get_help_record(ctx)):
                heading = option.heading if isinstance(option, Option) else "Help"
                lines.setdefault(heading, []).append(line)
        for heading in sorted(lines, key=lambda one: _LAST.index(one) if one in _LAST else -1):
            with formatter.section(heading):
                formatter.write_dl(lines[heading])

    def _options(self, ctx: click.Context) -> Iterator[click.Option]:
        """Yield the options; newer releases of click have a line for arguments, too."""
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                yield parameter

    def _first_screen(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> tuple[list[str], list[str]]:
        """Write what comes first; return the paragraphs and the examples that are left."""
        purpose, *description = inspect.cleandoc(self.help or "").split("\n\n")
        examples = description.pop().split("\n")[2:] if description else []
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(purpose)
        with formatter.section("Examples"):
            _write_examples(formatter, examples[:_EXAMPLES])
        by_name = {name: option for option in self._options(ctx) for name in option.opts}
        common = (by_name[name].get_help_record(ctx) for name in self._common)
        with formatter.section("Common options"):
            formatter.write_dl([line for line in common if line is not None])
        return description, examples[_EXAMPLES:]


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    for line in examples:  # never broken: they are typed as they are
        formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")


def _show_short_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        assert isinstance(ctx.command, Command)
        formatter = ctx.make_formatter()
        ctx.command.format_short_help(ctx, formatter)
        click.echo(formatter.getvalue().rstrip("\n"), color=ctx.color)
        ctx.exit()

"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kdump.broker import versions
from kdump.broker.versions import NEWEST, Version
from kdump.cli.headings import Decorator, under
from kdump.cli.status import FAIL_ON
from kdump.errors import UsageError
from kdump.option_values import (
    ISOLATION_LEVELS,
    read_duration,
    read_int64,
    read_int_size,
    read_pattern,
    read_positive_size,
    read_rate,
    read_size,
    read_slice,
    read_time,
    read_utc_offset,
)
from kdump.output.forms import FORMS, FORMS_OF_DUMP
from kdump.output.values import BYTES_MODES

if TYPE_CHECKING:
    from click.core import Context, Parameter
    from click.shell_completion import CompletionItem

    from kdump.cli.run_context import Engine, OutputSpec

    ParamType = click.ParamType[object]
else:  # the class takes no parameters in older releases of click
    ParamType = click.ParamType

Command = Callable[..., object]


def read_kind(text: str) -> str:
    """Read what a file holds, in the words of `kdump/storage/recognize.py`."""
    from kdump.storage.recognize import KINDS

    if text not in KINDS:
        raise ValueError(f"is not a file kind; use one of {', '.join(KINDS)}")
    return text


def _read_config(text: str) -> object:
    """Read a setting of topics."""
    from kdump.broker.settings import read_topic_config

    return read_topic_config(text)


def _read_release(text: str) -> Version:
    """Read the release of a broker, or `newest`."""
    return NEWEST if text.strip() == "newest" else versions.read_broker_version(text)


def _read_uri(text: str) -> str:
    """Read a folder, which is to be there, or a URI, which loses its password."""
    from kdump.storage import places
    from kdump.stores.passwords import without_password

    if not places.is_uri(text) and not places.isdir(text):
        raise ValueError("is not a directory")  # else all that was copied to it would be missing
    return without_password(text)


def _finished_segments(paths: Iterable[str]) -> frozenset[str]:
    """Ask the metadata under some paths which of two remote segments counts."""
    from kdump.engine.reading.remote_logs import read_finished_ids

    return read_finished_ids(paths)


def tell_newer(ctx: Context, param: Parameter, version: Version | None) -> Version | None:
    """Say whose rules stand in for those of a version that is newer than any known here."""
    if version is not None and versions.is_newer_than_known(version) and not ctx.resilient_parsing:
        given, known = versions.text_of(version), versions.text_of(NEWEST)
        click.echo(f"kdump: {given} is newer than any known version; using {known}", err=True)
    return version


class Read(ParamType):
    """A value read by a function that raises ValueError with the end of a sentence.

    The help shows the name in capitals, as it does that of every type here.
    """

    def __init__(self, name: str, read: Callable[[str], object], words: Iterable[str] = ()) -> None:
        """Take what a shell completes as `words`, also after a comma."""
        self.name = name
        self._read = read
        self._words = words

    def convert(self, value: object, param: Parameter | None, ctx: Context | None) -> object:
        """Return what the function makes of the text; a default may be a value already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)

    def shell_complete(
        self, ctx: Context, param: Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer the words that continue the last one of a list."""
        from click.shell_completion import CompletionItem

        before, comma, begun = incomplete.rpartition(",")
        words = (word for word in self._words if word.startswith(begun))
        return [CompletionItem(before + comma + word) for word in words]


def _complete_topics(ctx: Context, param: Parameter, incomplete: str) -> list[str]:
    """Offer the topics in the local paths before the option, or in the working directory."""
    from kdump.storage.names import parse_directory

    found = set()
    # While an option lacks its value, click does not read the paths before it.
    for path in (*(ctx.params.get("paths") or ()), *ctx.args) or (".",):
        with suppress(OSError, ValueError):
            for name in (os.path.basename(os.path.abspath(path)), *os.listdir(path)):
                parsed = parse_directory(name)
                if parsed is not None and re.fullmatch(r"[\w.-]+", parsed.topic, re.ASCII):
                    found.add(parsed.topic)
    return sorted(topic for topic in found if topic.startswith(incomplete))


class Count(click.IntRange):
    """A whole number from a least one on."""

    name = "n"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """Return the number."""
        if isinstance(value, str) and not value.strip().lstrip("+-").isdecimal():
            self.fail(f"{value!r} is not a whole number", param, ctx)
        return super().convert(value, param, ctx)


class Form(click.Choice):  # type: ignore[type-arg]
    """The name of an output format."""

    def convert(self, value: object, param: Parameter | None, ctx: Context | None) -> Any:
        """Return the format; name the one that is meant by `json`."""
        if value == "json":
            self.fail("'json': kdump writes JSON Lines, one object per line: jsonl", param, ctx)
        return super().convert(value, param, ctx)


class FilePath(click.Path):
    """A path that cannot be read is the engine's to tell: status 1, others are worked on."""

    def __init__(self) -> None:
        super().__init__(readable=False)
        self.name = "file"


SIZE = Read("size", read_size)
INT_SIZE = Read("bytes", read_int_size)
INT64 = Read("n", read_int64)
TIME = Read("time", read_time)
_RELEASES = tuple(map(versions.text_of, versions.RELEASES))
VERSION = Read("x.y[.z]", versions.read_version, _RELEASES)
BROKER_VERSION = Read("x.y[.z]", _read_release, ("newest", *_RELEASES))
DURATION = Read("time", read_duration)
UTC_OFFSET = Read("hh:mm", read_utc_offset)
RATE = Read("rate", read_rate)
SLICE = Read("n/t", read_slice)
PATTERN = Read("regex", read_pattern)
BYTES = Read("text", os.fsencode)
KIND = Read("kind", read_kind)
CONFIG = Read("[topic:]key=value", _read_config)
POSITIVE_SIZE = Read("size", read_positive_size)
ISOLATION = click.Choice(ISOLATION_LEVELS, case_sensitive=False)
FROM_0, FROM_1 = Count(min=0), Count(min=1)
FILE_PATH = FilePath()
PLAIN_FORMATS = tuple(FORMS)
FORMATS = tuple(FORMS_OF_DUMP)
LOOKUP_FORMATS = (*FORMS, "reset-csv")
TIMELINE_FORMATS = (*FORMS, "timesketch", "bodyfile")
REPORT_FORMATS = ("html", *FORMS)

_PATHS = under("Paths")
_ENGINE = under("Engine")
_OUTPUT = under("Output")


def version_option(under_heading: Callable[..., Decorator], text: str) -> Decorator:
    """Make the option that says as which broker's version something is done."""
    return under_heading(
        "--broker-version",
        type=BROKER_VERSION,
        envvar="KDUMP_BROKER_VERSION",
        callback=tell_newer,
        help=f"{text} `newest` is the newest release. Default: the release that wrote the "
        "directory; if that is unclear, the newest one possible.",
    )


def topic_configs_option(under_heading: Callable[..., Decorator]) -> Decorator:
    """Make the option that leaves out what the metadata log says of settings."""
    return under_heading(
        "--no-topic-configs",
        "topic_configs",
        is_flag=True,
        flag_value=False,
        default=True,
        show_default=False,
        help="Ignore topic and broker configs found in the metadata log.",
    )


def config_option(under_heading: Callable[..., Decorator], *spellings: str) -> Decorator:
    """Make the option that gives settings of topics; it may be spelled otherwise, too."""
    return under_heading(
        *spellings,
        "--config",
        "configs",
        type=CONFIG,
        multiple=True,
        help="Use this topic config for all topics, or only for TOPIC (a name or a pattern). "
        "Repeatable.",
    )


def tier_option(under_heading: Callable[..., Decorator]) -> Decorator:
    """Make the option that names where the objects of tiered topics are."""
    return under_heading(
        "--tier",
        metavar="URI",
        type=Read("uri", _read_uri),
        help="Folder or bucket with the remote segments of tiered topics.",
    )


def tier_key_option(under_heading: Callable[..., Decorator]) -> Decorator:
    """Make the option that names the key of encrypted remote segments."""
    return under_heading(
        "--tier-key",
        type=FILE_PATH,
        help="PEM file with the private key of encrypted remote segments (Aiven's plugin).",
    )


def scratch_option(under_heading: Callable[..., Decorator], *, on_spark: bool = True) -> Decorator:
    """Make the option that says where to sort."""
    shared = "; on Spark, one that all executors share" if on_spark else ""
    return under_heading(
        "--scratch",
        type=FILE_PATH,
        metavar="DIR",
        help=f"Directory for temporary sort files{shared}. Default: $TMPDIR.",
    )


def together(*options: Decorator) -> Decorator:
    """Join options into one decorator; the help has them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


#: What every command has: which files are worked on, and with how much of the machine.
_PATH_OPTIONS = (
    _PATHS(
        "--topic",
        metavar="GLOB",
        shell_complete=_complete_topics,
        help="Only topics that match, for example 'orders*'.",
    ),
    _PATHS("--partition", type=FROM_0, help="Only this partition number."),
    _PATHS(
        "--retired",
        help="Include -delete, -future, and -stray directories and .deleted, .cleaned, and .swap "
        "files.",
    ),
    _PATHS(
        "--server-properties",
        type=FILE_PATH,
        help="The broker's server.properties: use its settings and, without PATHS, its log.dirs.",
    ),
    _PATHS(
        "--as",
        "as_kind",
        type=KIND,
        help="Read files in PATHS as this kind (log, index, …) if their kind cannot be detected.",
    ),
    _PATHS(
        "--base-offset",
        type=FROM_0,
        help="Base offset of files in PATHS, instead of the detected one.",
    ),
    _PATHS("--topic-name", metavar="NAME", help="Topic of files in PATHS."),
    _PATHS("--partition-number", type=FROM_0, help="Partition of files in PATHS."),
    _PATHS(
        "--unpack-limit",
        type=SIZE,
        help="Unpack at most this much from each archive or compressed file. Default: 1,000 times "
        "its size, but at least 2GiB.",
    ),
)


def _jobs_option(*, on_spark: bool) -> Decorator:
    return _ENGINE(
        "-j",
        "--jobs",
        type=FROM_1,
        envvar="KDUMP_JOBS",
        help="Number of worker processes" + (", or of tasks on Spark." if on_spark else "."),
    )


_DECOMPRESS_OPTION = _ENGINE(
    "--decompress-limit",
    type=POSITIVE_SIZE,
    default="64MiB",
    help="Skip batches that decompress to more than this; each is reported as a note.",
)
#: What commands have that Spark can run: which Spark.
_SPARK_OPTIONS = (
    _ENGINE(
        "--engine",
        type=click.Choice(("local", "spark")),
        default="local",
        help="Run in this process, or on Spark.",
    ),
    _ENGINE(
        "--master", metavar="URL", help="With --engine spark: the cluster, for example local[4]."
    ),
    _ENGINE(
        "--remote", metavar="URL", help="With --engine spark: the Spark Connect server, sc://HOST."
    ),
    _ENGINE(
        "--archive",
        type=FILE_PATH,
        help="With --engine spark: a packed Python environment with kdump, for the executors.",
    ),
)
_BYTES_OPTION = _OUTPUT(
    "--bytes",
    "bytes_mode",
    type=click.Choice(BYTES_MODES),
    default="auto",
    help="Encoding of keys, values, and headers; auto: text where valid UTF-8, else base64.",
)
_WIDE_OPTION = _OUTPUT(
    "-v", "--wide", help="In a table: show every column, and every cell in full."
)


def output_options(forms: tuple[str, ...], *, has_bytes: bool, is_wide: bool) -> Decorator:
    """Say where results go, in which form, and what counts as failure."""
    return together(
        _OUTPUT(
            "--format",
            "form",
            type=Form(forms),
            envvar="KDUMP_FORMAT",
            help="Output format. Default: "
            + (
                "the extension of the --output file, else html."
                if forms[0] == "html"
                else "table on a terminal, jsonl in a pipe."
            ),
        ),
        _OUTPUT(
            "-o",
            "--output",
            type=FILE_PATH,
            help="Write the results to FILE, which appears only when complete. parquet and arrow "
            "need this option. A FILE that ends in a slash is a directory, with one or more "
            "files per row kind.",
        ),
        _OUTPUT(
            "--rows", metavar="KIND", help="Write only rows of this kind (kdump schema lists them)."
        ),
        _OUTPUT("--force", help="Overwrite existing output files."),
        *([_BYTES_OPTION] if has_bytes else []),
        *([_WIDE_OPTION] if is_wide else []),
        _OUTPUT("--no-pager", help="Never show a long table in a pager."),
        _OUTPUT(
            "--csv-safe",
            help="In CSV: put ' before text that a spreadsheet would treat as a formula.",
        ),
        _OUTPUT(
            "--utc-offset",
            type=UTC_OFFSET,
            envvar="KDUMP_UTC_OFFSET",
            default="Z",
            show_default=False,
            help="Show times in tables in this zone, for example +02:00. Default: UTC.",
        ),
        _OUTPUT("-q", "--quiet", help="Print findings only."),
        _OUTPUT(
            "--fail-on",
            type=click.Choice(FAIL_ON),
            default="damage",
            help="Exit with 3 for findings of this level or above. The levels are note, rebuild "
            "(an index or checkpoint is wrong), and damage (records are lost or cannot be read).",
        ),
    )


def read_output_options(asked: dict[str, Any], forms: tuple[str, ...]) -> OutputSpec:
    """Take the options of output out of all, and let them hold for the run."""
    from kdump.cli.run_context import OutputSpec
    from kdump.output.amounts import show_times_at

    show_times_at(asked.pop("utc_offset"))
    writing = OutputSpec.take(asked, forms)
    of_form = click.get_current_context().get_parameter_source("form")
    if of_form is ParameterSource.ENVIRONMENT and writing.output is not None:
        from kdump.output.forms import form_of_name

        if forms[0] == "html" or form_of_name(writing.output) is not None:
            writing = writing._replace(form=None)  # the name of the file is nearer than a default
    return writing


def _without_password(path: str, engine: Engine) -> str:
    """Return a path without the password that a URI may have, which Spark's workers lack."""
    if "://" not in path:
        return path
    from kdump.stores.passwords import has_password, without_password

    has_one, path = has_password(path), without_password(path)
    if has_one and engine.is_spark:
        raise UsageError(f"{path}: remove the password: Spark displays the paths it is given")
    return path


#: The message without paths, for commands that also read remote storage alone.
TIER_ALONE = "give a path, --server-properties FILE, or --tier URI"


def shared_options(
    forms: tuple[str, ...] = PLAIN_FORMATS,
    *,
    on_spark: bool = True,
    decompresses: bool = True,
    has_raw: bool = False,
    has_bytes: bool = False,
    is_wide: bool = True,
    metavar: str | None = None,
    missing: str | None = "give a path, or --server-properties FILE",
    last: tuple[str, Callable[[str], int]] | None = None,
) -> Decorator:
    """Add what every command has: PATHS, and the options of paths, engine and output.

    The command is given `paths`, one `engine` and one `writing` in their place, and without paths
    is not called. `last`: the name of what stands behind the paths and how it is read, which makes
    a `target`. `missing` is the message without paths; None: the command needs none. Where it
    names --tier, that is enough.
    `has_raw`: files are images, taken as they are. `has_bytes`: rows may hold keys or values.
    What is not `on_spark`, or never `decompresses`, has no such option. Tables that are sentences
    are not `is_wide`: they are broken and never cut.
    """
    options = together(
        click.argument(
            "paths", nargs=-1, metavar=metavar, type=None if last is not None else FILE_PATH
        ),
        *_PATH_OPTIONS,
        _jobs_option(on_spark=on_spark),
        *([_DECOMPRESS_OPTION] if decompresses else []),
        *(_SPARK_OPTIONS if on_spark else ()),
        output_options(forms, has_bytes=has_bytes, is_wide=is_wide),
    )

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(*, paths: tuple[str, ...], **asked: Any) -> object:
            from kdump.cli.run_context import (
                Engine,
                report_directories,
                report_unmatched,
                show_unpacked,
                tell,
                wrong_usage,
            )
            from kdump.storage.inputs import FileOverrides, open_inputs
            from kdump.storage.places import keep_listings
            from kdump.storage.targets import Selection

            asked["selection"] = Selection.take(asked)
            engine, writing = Engine.take(asked), read_output_options(asked, forms)
            with wrong_usage():
                paths = tuple(_without_password(path, engine) for path in paths)
                if writing.output is not None:
                    writing = writing._replace(output=_without_password(writing.output, engine))
            named = FileOverrides.take(asked)
            if last is not None:
                paths, asked["target"] = _split(paths, *last)
            with keep_listings():
                with wrong_usage():
                    by_tier = (
                        missing is not None and "--tier" in missing and asked["tier"] is not None
                    )
                    has_other = asked["server_properties"] is not None or by_tier
                    if not paths and not has_other and missing is not None:
                        raise UsageError(missing)
                    if not has_raw:
                        paths = open_inputs(
                            paths,
                            named,
                            on_spark=engine.is_spark,
                            tell=tell,
                            progress=show_unpacked(),
                            finished=_finished_segments,
                        )
                    if not writing.quiet:
                        report_directories(paths)
                    report_unmatched(asked.get("configs") or (), paths, asked)
                    engine.check()
                raise SystemExit(command(paths, engine=engine, writing=writing, **asked))

        return options(called)

    return decorate


def _split(
    words: tuple[str, ...], name: str, read: Callable[[str], int]
) -> tuple[tuple[str, ...], int]:
    """Split the arguments into paths and the target, which is the last word, or the first."""
    if not words:
        raise click.UsageError(f"give PATHS followed by {name}")
    for rest, word in ((words[:-1], words[-1]), (words[1:], words[0])):
        with suppress(ValueError):
            if word is words[-1] or not os.path.lexists(word):  # the path has the first say
                return rest, read(word)
    # A number in front that does not exist as a path was meant as the target.
    is_first = words[0][:1].isdigit() and not os.path.lexists(words[0]) and len(words) > 1
    word = words[0] if is_first and os.path.lexists(words[-1]) else words[-1]
    try:
        return words[:-1], read(word)
    except ValueError as error:
        begin = "" if word is words[0] else f"the last argument is {name}; "
        raise click.UsageError(f"{begin}{word!r} {error}") from None

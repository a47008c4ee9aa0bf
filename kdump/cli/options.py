"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.versions import (
    NEWEST,
    Version,
    is_newer_than_known,
    read_broker_version,
    read_version,
    text_of,
)
from kdump.cli.headings import Command as HeadedCommand
from kdump.cli.headings import under

if TYPE_CHECKING:
    from click.core import Context, Parameter

    ParamType = click.ParamType[object]
else:  # the class takes no parameters in older releases of click
    ParamType = click.ParamType

Command = Callable[..., object]

_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kib": 1 << 10, "kb": 10**3,
    "m": 1 << 20, "mib": 1 << 20, "mb": 10**6,
    "g": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
_BACK_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def read_size(text: str) -> int:
    """Read a number of bytes: 1000000, 64MiB, 1.5GiB. K, M, G and T alone are binary as well."""
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d+))?\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("is no size: give bytes, or a unit as in 64MiB")
    part = match[2] or "0"
    size: int = int(match[1]) * unit + int(part) * unit // 10 ** len(part)
    return size


def read_int_size(text: str) -> int:
    """Read a number of bytes that is an `int` in Kafka's settings."""
    size = read_size(text)
    if size >= 1 << 31:
        raise ValueError("is more than Kafka takes, 2147483647")
    return size


def read_int64(text: str) -> int:
    """Read a whole number of 64 bits, as offsets, times and producer ids are."""
    try:
        number = int(text)
    except ValueError:
        raise ValueError("is no whole number") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("does not fit in 64 bits")
    return number


def read_time(text: str) -> int:
    """Read a time as epoch milliseconds.

    Digits alone are epoch milliseconds already, and refused where they can only be meant as
    seconds; behind an @ they are seconds. Else ISO 8601, UTC unless it says otherwise, `now`, or a
    distance back as in `now-30m` or `now-1d12h`.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        time_ms = read_int64(text)
        if time_ms in _MEANT_AS_SECONDS:
            raise ValueError(
                f"lies in 1970 as milliseconds; if these are seconds, type {time_ms * 1000} or "
                f"@{time_ms}, else {_in_1970(time_ms)}"
            )
        return time_ms
    if re.fullmatch(r"@-?\d+", text):
        return read_int64(f"{text[1:]}000")
    if text == "now":
        return _read_now("0s")
    if text.startswith("now-"):
        return _read_now(text[4:])
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_NO_TIME) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


#: As milliseconds in 1970, which no log is of; as seconds from 2001 to 2100.
_MEANT_AS_SECONDS = range(978_307_200, 4_102_444_800)


def _in_1970(time_ms: int) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_NO_TIME = "is no time: give epoch milliseconds, 2026-11-19T10:00:00Z, now or now-30m"


def _read_now(back: str) -> int:
    import time

    parts = re.findall(r"(\d+)(ms|[smhdw])", back)
    if not parts or "".join(number + unit for number, unit in parts) != back:
        raise ValueError(_NO_TIME)
    now_ms = time.time_ns() // 1_000_000
    return now_ms - sum(int(number) * _BACK_MS[unit] for number, unit in parts)


def read_duration(text: str) -> float:
    """Read a length of time in seconds: 90, 30m, 1h30m, 7d."""
    parts = re.findall(r"(\d{1,12})(ms|[smhdw])", text.strip())
    if re.fullmatch(r"\d{1,12}", text.strip()):
        return float(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError("is no length of time: give seconds, or units as in 1h30m")
    return sum(int(number) * _BACK_MS[unit] for number, unit in parts) / 1000


def read_rate(text: str) -> int:
    """Read bytes a second: 50MiB, 50MiB/s."""
    rate = read_size(re.sub(r"(?i)/s\s*\Z", "", text))
    if rate == 0:
        raise ValueError("would never end: give at least one byte a second")
    return rate


def read_slice(text: str) -> tuple[int, int]:
    """Read N/T, the Nth of T slices."""
    match = re.fullmatch(r"\s*(\d{1,9})/(\d{1,9})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError("is no slice: give N/T, as in 1/7, with N from 1 to T")
    return int(match[1]), int(match[2])


def read_pattern(text: str) -> re.Pattern[bytes]:
    """Read a regular expression over bytes."""
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None


def tell_newer(ctx: Context, param: Parameter, version: Version | None) -> Version | None:
    """Say whose rules stand in for those of a version that is newer than any known here."""
    if version is not None and is_newer_than_known(version) and not ctx.resilient_parsing:
        given, known = text_of(version), text_of(NEWEST)
        click.echo(f"kdump: {given} is newer than any version known: taken as {known}", err=True)
    return version


class Read(ParamType):
    """A value read by a function that raises ValueError with the end of a sentence."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: Parameter | None, ctx: Context | None) -> object:
        """Return what the function makes of the text; a default may be a value already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


SIZE = Read("size", read_size)
INT_SIZE = Read("size", read_int_size)
INT64 = Read("integer", read_int64)
TIME = Read("time", read_time)
VERSION = Read("version", read_version)
BROKER_VERSION = Read("version", read_broker_version)
DURATION = Read("duration", read_duration)
RATE = Read("rate", read_rate)
SLICE = Read("slice", read_slice)
PATTERN = Read("regex", read_pattern)
BYTES = Read("text", os.fsencode)
#: A path that cannot be read is the engine's to tell: status 1, and the others are worked on.
FILE_PATH = click.Path(readable=False)
FORMATS = ("table", "jsonl", "csv", "kafka", "parquet", "arrow")
LOOKUP_FORMATS = ("table", "jsonl", "csv", "reset-csv")
PLAIN_FORMATS = ("table", "jsonl", "csv")

_ANSWER = under("Whose answer")
_SAID = under("What is said about it")
_PATHS = under("Paths")
_ENGINE = under("Engine")
_OUTPUT = under("Output")


def output_options(command: Command) -> Command:
    """Add what dump has: where results go, in which form, and what counts as failure."""
    return _output_options(command, FORMATS, bytes_too=True)


def lookup_output_options(command: Command) -> Command:
    """Add the same for lookups, whose rows hold no bytes and can become an offset reset."""
    return _output_options(command, LOOKUP_FORMATS, bytes_too=False)


def plain_output_options(command: Command) -> Command:
    """Add the same for commands whose rows hold no bytes of records."""
    return _output_options(command, PLAIN_FORMATS, bytes_too=False)


def told_output_options(command: Command) -> Command:
    """Add the same for commands whose tables are sentences, which are broken and never cut."""
    return _output_options(command, PLAIN_FORMATS, bytes_too=False, wide_too=False)


def usage_output_options(command: Command) -> Command:
    """Add the same for usage, whose rows may hold keys."""
    return _output_options(command, PLAIN_FORMATS, bytes_too=True)


def _output_options(
    command: Command, forms: tuple[str, ...], *, bytes_too: bool, wide_too: bool = True
) -> Command:
    from kdump.cli.status import FAIL_ON
    from kdump.output.values import BYTES_MODES

    binary = " parquet and arrow need it." if "parquet" in forms else ""
    options = (
        _OUTPUT(
            "--format",
            "form",
            type=click.Choice(forms),
            help="Form of the results. Default: table on a terminal, jsonl in a pipe.",
        ),
        _OUTPUT(
            "-o",
            "--output",
            metavar="FILE",
            type=FILE_PATH,
            help="Write the results to FILE, which appears when it is whole." + binary,
        ),
        _OUTPUT(
            "--bytes",
            "bytes_mode",
            type=click.Choice(BYTES_MODES),
            default="auto",
            show_default=True,
            help="How keys, values and header values are written; "
            "auto: text where valid UTF-8, else base64.",
        ),
        _OUTPUT("--wide", is_flag=True, help="In a table: cut nothing and leave no column out."),
        _OUTPUT(
            "--csv-safe",
            is_flag=True,
            help="In CSV: put ' before text that a spreadsheet would take for a formula.",
        ),
        _OUTPUT("-q", "--quiet", is_flag=True, help="Print findings only."),
        _OUTPUT(
            "--fail-on",
            type=click.Choice(FAIL_ON),
            default="damage",
            show_default=True,
            help="Exit with 3 when a finding is at least this severe.",
        ),
    )
    left_out = [options[2]] * (not bytes_too) + [options[3]] * (not wide_too)
    gathered = _gather_writing(command, forms)
    for option in reversed(options):
        if option not in left_out:
            gathered = option(gathered)
    return gathered


def _gather_writing(command: Command, forms: tuple[str, ...]) -> Command:
    """Hand the command one `writing` in place of the options."""

    @wraps(command)
    def gathered(
        *,
        form: str | None,
        output: str | None,
        quiet: bool,
        fail_on: str,
        wide: bool = False,
        csv_safe: bool,
        bytes_mode: str = "auto",
        **asked: Any,
    ) -> object:
        from kdump.cli.run_context import Writing

        writing = Writing(form, output, bytes_mode, quiet, fail_on, forms, wide, csv_safe)
        return command(writing=writing, **asked)

    return gathered


def lookup_options(command: Command) -> Command:
    """Add what both lookups have: whose answer is asked for, and how much is said about it."""
    for option in reversed((
        _ANSWER(
            "--isolation",
            type=click.Choice(("read_uncommitted", "read_committed")),
            default="read_uncommitted",
            show_default=True,
            help="read_committed: as if aborted data and what lies from the last stable offset on "
            "were not there.",
        ),
        _ANSWER(
            "--as-is",
            is_flag=True,
            help="Answer from the files exactly as they lie, without what a start would mend.",
        ),
        _ANSWER(
            "--broker-version",
            type=BROKER_VERSION,
            callback=tell_newer,
            metavar="X.Y[.Z]",
            help="Answer as this version does. Default: the newest.",
        ),
        _ANSWER(
            "--message-format",
            type=VERSION,
            metavar="X.Y[.Z]",
            help="The topic's configured format, which is not on disk: below 0.10 a broker refuses "
            "lookups by time.",
        ),
        _SAID(
            "--explain",
            is_flag=True,
            help="Say how the answer is found, step by step; in JSON as `steps`.",
        ),
        _SAID(
            "--check",
            is_flag=True,
            help="Scan the log as well; a finding where an index leads elsewhere.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


class LookupCommand(HeadedCommand):
    """A command that takes negative numbers as they stand: `find-time DIR -2` needs no `--`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ignore_unknown_options = True

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Let a number pass that looks like an option, and refuse every other unknown one."""
        literal = args[args.index("--") + 1 :] if "--" in args else []
        rest = super().parse_args(ctx, args)
        for word in () if ctx.resilient_parsing else ctx.params.get("paths") or ():
            if re.match(r"-[^\d]", word) and word not in literal:
                raise click.NoSuchOption(word.partition("=")[0], ctx=ctx)
        return rest


def path_options(command: Command, engines: tuple[str, ...] = ("local",)) -> Command:
    """Add what every command has: which files are worked on, and with how much of the machine."""
    command = _gather_engine(command)
    for option in reversed((
        _PATHS(
            "--topic", metavar="GLOB", help="Only topics that match, as in 'orders*'."
        ),
        _PATHS(
            "--partition",
            type=click.IntRange(min=0),
            metavar="N",
            help="Only this partition number.",
        ),
        _PATHS(
            "--retired",
            is_flag=True,
            help="Also -delete, -future, -stray directories and .deleted, .cleaned, .swap files.",
        ),
        _PATHS(
            "--server-properties",
            metavar="FILE",
            type=FILE_PATH,
            help="Take settings from a broker's own file, and data directories without PATHS.",
        ),
        _ENGINE(
            "-j",
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Workers; on Spark, tasks. reindex, and dump to a file or pipe, take one.",
        ),
        _ENGINE(
            "--decompress-limit",
            type=SIZE,
            default="64MiB",
            show_default=True,
            help="Do not open a batch with more uncompressed bytes; it is a note.",
        ),
        _ENGINE(
            "--engine",
            type=click.Choice(engines),
            default="local",
            show_default=True,
            help="What runs the work.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def _gather_engine(command: Command) -> Command:
    """Hand the command one `engine` in place of the options; not all commands have them all."""

    @wraps(command)
    def gathered(
        *,
        engine: str,
        jobs: int | None,
        master: str | None = None,
        remote: str | None = None,
        archive: str | None = None,
        **asked: Any,
    ) -> object:
        from kdump.cli.run_context import Engine

        return command(engine=Engine(engine, jobs, master, remote, archive), **asked)

    return gathered


def spark_path_options(command: Command) -> Command:
    """Add the same for commands that Spark can run, and which Spark."""
    for option in reversed((
        _ENGINE(
            "--master", metavar="URL", help="With --engine spark: the cluster, as in local[4]."
        ),
        _ENGINE(
            "--remote", metavar="URL", help="With --engine spark: a Connect server, sc://HOST."
        ),
        _ENGINE(
            "--archive",
            metavar="FILE",
            type=FILE_PATH,
            help="With --engine spark: a packed environment that has kdump, for the executors.",
        ),
    )):  # fmt: skip
        command = option(command)
    return path_options(command, ("local", "spark"))

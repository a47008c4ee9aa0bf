"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from click.core import Context, Parameter

    ParamType = click.ParamType[object]
else:  # the class takes no parameters in older releases of click
    ParamType = click.ParamType

Command = TypeVar("Command", bound=Callable[..., object])

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

    Digits alone are epoch milliseconds already. Else ISO 8601, UTC unless it says otherwise, `now`,
    or a distance back as in `now-30m` or `now-1d12h`.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        return read_int64(text)
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


_NO_TIME = "is no time: give epoch milliseconds, 2026-11-19T10:00:00Z, now or now-30m"


def _read_now(back: str) -> int:
    import time

    parts = re.findall(r"(\d+)(ms|[smhdw])", back)
    if not parts or "".join(number + unit for number, unit in parts) != back:
        raise ValueError(_NO_TIME)
    now_ms = time.time_ns() // 1_000_000
    return now_ms - sum(int(number) * _BACK_MS[unit] for number, unit in parts)


def read_pattern(text: str) -> re.Pattern[bytes]:
    """Read a regular expression over bytes."""
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None


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
INT64 = Read("integer", read_int64)
TIME = Read("time", read_time)
PATTERN = Read("regex", read_pattern)
BYTES = Read("text", os.fsencode)
FORMATS = ("table", "jsonl", "csv", "kafka", "parquet", "arrow")


def output_options(command: Command) -> Command:
    """Add what every command has: where results go, in which form, and what counts as failure."""
    from kdump.cli.status import FAIL_ON
    from kdump.output.values import BYTES_MODES

    for option in reversed((
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            help="Form of the results. Default: table on a terminal, jsonl in a pipe.",
        ),
        click.option(
            "--output",
            metavar="FILE",
            type=click.Path(),
            help="Write the results to FILE, which appears when it is whole. "
            "parquet and arrow need it.",
        ),
        click.option(
            "--bytes",
            "bytes_mode",
            type=click.Choice(BYTES_MODES),
            default="auto",
            show_default=True,
            help="How keys, values and header values are written; "
            "auto: text where valid UTF-8, else base64.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print findings only."),
        click.option(
            "--fail-on",
            type=click.Choice(FAIL_ON),
            default="damage",
            show_default=True,
            help="Exit with 3 when a finding is at least this severe.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def path_options(command: Command) -> Command:
    """Add what every command has: which files are worked on, and with how much of the machine."""
    for option in reversed((
        click.option(
            "--topic", metavar="GLOB", help="Only topics that match, as in 'orders*'."
        ),
        click.option("--partition", type=click.IntRange(min=0), help="Only this partition number."),
        click.option(
            "--retired",
            is_flag=True,
            help="Also -delete, -future, -stray directories and .deleted, .cleaned, .swap files.",
        ),
        click.option(
            "--server-properties",
            metavar="FILE",
            type=click.Path(),
            help="Take data directories and settings from a broker's own file.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Workers. dump keeps the log's order and reads with one.",
        ),
        click.option(
            "--decompress-limit",
            type=SIZE,
            default="64MiB",
            show_default=True,
            help="Do not open a batch whose plain text is larger; it is a note.",
        ),
        click.option(
            "--engine",
            type=click.Choice(("local",)),
            default="local",
            show_default=True,
            help="What runs the work.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command

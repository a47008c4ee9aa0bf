"""`kdump find-time`: the first record at or after a time, as a broker answers."""

from __future__ import annotations

import re
from typing import Any

import click

from kdump.cli.headings import under
from kdump.cli.lookups import LookupCommand, lookup_options, run
from kdump.cli.options import FROM_1, LOOKUP_FORMATS, Count, shared_options
from kdump.option_values import read_time

_REQUEST = under("Request")
_WORDS = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}


def read_target(text: str) -> int:
    """Read TIME: a time, a word for one of the protocol's special values, or such a value."""
    if text in _WORDS:
        return _WORDS[text]
    time_ms = read_time(text)
    if time_ms < 0 and not re.fullmatch(r"\s*-\d+\s*", text):
        raise ValueError("is before 1970; brokers reject such times")
    return time_ms


@click.command(
    cls=LookupCommand,
    common="--explain --check --topic --broker-version --format",
)
@_REQUEST(
    "--list-offsets-version",
    type=Count(0, 11),
    help="Version of the ListOffsets request. Version 0 uses file modification times; versions "
    "below 4 return no leader epoch. Default: the newest that the broker supports.",
)
@_REQUEST(
    "--max-offsets",
    type=FROM_1,
    default=1,
    help="With --list-offsets-version 0: number of offsets to return.",
)
@lookup_options
@shared_options(LOOKUP_FORMATS, metavar="PATHS... TIME", last=("TIME", read_target))
def find_time(paths: tuple[str, ...], **asked: Any) -> int:
    """Find the first record at or after TIME in each partition under PATHS, as a broker does.

    Answers like a ListOffsets request, one row per partition. PATHS are partition directories, data
    directories, or segment files (a segment file stands for its whole partition). TIME is epoch
    milliseconds, epoch seconds after an @, ISO 8601 (UTC by default), 14:05 (today), yesterday,
    now, a time before now (now-30m, -30m, '30 minutes ago'), earliest, latest, max-timestamp, or
    the protocol's -1 to -6. Tiered topics also have earliest-local, latest-tiered, and
    earliest-pending-upload.

    A broker searches one segment only: the first whose last time index entry is at or after TIME.
    If that segment has no record at or after TIME, the answer is "none", even if a later segment
    has one.
    --check scans the log and reports where this rule, or a wrong index, changes the answer.

    The exit status is 4 if no partition has an answer.

    \b
    Examples:
        kdump find-time --explain /var/lib/kafka/orders-7 2026-11-19T10:00:00Z
        kdump find-time /var/lib/kafka -1
        kdump find-time /var/lib/kafka now-30m --topic 'orders*' --format reset-csv
    """
    if asked["check"] and asked["list_offsets_version"] == 0:
        raise click.UsageError(
            "--check does not apply to --list-offsets-version 0, which reads no index"
        )
    return run("find-time", paths, **asked)

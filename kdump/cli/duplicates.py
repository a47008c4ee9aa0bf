"""`kdump duplicates`: records that say the same, whoever sent them."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import ISOLATION, Read, scratch_option, shared_options
from kdump.option_values import read_duration
from kdump.tuples import NamedTuple

_COMPARISON = under("Comparison")
_WORDS = ("key", "value")
_HEADER = "header:"


class ComparisonSpec(NamedTuple):
    """What of records is compared: words, and the name of a header where that is one."""

    by: tuple[str, ...]
    header: bytes | None


class Within(NamedTuple):
    """How far a copy may lie behind the one before."""

    within_ms: int | None = None
    within_records: int | None = None


def read_compared(text: str) -> ComparisonSpec:
    """Read key, value, key,value or header:NAME."""
    if text.startswith(_HEADER) and len(text) > len(_HEADER):
        return ComparisonSpec(("header",), os.fsencode(text[len(_HEADER) :]))
    given = [word.strip() for word in text.split(",")]
    if set(given) - set(_WORDS):
        raise ValueError("is not key, value, key,value, or header:NAME")
    return ComparisonSpec(tuple(word for word in _WORDS if word in given), None)


def read_within(text: str) -> Within:
    """Read a length of time, as in 10m, or a number of records, as in '1000 records'."""
    if match := re.fullmatch(r"\s*(\d{1,18})\s*records?\s*", text):
        return Within(within_records=int(match[1]))
    try:
        return Within(within_ms=round(read_duration(text) * 1000))
    except ValueError:
        raise ValueError("is neither a duration, for example 10m, nor '1000 records'") from None


@click.command(
    cls=Command,
    common="--by --within --topic --isolation --format",
)
@_COMPARISON(
    "--by",
    type=Read("what", read_compared, (*_WORDS, _HEADER)),
    default="key,value",
    help="Compare by key; by value; by both (key,value); or by one header (header:NAME).",
)
@_COMPARISON(
    "--within",
    type=Read("distance", read_within),
    help="Only duplicates this close to the previous copy: 10m in time, '1000 records' by offset.",
)
@_COMPARISON("--visible", help="Only what a consumer receives, as in dump.")
@_COMPARISON(
    "--isolation",
    type=ISOLATION,
    default="read_uncommitted",
    help="read_committed (implies --visible): no aborted data.",
)
@scratch_option(_COMPARISON)
@shared_options(has_bytes=True)
def duplicates(
    paths: tuple[str, ...],
    *,
    by: ComparisonSpec,
    within: Within | None,
    visible: bool,
    isolation: str,
    **asked: Any,
) -> int:
    """Find records with equal keys, values, or headers in all partitions of a topic under
    PATHS.

    Each copy is listed with its location, time, and producer. Records that were
    sent again by a new producer, or by a replay, have new sequence numbers, so kdump sequences does
    not find them.

    All records are read. The result is exact. Sorting needs little memory, but about as much space
    in --scratch as the compared data. Duplicates are notes, so they give exit status 3 only with
    --fail-on note.

    \b
    Examples:
        kdump duplicates --topic payments /var/lib/kafka
        kdump duplicates --by value --within 10m --topic payments /var/lib/kafka
        kdump duplicates --by header:trace-id --isolation read_committed /var/lib/kafka
    """
    from kdump.cli.results import run_plan

    asked |= by._asdict() | (within or Within())._asdict()
    asked["visible"] = visible or isolation == "read_committed"
    asked["isolation"] = isolation
    return run_plan("duplicates", paths, asked, unit="piece", decodes=True)

"""`kdump timeline`: what happened, in one order, over all brokers."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    BYTES,
    DURATION,
    FROM_0,
    PATTERN,
    TIME,
    TIMELINE_FORMATS,
    Read,
    scratch_option,
    shared_options,
)
from kdump.cli.run_context import wrong_usage
from kdump.engine.timeline.options import AUTO, NONE, WHAT
from kdump.errors import UsageError
from kdump.option_values import read_words

if TYPE_CHECKING:
    from kdump.cli.run_context import OutputSpec

_SELECTION = under("Selection")
_CLOCKS = under("Clocks")


def _read_skew(text: str) -> str | tuple[int, int]:
    """Read a word, or by how many milliseconds the clock of a broker is ahead."""
    if text in (AUTO, NONE):
        return text
    if (match := re.fullmatch(r"(\d{1,10})=(-?\d{1,15})", text)) is None:
        raise ValueError("is not auto, none, or BROKER=MS, for example 2=-40000")
    return int(match[1]), int(match[2])


@click.command(
    cls=Command,
    common="--from --to --around --topic --group --what --format",
)
@_SELECTION("--from", "from_ms", type=TIME, help="Start at this time.")
@_SELECTION("--to", "to_ms", type=TIME, help="Stop before this time.")
@_SELECTION(
    "--around", "around_ms", type=TIME, help="Only events that may have happened around this time."
)
@_SELECTION(
    "--within",
    "within",
    type=DURATION,
    help="With --around: this long before and after it. Default: 5m.",
)
@_SELECTION(
    "--group",
    metavar="GLOB",
    help="Only groups that match. (The timeline lists a commit only if it moved an offset back.)",
)
@_SELECTION(
    "--what",
    type=Read("words", partial(read_words, known=WHAT), WHAT),
    metavar="WORD[,WORD]",
    help="Only events of these kinds, for example leader,isr,stop.",
)
@_SELECTION("--key", type=BYTES, help="Add the records that have this key.")
@_SELECTION("--grep", type=PATTERN, help="Add the records whose key or value matches.")
@_SELECTION(
    "--detail", help="In a table: show every event; by default similar events share a line."
)
@_CLOCKS(
    "--skew",
    type=Read("auto|none|broker=ms", _read_skew, (AUTO, NONE)),
    multiple=True,
    help="auto estimates how much clocks differ; none trusts every clock; BROKER=MS states how "
    "many milliseconds a broker is ahead (repeatable). Default: auto.",
)
@_CLOCKS(
    "--clock",
    type=FROM_0,
    help="Show all times on the clock of this broker. Default: the first broker given.",
)
@scratch_option(_SELECTION)
@shared_options(TIMELINE_FORMATS, on_spark=False, is_wide=False)
def timeline(
    paths: tuple[str, ...],
    *,
    writing: OutputSpec,
    what: tuple[str, ...] | None,
    around_ms: int | None,
    within: float | None,
    skew: tuple[str | tuple[int, int], ...],
    detail: bool,
    **asked: Any,
) -> int:
    """Show the events of all given brokers in order of time.

    Events come from the metadata log, __consumer_offsets and __transaction_state, segments,
    checkpoints, and file times. An event that several replicas have is listed once. For topics
    other than these internal ones, only headers and indexes are read. Only small logs are searched
    for damage and open transactions: for large ones, use kdump verify and kdump transactions. --key
    and --grep read the logs and add single records.

    The clocks of brokers differ. From events that two brokers both recorded, kdump computes how far
    their clocks can be apart. Each event therefore has an earliest and a latest time on one common
    clock. The order of two events is certain only if these ranges do not overlap. In tables, ≈
    marks a line that may have happened before the line above it.

    --format timesketch writes JSON Lines for Timesketch; --format bodyfile writes a body file for
    mactime. Both use the middle of an event's time range, and omit events without a time.

    Events without any time come last. --from, --to, and --around keep every event that may have
    happened in that range. With --topic, starts and stops of brokers are still listed.

    \b
    Examples:
        kdump timeline /data/broker1 /data/broker2 /data/broker3
        kdump timeline --around 2026-11-22T03:12Z --within 2m /data/broker*
        kdump timeline --group billing /data/broker*
        kdump timeline --what leader,isr,stop --topic orders /data/broker*
        kdump timeline --what leader,stop --topic orders --key k42 /data/broker*
    """
    from kdump.cli.reports import TimelineReport
    from kdump.cli.results import run_plan

    with wrong_usage():
        if around_ms is not None and (asked["from_ms"] is not None or asked["to_ms"] is not None):
            raise UsageError("--around excludes --from and --to")
        if around_ms is None and within is not None:
            raise UsageError("--within requires --around")
        words = [one for one in skew if isinstance(one, str)]
        if len(words) > 1 or (words and len(skew) > 1):
            raise UsageError("--skew auto, none, and BROKER=MS exclude each other")
    known = dict(one for one in skew if not isinstance(one, str))
    asked |= {
        "writing": writing,
        "around_ms": around_ms,
        "what": what or (),
        "skew": known or (words[0] if words else AUTO),
    }
    if within is not None:
        asked["within_ms"] = round(within * 1000)
    return run_plan("timeline", paths, asked, report=lambda options: TimelineReport(detail=detail))

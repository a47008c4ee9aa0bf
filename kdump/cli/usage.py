"""`kdump usage`: what takes up the bytes of logs."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, Read, shared_options
from kdump.option_values import read_words

_GROUPING = under("Grouping")
_WORDS = ("topic", "partition", "hour", "day", "producer", "codec", "key")
#: Rows by default where there may be very many of them.
_TOP = 20


def read_grouping(text: str) -> tuple[str, ...]:
    """Read WORD[,WORD...], in whatever order."""
    words = read_words(text, _WORDS)
    if {"hour", "day"} <= {*words}:
        raise ValueError("contains both hour and day; use one of them")
    if "key" in words and not {*words} <= {"topic", "partition", "key"}:
        raise ValueError("combines key with words other than topic and partition")
    return words


@click.command(
    cls=Command,
    common="--by --top --topic --jobs --format",
)
@_GROUPING(
    "--by",
    type=Read("words", read_grouping, _WORDS),
    metavar="WORD[,WORD]",
    help="Group by topic, partition, hour, day, producer, codec, or key. Default: topic.",
)
@_GROUPING(
    "--top",
    type=FROM_0,
    help="Show the N largest; 0 shows all. Default: 20 with --by key or producer, else all.",
)
@_GROUPING("--deep", help="Decompress batches of magic 0 and 1 to count their messages.")
@shared_options(has_bytes=True)
def usage(
    paths: tuple[str, ...],
    *,
    by: tuple[str, ...] | None,
    top: int | None,
    **asked: Any,
) -> int:
    """Sum batches, records, and bytes by topic, partition, hour, day, producer, codec, or key,
    largest first.

    Each log is read once, and its checksums are verified; batches are decompressed only with --by
    key or --deep. size_bytes are bytes on disk, including control batches. With --by hour or day
    (UTC), a batch counts in the hour or day of its latest timestamp, and rows are sorted by time.
    With --by key, every record is read; plain_bytes are the uncompressed bytes of keys, values, and
    headers, without control records.

    Memory is bounded for any number of keys. Up to half a million result rows are exact. With more,
    the largest are still found, and each row states its possible error. Damaged batches are
    reported on standard error and not counted.

    \b
    Examples:
        kdump usage /var/lib/kafka
        kdump usage --by topic,producer --top 10 /var/lib/kafka
        kdump usage --by hour --topic orders /var/lib/kafka
        kdump usage --by key --topic orders -j 4 /var/lib/kafka
    """
    from kdump.cli.results import run_plan

    by = by or ("topic",)
    if top is None:
        top = _TOP if {"key", "producer"} & {*by} else 0
    return run_plan("usage", paths, asked | {"by": by, "top": top}, unit="piece", decodes=True)

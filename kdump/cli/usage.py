"""`kdump usage`: what takes up the bytes of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, Read, shared_options
from kdump.option_values import read_words

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_ADDED = under("What is added up")
_WORDS = ("topic", "partition", "producer", "codec", "key")
#: Rows by default where there may be very many of them.
_TOP = 20


def read_grouping(text: str) -> tuple[str, ...]:
    """Read WORD[,WORD...], in whatever order."""
    words = read_words(text, _WORDS)
    if "key" in words and {"producer", "codec"} & {*words}:
        raise ValueError("joins key with what is told by batches; key goes with topic, partition")
    return words


@click.command(cls=Command)
@_ADDED(
    "--by",
    type=Read("words", read_grouping),
    metavar="WORD[,WORD]",
    help="What to add up by: topic, partition, producer, codec, key. Default: topic.",
)
@_ADDED(
    "--top",
    type=FROM_0,
    help="Show the N largest; 0: all. Default: 20 by key or producer, else all.",
)
@_ADDED("--deep", help="Open wrappers of magic 0 and 1 to count what is inside.")
@shared_options(has_bytes=True)
def usage(
    paths: tuple[str, ...],
    *,
    by: tuple[str, ...] | None,
    top: int | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Add up what lies in the logs under PATHS, as du does for files: batches, records and bytes by
    topic, partition, producer, codec or key, the largest first.

    All but keys are read off the headers of batches: each log is read once and its checksums are
    checked, and nothing is decompressed. size_bytes are those on disk, control batches among them.
    By key every record is read; plain_bytes are those of keys, values and headers as they were
    before compression, and control records are left out.

    Memory is bounded, whatever the number of keys. Up to half a million groups are exact; beyond
    that the largest are still found, and each row says how much more it may be at most. Damage
    on the way is a finding on standard error and is not counted.

    \b
    Examples:
        kdump usage /var/lib/kafka
        kdump usage --by topic,producer --top 10 /var/lib/kafka
        kdump usage --by key --topic orders -j 4 /var/lib/kafka
    """
    from kdump.cli.results import run_plan
    from kdump.engine.registry import COMMANDS

    command, by = COMMANDS["usage"], by or ("topic",)
    if top is None:
        top = _TOP if {"key", "producer"} & {*by} else 0
    options = command.options(by=by, top=top, **asked)
    return run_plan(
        command, paths, options, engine=engine, writing=writing, unit="piece", decodes=True
    )

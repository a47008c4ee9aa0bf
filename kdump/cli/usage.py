"""`kdump usage`: what takes up the bytes of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FROM_0,
    FROM_1,
    Read,
    scratch_option,
    shared_options,
)
from kdump.errors import UsageError
from kdump.option_values import read_words

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_ADDED = under("What is added up")
_KEYS = under("Keys where they do not belong")
PARTITIONERS = (
    *("any", "default", "murmur2", "consistent-random", "crc32"),
    *("fnv1a", "fnv1a-reference", "fnv1a-unsigned", "java-hash", "java-hash-old"),
    *("byte-array-hash", "byte-array-hash-old", "kafkajs-legacy"),
)
_WORDS = ("topic", "partition", "producer", "codec", "key")
#: Rows by default where there may be very many of them.
_TOP = 20
_ALL = 1 << 62


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
@_KEYS(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    help="Instead: which keys lie on another partition than this partitioner says; any: than the "
    "one that fits best, which is named.",
)
@_KEYS(
    "--partitions",
    type=FROM_1,
    help="How many partitions topics have. Default: what the metadata log says, else directories.",
)
@scratch_option(_KEYS)
@shared_options(has_bytes=True)
def usage(
    paths: tuple[str, ...],
    *,
    by: tuple[str, ...] | None,
    top: int | None,
    partitioner: str | None,
    partitions: int | None,
    scratch: str | None,
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

    With --partitioner all records are read, and for each topic it is said how many of those with a
    key lie on another partition than the hash of the key says: since and until which offset, by
    which producers, and which keys lie on several partitions. default is murmur2, that of the Java
    client; consistent-random is that of librdkafka, fnv1a that of Sarama.

    \b
    Examples:
        kdump usage /var/lib/kafka
        kdump usage --by topic,producer --top 10 /var/lib/kafka
        kdump usage --by key --topic orders -j 4 /var/lib/kafka
        kdump usage --partitioner any --topic orders /var/lib/kafka
    """
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.usage.run import usage as count
    from kdump.engine.usage.step import UsageOptions

    if partitioner is not None:
        from kdump.engine.usage.placement import PlacementOptions
        from kdump.engine.usage.placing import placement

        with wrong_usage():
            if by is not None or asked.pop("deep"):
                raise UsageError("--by and --deep do not go with --partitioner, which reads keys")
        name = None if partitioner == "any" else partitioner.replace("default", "murmur2")
        of_keys = PlacementOptions(
            partitioner=name,
            partitions=partitions,
            scratch=scratch,
            top=_TOP if top is None else top or _ALL,
            **asked,
        )
        return run_plan(
            placement, paths, of_keys, engine=engine, writing=writing, unit="piece", decodes=True
        )
    with wrong_usage():
        if partitions is not None or scratch is not None:
            raise UsageError("--partitions and --scratch go with --partitioner")
    by = by or ("topic",)
    if top is None:
        top = _TOP if {"key", "producer"} & {*by} else 0
    options = UsageOptions(by=by, top=top, **asked)
    return run_plan(
        count, paths, options, engine=engine, writing=writing, unit="piece", decodes=True
    )

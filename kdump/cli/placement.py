"""`kdump placement`: keys that are on another partition than their hash says."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, FROM_1, scratch_option, shared_options

_KEYS = under("Keys")
PARTITIONERS = (
    *("any", "default", "murmur2", "consistent-random", "crc32"),
    *("fnv1a", "fnv1a-reference", "fnv1a-unsigned", "java-hash", "java-hash-old"),
    *("byte-array-hash", "byte-array-hash-old", "kafkajs-legacy"),
)
_ALL = 1 << 62


@click.command(
    cls=Command,
    common="--partitioner --partitions --topic --top --format",
)
@_KEYS(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    default="any",
    help="Partitioner of the producers; 'any' finds and names the one that fits best.",
)
@_KEYS(
    "--partitions",
    type=FROM_1,
    help="Number of partitions per topic. Default: from the metadata log, else the number of "
    "directories.",
)
@_KEYS(
    "--top",
    type=FROM_0,
    default=20,
    help="Show the N keys with the most misplaced records; 0 shows all.",
)
@scratch_option(_KEYS)
@shared_options(has_bytes=True)
def placement(
    paths: tuple[str, ...],
    *,
    partitioner: str,
    top: int,
    **asked: Any,
) -> int:
    """Find records that are not on the partition that their key hashes to.

    For each topic, shows the number of misplaced records, their offset range and producers,
    and keys that are on several partitions. All records are read.

    The Java client's partitioner is murmur2 (also called default), that of librdkafka is
    consistent-random, and that of Sarama is fnv1a.

    \b
    Examples:
        kdump placement --topic orders /var/lib/kafka
        kdump placement --partitioner murmur2 --partitions 12 --topic orders /var/lib/kafka
    """
    from kdump.cli.reports import PlacementReport
    from kdump.cli.results import run_plan

    name = None if partitioner == "any" else partitioner.replace("default", "murmur2")
    asked |= {"partitioner": name, "top": top or _ALL}
    return run_plan(
        "placement",
        paths,
        asked,
        unit="piece",
        decodes=True,
        report=lambda options: PlacementReport(),
    )

"""`kdump info`: what lies in a directory, which release wrote it, and what to ask next."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options

_SHOWN = under("What is shown")


@click.command(cls=Command, common="--sort --partitions --explain --topic --format")
@_SHOWN(
    "--sort",
    type=click.Choice(("size", "name", "last")),
    default="size",
    help="Order topics by size, name, or last write. Default: size.",
)
@_SHOWN("--partitions", help="List each partition as well, with its checkpointed offsets.")
@_SHOWN(
    "--explain",
    help="List the evidence for the release that wrote each directory, and its upgrades.",
)
@shared_options(on_spark=False, decompresses=False, missing=None)
def info(paths: tuple[str, ...], **asked: Any) -> int:
    """Show what is in a data directory, which Kafka release wrote it, and what to ask next.

    Reads names, sizes, checkpoints, meta.properties, and the metadata log; no other log is
    opened, so it is quick on any directory and safe next to a running broker. `kdump PATH` is
    the same. Without PATHS: the directories of a broker that runs on this host, if this user can
    read its command line.

    Sizes are those of the logs, without indexes. Times are those of files. Each hint names
    something that is not ordinary and the command to type next.

    \b
    Examples:
        kdump /var/lib/kafka
        kdump info --sort last /var/lib/kafka
        kdump info --explain /data1 /data2
        kdump info --partitions --topic 'orders*' /var/lib/kafka
    """
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage

    with wrong_usage():
        return run_plan("info", paths, asked, unit="directory")

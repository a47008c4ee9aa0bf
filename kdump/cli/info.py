"""`kdump info`: what lies in a directory, which release wrote it, and what to ask next."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options

_DISPLAY = under("Display")


@click.command(cls=Command, common="--sort --partitions --explain --topic --format")
@_DISPLAY(
    "--sort",
    type=click.Choice(("size", "name", "last")),
    default="size",
    help="Order topics by size, name, or last write. Default: size.",
)
@_DISPLAY("--partitions", help="List each partition as well, with its checkpointed offsets.")
@_DISPLAY(
    "--explain",
    help="Show how the release that wrote each directory was detected, and past upgrades.",
)
@shared_options(on_spark=False, decompresses=False, missing=None)
def info(paths: tuple[str, ...], **asked: Any) -> int:
    """Show the topics in a data directory, the Kafka release that wrote it, and its problems, with
    the command to type next for each.

    Reads names, sizes, checkpoints, meta.properties, and the metadata log; no other log is
    opened, so it is quick on any directory and safe next to a running broker. `kdump PATH` is
    the same. Without PATHS, it shows the directories of a broker that runs on this host, if you may
    read the broker's command line.

    Sizes exclude indexes. Times are file modification times.

    \b
    Examples:
        kdump /var/lib/kafka
        kdump info --sort last /var/lib/kafka
        kdump info --explain /data1 /data2
        kdump info --partitions --topic 'orders*' /var/lib/kafka
    """
    from kdump.cli.reports import InfoReport
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage

    with wrong_usage():
        return run_plan("info", paths, asked, unit="directory", report=lambda options: InfoReport())

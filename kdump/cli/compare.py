"""`kdump compare`: replicas of the same partitions on several brokers, and where they differ."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, shared_options

_REPORTED = under("What is reported")


@click.command(
    cls=Command,
    common="--topic --partition --limit --jobs --format",
)
@_REPORTED(
    "-n",
    "--limit",
    "shown",
    type=FROM_0,
    default=20,
    help="Report N differences per partition, the worst first; the others are counted.",
)
@shared_options(is_wide=False, metavar="DIR DIR...", missing="give two directories or more")
def compare(paths: tuple[str, ...], **asked: Any) -> int:
    """Compare the replicas of each partition found in two or more directories.

    The directories are data directories of different brokers, partition directories, or
    directories with segments. Headers and checksums of all batches are compared; records are
    decoded only where these differ.

    Normal differences between brokers are notes: a log that starts or ends at another offset,
    further compaction, other segments, other batches with the same records. Damage is:
    different records at one offset, records appended under different leader epochs, bytes that
    only one side can read, records missing inside a log, and logs that were once longer.

    Each partition gets a one-word verdict, the last common leader epoch and offset, what each
    replica has beyond that, and the replica to copy from.

    \b
    Examples:
        kdump compare /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump compare --topic 'orders*' -j 4 /mnt/broker1/kafka /mnt/broker2/kafka
        kdump compare broker1/orders-7 broker2/orders-7
    """
    from kdump.cli.reports import CompareReport
    from kdump.cli.results import run_plan

    return run_plan("compare", paths, asked, report=lambda options: CompareReport())

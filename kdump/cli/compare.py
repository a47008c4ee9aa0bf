"""`kdump compare`: replicas of the same partitions on several brokers, and where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, shared_options

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_REPORTED = under("What is reported")


@click.command(cls=Command)
@_REPORTED(
    "-n",
    "--limit",
    "shown",
    type=FROM_0,
    default=20,
    help="Differences reported of each partition, the worst first; the others are counted.",
)
@shared_options(is_wide=False, metavar="DIR DIR...", missing="give two directories or more")
def compare(paths: tuple[str, ...], *, engine: Engine, writing: Writing, **asked: Any) -> int:
    """Compare the replicas of every partition that lies under two or more of the directories:
    data directories of different brokers, partition directories, or directories with segments.

    Headers and checksums of all batches are read side by side; only where those differ are records
    decoded and compared. What is usual between brokers is reported as a note: a log that starts or
    ends at another offset, one that was compacted further, other segments, other batches of the
    same records. Damage are records at the same offset that are not the same or were appended
    under different leader epochs, bytes that only one side can read, records that one side lacks
    inside its log, and logs that once were longer.

    For each partition there is a verdict in one word, the last leader epoch and offset that all
    have in common, what each has beyond that, and of two sides that differ the one to copy from.

    \b
    Examples:
        kdump compare /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump compare --topic 'orders*' -j 4 /mnt/broker1/kafka /mnt/broker2/kafka
        kdump compare broker1/orders-7 broker2/orders-7
    """
    from kdump.cli.reports import CompareReport
    from kdump.cli.results import run_plan
    from kdump.engine.registry import COMMANDS

    command = COMMANDS["compare"]
    options, report = command.options(**asked), CompareReport()
    return run_plan(command, paths, options, engine=engine, writing=writing, report=report)

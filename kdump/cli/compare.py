"""`kdump compare`: replicas of the same partitions on several brokers, and where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, shared_options, version_option

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
@_REPORTED(
    "--elect",
    help="Not differences, but who should lead, what each other choice loses, and how to do it.",
)
@version_option(
    _REPORTED,
    "With --elect: the version whose start is asked how far each log goes. Default: the newest.",
    None,
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

    --elect chooses the leader of each partition, and of the metadata quorum: the replica whose log,
    as a start leaves it, has the newest last epoch and of those the highest end. It says what is
    lost with every other one, in records and of metadata in words, what a controller would do by
    itself, and the command to type. Who is in sync the metadata log says, if one of them has it.

    \b
    Examples:
        kdump compare /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump compare --topic 'orders*' -j 4 /mnt/broker1/kafka /mnt/broker2/kafka
        kdump compare broker1/orders-7 broker2/orders-7
        kdump compare --elect --topic __cluster_metadata /mnt/c1/meta /mnt/c2/meta /mnt/c3/meta
    """
    from kdump.cli.reports import CompareReport, ElectReport
    from kdump.cli.results import run_plan
    from kdump.engine.compare.elect import elect
    from kdump.engine.compare.plan import CompareOptions
    from kdump.engine.compare.run import compare as compare_items

    options = CompareOptions(**asked)
    run, report = (elect, ElectReport()) if options.elect else (compare_items, CompareReport())
    return run_plan(run, paths, options, engine=engine, writing=writing, report=report)

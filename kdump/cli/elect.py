"""`kdump elect`: who should lead each partition, and what every other choice loses."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options, version_option


@click.command(
    cls=Command,
    common="--topic --broker-version --format",
)
@version_option(
    under("Broker"),
    "Version of the broker that loads each log.",
)
@shared_options(is_wide=False, metavar="DIR DIR...", missing="give at least two directories")
def elect(paths: tuple[str, ...], **asked: Any) -> int:
    """For each partition and the metadata quorum, find the leader that loses the fewest records.

    Give two or more directories: data directories of different brokers, partition directories, or
    directories with segments. The best leader is the replica with the
    newest leader epoch at the end of its log and, among those, the highest end offset. Records
    that the broker would truncate when it starts do not count.

    Shows what every other choice would lose, what the controller does by itself, and the command to
    type; for several partitions, also the order in which to start the nodes. The in-sync
    replicas come from the metadata log, if one directory has it. Damage inside the logs is not
    checked: use kdump compare.

    \b
    Examples:
        kdump elect /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump elect --topic __cluster_metadata /mnt/c1/meta /mnt/c2/meta /mnt/c3/meta
    """
    from kdump.cli.reports import ElectReport
    from kdump.cli.results import run_plan

    return run_plan("elect", paths, asked, report=lambda options: ElectReport())

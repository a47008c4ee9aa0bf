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
    under("Which start"),
    "Version of the broker that loads each log.",
)
@shared_options(is_wide=False, metavar="DIR DIR...", missing="give two directories or more")
def elect(paths: tuple[str, ...], **asked: Any) -> int:
    """Choose the leader of each partition, and of the metadata quorum, that loses the least.

    The replicas are in two or more of the directories: data directories of different brokers,
    partition directories, or directories with segments. The best leader is the replica whose
    log, as a start leaves it, has the newest last leader epoch, and among those the highest end
    offset.

    For every other choice the loss is shown in records, and for metadata in words, with what a
    controller does by itself and the command to type; for many partitions, also the order in
    which to start the nodes. The in-sync replicas come from the metadata log, if one directory
    has it. Damage inside the logs is not checked: use kdump compare.

    \b
    Examples:
        kdump elect /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump elect --topic __cluster_metadata /mnt/c1/meta /mnt/c2/meta /mnt/c3/meta
    """
    from kdump.cli.reports import ElectReport
    from kdump.cli.results import run_plan

    return run_plan("elect", paths, asked, report=lambda options: ElectReport())

"""`kdump elect`: who should lead each partition, and what every other choice loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options, version_option

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing


@click.command(cls=Command)
@version_option(
    under("Which start"),
    "The version whose start is asked how far each log goes. Default: the newest.",
    None,
)
@shared_options(is_wide=False, metavar="DIR DIR...", missing="give two directories or more")
def elect(paths: tuple[str, ...], *, engine: Engine, writing: Writing, **asked: Any) -> int:
    """Choose the leader of each partition, and of the metadata quorum, among the replicas that lie
    under two or more of the directories: data directories of different brokers, partition
    directories, or directories with segments.

    It is the replica whose log, as a start leaves it, has the newest last epoch and of those the
    highest end. With every other one it is said what is lost, in records and of metadata in words,
    what a controller would do by itself, and the command to type; of many partitions, in which
    order the nodes are started. Who is in sync the metadata log says, if one of them has it.

    Damage inside the logs is not looked for: kdump compare does that.

    \b
    Examples:
        kdump elect /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump elect --topic __cluster_metadata /mnt/c1/meta /mnt/c2/meta /mnt/c3/meta
    """
    from kdump.cli.reports import ElectReport
    from kdump.cli.results import run_plan
    from kdump.engine.registry import COMMANDS

    command = COMMANDS["elect"]
    options, report = command.options(**asked), ElectReport()
    return run_plan(command, paths, options, engine=engine, writing=writing, report=report)

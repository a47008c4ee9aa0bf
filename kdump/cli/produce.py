"""`kdump produce`: the records of copies of partitions, sent to a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FILE_PATH, RATE, TIME, shared_options, topic_configs_option
from kdump.cli.salvage import TAKEN, run_salvage
from kdump.errors import UsageError

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_CLUSTER = under("Into which cluster")
_GROUPS = under("Offsets of groups")


@click.command(cls=Command)
@_CLUSTER(
    "--bootstrap-server",
    "produce",
    metavar="BROKERS",
    required=True,
    help="Brokers of the cluster: HOST:PORT,...",
)
@_CLUSTER(
    "--client-properties",
    metavar="FILE",
    type=FILE_PATH,
    help="Settings of TLS and SASL, as Kafka's own tools take them with --command-config.",
)
@_CLUSTER("--dry-run", help="Send nothing, and say what would be sent.")
@_CLUSTER(
    "--resume",
    metavar="STATE",
    type=FILE_PATH,
    help="The file that says how far a run has come. Default: one that the same command finds.",
)
@_CLUSTER("--rate", metavar="SIZE", type=RATE, help="Send no more than so much a second: 20MiB.")
@_GROUPS("--groups", help="Write the offsets that groups committed as those of the new records.")
@_GROUPS(
    "--apply-groups",
    help="Commit them in the cluster, too, for groups that have no members at work.",
)
@_GROUPS(
    "--groups-at",
    type=TIME,
    help="Offsets as of this time. Default: from before the deletion of a deleted topic, else now.",
)
@TAKEN
@topic_configs_option(under("What is taken"))
@shared_options(on_spark=False)
def produce(
    paths: tuple[str, ...],
    *,
    client_properties: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Send the records of the best whole copy of each partition under PATHS, as kdump salvage finds
    it, to topics of a running cluster, each record once.

    The records of committed transactions go to topics that are there already, to the same
    partitions, in order, with their times, headers and nulls; the cluster gives them new offsets.
    Nobody else may write to the topics meanwhile. After a kill, of either side, the same command
    goes on: what arrived is read back.

    The status is 3 when anything was lost.

    \b
    Examples:
        kdump produce --bootstrap-server broker1:9092 --dry-run /mnt/broker1 /mnt/broker2
        kdump produce --bootstrap-server broker1:9092 --topic 'orders*' /mnt/broker1 /mnt/broker2
        kdump produce --bootstrap-server broker1:9092 --apply-groups /mnt/broker1 /mnt/broker2
    """
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.salvage.options import read_client_properties

    with wrong_usage():
        if client_properties is not None:
            asked["client_settings"] = read_client_properties(client_properties)
        asked["groups"] |= asked["apply_groups"]
        if asked["groups_at"] is not None and not asked["groups"]:
            raise UsageError("--groups-at goes with --groups or --apply-groups")
    return run_salvage("produce", paths, asked, writing=writing)

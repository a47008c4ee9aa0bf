"""`kdump produce`: the records of copies of partitions, sent to a running cluster."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FILE_PATH, RATE, TIME, shared_options, topic_configs_option
from kdump.cli.salvage import TAKEN, run_salvage
from kdump.errors import UsageError

_TARGET_CLUSTER = under("Target cluster")
_GROUP_OFFSETS = under("Group offsets")


@click.command(
    cls=Command,
    common="--bootstrap-server --dry-run --topic --rate --apply-groups --client-properties",
)
@_TARGET_CLUSTER(
    "--bootstrap-server",
    "produce",
    metavar="BROKERS",
    required=True,
    help="Brokers of the cluster: HOST:PORT,...",
)
@_TARGET_CLUSTER(
    "--client-properties",
    metavar="FILE",
    type=FILE_PATH,
    help="TLS and SASL settings, in the format of --command-config in Kafka's own tools.",
)
@_TARGET_CLUSTER("--dry-run", help="Send nothing, and show what would be sent.")
@_TARGET_CLUSTER(
    "--resume",
    metavar="STATE",
    type=FILE_PATH,
    help="File that records the progress, so that the run can be resumed. Default: a file "
    "named after the arguments, so that the same command finds it again.",
)
@_TARGET_CLUSTER(
    "--rate",
    metavar="SIZE",
    type=RATE,
    help="Send at most this much per second, for example 20MiB.",
)
@_GROUP_OFFSETS(
    "--groups", help="Show the committed offsets of groups, translated to the new offsets."
)
@_GROUP_OFFSETS(
    "--apply-groups",
    help="Also commit the groups' offsets, translated to the new offsets; groups with active "
    "members are skipped.",
)
@_GROUP_OFFSETS(
    "--groups-at",
    type=TIME,
    help="Use the offsets committed at this time. Default: now; for a deleted topic, just before "
    "its deletion.",
)
@TAKEN
@topic_configs_option(under("Selection"))
@shared_options(on_spark=False)
def produce(paths: tuple[str, ...], *, client_properties: str | None, **asked: Any) -> int:
    """Merge all copies under PATHS, and send each record to a running cluster exactly once.

    The copies are merged as in kdump salvage. Records of aborted and open transactions are left
    out. The others go to the same partitions of existing topics, in order, with their keys and
    values (null ones too), headers, and times; the cluster assigns new offsets. No other client may
    write to the topics meanwhile. After a crash on either side, run the same command again: it
    reads back what arrived and continues.

    The exit status is 3 if anything was lost.

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
            raise UsageError("--groups-at requires --groups or --apply-groups")
    return run_salvage("produce", paths, asked)

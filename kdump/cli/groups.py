"""`kdump groups`: what the group coordinators' topics say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import LOOKUP_FORMATS, TIME, shared_options, version_option

if TYPE_CHECKING:
    from kdump.cli.run_context import OutputSpec

_SELECTION = under("Selection")


@click.command(
    cls=Command,
    common="--group --at --history --topic --format",
)
@_SELECTION(
    "--group",
    metavar="GLOB",
    help="Only groups that match, for example 'billing*'. Without wildcards, only the partition "
    "of __consumer_offsets with this group is read.",
)
@_SELECTION("--at", "at_ms", type=TIME, help="Show the state at this time.")
@_SELECTION(
    "--history",
    help="List joins, leaves, rebalances, owners of partitions, and changes of committed offsets.",
)
@_SELECTION("--backwards", help="With --history: only changes to a lower offset.")
@_SELECTION(
    "--explain",
    help="With --history: name the Kafka assignors that would produce each assignment.",
)
@_SELECTION("--from", "from_ms", type=TIME, help="With --history: start at this time.")
@_SELECTION("--to", "to_ms", type=TIME, help="With --history: stop before this time.")
@version_option(_SELECTION, "Decide by the rules of this version which offsets have expired.")
@shared_options(LOOKUP_FORMATS, on_spark=False)
def groups(
    paths: tuple[str, ...],
    *,
    writing: OutputSpec,
    **asked: Any,
) -> int:
    """Show consumer groups, their members, and their committed offsets, now or at an earlier
    time.

    Replays __consumer_offsets under PATHS, and __share_group_state if there are share groups.
    --topic and --partition select committed offsets.

    If the partition that an offset was committed for is also under PATHS, the row also has the log
    start, the log end, and the lag (high watermark minus committed offset). The high watermark
    comes from a checkpoint that brokers write every five seconds. With --at, the log start, log
    end, and high watermark are still those that are on the disk now.

    An offset committed in a transaction takes effect at the transaction marker; until then its row
    is `pending`. An offset that changed while the group had no members was committed by an admin
    client, or by a consumer that assigns its partitions itself. --explain names the Kafka
    assignors that would produce each assignment, and reports assignments that the group's own
    assignor would not produce. Compaction removes superseded records; --at and --history report
    where records are missing. The state PreparingRebalance
    exists only in the coordinator's memory, so it is never shown.

    --format reset-csv writes the file for kafka-consumer-groups --reset-offsets --from-file.

    \b
    Examples:
        kdump groups /var/lib/kafka
        kdump groups --group billing --topic orders --history /var/lib/kafka
        kdump groups --history --backwards --from now-2h /var/lib/kafka
        kdump groups --group billing --history --explain --rows rebalance /var/lib/kafka
        kdump groups --group billing --at 2026-11-19T03:11:30 --format reset-csv /var/lib/kafka
    """
    from kdump.cli.reports import GroupsReport
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage
    from kdump.errors import UsageError

    with wrong_usage():
        if asked["history"] and writing.form == "reset-csv":
            raise UsageError(
                "--history does not support reset-csv: use --at with a time before the change"
            )
        of_history = {
            "--backwards": asked["backwards"],
            "--from": asked["from_ms"] is not None,
            "--to": asked["to_ms"] is not None,
            "--explain": asked["explain"],
        }
        if asked["explain"] and asked["backwards"]:
            raise UsageError("--explain and --backwards exclude each other")
        for name, is_given in of_history.items():
            if is_given and not asked["history"]:
                raise UsageError(f"{name} requires --history")
    asked["writing"] = writing
    return run_plan("groups", paths, asked, report=lambda options: GroupsReport(options, paths))

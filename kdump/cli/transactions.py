"""`kdump transactions`: what the transaction coordinators' topic says, and what is open."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import TIME, shared_options

_SELECTION = under("Selection")


@click.command(
    cls=Command,
    common="--id --open --at --topic --format",
)
@_SELECTION(
    "--id",
    "transactional_id",
    metavar="GLOB",
    help="Only transactional ids that match, for example 'billing*'. Without wildcards, only the "
    "partition of __transaction_state with this id is read.",
)
@_SELECTION("--at", "at_ms", type=TIME, help="Show the state at this time.")
@_SELECTION("--open", "open_only", help="Only open transactions.")
@shared_options()
def transactions(paths: tuple[str, ...], **asked: Any) -> int:
    """Show transactions and their producers, and which are open or hanging, with the command that
    aborts a hanging one.

    Replays __transaction_state under PATHS, and finds the open transactions in the logs. There
    is one row per transactional id, and one per open transaction without a known transactional id.

    An open transaction is hanging if its coordinator does not know it: no marker will follow, and
    read_committed consumers wait at its first offset. Where partitions of __transaction_state are
    missing or damaged, every open transaction older than
    transaction.max.timeout.ms counts as hanging.

    Each log is read from its newest producer snapshot on; with --at, from the start. --topic
    and --partition select the partitions that transactions write to.

    \b
    Examples:
        kdump transactions /var/lib/kafka
        kdump transactions --open /data/d1 /data/d2
        kdump transactions --id billing-7 --at 2026-11-19T03:11:30 /var/lib/kafka
    """
    from kdump.cli.reports import TransactionsReport
    from kdump.cli.results import run_plan

    return run_plan("transactions", paths, asked, report=lambda options: TransactionsReport())

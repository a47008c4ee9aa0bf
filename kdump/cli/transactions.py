"""`kdump transactions`: what the transaction coordinators' topic says, and what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import TIME, shared_options

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_ASKED = under("What is asked for")


@click.command(cls=Command)
@_ASKED(
    "--id",
    "transactional_id",
    metavar="GLOB",
    help="Only transactional ids that match, as in 'billing*'; of one name, only its partition of "
    "__transaction_state is read.",
)
@_ASKED("--at", "at_ms", type=TIME, help="As of this time: what was written later is not there.")
@_ASKED("--open", "open_only", help="Only transactions that are not ended.")
@shared_options(on_spark=False)
def transactions(paths: tuple[str, ...], *, engine: Engine, writing: Writing, **asked: Any) -> int:
    """Replay __transaction_state from the directories under PATHS, and list the transactions that
    are open in the logs beside it: whose they are, how old, whether one hangs, and the command
    that ends it.

    One row for each transactional id, and one for each producer with an open transaction that no
    id has. A transaction that is open in a partition hangs when its coordinator does not know of
    it, as kafka-transactions.sh find-hanging decides it: no marker will come, and readers of
    committed data wait at its first offset. Where the coordinators' topic is not all here, age
    decides: none may be older than transaction.max.timeout.ms.

    Each log is read from its newest producer snapshot on, with --at from the front. --topic and
    --partition are those that transactions write to.

    \b
    Examples:
        kdump transactions /var/lib/kafka
        kdump transactions --open /data/d1 /data/d2
        kdump transactions --id billing-7 --at 2026-11-19T03:11:30 /var/lib/kafka
    """
    from kdump.cli.reports import TransactionsReport
    from kdump.cli.results import run_plan
    from kdump.engine.registry import COMMANDS

    command = COMMANDS["transactions"]
    options, report = command.options(**asked), TransactionsReport()
    return run_plan(command, paths, options, engine=engine, writing=writing, report=report)

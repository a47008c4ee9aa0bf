"""`kdump sequences`: gaps and repeats in what producers sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_LISTED = under("What is listed")


@click.command(cls=Command)
@_LISTED(
    "--explained", help="Rows also for what has an innocent explanation; else it is only counted."
)
@shared_options(decompresses=False)
def sequences(paths: tuple[str, ...], *, engine: Engine, writing: Writing, **asked: Any) -> int:
    """Follow the sequence numbers of idempotent and transactional producers through the partitions
    under PATHS, and say where numbers are missing and where they come a second time.

    Only headers of batches are read. A gap is one where numbers are missing and offsets are not;
    where both are, the cleaner took something (or a segment is gone: verify tells). A producer
    that was idle for producer.id.expiration.ms (a day, unless --server-properties says otherwise)
    may have been forgotten by the broker and may go on at any number. An epoch begins at 0, and so
    does a producer in a log that is whole from offset 0 on. Elsewhere what came before the first
    batch of a producer cannot be judged, nor what lies around damage.

    A retry by another producer, or a topic that was replayed, has numbers of its own: kdump
    duplicates finds those.

    Gaps and repeats are notes, as in verify: the exit status is 3 when there are any
    and --fail-on is note, or when there is damage on the way.

    \b
    Examples:
        kdump sequences /var/lib/kafka
        kdump sequences --fail-on note --topic 'payments*' -j 4 /var/lib/kafka
    """
    from kdump.cli.results import run_plan
    from kdump.engine.registry import COMMANDS

    command = COMMANDS["sequences"]
    return run_plan(command, paths, command.options(**asked), engine=engine, writing=writing)

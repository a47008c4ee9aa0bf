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
@shared_options()
def sequences(
    paths: tuple[str, ...], *, explained: bool, engine: Engine, writing: Writing, **asked: Any
) -> None:
    """Follow the sequence numbers of idempotent and transactional producers through the partitions
    under PATHS, and say where numbers are missing and where they come a second time.

    Only headers of batches are read. A gap is one where numbers are missing and offsets are not;
    where both are, the cleaner took something (or a segment is gone: verify tells). A producer
    that was idle for producer.id.expiration.ms (a day, unless --server-properties says otherwise)
    may have been forgotten by the broker and may go on at any number. What came before the first
    batch of a producer or of an epoch, and what lies around damage, cannot be judged.

    Gaps and repeats are notes, as in verify: the exit status is 3 when there are any and --fail-on
    is note, or when there is damage on the way.

    \b
    Examples:
        kdump sequences /var/lib/kafka
        kdump sequences --fail-on note --topic 'payments*' -j 4 /var/lib/kafka
        kdump sequences --explained --format csv /var/lib/kafka/orders-7
    """
    from kdump.cli.results import run_plan
    from kdump.engine.sequences.run import SequenceOptions
    from kdump.engine.sequences.run import sequences as follow

    asked.pop("decompress_limit")  # nothing is decompressed
    options = SequenceOptions(explained=explained, **asked)
    raise SystemExit(run_plan(follow, paths, options, engine=engine, writing=writing))

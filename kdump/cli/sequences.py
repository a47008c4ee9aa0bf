"""`kdump sequences`: gaps and repeats in what producers sent."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import shared_options

_DISPLAY = under("Display")


@click.command(
    cls=Command,
    common="--explained --topic --fail-on --jobs --format",
)
@_DISPLAY(
    "--explained",
    help="Also list gaps with a known, harmless cause; by default they are only counted.",
)
@shared_options(decompresses=False)
def sequences(paths: tuple[str, ...], **asked: Any) -> int:
    """Find missing and repeated sequence numbers of idempotent and transactional producers.

    Only batch headers are read. A gap is where sequence numbers are missing but offsets are not.
    If offsets are missing, too, compaction removed the records (or a segment is missing, which
    verify reports).

    A producer that was idle for producer.id.expiration.ms (one day by default) may have been
    forgotten by the broker and may continue at any number. A producer's first sequence number must
    be 0 in two cases: its producer epoch is new, or the log starts at offset 0. In other cases, and
    next to damage, the first number cannot be checked.

    In a packet capture, a repeat is a retry by the producer. Offsets there are record numbers
    within the capture, counted per partition.

    Records that were sent again by a new producer, or by a replay, have new sequence numbers: use
    kdump duplicates to find them. Gaps and repeats are notes, so they give exit status 3 only with
    --fail-on note.

    \b
    Examples:
        kdump sequences /var/lib/kafka
        kdump sequences --fail-on note --topic 'payments*' -j 4 /var/lib/kafka
    """
    from kdump.cli.results import run_plan

    return run_plan("sequences", paths, asked)

"""`kdump find-offset`: where an offset is, and what a consumer is given."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import under
from kdump.cli.lookups import LookupCommand, lookup_options, run
from kdump.cli.options import FROM_0, INT_SIZE, LOOKUP_FORMATS, shared_options
from kdump.option_values import read_int64

_FETCH = under("Fetch")


@click.command(
    cls=LookupCommand,
    common="--explain --check --isolation --broker-version --format",
)
@lookup_options
@_FETCH(
    "--max-bytes",
    type=INT_SIZE,
    help="Show what one fetch of this size returns; --output then writes exactly those bytes.",
)
@_FETCH("--max-offset", type=FROM_0, help="With --max-bytes: end the fetch before this offset.")
@shared_options(LOOKUP_FORMATS, metavar="PATHS... OFFSET", last=("OFFSET", read_int64))
def find_offset(paths: tuple[str, ...], **asked: Any) -> int:
    """In each partition under PATHS, find OFFSET as a broker does, and show the record that a
    consumer receives.

    Shows the segment, the index entry, the batch, and the first record at or after OFFSET, one
    row per partition. PATHS are partition directories, data directories,
    or segment files (a segment file stands for its whole partition).

    Reads only the checkpoints, the segment that may contain the offset, and the index and end of
    the newest segment. read_committed also reads the batch headers after the newest usable producer
    snapshot. Brokers serve batches without verifying checksums, but consumers verify them. Damage
    that stops a consumer before it reaches the record is reported as a finding (exit status 3).

    With --max-bytes, shows the bytes that one fetch returns: where they start and end, the complete
    batches, and the batch that is cut off at the end.

    In Kafka 0.7, offsets are byte positions, and the message that contains the byte is shown. The
    exit status is 4 if no partition has an answer.

    \b
    Examples:
        kdump find-offset /var/lib/kafka/orders-7 48301220
        kdump find-offset --explain --check /var/lib/kafka/orders-7 48301220
        kdump find-offset --isolation read_committed 00000000000048230114.log 48301220
        kdump find-offset --max-bytes 1MiB /var/lib/kafka/orders-7 48301220
    """
    return run("find-offset", paths, **asked)

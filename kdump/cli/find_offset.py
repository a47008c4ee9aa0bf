"""`kdump find-offset`: where an offset is, and what a consumer is given."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.lookups import LookupCommand, lookup_options, run
from kdump.cli.options import LOOKUP_FORMATS, shared_options
from kdump.option_values import read_int64


@click.command(cls=LookupCommand)
@lookup_options
@shared_options(LOOKUP_FORMATS, metavar="PATHS... OFFSET", last=("OFFSET", read_int64))
def find_offset(paths: tuple[str, ...], **asked: Any) -> int:
    """Find OFFSET in each partition under PATHS as a broker does: segment, index entry, batch, and
    the first record at or after it that a consumer is handed.

    PATHS are segment files, which stand for their partition, topic-partition directories or data
    directories; the last argument is the offset. One row for each partition. Opened are the files
    of the segment that may hold it, the newest segment's index and tail, and the checkpoints;
    read_committed also reads headers from the newest usable producer snapshot on. The answer is
    the broker's, which looks at no checksum; consumers do, and where they fail on the way to the
    record is a finding, with exit status 3.

    Of a 0.7 partition, where an offset is a byte position, the entry that holds the byte is named.

    The exit status is 4 when no partition had an answer.

    \b
    Examples:
        kdump find-offset /var/lib/kafka/orders-7 48301220
        kdump find-offset --explain --check /var/lib/kafka/orders-7 48301220
        kdump find-offset --isolation read_committed 00000000000048230114.log 48301220
    """
    return run("find-offset", paths, **asked)

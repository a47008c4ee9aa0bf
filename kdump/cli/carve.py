"""`kdump carve`: batches in raw images of disks, and a directory made of them."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FILE_PATH, shared_options
from kdump.cli.salvage import BROKER, BUILT, TAKEN, run_salvage


@click.command(
    cls=Command,
    common="--out --topic-map --propose-map --dry-run",
)
@BUILT
@TAKEN
@under("Selection")(
    "--propose-map",
    metavar="FILE",
    type=FILE_PATH,
    help="Write a draft for --topic-map, with the names found in the images.",
)
@BROKER
@shared_options(on_spark=False, has_raw=True)
def carve(paths: tuple[str, ...], *, propose_map: str | None, **asked: Any) -> int:
    """Find batches in raw disk images among PATHS, and rebuild partitions from them.

    A batch is used if its checksum matches. Batches that cannot be attributed to a partition
    are grouped as carved-1, carved-2, …; --topic-map assigns them to partitions, and
    --propose-map writes a draft of that file. Directories among PATHS are further copies, as in
    kdump salvage.

    --out builds the result in a temporary directory next to DIR, and renames that to DIR at the
    end. To send the records to a running cluster, use kdump produce afterwards. The exit status is
    3 if anything was lost.

    \b
    Examples:
        kdump carve /rescue/sdb1.img
        kdump carve --propose-map map.csv /rescue/sdb1.img /mnt/broker2
        kdump carve --topic-map map.csv --out /data/new /rescue/sdb1.img /mnt/broker2
    """
    return run_salvage("carve", paths, asked, propose_map=propose_map)

"""`kdump carve`: batches in raw images of disks, and a directory made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FILE_PATH, shared_options
from kdump.cli.salvage import BROKER, BUILT, TAKEN, run_salvage

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing


@click.command(cls=Command)
@BUILT
@TAKEN
@under("What is taken")(
    "--propose-map",
    metavar="FILE",
    type=FILE_PATH,
    help="Write FILE for --topic-map, to be edited: what names in the images say.",
)
@BROKER
@shared_options(on_spark=False, has_raw=True)
def carve(
    paths: tuple[str, ...],
    *,
    propose_map: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Look for batches at any byte of the raw images among PATHS, as of a disk, and make of them
    and of the copies in directories among PATHS the best whole copy of each partition, as kdump
    salvage does.

    Batches count by their checksum alone. What does not say of which partition it is stands apart,
    as carved-1 and so on: --topic-map gives it a name, and --propose-map writes what is known.

    --out builds beside DIR and renames, as kdump salvage does; kdump produce then sends the records
    to a running cluster. The status is 3 when anything was lost.

    \b
    Examples:
        kdump carve /rescue/sdb1.img
        kdump carve --propose-map map.csv /rescue/sdb1.img /mnt/broker2
        kdump carve --topic-map map.csv --out /data/new /rescue/sdb1.img /mnt/broker2
    """
    return run_salvage("carve", paths, asked, writing=writing, propose_map=propose_map)

"""`kdump salvage`: make of copies of partitions one that a broker serves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FILE_PATH,
    INT64,
    shared_options,
    together,
    topic_configs_option,
    version_option,
)
from kdump.errors import UsageError
from kdump.stores.uris import is_uri, is_view

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_DONE = under("What is done")
_TAKEN = under("What is taken")
_BROKER = under("For which broker")

#: What is built, by `salvage` and `carve`.
BUILT = together(
    _DONE(
        "--out",
        metavar="DIR",
        type=FILE_PATH,
        help="Build a data directory that a broker starts on. Without this nothing is written.",
    ),
    _DONE("--dry-run", help="With --out: write nothing, and say what would be built."),
)
#: What is taken from copies, by `salvage`, `carve` and `produce`.
TAKEN = together(
    _TAKEN(
        "--prefer",
        metavar="newest-epoch|longest|PATH",
        help="Which copy leads, and wins where others have other records in the same epoch.",
    ),
    _TAKEN(
        "--split-batches",
        help="Where no copy has a complete batch, re-encode the records that a torn one still has.",
    ),
    _TAKEN(
        "--mend-headers",
        help="Keep batches of which only header fields are wrong that no checksum covers: length "
        "and magic where the checksum proves them, offset and leader epoch as the batches around "
        "imply.",
    ),
    _TAKEN("--from-offset", type=INT64, help="First offset taken."),
    _TAKEN("--to-offset", type=INT64, help="Stop before this offset."),
    _TAKEN(
        "--topic-map",
        metavar="FILE",
        type=FILE_PATH,
        help="New names of topics: lines OLD,NEW. Of what was carved: carved-1,TOPIC-PARTITION.",
    ),
)
#: For whom something is built, by `salvage` and `carve`.
BROKER = together(
    _TAKEN("--topic-id", metavar="ID", help="The id of the topic. Default: that of the copies."),
    topic_configs_option(_BROKER),
    version_option(_BROKER, "What starts on the result. Default: the newest."),
)


@click.command(cls=Command)
@BUILT
@_DONE(
    "--check",
    "manifest",
    metavar="MANIFEST",
    type=FILE_PATH,
    help="Instead: check the data directory that PATHS names against the manifest of the run that "
    "built it.",
)
@TAKEN
@BROKER
@shared_options(on_spark=False)
def salvage(
    paths: tuple[str, ...],
    *,
    manifest: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Make of the copies of partitions under PATHS, damaged, deleted or diverged, the best whole
    copy of each: every offset from a sound batch, as one history.

    Copies are partition directories of any broker or backup, -delete, -stray and -future
    directories, and .deleted, .swap and .cleaned files in them, which are read without --retired.
    A batch is taken if its checksum is right and its records can be read, and is copied as it is.
    The copy that an election would choose leads: of the newest leader epoch, then the longest. What
    others hold from epochs that were cut off has diverged, and is named and left out.

    Where copies have other records at the same offset of one epoch, that is a conflict: it is
    named, and --out is refused until --prefer says which copy counts.

    --out builds beside DIR and renames, so that a run that is killed leaves nothing that looks
    whole; DIR must be empty or not there, and no broker may work where it lies (status 5). Offsets
    are kept, and gaps are kept as gaps. The manifest is written beside it. The status is 3 when
    anything was lost. kdump produce sends the records to a running cluster instead.

    \b
    Examples:
        kdump salvage /mnt/broker1 /mnt/broker2 /backup/kafka
        kdump salvage --topic orders --out /data/new /mnt/broker1 /mnt/broker2
        kdump salvage --prefer /mnt/broker1 --out /data/new /mnt/broker1 /mnt/broker2
        kdump salvage --check /data/new.manifest.json /data/new
    """
    from kdump.cli.run_context import wrong_usage

    if manifest is None:
        return run_salvage("salvage", paths, asked, writing=writing)
    from kdump.cli.reports import SalvageReport
    from kdump.cli.results import Results
    from kdump.engine.salvage.manifest import check
    from kdump.engine.salvage.options import SalvageOptions

    with wrong_usage():
        if asked["out"] or len(paths) != 1:
            raise UsageError("--check takes one data directory, and no --out")
    report = SalvageReport(SalvageOptions(), is_check=True)
    return Results(writing, inputs=paths, report=report).take(check(manifest, paths[0]))


def run_salvage(
    name: str,
    paths: tuple[str, ...],
    asked: dict[str, Any],
    *,
    writing: Writing,
    propose_map: str | None = None,
) -> int:
    """Run `salvage`, `carve` or `produce`, and return the exit status."""
    from kdump.cli.reports import SalvageReport
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.registry import COMMANDS
    from kdump.engine.salvage.options import default_state, read_topic_map
    from kdump.engine.work.pace import Progress
    from kdump.output.progress import PlannedTally
    from kdump.output.target import prepare_output
    from kdump.storage.properties import is_topic_id

    with wrong_usage():
        if (topic_id := asked.get("topic_id")) is not None and not is_topic_id(topic_id):
            raise UsageError(f"--topic-id {topic_id} is no id of a topic: 22 characters")
        for path in (*paths, asked.get("out") or ""):
            if is_uri(path) and not (path in paths and is_view(path)):
                raise UsageError(f"{path}: is in a store; copy it here, where a broker reads it")
    if (topic_map := asked.pop("topic_map")) is not None:
        asked["names"] = read_topic_map(topic_map)
    if "produce" in asked and asked["resume"] is None:
        asked["resume"] = default_state(paths, asked)
    command, progress = COMMANDS[name], Progress()
    options = command.options(**asked, command=("kdump", *sys.argv[1:]))
    report = SalvageReport(options, is_check=False, propose_map=propose_map)
    if propose_map is not None:
        with wrong_usage():
            prepare_output(propose_map, paths, "--propose-map", force=writing.force)
    results = Results(writing, inputs=paths, report=report, tally=PlannedTally(progress))
    return results.take(command.run(paths, options, progress=progress))

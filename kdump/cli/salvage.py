"""`kdump salvage`: make of copies of partitions one that a broker serves."""

from __future__ import annotations

import sys
from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FILE_PATH,
    INT64,
    TIER_ALONE,
    shared_options,
    tier_key_option,
    tier_option,
    together,
    topic_configs_option,
    version_option,
)
from kdump.errors import UsageError
from kdump.stores.uris import is_uri, is_view

_ACTION = under("Action")
_SELECTION = under("Selection")
_TARGET_BROKER = under("Target broker")

#: What is built, by `salvage` and `carve`.
BUILT = together(
    _ACTION(
        "--out",
        metavar="DIR",
        type=FILE_PATH,
        help="Build a data directory for a broker. Without this option nothing is written.",
    ),
    _ACTION("--dry-run", help="With --out: write nothing, and show what would be built."),
)
#: What is taken from copies, by `salvage`, `carve` and `produce`.
TAKEN = together(
    _SELECTION(
        "--prefer",
        metavar="newest-epoch|longest|PATH",
        help="Which copy to take where copies differ: a path, or a rule.",
    ),
    _SELECTION(
        "--split-batches",
        help="If no copy has the complete batch, recover single records from a torn one and "
        "re-encode them.",
    ),
    _SELECTION(
        "--mend-headers",
        help="Repair header fields that the checksum does not cover: length and magic, if the "
        "checksum then matches; offset and leader epoch, if neighboring batches imply them.",
    ),
    _SELECTION("--from-offset", type=INT64, help="Start at this offset."),
    _SELECTION("--to-offset", type=INT64, help="Stop before this offset."),
    _SELECTION(
        "--topic-map",
        metavar="FILE",
        type=FILE_PATH,
        help="File with lines OLD,NEW that rename topics, or assign carved batches to partitions. "
        "For example, carved-1,orders-0 puts the batches that kdump carve named carved-1 into "
        "partition orders-0.",
    ),
)
#: For whom something is built, by `salvage` and `carve`.
BROKER = together(
    _SELECTION(
        "--topic-id", metavar="ID", help="Topic id of the result. Default: that of the copies."
    ),
    topic_configs_option(_TARGET_BROKER),
    version_option(_TARGET_BROKER, "Version of the broker that will start on the result."),
)


@click.command(
    cls=Command,
    common="--out --dry-run --prefer --topic --check --split-batches --mend-headers",
)
@BUILT
@_ACTION(
    "--check",
    "manifest",
    metavar="MANIFEST",
    type=FILE_PATH,
    help="Only check a data directory, given as PATHS, against the manifest of the run that built "
    "it.",
)
@TAKEN
@tier_option(_SELECTION)
@tier_key_option(_SELECTION)
@BROKER
@shared_options(on_spark=False, missing=TIER_ALONE)
def salvage(paths: tuple[str, ...], *, manifest: str | None, **asked: Any) -> int:
    """Rebuild each partition from all its copies under PATHS: damaged, deleted, or diverged.

    Copies are partition directories of any broker or backup. Directories ending in -delete, -stray,
    or -future, and files ending in .deleted, .swap, or .cleaned, are included even without
    --retired. A batch is used if its checksum matches and its records can be read; it is copied
    unchanged. Where copies differ, kdump follows the one that would win an election (the leader
    copy). Records that were truncated from the leader copy, and survive only in others, are
    reported and left out.

    Different records with the same offset and leader epoch are a conflict. Conflicts are reported,
    and --out is refused until --prefer selects a copy.

    --out builds the result in a temporary directory next to DIR, and renames that to DIR at the
    end, so an interrupted run never looks complete. --out is refused (exit status 5) if DIR is not
    empty, or if a broker runs there. Offsets and gaps are kept. The manifest is written next to
    DIR. The exit status is 3 if anything was lost. kdump produce sends the records to a running
    cluster instead.

    \b
    Examples:
        kdump salvage /mnt/broker1 /mnt/broker2 /backup/kafka
        kdump salvage --topic orders --out /data/new /mnt/broker1 /mnt/broker2
        kdump salvage --tier s3://bucket/tier --out /data/new
        kdump salvage --check /data/new.manifest.json /data/new
        kdump salvage --prefer /mnt/broker1 --out /data/new /mnt/broker1 /mnt/broker2
    """
    from kdump.cli.run_context import wrong_usage

    if manifest is None:
        return run_salvage("salvage", paths, asked)
    from kdump.cli.results import Results
    from kdump.cli.salvage_report import SalvageReport
    from kdump.engine.salvage.manifest import check
    from kdump.engine.salvage.options import SalvageOptions

    with wrong_usage():
        if asked["out"] or len(paths) != 1:
            raise UsageError("--check needs one data directory, and does not allow --out")
    report = SalvageReport(SalvageOptions(), is_check=True)
    return Results(asked["writing"], inputs=paths, report=report).take(check(manifest, paths[0]))


def run_salvage(
    name: str, paths: tuple[str, ...], asked: dict[str, Any], *, propose_map: str | None = None
) -> int:
    """Run `salvage`, `carve` or `produce`, and return the exit status."""
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.cli.salvage_report import SalvageReport
    from kdump.engine.registry import COMMANDS
    from kdump.engine.salvage.options import default_state, read_topic_map
    from kdump.engine.work.pace import Progress
    from kdump.output.progress import PlannedTally
    from kdump.output.target import prepare_output
    from kdump.storage.properties import is_topic_id

    del asked["engine"]  # on this machine alone
    writing = asked.pop("writing")
    with wrong_usage():
        if (topic_id := asked.get("topic_id")) is not None and not is_topic_id(topic_id):
            raise UsageError(f"--topic-id {topic_id} is not a topic id: 22 characters")
        for path in (*paths, asked.get("out") or ""):
            if is_uri(path) and not (path in paths and is_view(path)):
                raise UsageError(f"{path}: is in a store; copy it to a local disk first")
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

"""`kdump salvage`: make of copies of partitions one that a broker serves, or produce it anew."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FILE_PATH,
    INT64,
    RATE,
    TIME,
    shared_options,
    topic_configs_option,
    version_option,
)
from kdump.errors import UsageError
from kdump.stores.uris import is_uri, is_view

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_DONE = under("What is done")
_TAKEN = under("What is taken")
_CLUSTER = under("Into which cluster")
_BROKER = under("For which broker")


@click.command(cls=Command)
@_DONE(
    "--out",
    metavar="DIR",
    type=FILE_PATH,
    help="Build a data directory that a broker starts on. Without this nothing is written.",
)
@_DONE(
    "--produce",
    metavar="BROKERS",
    help="Produce the records to the topics of a running cluster, each once: HOST:PORT,...",
)
@_DONE("--dry-run", help="Write nothing, which is the default: say what --out or --produce would.")
@_DONE(
    "--check",
    "manifest",
    metavar="MANIFEST",
    type=FILE_PATH,
    help="Hold the data directory that PATHS names to the manifest of the run that built it.",
)
@_TAKEN(
    "--prefer",
    metavar="newest-epoch|longest|PATH",
    help="Which copy leads, and wins where others have other records in the same epoch.",
)
@_TAKEN(
    "--carve",
    help="Files in PATHS are raw images, as of a disk: look for batches at any byte of them.",
)
@_TAKEN(
    "--split-batches",
    help="Where no copy has a complete batch, re-encode the records that a torn one still has.",
)
@_TAKEN(
    "--mend-headers",
    help="Keep batches of which only header fields are wrong that no checksum covers: length and "
    "magic where the checksum proves them, offset and leader epoch as the batches around imply.",
)
@_TAKEN("--from-offset", type=INT64, help="First offset taken.")
@_TAKEN("--to-offset", type=INT64, help="First offset not taken any more.")
@_TAKEN(
    "--topic-map",
    metavar="FILE",
    type=FILE_PATH,
    help="New names of topics: lines OLD,NEW. Of what was carved: carved-1,TOPIC-PARTITION.",
)
@_TAKEN(
    "--propose-map",
    metavar="FILE",
    type=FILE_PATH,
    help="With --carve: write FILE for --topic-map, to be edited: what names in the images say.",
)
@_TAKEN("--keep-offsets", help="Keep offsets as they are and gaps as gaps, as --out always does.")
@_TAKEN("--topic-id", metavar="ID", help="The id of the topic. Default: that of the copies.")
@_CLUSTER(
    "--resume",
    metavar="STATE",
    type=FILE_PATH,
    help="The file that says how far --produce has come. Default: one that the same command finds.",
)
@_CLUSTER("--rate", metavar="SIZE", type=RATE, help="Send no more than so much a second: 20MiB.")
@_CLUSTER(
    "--client-properties",
    metavar="FILE",
    type=FILE_PATH,
    help="Settings of TLS and SASL, as Kafka's own tools take them with --command-config.",
)
@_CLUSTER("--groups", help="Write the offsets that groups committed as those of the new records.")
@_CLUSTER(
    "--apply-groups",
    help="Commit them in the cluster, too, for groups that have no members at work.",
)
@_CLUSTER(
    "--groups-at",
    type=TIME,
    help="Offsets as of this time. Default: from before the deletion of a deleted topic, else now.",
)
@topic_configs_option(_BROKER)
@version_option(_BROKER, "What starts on the result. Default: the newest.")
@shared_options(on_spark=False)
def salvage(
    paths: tuple[str, ...],
    *,
    manifest: str | None,
    topic_map: str | None,
    propose_map: str | None,
    client_properties: str | None,
    keep_offsets: bool,
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

    With --carve files are raw images: batches are looked for at any byte, and count by their
    checksum alone. What does not say of which partition it is stands apart, as carved-1 and so on.

    --out builds beside DIR and renames, so that a run that is killed leaves nothing that looks
    whole; DIR must be empty or not there, and no broker may work where it lies (status 5). The
    manifest is written beside it. The status is 3 when anything was lost.

    --produce sends the records of committed transactions to topics that are there already, to the
    same partitions, in order, with their times, headers and nulls. Nobody else may write to them
    meanwhile. After a kill, of either side, the same command goes on: what arrived is read back.

    \b
    Examples:
        kdump salvage /mnt/broker1 /mnt/broker2 /backup/kafka
        kdump salvage --topic orders --out /data/new /mnt/broker1 /mnt/broker2
        kdump salvage --prefer /mnt/broker1 --out /data/new /mnt/broker1 /mnt/broker2
        kdump salvage --carve /rescue/sdb1.img /mnt/broker2
        kdump salvage --produce broker1:9092 --topic 'orders*' /mnt/broker1 /mnt/broker2
        kdump salvage --produce broker1:9092 --apply-groups /mnt/broker1 /mnt/broker2
        kdump salvage --check /data/new.manifest.json /data/new
    """
    from kdump.cli.reports import SalvageReport
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.salvage.manifest import check
    from kdump.engine.salvage.options import (
        SalvageOptions,
        default_state,
        read_client_properties,
        read_topic_map,
    )
    from kdump.engine.salvage.run import salvage as items
    from kdump.engine.work.pace import Progress
    from kdump.output.progress import PlannedTally
    from kdump.output.target import prepare_output
    from kdump.storage.properties import is_topic_id

    with wrong_usage():
        out, produce, topic_id = asked["out"], asked["produce"], asked["topic_id"]
        if asked["dry_run"] and out is not None:
            raise UsageError("--dry-run and --out exclude each other")
        if out is not None and produce is not None:
            raise UsageError("--out and --produce exclude each other")
        if produce is None:
            asked["client_properties"] = client_properties
            for name in (
                "resume",
                "rate",
                "client_properties",
                "groups",
                "apply_groups",
                "groups_at",
            ):
                if asked[name] not in (None, False):
                    raise UsageError(f"--{name.replace('_', '-')} goes with --produce")
            del asked["client_properties"]
        elif keep_offsets:
            raise UsageError("--keep-offsets goes with --out: a cluster gives offsets anew")
        if manifest is not None and (out or produce or len(paths) != 1):
            raise UsageError("--check takes one data directory, and no --out or --produce")
        if propose_map is not None and not asked["carve"]:
            raise UsageError("--propose-map goes with --carve")
        if topic_id is not None and not is_topic_id(topic_id):
            raise UsageError(f"--topic-id {topic_id} is no id of a topic: 22 characters")
        for path in (*paths, out or ""):
            if is_uri(path) and not (path in paths and is_view(path)):
                raise UsageError(f"{path}: is in a store; copy it here, where a broker reads it")
        if client_properties is not None:
            asked["client_settings"] = read_client_properties(client_properties)
        asked["groups"] |= asked["apply_groups"]
        if asked["groups_at"] is not None and not asked["groups"]:
            raise UsageError("--groups-at goes with --groups or --apply-groups")
    if topic_map is not None:
        asked["names"] = read_topic_map(topic_map)
    if produce is not None and asked["resume"] is None:
        asked["resume"] = default_state(paths, asked)
    options = SalvageOptions(**asked, command=("kdump", *sys.argv[1:]))
    progress = Progress()
    report = SalvageReport(options, is_check=manifest is not None, propose_map=propose_map)
    if propose_map is not None:
        with wrong_usage():
            prepare_output(propose_map, paths, "--propose-map", force=writing.force)
    results = Results(writing, inputs=paths, report=report, tally=PlannedTally(progress))
    if manifest is not None:
        return results.take(check(manifest, paths[0]))
    return results.take(items(paths, options, progress=progress))

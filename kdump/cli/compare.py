"""`kdump compare`: replicas of the same partitions on several brokers, or mirrors of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, LOOKUP_FORMATS, scratch_option, shared_options

if TYPE_CHECKING:
    from kdump.cli.run_context import OutputSpec
    from kdump.output.report import Report

_MIRRORS = under("Mirrors")
_REPORT = under("Report")


@click.command(
    cls=Command,
    common="--mirror --groups --topic --partition --limit --jobs --format",
)
@_REPORT(
    "-n",
    "--limit",
    "shown",
    type=FROM_0,
    default=20,
    help="Report N differences per partition, the worst first; the others are counted.",
)
@_MIRRORS(
    "--mirror",
    help="Compare topics of one cluster with their mirrors in another: SOURCE, then TARGET.",
)
@_MIRRORS("--groups", help="With --mirror: translate the source's committed offsets.")
@_MIRRORS("--group", metavar="GLOB", help="With --groups: only groups that match.")
@_MIRRORS(
    "--alias",
    metavar="NAME",
    help="With --mirror: the alias of the source cluster, the prefix of mirrored topics.",
)
@_MIRRORS("--ignore-times", help="With --mirror: ignore differences in record times.")
@scratch_option(_MIRRORS)
@shared_options(
    LOOKUP_FORMATS,
    is_wide=False,
    metavar="DIR DIR...",
    missing="give at least two directories",
)
def compare(paths: tuple[str, ...], *, writing: OutputSpec, **asked: Any) -> int:
    """Compare the replicas of each partition found in two or more directories.

    The directories are data directories of different brokers, partition directories, or
    directories with segments. Headers and checksums of all batches are compared; records are
    decoded only where these differ.

    Normal differences between brokers are notes: logs that start or end at different offsets, more
    compaction on one side, different segments, the same records in different batches. The following
    are damage: different records at one offset, the same offset under different leader epochs,
    bytes that can be read on one side only, records missing inside a log, and logs that end below
    an offset that they once reached.

    For each partition, shows a one-word verdict, the last common leader epoch and offset, what each
    replica has beyond that, and the replica to copy from.

    With --mirror, the directories belong to two clusters, where the same records have different
    offsets. The output lists the mirrored ranges and their offset shift, and records that are
    missing on one side, out of order, or duplicated. Records are matched by key, value, headers,
    and time. --groups translates committed offsets with MirrorMaker's checkpoints and offset syncs,
    or, without these, by comparing records. --format reset-csv writes the translated offsets
    for kafka-consumer-groups --reset-offsets --from-file.

    \b
    Examples:
        kdump compare /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka
        kdump compare --topic 'orders*' -j 4 /mnt/broker1/kafka /mnt/broker2/kafka
        kdump compare broker1/orders-7 broker2/orders-7
        kdump compare --mirror --groups --format reset-csv /mnt/east/kafka /mnt/west/kafka
    """
    from kdump.cli.reports import CompareReport, MirrorReport
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage
    from kdump.errors import UsageError

    with wrong_usage():
        of_mirrors = ("groups", "group", "alias", "ignore_times", "scratch")
        for name in of_mirrors:
            if asked[name] and not asked["mirror"]:
                raise UsageError(f"--{name.replace('_', '-')} requires --mirror")
        count = 1 if asked["alias"] and len(paths) == 1 else 2
        if asked["mirror"] and (len(paths) != count or asked["server_properties"]):
            raise UsageError("--mirror takes two directories: the source, then the target")
        if asked["group"] and not asked["groups"]:
            raise UsageError("--group requires --groups")
        if writing.form == "reset-csv" and not asked["groups"]:
            raise UsageError("--format reset-csv requires --mirror --groups")
    asked["writing"] = writing

    def report(options: Any) -> Report:
        return MirrorReport(options) if options.mirror else CompareReport()

    return run_plan("compare", paths, asked, report=report)

"""`kdump cluster`: what the metadata of a cluster says, at any offset or time."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FROM_0, Read, shared_options
from kdump.cli.run_context import wrong_usage
from kdump.errors import UsageError
from kdump.option_values import MEANT_AS_SECONDS, read_int64, read_time, read_words

_SELECTION = under("Selection")
_WORDS = (
    "features,brokers,controllers,topics,partitions,configs,quotas,users,acls,producer-ids"
).split(",")
#: Digits alone are offsets below this; from it on they are a time, as everywhere.
_FIRST_TIME = MEANT_AS_SECONDS.start

Asked = tuple[int | None, int | None]


def read_moment(text: str) -> Asked:
    """Read an offset of the metadata log, or a time: (offset, epoch milliseconds)."""
    text = text.strip()
    if re.fullmatch(r"\d+", text) and (offset := read_int64(text)) < _FIRST_TIME:
        return offset, None
    return None, read_time(text)


_MOMENT = Read("offset|time", read_moment)


@click.command(
    cls=Command,
    common="--what --at --diff --history --topic --format",
)
@_SELECTION(
    "--at",
    type=_MOMENT,
    help="Show the state at this offset of the metadata log (inclusive), or at this time.",
)
@_SELECTION(
    "--what",
    type=Read("words", partial(read_words, known=_WORDS), _WORDS),
    metavar="WORD[,WORD]",
    help=f"Only these parts: {', '.join(_WORDS)}.",
)
@_SELECTION(
    "--broker",
    type=FROM_0,
    help="Only this broker, its settings, and the partitions with a replica on it.",
)
@_SELECTION(
    "--diff",
    nargs=2,
    type=_MOMENT,
    metavar="FROM TO",
    help="Show what changed between two offsets or times.",
)
@_SELECTION("--history", help="List every change up to --at, in log order.")
@_SELECTION(
    "--view",
    type=click.Choice(("zookeeper",)),
    help="Show the metadata as the tree of znodes that it would be in ZooKeeper.",
)
@_SELECTION("--show-secrets", help="Show sensitive settings, and the salts and keys of users.")
@shared_options()
def cluster(
    paths: tuple[str, ...],
    *,
    at: Asked | None,
    diff: tuple[Asked, Asked] | None,
    what: tuple[str, ...] | None,
    **asked: Any,
) -> int:
    """Show the metadata of a KRaft cluster, at the end of the metadata log or at any offset or
    time.

    Replays the metadata log and its snapshots as a controller does: topics with ids, leaders,
    replicas, and configs; brokers, controllers, features, quotas, users, and ACLs. Deleted
    topics are included, with the time and the record of the deletion.

    PATHS are data directories of controllers or brokers (both store the log), or the directory
    __cluster_metadata-0. In --at and --diff, a number below 978307200 is an offset, and any other
    is a time in epoch milliseconds. --topic and --partition select topics. An unreadable part of
    the log is reported as a finding; the next snapshot makes the state complete again. A cluster
    with ZooKeeper has little metadata on disk, and only that is shown.

    Sensitive settings, and the salts and keys of users, are masked unless --show-secrets is given.

    \b
    Examples:
        kdump cluster --what topics,configs /var/lib/kafka
        kdump cluster --topic orders --history /var/lib/kafka
        kdump cluster --diff 2026-11-22T03:00Z 2026-11-22T03:20Z /var/lib/kafka
        kdump cluster --at 48210 --view zookeeper /var/lib/kafka/__cluster_metadata-0
    """
    from kdump.cli.results import run_plan
    from kdump.engine.cluster.options import to_until

    with wrong_usage():
        ways = [diff is not None, asked["history"], asked["view"] is not None]
        if sum(ways) > 1:
            raise UsageError("--diff, --history and --view exclude each other")
        if diff is not None and at is not None:
            raise UsageError("--diff and --at exclude each other: --diff FROM TO names both times")
    start, end = diff or (None, at)
    asked |= {"at": to_until(end), "diff_from": start and to_until(start), "what": what or ()}
    return run_plan("cluster", paths, asked)

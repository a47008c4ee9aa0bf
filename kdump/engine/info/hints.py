"""Name what is not ordinary, each with the command to type next."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kdump.broker import versions as v
from kdump.broker.dating import ReleaseBounds
from kdump.broker.node_directories import foreign_folders
from kdump.broker.versions import has
from kdump.engine.info.listing import Listing
from kdump.engine.info.path_hints import ELSEWHERE, TIER_OF, Advice
from kdump.findings.moments import beyond_text, time_text
from kdump.findings.shell import LOG_DIR, format_command
from kdump.replay.directory_releases import ReleaseCache
from kdump.rows.info import Directory, Hint
from kdump.storage import names, places
from kdump.storage.data_directories import MARKS
from kdump.storage.names import Retirement
from kdump.tuples import NamedTuple

_FULL = 0.95  # of a file system
_KILLED = (
    "The broker is not running and did not stop cleanly: a broker start recovers its logs, and "
    "truncates a torn tail."
)
_NO_LOG = "indexes without their logs"
_SHORT = "the log ends before its high watermark, so records are missing"
_AHEAD_MS = 24 * 3600 * 1000  # a time so far ahead of the clock is not a skewed clock
_RETIRED = {
    Retirement.DELETE: "removed by a running broker within a minute, or by a broker start",
    Retirement.STRAY: "renamed by a broker start, as the cluster has no such replicas here",
    Retirement.FUTURE: "being moved here from another data directory",
}


class DirectoryState(NamedTuple):
    """A data directory, and what was found out about it; `used` is a share of its file system."""

    row: Directory
    listing: Listing
    dating: ReleaseBounds
    used: float | None


def rows_of(every: Iterable[Advice]) -> Iterator[Hint]:
    """Make rows: what holds for several directories is one, whose command names all of them."""
    joined: dict[tuple[str, str], list[str]] = {}
    for one in every:
        joined.setdefault((one.text, one.command), []).append(one.path)
    for (text, command), paths in joined.items():
        named = [LOG_DIR] if command == ELSEWHERE else [*map(places.given, paths)]
        line = format_command(("kdump", *command.split(), *named))
        yield Hint(path=paths[0], text=text, command=line)


def directory_hints(one: DirectoryState, now_ms: int) -> Iterator[Advice]:
    """Yield the hints about one data directory, the most urgent one first."""
    path, row = one.row.path, one.row
    odd = one.listing.odd
    folder = places.container(path)
    if folder != path and os.path.isdir(folder):
        text = "This is remote storage of tiered topics, without the disk of a broker."
        yield Advice(folder, text, TIER_OF)
        return
    if one.used is not None and one.used >= _FULL:
        yield Advice(path, f"The file system is {one.used:.0%} full.", "why")
    meta = places.lexists(os.path.join(path, names.META_PROPERTIES))
    is_copy = has(one.dating.first, v.COUNTED_OFFSETS) and not any(
        places.lexists(os.path.join(path, mark)) for mark in MARKS
    )
    if is_copy:
        text = (
            "Partitions without the broker's other files, such as checkpoints: this is a copy, or "
            "files are missing."
        )
        yield Advice(path, text, "verify")
    elif not meta and has(one.dating.first, v.META_PROPERTIES):
        yield Advice(path, "meta.properties is missing: brokers need it to start.", "predict")
    elif meta and row.broker_id is None:
        yield Advice(path, "meta.properties cannot be read, or does not name a broker.", "predict")
    stopped = places.lexists(os.path.join(path, names.CLEAN_SHUTDOWN))
    if row.locked:
        yield Advice(
            path, "A broker is running on it: its files change while they are read.", "why"
        )
    elif row.partitions and {*one.listing.topics} <= {names.CLUSTER_METADATA_TOPIC}:
        yield Advice(
            path, "It has the metadata log but no topics: the directory of a controller.", "cluster"
        )
    elif row.partitions and not is_copy and has(one.dating.first, v.RECOVERY_POINTS):
        if not stopped:
            yield Advice(path, _KILLED, "predict")
        elif (left := one.listing.open_transaction) is not None:
            since = time_text(left.since_ms)
            text = (
                f"{left.partition} has an open transaction at offset {left.offset:,} since {since}."
            )
            yield Advice(path, text, "transactions")
    elif meta and not row.partitions:
        yield Advice(path, "It was formatted, but has no partitions yet.", "predict")
    yield from _folders_between(one)
    newest, index = one.listing.newest_ms
    if newest > now_ms + _AHEAD_MS:
        when = time_text(newest) or beyond_text(newest)
        partition = os.path.basename(os.path.dirname(index))
        text = f"{partition} has a timestamp in the future ({when}), which can keep segments."
        yield Advice(path, text, "why")
    for retirement, meaning in _RETIRED.items():
        if count := odd[retirement.value]:
            command = "salvage" if retirement is Retirement.DELETE else "verify"
            named = f"{count:,} -{retirement.value} {_noun(count, 'directory', 'directories')}"
            yield Advice(path, f"{named}: {meaning}.", command)
    for suffix in (names.SWAP, names.CLEANED, names.DELETED):
        if odd[suffix]:
            text = f"{odd[suffix]:,} {suffix} {_noun(odd[suffix], 'file', 'files')} left over."
            yield Advice(path, text, "verify")
    for what, meaning in (("no-log", _NO_LOG), ("short", _SHORT)):
        if odd[what] and not row.locked:
            named = _and_more(one.listing.examples[what], odd[what])
            yield Advice(path, f"{named}: {meaning}.", "verify")
    if count := one.listing.unread:
        named = f"{count:,} {_noun(count, 'partition', 'partitions')}"
        yield Advice(path, f"{named} cannot be listed: use the broker's user.", "verify")


def _folders_between(one: DirectoryState) -> Iterator[Advice]:
    """Yield the folders for which a start fails, as they are not those of partitions."""
    if places.is_uri(one.row.path) or not has(one.dating.first, v.RECOVERY_POINTS):
        return
    found = [os.path.basename(path) for path in foreign_folders(one.row.path, one.dating.last)]
    if found:
        named = _and_more(found[0], len(found))
        text = f"{named} among the partitions: a broker start fails on such a directory."
        yield Advice(one.row.path, text, "predict")


def _and_more(first: str, count: int) -> str:
    return first if count == 1 else f"{first} and {count - 1:,} more"


def _noun(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def set_hints(read: Sequence[DirectoryState], dates: ReleaseCache) -> Iterator[Advice]:
    """Yield the hints about the directories together: whose they are, and who is missing."""
    clusters = {one.row.cluster_id for one in read if one.row.cluster_id is not None}
    if len(clusters) > 1:
        text = f"The directories belong to {len(clusters)} clusters: {', '.join(sorted(clusters))}."
        yield from (Advice(one.row.path, text, "cluster") for one in read)
    same = Counter(one.row.directory_id for one in read if one.row.directory_id is not None)
    for directory_id, count in same.items():
        if count > 1:
            text = f"{count} directories have the directory.id {directory_id}: copies of one."
            for one in read:
                if one.row.directory_id == directory_id:
                    yield Advice(one.row.path, text, "compare")
    here = {one.row.broker_id for one in read}
    if None in here:
        return  # it may be any of them
    for log, state in dates.clusters.values():
        missing = sorted(number for number in state.brokers if number not in here)
        if missing:
            listing = ", ".join(map(str, missing))
            text = f"Other brokers of the cluster, whose directories are not here: {listing}."
            yield Advice(log, text, "cluster")

"""Name what is not ordinary, each with the command to type next."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kdump.broker import versions as v
from kdump.broker.dating import Dating
from kdump.broker.versions import has
from kdump.engine.info.listing import Listing
from kdump.errors import StoreError
from kdump.findings.moments import time_text
from kdump.findings.shell import LOG_DIR, format_command
from kdump.replay.written_by import DatedDirectories
from kdump.rows.info import Directory, Hint
from kdump.storage import names, places
from kdump.storage.about import meta_of
from kdump.storage.names import Kind, Retirement

_REDPANDA = re.compile(r"[0-9]+_[0-9]+")
_LOOKED_AT = 100
_ELSEWHERE = "info"  # of the directory that is meant
_FULL = 0.95  # of a file system
_AHEAD_MS = 24 * 3600 * 1000  # a time so far ahead of the clock is not a skewed clock
_RETIRED = {
    Retirement.DELETE: "being deleted; a running broker removes them within a minute",
    Retirement.STRAY: "set aside by a start: the cluster has no such replicas here",
    Retirement.FUTURE: "being moved here from another data directory",
}


class Read(NamedTuple):
    """A data directory, and what was found out about it; `used` is a share of its file system."""

    row: Directory
    listing: Listing
    dating: Dating
    used: float | None


class Advice(NamedTuple):
    """What is not ordinary about a path, and the command that says more of it."""

    path: str
    text: str
    command: str


def rows_of(every: Iterable[Advice]) -> Iterator[Hint]:
    """Make rows: what holds for several directories is one, whose command names all of them."""
    joined: dict[tuple[str, str], list[str]] = {}
    for one in every:
        joined.setdefault((one.text, one.command), []).append(one.path)
    for (text, command), paths in joined.items():
        named = [LOG_DIR] if command == _ELSEWHERE else [*map(places.given, paths)]
        line = format_command(("kdump", command, *named))
        yield Hint(path=paths[0], text=text, command=line)


def path_hint(path: str) -> Advice | None:
    """Name the command for a path that is no data directory; None where there is none to name."""
    if places.isdir(path):
        name = names.parse_directory(os.path.basename(places.absolute(path)))
        if name is None or meta_of(path):
            return _of_others(path)
        return Advice(path, f"This is one partition, {name.topic}-{name.partition}.", "verify")
    if not places.lexists(path):
        return None
    kind = names.parse(places.file_name(path)).kind
    if kind is Kind.UNKNOWN:
        return None
    command = "verify" if kind in names.SEGMENT_KINDS else "dump"
    return Advice(path, f"This is one file, of the kind {kind.value}.", command)


def _of_others(path: str) -> Advice | None:
    """Recognize the directories of a ZooKeeper server and of Redpanda, which are not a broker's."""
    try:
        found = places.listdir(path)
        below = places.listdir(os.path.join(path, "version-2")) if "version-2" in found else []
        if any(name.startswith(("log.", "snapshot.")) for name in below):
            text = "A ZooKeeper server wrote this, not a broker; name the broker's log.dirs."
            return Advice(path, text, _ELSEWHERE)
        inside = "data/kafka" if "data" in found else "kafka"
        for topic in places.listdir(os.path.join(path, inside))[:_LOOKED_AT]:
            for name in places.listdir(os.path.join(path, inside, topic))[:_LOOKED_AT]:
                if _REDPANDA.fullmatch(name):
                    text = "Redpanda wrote this; its segments are not those of Kafka."
                    return Advice(path, text, _ELSEWHERE)
    except (OSError, StoreError):
        pass
    return None


def directory_hints(one: Read, now_ms: int) -> Iterator[Advice]:
    """Yield the hints about one data directory, the most urgent one first."""
    path, row = one.row.path, one.row
    odd = one.listing.odd
    if one.used is not None and one.used >= _FULL:
        yield Advice(path, f"The file system is {one.used:.0%} full.", "why")
    meta = places.lexists(os.path.join(path, names.META_PROPERTIES))
    if not meta and has(one.dating.first, v.META_PROPERTIES):
        yield Advice(path, "meta.properties is missing: brokers need it to start.", "predict")
    elif meta and row.broker_id is None:
        yield Advice(path, "meta.properties names no broker.", "predict")
    stopped = places.lexists(os.path.join(path, names.CLEAN_SHUTDOWN))
    if row.locked:
        yield Advice(
            path, "A broker is running on it: its files change while they are read.", "why"
        )
    elif row.partitions and not stopped and has(one.dating.first, v.RECOVERY_POINTS):
        text = "The broker is not running and did not stop cleanly: a start recovers its logs."
        yield Advice(path, text, "predict")
    newest, index = one.listing.newest_ms
    if newest > now_ms + _AHEAD_MS:
        when = time_text(newest)
        partition = os.path.basename(os.path.dirname(index))
        text = f"{partition} has a timestamp in the future, {when}: it can pin segments."
        yield Advice(path, text, "why")
    for retirement, meaning in _RETIRED.items():
        if count := odd[retirement.value]:
            command = "salvage" if retirement is Retirement.DELETE else "verify"
            text = f"{count:,} -{retirement.value} directories: {meaning}."
            yield Advice(path, text, command)
    for suffix in (names.SWAP, names.CLEANED, names.DELETED):
        if odd[suffix]:
            yield Advice(path, f"{odd[suffix]:,} {suffix} files left over.", "verify")
    if one.listing.unread:
        text = f"{one.listing.unread:,} partitions cannot be listed: run kdump as the broker's user"
        yield Advice(path, text, "verify")


def set_hints(read: Sequence[Read], dates: DatedDirectories) -> Iterator[Advice]:
    """Yield the hints about the directories together: whose they are, and who is missing."""
    clusters = {one.row.cluster_id for one in read if one.row.cluster_id is not None}
    if len(clusters) > 1:
        text = f"The directories belong to {len(clusters)} clusters: {', '.join(sorted(clusters))}."
        yield from (Advice(one.row.path, text, "cluster") for one in read)
    here = {one.row.broker_id for one in read}
    if None in here:
        return  # it may be any of them
    for log, state in dates.clusters.values():
        missing = sorted(number for number in state.brokers if number not in here)
        if missing:
            listing = ", ".join(map(str, missing))
            text = f"Brokers of the cluster whose directories are not here: {listing}."
            yield Advice(log, text, "cluster")

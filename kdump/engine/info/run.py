"""Run `info`: list the data directories, date them, and name what is not ordinary.

Everything comes from names, sizes, checkpoints, `meta.properties`, and the metadata log. Of a log
of another topic not a byte is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from kdump.broker.dating import ReleaseBounds
from kdump.broker.versions import text_of
from kdump.engine.info.hints import DirectoryState, directory_hints, rows_of, set_hints
from kdump.engine.info.listing import Item, Listing, PartitionFiles, TopicFiles, list_directory
from kdump.engine.info.path_hints import path_hint, unreadable
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, NothingToDo, UsageError, attempt
from kdump.findings.rows import Row
from kdump.replay.cluster_facts import Topic
from kdump.replay.cluster_state import ClusterState
from kdump.replay.directory_releases import ReleaseCache
from kdump.rows.info import DatingEvidence, Directory, PartitionSummary, TopicSummary
from kdump.storage import names, places
from kdump.storage.checkpoints import java_int
from kdump.storage.data_directories import is_data_directory, spread_all
from kdump.storage.directory_facts import facts_of, meta_of
from kdump.storage.log_dir import LogDir
from kdump.storage.mounts import file_system_of
from kdump.storage.running_broker import settings_of_running_broker
from kdump.storage.targets import EVERYTHING, Selection, data_directories
from kdump.tuples import NamedTuple

_ORDERS = {
    "size": lambda row: (-row.size_bytes, row.topic),
    "name": lambda row: (row.topic,),
    "last": lambda row: (-(row.last_ms or 0), row.topic),
}
#: The words of --sort.
SORTS = tuple(_ORDERS)
_LOOKED_FOR = "meta.properties, checkpoints, and directories such as orders-0"


class InfoOptions(NamedTuple):
    """What is asked for: topics in the order of `sort`, with `explain` the evidence of dating.

    `partitions`: each of them, too, in that order.
    """

    selection: Selection = EVERYTHING
    server_properties: str | None = None
    sort: str = "size"
    explain: bool = False
    partitions: bool = False
    now_ms: int = 0


def info(
    paths: Iterable[str],
    options: InfoOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | KdumpError]:
    """Yield a row for each data directory and each topic, then hints."""
    progress = progress or Progress()
    given = list(paths)
    if not given:
        settings = options.server_properties or settings_of_running_broker()
        if settings is None:
            raise UsageError(
                "found no running broker with settings that this user can read: give a path, or "
                "--server-properties FILE"
            )
        given = data_directories(settings)
    named, errors = spread_all(given)
    hints = {path: hint for path in named if (hint := path_hint(path)) is not None}
    items: list[Item] = []
    here = [path for path in named if path not in hints]
    errors += take_up(_plan(here, options), items, progress)
    listings: list[Listing] = []
    for _, result in driver(items, list_directory, progress):
        if isinstance(result, KdumpError):
            errors.append(result)
        else:
            listings.append(result)
            errors += result.errors
    yield from errors
    if not listings and not hints and not errors:
        where = ", ".join(given) or "the paths"
        yield NothingToDo(f"no Kafka files under {where}: looked for {_LOOKED_FOR}")
    failed: list[KdumpError] = []
    every = [one.path for one in listings]
    undated = ReleaseCache([])
    dates = attempt("the dating", partial(ReleaseCache, every), undated, failed)
    yield from failed
    read = [_read(one, dates.of(one.path)) for one in listings]
    for one in read:
        yield one.row
        if options.explain:
            yield from _evidence(one.row.path, one.dating, dates)
    yield from _topics(listings, dates, options)
    yield from _partitions(listings, options)
    found = (directory_hints(one, options.now_ms) for one in read)
    yield from rows_of(chain(*found, set_hints(read, dates), hints.values()))


def _plan(paths: Iterable[str], options: InfoOptions) -> Iterator[Item | KdumpError]:
    seen: set[str] = set()
    for path in paths:
        if (real := places.real(path)) in seen:
            continue
        seen.add(real)
        try:
            if (error := unreadable(path)) is not None:
                yield error
            elif is_data_directory(LogDir.open(path)):
                yield Item(path, keeps_partitions=options.partitions)
        except KdumpError as error:
            yield error


def _read(listing: Listing, dating: ReleaseBounds) -> DirectoryState:
    path = listing.path
    facts, meta = facts_of(path), meta_of(path)
    live = {topic: one for topic, one in listing.topics.items() if one.live}
    room = _room(path)
    row = Directory(
        path=path,
        broker_id=java_int(facts.node_id or ""),
        cluster_id=facts.cluster_id,
        directory_id=meta.get("directory.id"),
        written_by=dating.text,
        locked=facts.locked,
        file_system=file_system_of(path),
        size_bytes=sum(one.size_bytes for one in listing.topics.values()),
        free_bytes=None if room is None else room.f_bavail * room.f_frsize,
        partitions=sum(one.live for one in live.values()),
        topics=len(live),
    )
    used = None
    if room is not None and room.f_blocks:
        used = 1 - room.f_bavail / (room.f_blocks - room.f_bfree + room.f_bavail or 1)
    return DirectoryState(row, listing, dating, used)


def _room(path: str) -> os.statvfs_result | None:
    if places.is_uri(path):
        return None
    try:
        return os.statvfs(path)
    except OSError:
        return None


def _evidence(path: str, dating: ReleaseBounds, dates: ReleaseCache) -> Iterator[Row]:
    """Yield what bounds the release, and the registrations with which it changed instead of the
    last one alone.
    """
    history = list(dates.history(path))
    whats = {one.what for one in history}
    for one in (*history, *(one for one in dating.evidence if one.what not in whats)):
        yield DatingEvidence(
            path=path,
            bound=one.bound,
            release=text_of(one.release),
            text=one.what,
            file=one.path,
            at_ms=one.at_ms,
        )


def _topics(listings: list[Listing], dates: ReleaseCache, options: InfoOptions) -> Iterator[Row]:
    sums: dict[str, TopicFiles] = {}
    for listing in listings:
        for topic, one in listing.topics.items():
            sums[topic] = sums[topic].plus(one) if topic in sums else one
    states = [state for _, state in dates.clusters.values()]
    state = states[0] if len(states) == 1 else ClusterState()
    known = {one.topic: one for one in state.topics.values()}
    rows = [
        _topic(topic, one, known.get(topic), state)
        for topic, one in sums.items()
        if options.selection.admits(topic, options.selection.partition)
    ]
    yield from sorted(rows, key=_ORDERS[options.sort])


def _partitions(listings: list[Listing], options: InfoOptions) -> Iterator[Row]:
    rows = [
        _partition(one, LogDir.open(listing.path))
        for listing in listings
        for one in listing.partitions
        if options.selection.admits(one.name.topic, one.name.partition)
    ]
    order: Callable[[Row], tuple[object, ...]] = _ORDERS[options.sort]
    yield from sorted(rows, key=lambda row: (*order(row), row.partition, row.path))


def _partition(one: PartitionFiles, directory: LogDir) -> PartitionSummary:
    topic, partition, retirement = one.name.topic, one.name.partition, one.name.retirement

    def at(checkpoint: str) -> int | None:  # which speaks of what is loaded under its own name
        return None if retirement else directory.offset(checkpoint, topic, partition)

    return PartitionSummary(
        topic=topic,
        partition=partition,
        path=one.path,
        retired=None if retirement is None else retirement.value,
        size_bytes=one.files.size_bytes,
        segments=one.files.segments,
        first_segment=one.first_base,
        last_segment=one.last_base,
        log_start_offset=at(names.LOG_START_CHECKPOINT),
        recovery_point=at(names.RECOVERY_POINT_CHECKPOINT),
        high_watermark=at(names.REPLICATION_CHECKPOINT),
        first_ms=_ms(one.files.first_ns),
        last_ms=_ms(one.files.last_ns),
    )


def _ms(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1_000_000


def _topic(topic: str, files: TopicFiles, known: Topic | None, state: ClusterState) -> TopicSummary:
    settings = state.settings("topic", topic)
    return TopicSummary(
        topic=topic,
        topic_id=known.topic_id if known else None,
        partitions=known.partitions_count if known else None,
        replicas_here=files.live,
        size_bytes=files.size_bytes,
        segments=files.segments,
        first_ms=_ms(files.first_ns),
        last_ms=_ms(files.last_ns),
        cleanup_policy=settings.get("cleanup.policy", "delete") if known else None,
        tiered=settings.get("remote.storage.enable") == "true" if known else None,
        retired=files.retired,
    )

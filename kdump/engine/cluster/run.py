"""Run `cluster`: replay the metadata logs under some paths, and show what they come to.

A metadata log is one item, as is a data directory that has none. Of several copies of one
cluster's log, as of several nodes, the one that goes furthest is shown.

What a data directory tells of its cluster where it holds no metadata log.

Up to 3.9 a cluster may keep its metadata in ZooKeeper. Then `meta.properties`, the names of the
partitions, their `partition.metadata` and leader epochs are all that is on a broker's disks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kdump.engine.cluster.options import WHAT, ClusterOptions, Folds, has_replica_on, is_after
from kdump.engine.cluster.rows import change_row, row_of
from kdump.engine.cluster.zookeeper_view import zookeeper_rows
from kdump.engine.reading.damage import at_place
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.replay import cluster_facts as c
from kdump.replay.cluster import ClusterReplay, Hole, read_replay, replay_snapshot
from kdump.replay.cluster_facts import Broker, Partition, Topic
from kdump.replay.cluster_state import ClusterState, facts
from kdump.rows import cluster as rows
from kdump.rows.cluster import ClusterSummary
from kdump.storage import names, places
from kdump.storage.checkpoints import java_int
from kdump.storage.data_directories import spread_all
from kdump.storage.directory_facts import meta_of, owner_of
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LogDir
from kdump.storage.places import read_listed
from kdump.storage.properties import read_topic_id
from kdump.storage.targets import data_directories
from kdump.tuples import NamedTuple

IN_ZOOKEEPER = (
    "This broker kept its cluster's metadata in ZooKeeper: the output contains only what "
    "meta.properties, checkpoints, and partitions show. Leaders, replicas, settings, users, "
    "ACLs, and the topics of other brokers are not on its disks."
)
ELSEWHERE = (
    "There is no metadata log here: it is in another data directory of this node, or on "
    "a controller. The output contains only what meta.properties, checkpoints, and partitions show."
)


def name_source(meta: dict[str, str | None]) -> str:
    """Say where the rest is, as `meta.properties` tells the two kinds of clusters apart."""
    return ELSEWHERE if meta.get("version") == "1" or "node.id" in meta else IN_ZOOKEEPER


def directory_rows(paths: Iterable[str]) -> Iterator[Row]:
    """Yield rows of the broker, the topics and the partitions that its data directories know."""
    brokers: dict[int, list[str]] = {}
    partitions: dict[str, dict[int, str | None]] = {}
    for path in paths:
        meta = meta_of(path)
        node = java_int(meta.get("node.id") or meta.get("broker.id") or "")
        if node is not None:
            directory_id = meta.get("directory.id")
            brokers.setdefault(node, []).extend([directory_id] if directory_id else [])
        _add_partitions(LogDir.open(path), partitions)
    for node, directories in sorted(brokers.items()):
        yield rows.Broker(
            **_unknown_members(Broker) | {"broker_id": node, "directories": directories}
        )
    known = {}
    for topic, found in sorted(partitions.items()):
        here = [at for at in found.values() if at is not None]
        known[topic] = {"topic": topic, "topic_id": read_topic_id(here[0]) if here else None}
        yield rows.Topic(
            **_unknown_members(Topic) | known[topic] | {"partitions_count": len(found)}
        )
    for topic, names_topic in known.items():
        for number, place in sorted(partitions[topic].items()):
            own = {"partition": number, "leader_epoch": _leader_epoch(place)}
            yield rows.Partition(**_unknown_members(Partition) | names_topic | own)


def _add_partitions(directory: LogDir, partitions: dict[str, dict[int, str | None]]) -> None:
    """Add the partitions of a data directory, and those that only its checkpoints name."""
    for name, at in directory.partitions:
        if name.retirement is None and name.topic != names.CLUSTER_METADATA_TOPIC:
            partitions.setdefault(name.topic, {})[name.partition] = at
    for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        for topic, number in directory.offsets(checkpoint) or {}:
            if topic != names.CLUSTER_METADATA_TOPIC:
                partitions.setdefault(topic, {}).setdefault(number, None)


def _unknown_members(kind: type[Broker | Topic | Partition]) -> dict[str, Any]:
    return dict.fromkeys(name for name in kind._fields if name != "placed_ms")


def _leader_epoch(partition: str | None) -> int | None:
    if partition is None:
        return None
    try:
        starts = LocalLog.open(partition).epoch_starts()
    except PathError:
        return None
    return starts[-1].epoch if starts else None


_LOG, _FORMAT, _DIRECTORY = _SOURCES = ("log", "format", "directory")  # the best one first


class Item(NamedTuple):
    """One metadata log, what format left for one, or data directories of a node without either."""

    path: str
    directories: tuple[str, ...]
    cluster_id: str | None
    source: str  # one of _SOURCES
    size_bytes: int = 0

    @property
    def key(self) -> object:
        """What copies of the same log have in common."""
        is_copy = self.source != _DIRECTORY and self.cluster_id is not None
        return self.cluster_id if is_copy else self.path


class ClusterResult(NamedTuple):
    """What came of an item: findings, rows, and what its `cluster-summary` says."""

    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]
    summary: dict[str, Any]

    @property
    def completeness(self) -> tuple[bool, int]:
        """How good it is among copies of the same log."""
        end = self.summary["as_of_offset"]
        return bool(self.summary["complete"]), -1 if end is None else int(str(end))


def cluster(
    paths: Iterable[str],
    options: ClusterOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield the rows of each cluster, findings before them and a `cluster-summary` behind them."""
    progress = progress or Progress()
    items: list[Item] = []
    unfinished = 0
    for error in take_up(plan(paths, options), items, progress):
        unfinished += 1
        yield error
    read: dict[object, list[ClusterResult]] = {}
    step = partial(read_item, options=options)
    for item, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            unfinished += 1
            yield result
        else:
            read.setdefault(item.key, []).append(result)
    for copies in read.values():
        best = max(copies, key=lambda one: one.completeness)
        yield from best.findings
        yield from best.rows
        others = [one.summary["path"] for one in copies if one is not best]
        more: dict[str, Any] = {"other_copies": others, "paths_unfinished": unfinished}
        yield ClusterSummary(**best.summary, **more)


def plan(paths: Iterable[str], options: ClusterOptions) -> Iterator[Item | KdumpError]:
    """Yield an item for each metadata log, and for each directory of a cluster without one."""
    named = list(paths)
    if options.server_properties is not None and not named:
        named = data_directories(options.server_properties)
    items: dict[str, Item] = {}
    every, unsearched = spread_all(named)
    yield from unsearched
    for path in every:
        try:
            for item in _items_at(path):
                items.setdefault(places.real(item.path), item)
        except PathError as error:
            yield error
    best: dict[object, str] = {}
    for item in items.values():
        known = best.setdefault(item.cluster_id, item.source)
        best[item.cluster_id] = min(known, item.source, key=_SOURCES.index)
    nodes: dict[object, Item] = {}
    for item in items.values():
        if item.source != _DIRECTORY:
            if item.cluster_id is None or item.source == best[item.cluster_id]:
                yield item
        elif item.cluster_id is None or best[item.cluster_id] == _DIRECTORY:
            node = owner_of(item.path)
            key = node if None not in node else places.parent(places.absolute(item.path))
            node_item = nodes.get(key, item._replace(directories=()))
            nodes[key] = node_item._replace(directories=(*node_item.directories, item.path))
    yield from nodes.values()
    if not items and named and not unsearched:
        yield NothingToDo(f"no data directory and no metadata log under {', '.join(named)}")


def _items_at(path: str) -> Iterator[Item]:
    if not places.isdir(path):
        path = os.path.dirname(path) or "."  # a segment or a snapshot: the log that it is of
    own = names.parse_directory(os.path.basename(places.absolute(path)))
    if own is not None and own.topic == names.CLUSTER_METADATA_TOPIC:
        yield _log_item(path, places.parent(path))
        return
    directory = LogDir.open(path)
    logs = [
        at
        for name, at in directory.partitions
        if name.topic == names.CLUSTER_METADATA_TOPIC and name.retirement is None
    ]
    for at in logs:
        yield _log_item(at, path)
    bootstrap = os.path.join(path, names.BOOTSTRAP_CHECKPOINT)
    if not logs and not directory.partitions and bootstrap in directory.files:
        yield Item(path, (path,), owner_of(path)[1], _FORMAT)
    elif not logs and (directory.partitions or meta_of(path)):
        yield Item(path, (path,), owner_of(path)[1], _DIRECTORY)


def _log_item(path: str, directory: str) -> Item:
    logs = LocalLog.open(path).logs
    size_bytes = sum(places.size_or_zero(str(one.log)) for one in logs)
    return Item(path, (directory,), owner_of(directory)[1], _LOG, size_bytes)


def read_item(item: Item, pace: Pace, *, options: ClusterOptions) -> ClusterResult:
    """Replay one metadata log; or say what a data directory without one tells."""
    pace(item.size_bytes)
    if item.source == _DIRECTORY:
        return _without_log(item, options)
    if item.source == _FORMAT:
        return _bootstrap(item, options)
    return read_listed(lambda: _with_log(item, options), item.path)


def _with_log(item: Item, options: ClusterOptions) -> ClusterResult:
    changes: list[c.Change] = []
    folds = Folds()

    def take(change: c.Change) -> None:
        if options.admits_change(change):
            if options.diff_from is None:
                changes.append(change)
            elif is_after(change, options.diff_from):
                folds.add(change)

    replay = read_replay(
        item.path,
        until=options.at,
        whole=True,
        limit=options.decompress_limit,
        on_change=take if options.wants_changes else None,
    )
    if not replay.has_log and replay.snapshot is None:
        return _bootstrap(item, options)
    state = replay.state
    if not state.complete and not options.wants_changes:
        newest = read_replay(item.path, until=options.at, limit=options.decompress_limit)
        if newest.state.complete:
            state = newest.state
    changes.extend(map(state.refresh_partitions, folds.changes()))
    rows = _rows(state, changes, options, item)
    return ClusterResult(tuple(_findings(replay)), tuple(rows), _summary(item, state, replay))


def _bootstrap(item: Item, options: ClusterOptions) -> ClusterResult:
    """Read what format left for the first start, where there was none."""
    state = ClusterState()
    path = os.path.join(item.directories[0], names.BOOTSTRAP_CHECKPOINT)
    if places.lexists(path):
        replay_snapshot(path, state, options.decompress_limit)
    rows = _rows(state, [], options, item)
    return ClusterResult((), tuple(rows), _summary(item, state, None))


def _without_log(item: Item, options: ClusterOptions) -> ClusterResult:
    read = () if options.wants_changes or options.view else directory_rows(item.directories)
    rows = tuple(row for row in read if row.row in options.kinds() and _is_of_topic(row, options))
    text = name_source(meta_of(item.path))
    summary = _summary(item, ClusterState(), None)
    return ClusterResult(
        (), rows, summary | {"source": _DIRECTORY, "complete": False, "text": text}
    )


def _is_of_topic(row: Row, options: ClusterOptions) -> bool:
    if not options.selection.is_narrowed:
        return True
    topic, partition = row.fields.get("topic"), row.fields.get("partition")
    number = partition if isinstance(partition, int) else options.selection.partition
    return isinstance(topic, str) and options.selection.admits(topic, number)


def _rows(
    state: ClusterState, changes: list[c.Change], options: ClusterOptions, item: Item
) -> Iterator[Row]:
    secrets = options.show_secrets
    if options.wants_changes:
        yield from (change_row(change, secrets=secrets) for change in changes)
    elif options.view is not None:
        yield from zookeeper_rows(state, options, item.cluster_id)
    else:
        yield from _fact_rows(state, options)


def _fact_rows(state: ClusterState, options: ClusterOptions) -> Iterator[Row]:
    """Yield a row for each fact that is asked for, kind by kind."""
    by_kind: dict[str, list[c.Fact]] = {}
    for fact in [*(fact for _, fact in facts(state)), *state.removed.values()]:
        if options.admits(fact) and has_replica_on(fact, options.broker):
            by_kind.setdefault(c.kind_of(fact), []).append(fact)
    for kinds in WHAT.values():
        for kind in kinds:
            for fact in sorted(by_kind.get(kind, ()), key=_order) if kind != "leader" else ():
                more: dict[str, Any] = {}
                if isinstance(fact, c.Controller):
                    more = _leads(fact, state)
                yield row_of(fact, secrets=options.show_secrets, **more)


def _leads(controller: c.Controller, state: ClusterState) -> dict[str, Any]:
    """Say whether a controller is the active one; None where that is not known."""
    leader = state.leader.get("")
    if leader is None:
        return {"leader": None, "leader_epoch": None}
    leads = leader.leader_id == controller.controller_id
    return {"leader": leads, "leader_epoch": leader.epoch if leads else None}


def _order(fact: c.Fact) -> tuple[str | int, ...]:
    if isinstance(fact, c.Partition):
        return (fact.topic or "", fact.topic_id, fact.partition)
    if isinstance(fact, c.Topic):
        return (fact.topic, -1 if fact.created_offset is None else fact.created_offset)
    if isinstance(fact, c.Broker):
        return (fact.broker_id,)
    return (fact.controller_id,) if isinstance(fact, c.Controller) else (c.subject_of(fact),)


def _findings(replay: ClusterReplay) -> Iterator[Finding]:
    for hole in replay.holes:
        if hole.bridged_by is not None and hole.following == replay.log_start:
            continue  # what is below the log was deleted because a snapshot has it
        if hole.bridged_by is None and hole.first == 0 and not replay.has_log:
            continue  # formatted and never started
        yield at_place(
            "metadata-records-missing",
            Place(names.CLUSTER_METADATA_TOPIC, 0, None, hole.path),
            offset=hole.first,
            next_offset=hole.following,
            message=_words(hole),
        )


def _words(hole: Hole) -> str:
    if hole.following is None:
        where = f"Nothing from offset {hole.first:,} on can be read"
    elif hole.following > hole.first + 1:
        where = f"Offsets {hole.first:,}-{hole.following - 1:,} cannot be read"
    elif hole.following > hole.first:
        where = f"Offset {hole.first:,} cannot be read"
    else:
        where = f"Bytes before offset {hole.first:,} cannot be read"
    if hole.bridged_by is None:
        return f"{where}, and no snapshot has their changes: the output may be outdated."
    return (
        f"{where}. The snapshot at {hole.bridged_by:,} has the result of these changes, but "
        "not their times: they are shown as one step."
    )


def _summary(item: Item, state: ClusterState, replay: ClusterReplay | None) -> dict[str, Any]:
    leader = state.leader.get("")
    has_records = replay is not None and (replay.has_log or bool(replay.snapshot))
    return {
        "path": item.path,
        "cluster_id": item.cluster_id,
        "source": _LOG if has_records else _FORMAT,
        "as_of_offset": state.next_offset - 1 if has_records else None,
        "as_of_ms": None if state.last_ms < 0 else state.last_ms,
        "leader_id": None if leader is None else leader.leader_id,
        "leader_epoch": None if leader is None else leader.epoch,
        "log_start_offset": None if replay is None else replay.log_start,
        "snapshot_offset": None if replay is None else replay.snapshot,
        "complete": state.complete,
        "in_transaction": state.in_transaction,
        "brokers_count": len(state.brokers),
        "topics_count": len(state.topics),
        "partitions_count": sum(map(len, state.partitions.values())),
        "deleted_topics_count": len(state.removed),
        "unknown_records": state.unknown,
        "text": None,
    }

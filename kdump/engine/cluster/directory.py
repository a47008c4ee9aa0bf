"""What a data directory tells of its cluster where it holds no metadata log.

Up to 3.9 a cluster may keep its metadata in ZooKeeper. Then `meta.properties`, the names of the
partitions, their `partition.metadata` and leader epochs are all that is on a broker's disks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kdump.errors import PathError
from kdump.findings.rows import Row
from kdump.replay.cluster_facts import Broker, Partition, Topic
from kdump.rows import cluster as rows
from kdump.storage import names
from kdump.storage.about import meta_of
from kdump.storage.checkpoints import java_int
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LogDir
from kdump.storage.properties import read_topic_id

IN_ZOOKEEPER = (
    "This broker kept its cluster's metadata in ZooKeeper: what is listed is all that "
    "meta.properties, checkpoints and partitions say; topics of other brokers, leaders, replicas, "
    "settings, users and ACLs are not on its disks."
)
ELSEWHERE = (
    "There is no metadata log here: it is in another data directory of this node, or on "
    "a controller. The output contains only what meta.properties, checkpoints, and partitions show."
)


def told_by(meta: dict[str, str | None]) -> str:
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
        yield rows.Broker(**_unknown(Broker) | {"broker_id": node, "directories": directories})
    known = {}
    for topic, found in sorted(partitions.items()):
        here = [at for at in found.values() if at is not None]
        known[topic] = {"topic": topic, "topic_id": read_topic_id(here[0]) if here else None}
        yield rows.Topic(**_unknown(Topic) | known[topic] | {"partitions_count": len(found)})
    for topic, names_topic in known.items():
        for number, place in sorted(partitions[topic].items()):
            own = {"partition": number, "leader_epoch": _leader_epoch(place)}
            yield rows.Partition(**_unknown(Partition) | names_topic | own)


def _add_partitions(directory: LogDir, partitions: dict[str, dict[int, str | None]]) -> None:
    """Add the partitions of a data directory, and those that only its checkpoints name."""
    for name, at in directory.partitions:
        if name.retirement is None and name.topic != names.CLUSTER_METADATA_TOPIC:
            partitions.setdefault(name.topic, {})[name.partition] = at
    for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        for topic, number in directory.offsets(checkpoint) or {}:
            if topic != names.CLUSTER_METADATA_TOPIC:
                partitions.setdefault(topic, {}).setdefault(number, None)


def _unknown(kind: type[Broker | Topic | Partition]) -> dict[str, Any]:
    return dict.fromkeys(name for name in kind._fields if name != "placed_ms")


def _leader_epoch(partition: str | None) -> int | None:
    if partition is None:
        return None
    try:
        starts = LocalLog.open(partition).epoch_starts()
    except PathError:
        return None
    return starts[-1].epoch if starts else None

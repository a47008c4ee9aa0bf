"""Find the partitions that a start sets aside as unknown to the cluster (R11).

Only the cluster's metadata log tells, and it lies in one of the broker's data directories. Without
it a partition is believed to be known if a checkpoint of its data directory names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.errors import PathError
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.local_log import LocalLog
from kdump.storage.names import DirectoryName, Kind, Retirement
from kdump.storage.properties import java_properties
from kdump.storage.source import SMALL_FILE_LIMIT, read_whole

if TYPE_CHECKING:
    from kdump.rows.verify import Recovery
    from kdump.storage.log_dir import LogDir


def cluster_of(directories: Iterable[LogDir]) -> ClusterState | None:
    """Read the cluster's metadata log from whichever data directory holds it, None if none does."""
    for directory in directories:
        for name, path in directory.partitions:
            if name.topic == names.CLUSTER_METADATA_TOPIC and name.retirement is None:
                return read_cluster(path)
    return None


def set_aside(
    row: Recovery, log: LocalLog, directory: LogDir | None, cluster: ClusterState | None
) -> Recovery:
    """Return the row of a partition with what becomes of it; as it was where it stays."""
    name = log.name
    if name is None or name.topic == names.CLUSTER_METADATA_TOPIC:
        return row
    if name.retirement in (Retirement.DELETE, Retirement.STRAY):
        return row
    topic_id = _topic_id(log)
    if topic_id is None and any(file.kind is Kind.PARTITION_METADATA for file, _ in log.others):
        why = (
            "partition.metadata has no topic id; the outcome depends on the id that is written "
            "into it"
        )
        return row.replaced(outcome="unknown", reason=_after_losses(row, why))
    if topic_id is None:
        why = "without partition.metadata, the topic of this directory is unknown"
        # Its topic is known by name: the broker makes an empty replica in its place.
        return _stray(row, why, 0)
    if cluster is not None:
        node_id = None if directory is None else directory.node_id
        node = java_int(node_id or "")
        unknown = _explain_unknown(cluster, topic_id, name.partition, node)
        if unknown is None:
            return row
        if cluster.complete:
            # Where the topic of this name is another one, an empty replica of that takes the place.
            current = cluster.partitions.get(cluster.ids.get(name.topic, ""), {})
            placed = current.get(name.partition)
            is_replaced = placed is not None and (node is None or node in placed.replicas)
            return _stray(row, unknown, 0 if is_replaced else None)
    elif directory is None or not _unheard_of(name, directory):
        return row
    why = (
        "no checkpoint names this partition, and the metadata log that would show whether its "
        "topic exists is not here, or incomplete"
    )
    return row.replaced(outcome="unknown", reason=_after_losses(row, why))


def _stray(row: Recovery, reason: str, end: int | None) -> Recovery:
    if row.records_lost:
        reason = f"{row.reason}. The start also renames the directory to -stray: {reason}"
    else:
        reason += ", so the start renames the directory to -stray"
    return row.replaced(outcome="stray", reason=reason, log_end_after=end)


def _after_losses(row: Recovery, reason: str) -> str:
    """Add to why records are lost why the directory may not stay."""
    return f"{row.reason}. {reason[0].upper()}{reason[1:]}" if row.records_lost else reason


def _explain_unknown(
    cluster: ClusterState, topic_id: str, partition: int, node_id: int | None
) -> str | None:
    """Why the cluster does not know a replica, None where it does."""
    if topic_id not in cluster.topics:
        if topic_id in cluster.removed:
            return cluster.topic_id_text(topic_id).rstrip(".")
        return f"no topic in the cluster has id {topic_id}"
    placed = cluster.partitions.get(topic_id, {}).get(partition)
    if placed is None:
        return f"the topic has no partition {partition} in the cluster"
    if node_id is not None and node_id not in placed.replicas:
        return f"node {node_id} is no longer a replica of the partition"
    return None


def _unheard_of(name: DirectoryName, directory: LogDir) -> bool:
    """Whether the data directory has checkpoints and none of them names the partition."""
    listed = [
        directory.offsets(checkpoint) or {}
        for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT)
    ]
    partition = (name.topic, name.partition)
    return any(listed) and not any(partition in offsets for offsets in listed)


def _topic_id(log: LocalLog) -> str | None:
    """The id in `partition.metadata` (X8), None where no file gives one."""
    for file, path in log.others:
        if file.kind is Kind.PARTITION_METADATA:
            try:
                text = read_whole(path, SMALL_FILE_LIMIT).decode("latin-1")
            except PathError:
                return None
            return dict(java_properties(text)).get("topic_id")
    return None

"""Check a broker's partitions against its cluster metadata log (R11, X8, X15).

A start of 3.7 or later sets aside what the log does not place here, and makes anew what it does
and is missing. On a live broker the log is ahead of the directories, so that only what it has
said for a minute counts; after a clean stop another topic id counts at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.checks.checkpoints import was_stopped_cleanly
from kdump.engine.checks.survey import PartitionFacts, read_properties
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.rows import Place
from kdump.replay.cluster import read_cluster, replay_snapshot
from kdump.storage import lock, names, places, properties
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind
from kdump.storage.source import unreadable_ranges

if TYPE_CHECKING:
    from kdump.engine.checks.survey import Member
    from kdump.findings.finding import Finding
    from kdump.replay.cluster_facts import Partition
    from kdump.replay.cluster_state import ClusterState

SETTLED_MS = 60_000


def check_replicas(group: Sequence[Member], limit: int) -> Iterator[Finding | PathError]:
    """Look at the metadata log, if a broker has one here, and hold its partitions against it."""
    for member in group:
        path = os.path.join(member.path, names.directory_name(names.CLUSTER_METADATA_TOPIC, 0))
        if not places.isdir(path):
            continue
        yield from _metadata_files(path, limit)
        reported = list(_against(group, member, path, limit))
        if reported:
            # A broker may have acted on the log between our look at it and at the directories.
            again = {(one.code, one.path) for one in _against(group, member, path, limit)}
            yield from (one for one in reported if (one.code, one.path) in again)
        return


def _metadata_files(path: str, limit: int) -> Iterator[Finding | PathError]:
    place = Place(names.CLUSTER_METADATA_TOPIC, 0, None, path)
    quorum_state = os.path.join(path, names.QUORUM_STATE)
    if places.lexists(quorum_state):
        at = place._replace(path=quorum_state)
        yield from read_properties(at, properties.parse_quorum_state)[1]
    try:
        log = LocalLog.open(path)
    except PathError:
        return
    snapshots = log.snapshots(Kind.METADATA_SNAPSHOT)
    newest = max((end_offset for end_offset, _ in snapshots), default=0)
    if log.logs and log.logs[0].base_offset > newest:
        start = log.logs[0].base_offset
        yield at_place(
            "metadata-snapshot-missing", place, offset=start, expected=start, actual=newest
        )
    for end_offset, snapshot in snapshots:
        try:
            ends = replay_snapshot(snapshot, None, limit)
            is_cut = not (ends.header and ends.footer) and not unreadable_ranges(snapshot)
        except PathError:
            continue  # brokers delete them while they run
        if is_cut and places.lexists(snapshot):
            yield at_place(
                "metadata-snapshot-incomplete",
                place,
                path=snapshot,
                offset=end_offset,
                expected="header and footer",
                actual="no footer" if ends.header else "no header",
            )


def _against(group: Sequence[Member], member: Member, path: str, limit: int) -> Iterator[Finding]:
    state = read_cluster(path, limit)
    node = member.node_id
    if state is None or not state.complete or node is None or not node.isdecimal():
        return
    for one in live_in(group):
        if one.topic_id is not None and one.topic != names.CLUSTER_METADATA_TOPIC:
            yield from _assignment(group, one, state, int(node))
    yield from _find_absent(group, state, int(node))


def live_in(group: Sequence[Member]) -> Iterator[PartitionFacts]:
    """Yield what was found of each partition that a broker would load."""
    for member in group:
        yield from (one for one in member.surveyed.facts if one.is_live)


def _assignment(
    group: Sequence[Member], one: PartitionFacts, state: ClusterState, node: int
) -> Iterator[Finding]:
    """Hold one partition that is here against what the log says of it (R11, X8)."""
    if not places.lexists(one.path):
        return
    topic_id = one.topic_id or ""
    known = state.partitions.get(topic_id, {}).get(one.partition)
    if known is not None:
        if node not in known.replicas and _is_settled(state, known.placed_ms):
            expected = list(known.replicas)
            yield at_place("replica-not-assigned", one.place, expected=expected, actual=node)
        return
    current = state.ids.get(one.topic)
    of_current = state.partitions.get(current or "", {}).get(one.partition)
    if current is not None and current != topic_id and of_current is not None:
        if node in of_current.replicas and (
            _is_settled(state, of_current.placed_ms) or _is_stopped(group, one)
        ):
            message = (
                f"The topic has the id {current} in the cluster, but this directory, with "
                f"{one.amount_text}, has another. {state.topic_id_text(topic_id)}"
            )
            yield other_topic_id(one, current, message)
        return
    deleted = state.removed.get(topic_id)
    if _is_settled(
        state, -1 if deleted is None or deleted.deleted_ms is None else deleted.deleted_ms
    ):
        unknown = "No topic in the cluster has this directory's topic id"
        if topic_id in state.topics:
            unknown = f"The topic with this directory's topic id has no partition {one.partition}"
        message = f"{unknown}. The directory has {one.amount_text}. {state.topic_id_text(topic_id)}"
        yield at_place("topic-unknown", one.place, actual=topic_id, message=message)


def _is_settled(state: ClusterState, since_ms: int) -> bool:
    return since_ms + SETTLED_MS <= state.last_ms


def _is_stopped(group: Sequence[Member], one: PartitionFacts) -> bool:
    """Whether the broker is down after a clean stop: then nothing that was said is yet to be done.

    What the next start makes of the partition shows in how the log ends.
    """
    parent = places.real(places.parent(one.path))
    return any(
        places.real(member.path) == parent
        and was_stopped_cleanly(member.surveyed.directory)
        and lock.is_held(member.path) is not True
        for member in group
    )


def other_topic_id(one: PartitionFacts, expected: str, message: str) -> Finding:
    """Say that a partition should have another topic id, and what a start sets aside for it."""
    count = one.records_count
    return at_place(
        "topic-id-differs",
        one.place,
        path=os.path.join(one.path, names.PARTITION_METADATA),
        expected=expected,
        actual=one.topic_id,
        message=message,
        lost_at_least=count,
        lost_at_most=count,
    )


def _find_absent(group: Sequence[Member], state: ClusterState, node: int) -> Iterator[Finding]:
    """Tell of partitions assigned to these directories that are in none of them.

    Only if all directories that the broker registered were looked at: a partition that was just
    moved is assigned to its old one for a moment.
    """
    here = {
        directory_id: member.path
        for member in group
        if (directory_id := member.meta.get("directory.id")) is not None
    }
    broker = state.brokers.get(node)
    registered = () if broker is None else broker.directories
    if not registered or not set(registered) <= set(here):
        return
    for topic_id, partitions in state.partitions.items():
        topic = state.topics.get(topic_id)
        for partition, known in partitions.items():
            at = here.get(_directory_of(known, node))
            if topic is None or at is None or not _is_settled(state, known.placed_ms):
                continue
            name = names.directory_name(topic.topic, partition)
            if not any(places.lexists(os.path.join(path, name)) for path in here.values()):
                missing = Place(topic.topic, partition, None, os.path.join(at, name))
                yield at_place("partition-missing", missing)


def _directory_of(known: Partition, node: int) -> str:
    if node not in known.replicas or len(known.directories) != len(known.replicas):
        return ""
    return known.directories[known.replicas.index(node)]

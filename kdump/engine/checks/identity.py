"""Check whose data directories are: `meta.properties` that is missing, broken, or of another node.

What a directory of a node is apart from partitions that someone copied, its other files tell; that
it is of another node, the cluster's metadata log (N3 to N5, M2).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.checks.survey import read_properties
from kdump.errors import PathError, StoreError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place
from kdump.replay.cluster import read_cluster
from kdump.storage import names, places, properties

if TYPE_CHECKING:
    from kdump.engine.checks.survey import Member
    from kdump.replay.cluster_state import ClusterState
    from kdump.storage.log_dir import LogDir

#: Files that only a broker that ran here leaves, and no copy of its partitions needs.
_OF_A_BROKER = {
    names.CLEANER_CHECKPOINT,
    names.CLEAN_SHUTDOWN,
    names.LOCK,
    names.BOOTSTRAP_CHECKPOINT,
}


def meta_properties(directory: LogDir) -> tuple[dict[str, str], list[Finding | PathError]]:
    """Read `meta.properties`, empty where it is not there, and say what is wrong with it (X5)."""
    path = os.path.join(directory.path, names.META_PROPERTIES)
    if not places.lexists(path):
        return {}, []
    place = Place(None, None, None, path)
    found, reported = read_properties(place, properties.parse_meta_properties)
    values = {} if found is None else found.values
    if any(isinstance(one, Finding) and one.code == "unreadable" for one in reported):
        return {}, list(reported)
    told = [
        finding("meta-properties-malformed", path=path, expected=one.expected, actual=one.actual,
                message=one.message) if isinstance(one, Finding) else one
        for one in reported
    ]  # fmt: skip
    if found is not None and not {"node.id", "broker.id"} & values.keys():
        message = (
            "The file is empty." if not values else "The file has neither node.id nor broker.id."
        )
        told = [finding("meta-properties-malformed", path=path, message=message)]
    return {name: value for name, value in values.items() if value is not None}, told


def check_identity(
    members: Sequence[Member], limit: int, *, one_node: bool = False
) -> Iterator[Finding]:
    """Yield what is missing or foreign among directories that were looked at together.

    `one_node`: one broker's settings name them all.
    """
    of_kraft = one_node and any(member.meta.get("version") == "1" for member in members)
    for member in members:
        if _lacks_meta(member) and (of_kraft or _is_of_kraft_node(member, members)):
            path = os.path.join(member.path, names.META_PROPERTIES)
            yield finding("meta-properties-missing", path=path)
    if one_node:
        return  # the settings say which belong together, and that is held against the files
    for known in members:
        log = _metadata_log(known)
        if log is None or not known.meta:
            continue
        state = read_cluster(log, limit)
        if state is None or not state.complete:
            continue
        for member in members:
            if member.meta and (message := _foreign(member, known, state)):
                path = os.path.join(member.path, names.META_PROPERTIES)
                yield finding("meta-properties-foreign", path=path, message=message)


def _lacks_meta(member: Member) -> bool:
    """Whether it is not there; one that cannot be looked for has a finding of its own."""
    return not places.lexists(os.path.join(member.path, names.META_PROPERTIES))


def _metadata_log(member: Member) -> str | None:
    path = os.path.join(member.path, names.directory_name(names.CLUSTER_METADATA_TOPIC, 0))
    return path if places.isdir(path) else None


def _is_of_kraft_node(member: Member, members: Sequence[Member]) -> bool:
    """Whether a node that needs the file kept its data here, by what else lies here or beside."""
    if _metadata_log(member) is not None:
        return True
    directory = member.surveyed.directory
    files = {os.path.basename(path) for path in directory.files}
    if not files & _OF_A_BROKER or _is_part(directory):
        return False
    above = places.parent(member.path)
    beside = [one for one in members if one.meta and places.parent(one.path) == above]
    if beside:
        return any(one.meta.get("version") == "1" for one in beside)
    return names.BOOTSTRAP_CHECKPOINT in files or any(
        places.lexists(os.path.join(path, names.PARTITION_METADATA))
        for name, path in directory.partitions
        if name.retirement is None
    )


def _is_part(directory: LogDir) -> bool:
    """Whether partitions that a checkpoint names are not here: somebody copied some of them."""
    try:
        named = directory.offsets(names.RECOVERY_POINT_CHECKPOINT) or {}
    except (PathError, StoreError):
        return False
    here = {(name.topic, name.partition) for name, _ in directory.partitions}
    return any(each not in here for each in named)


def _foreign(member: Member, known: Member, state: ClusterState) -> str:
    """Say by what the file of a directory is another's; empty where nothing tells.

    `known` has the metadata log. Topic ids are drawn at random, so that a partition of a topic
    that the log knows is of that cluster.
    """
    own = member.node_id
    directory_id = member.meta.get("directory.id")
    owners = [number for number, at in state.brokers.items() if directory_id in at.directories]
    placed = [
        at.replicas
        for one in member.surveyed.facts
        if one.is_live and one.topic_id is not None
        and (at := state.partitions.get(one.topic_id, {}).get(one.partition)) is not None
    ]  # fmt: skip
    if not placed and not owners:
        return ""
    cluster, expected = member.meta.get("cluster.id"), known.meta.get("cluster.id")
    if None not in (cluster, expected) and cluster != expected:
        if member is known:
            return ""
        what = "Its partitions are" if placed else "Its directory.id is"
        return (
            f"It names the cluster {cluster}. {what} of the cluster whose metadata log is in "
            f"{known.path}: {expected}."
        )
    if own is None or not own.isdecimal() or int(own) in owners:
        return ""
    if owners:
        return (
            f"It names node {own}, but its directory.id belongs to node {owners[0]}, according to "
            f"the metadata log in {known.path}."
        )
    holders = set.intersection(*map(set, placed))
    if int(own) in state.brokers or any(int(own) in replicas for replicas in placed):
        return ""
    if holders:
        return (
            f"It names node {own}, which is not in the metadata log in {known.path}. That log "
            f"assigns all partitions here to node {', '.join(map(str, sorted(holders)))}."
        )
    return ""

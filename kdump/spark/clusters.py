"""Tell which of some directories belong to one cluster.

`meta.properties` names the cluster. Directories without one belong together where they have topics
of the same id, which no two clusters give; the others are each kept by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.errors import KdumpError
from kdump.replay.cluster import read_cluster
from kdump.storage import names, places
from kdump.storage.directory_facts import owner_of
from kdump.storage.local_log import looks_like_partition
from kdump.storage.log_dir import LogDir
from kdump.storage.properties import is_topic_id, read_topic_id
from kdump.tuples import NamedTuple


class ClusterPaths(NamedTuple):
    """The paths of one cluster; without an id, `directory` is the first of its data directories."""

    cluster_id: str | None
    directory: str | None
    paths: tuple[str, ...]


class _Place(NamedTuple):
    """A path to read, with its data directory."""

    path: str
    directory: str
    cluster_id: str | None


def clusters_of(paths: Iterable[str]) -> Iterator[ClusterPaths]:
    """Yield what is to be read for each cluster, in the order of the paths."""
    found = [_place_of(path) for path in paths]
    groups: dict[object, list[_Place]] = {}
    keys: dict[object, object] = {}  # what two directories have in common -> key of their group
    by_id = any(one.cluster_id is None for one in found)
    for one in found:
        common: set[object] = {("directory", one.directory)}
        if one.cluster_id is not None:
            common.add(("cluster", one.cluster_id))
        if by_id:
            common |= {("topic", topic_id) for topic_id in _topic_ids(one.path)}
        known = list(dict.fromkeys(keys[each] for each in common if each in keys))
        home = min(known, key=list(groups).index) if known else one.path
        members = [each for key in known if key != home for each in groups.pop(key)]
        groups.setdefault(home, []).extend([*members, one])
        keys = {each: home if key in known else key for each, key in keys.items()}
        keys |= dict.fromkeys(common, home)
    for places_of in groups.values():
        yield from _of_group(places_of)


def _of_group(group: list[_Place]) -> Iterator[ClusterPaths]:
    """Make the cluster of a group; topics copied between clusters do not make one of two."""
    ids = list(dict.fromkeys(one.cluster_id for one in group if one.cluster_id is not None))
    if len(ids) < 2:
        directories = dict.fromkeys(one.directory for one in group)
        cluster_id = ids[0] if ids else None
        only = next(iter(directories)) if cluster_id is None or len(directories) == 1 else None
        yield ClusterPaths(cluster_id, only, tuple(one.path for one in group))
        return
    for cluster_id in (*ids, None):
        some = [one for one in group if one.cluster_id == cluster_id]
        if cluster_id is not None:
            yield from _of_group(some)
            continue
        for one in some:
            yield from _of_group([one])


def _place_of(path: str) -> _Place:
    absolute = places.absolute(path)
    above = places.parent(absolute)
    owners = (owner_of(place)[1] for place in (absolute, above, places.parent(above)))
    is_partition = names.parse_directory(os.path.basename(absolute)) is not None
    directory = above if is_partition and _is_partition(absolute) else absolute
    return _Place(path, directory, next(filter(None, owners), None))


def _is_partition(path: str) -> bool:
    try:
        return looks_like_partition(places.listdir(path))
    except OSError:
        return False


def _topic_ids(path: str) -> set[str]:
    """Return the ids of the topics in a directory, by partitions and by a metadata log."""
    try:
        if _is_partition(path):
            partitions = [(names.parse_directory(os.path.basename(path)), path)]
        else:
            partitions = [*LogDir.open(path).partitions]
    except (KdumpError, OSError):
        return set()
    one_each = {name.topic: at for name, at in partitions if name is not None}
    found: set[str | None] = set()
    for topic, at in one_each.items():
        if topic == names.CLUSTER_METADATA_TOPIC:
            state = read_cluster(at)
            found |= set(state.topics) if state is not None else set()
        else:
            found.add(read_topic_id(at))
    return {each for each in found if each is not None and is_topic_id(each)}

"""Date data directories: their files, and what the metadata log says of the nodes (D10 to D13).

A node registers with the levels of features that it runs, each time it starts: the last one names
its release. The directories of one node are dated together, as one broker writes them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from kdump.broker.dating import (
    METADATA_VERSION,
    Dating,
    Evidence,
    dated,
    directory_evidence,
    level_evidence,
    registered_evidence,
)
from kdump.broker.versions import Version
from kdump.errors import PathError, StoreError
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.storage import names, places
from kdump.storage.about import owner_of
from kdump.storage.checkpoints import java_int
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.metadata_log import metadata_log_for

Owner = tuple[str | None, str | None]
_BROKERS_OWN = frozenset((names.META_PROPERTIES, names.REPLICATION_CHECKPOINT))
#: The records that date a node, by API key: a broker comes or goes, the level of a feature, a
#: controller comes.
_REGISTERING = frozenset((0, 1, 12, 27))


class DatedDirectories:
    """Data directories, and what was found out about the releases that wrote them.

    `clusters`: the state of the metadata log that goes furthest, by the cluster's id; of it
    the records of some API keys only, if so said.
    """

    def __init__(
        self,
        paths: Sequence[str],
        only: frozenset[int] | None = None,
    ) -> None:
        self.clusters: dict[str | None, tuple[str, ClusterState]] = {}
        self._owners = {path: owner_of(path) for path in paths}
        logs: dict[str, tuple[str, ClusterState]] = {}
        for path in paths:
            log = os.path.join(path, names.METADATA_LOG)
            state = read_cluster(log, only=only) if places.isdir(log) else None
            if state is None:
                continue
            logs[path] = log, state
            cluster = self._owners[path][1]
            best = self.clusters.get(cluster)
            if best is None or best[1].next_offset < state.next_offset:
                self.clusters[cluster] = log, state
        self._own_logs = logs
        self._evidence: dict[Owner | str, list[Evidence]] = {}
        for path in paths:
            self._evidence.setdefault(self._key(path), []).extend(self._found(path))

    def of(self, path: str) -> Dating:
        """Date a directory; of one that is not among them nothing is known."""
        return dated(self._evidence.get(self._key(path), ()))

    def _key(self, path: str) -> Owner | str:
        """Name what is dated together: the directories of one node, or one without a name."""
        owner = self._owners.get(path, (None, None))
        return path if None in owner else owner

    def _found(self, path: str) -> Iterator[Evidence]:
        try:
            directory = LOG_DIRS.around(os.path.join(path, names.META_PROPERTIES))
            if directory is None:
                return
            yield from directory_evidence(directory)
        except (PathError, StoreError):
            return
        node, cluster = self._owners[path]
        known = self._own_logs.get(path)
        if known is not None:
            yield from _of_log(java_int(node or ""), *known)
        elif cluster is not None and cluster in self.clusters:
            log, state = self.clusters[cluster]
            yield from _registered(java_int(node or ""), log, state)


def written_by(paths: Iterable[str]) -> dict[str, Dating]:
    """Date some data directories."""
    every = list(dict.fromkeys(paths))
    found = DatedDirectories(every)
    return {path: found.of(path) for path in every}


def writers(directory: str, others: Iterable[str] = ()) -> tuple[Version, Version]:
    """Return the oldest and the newest release that can have written a data directory.

    `others` count that are of the same node, or have the metadata log of its cluster. The two are
    the same where nothing in it says that a broker had it: partitions are copied.
    """
    owner = owner_of(directory)
    together = [directory]
    if None not in owner:
        together += [other for other in others if owner_of(other) == owner]
    log = metadata_log_for(directory, others)
    if log is not None:
        together.append(places.parent(log))
    paths = {places.real(path): path for path in reversed(together)}
    found = DatedDirectories(list(paths.values()), _REGISTERING).of(directory)
    brokers_own = {os.path.basename(one.path) for one in found.evidence} & _BROKERS_OWN
    return (found.first if brokers_own else found.last), found.last


def _of_log(node: int | None, log: str, state: ClusterState) -> Iterator[Evidence]:
    feature = state.features.get(METADATA_VERSION)
    if feature is not None:
        yield from level_evidence(feature.feature_level, log)
    yield from _registered(node, log, state)


def _registered(node: int | None, log: str, state: ClusterState) -> Iterator[Evidence]:
    if node is None:
        return
    for word, table in (("controller", state.controllers), ("broker", state.brokers)):
        one = table.get(node)
        if one is not None:
            levels = {name: most for name, (_, most) in one.features.items()}
            yield from registered_evidence(levels, log, f"{word} {node}")

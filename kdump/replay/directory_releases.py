"""Date data directories: their files, and what the metadata log says of the nodes (D10 to D13).

A node registers with the levels of features that it runs, each time it starts: the last one names
its release. The directories of one node are dated together, as one broker writes them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.dating import (
    BEFORE,
    METADATA_VERSION,
    Evidence,
    ReleaseBounds,
    combine_evidence,
    directory_evidence,
    level_evidence,
    registration_evidence,
    settings_evidence,
)
from kdump.broker.versions import Version
from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.checkpoints import java_int
from kdump.storage.directory_facts import owner_of
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.metadata_log import metadata_log_for
from kdump.storage.properties import SIZE_LIMIT, java_properties
from kdump.storage.source import read_whole

if TYPE_CHECKING:
    from kdump.replay.cluster_facts import Change
    from kdump.replay.cluster_state import ClusterState

Owner = tuple[str | None, str | None]
_BROKERS_OWN = frozenset((names.META_PROPERTIES, names.REPLICATION_CHECKPOINT))
#: The records that date a node, by API key: a broker comes or goes, the level of a feature, a
#: controller comes.
_REGISTERING = frozenset((0, 1, 12, 27))


#: Where a broker's own file may lie next to what it wrote, from the data directory on.
_NEAR = ("server.properties", "../server.properties", "../config/server.properties")


class ReleaseCache:
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
            if not places.isdir(log):
                continue
            from kdump.replay.cluster import read_cluster  # few directories hold such a log

            state = read_cluster(log, only=only)
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
            self._evidence.setdefault(self._key(path), []).extend(self._find_evidence(path))

    def of(self, path: str) -> ReleaseBounds:
        """Date a directory; of one that is not among them nothing is known."""
        return combine_evidence(self._evidence.get(self._key(path), ()))

    def history(self, path: str) -> Iterator[Evidence]:
        """Yield the registrations of a directory's node with which its release changed.

        The last one is what the directory is dated by; those before tell of upgrades, and when.
        """
        node, cluster = self._owners.get(path, (None, None))
        number = java_int(node or "")
        known = self._own_logs.get(path) or self.clusters.get(cluster)
        if number is not None and known is not None:
            found = list(_registrations(number, known[0]))
            yield from (one._replace(bound=BEFORE) for one in found[:-1])
            yield from found[-1:]

    def _key(self, path: str) -> Owner | str:
        """Name what is dated together: the directories of one node, or one without a name."""
        owner = self._owners.get(path, (None, None))
        return path if None in owner else owner

    def _find_evidence(self, path: str) -> Iterator[Evidence]:
        try:
            directory = LOG_DIRS.find_parent(os.path.join(path, names.META_PROPERTIES))
            if directory is None:
                return
            yield from directory_evidence(directory)
        except (PathError, StoreError):
            return
        node, cluster = self._owners[path]
        if (found := settings_near(path, node)) is not None:
            yield from settings_evidence(*found)
        known = self._own_logs.get(path)
        if known is not None:
            yield from _of_log(java_int(node or ""), *known)
        elif cluster is not None and cluster in self.clusters:
            log, state = self.clusters[cluster]
            yield from _registration_evidence(java_int(node or ""), log, state)


def settings_near(path: str, node: str | None) -> tuple[dict[str, str], str] | None:
    """Read the settings of the broker that a data directory is of, where they lie next to it.

    They are its own where they name its node, or else a data directory of the same name.
    """
    if places.is_uri(path):
        return None
    for name in _NEAR:
        file = os.path.normpath(os.path.join(path, name))
        if not os.path.isfile(file):
            continue
        try:
            values = dict(java_properties(read_whole(file, SIZE_LIMIT).decode("latin-1")))
        except (PathError, StoreError):
            continue
        named = values.get("node.id", values.get("broker.id", "")).strip()
        dirs = values.get("log.dirs", values.get("log.dir", "")).split(",")
        last = {os.path.basename(one.strip().rstrip("/")) for one in dirs}
        same_name = os.path.basename(places.absolute(path)) in last
        if (named == node) if named and node else same_name:
            return {key: value.strip() for key, value in values.items()}, file
    return None


def date_directories(paths: Iterable[str]) -> dict[str, ReleaseBounds]:
    """Date some data directories."""
    every = list(dict.fromkeys(paths))
    found = ReleaseCache(every)
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
    found = ReleaseCache(list(paths.values()), _REGISTERING).of(directory)
    brokers_own = {os.path.basename(one.path) for one in found.evidence} & _BROKERS_OWN
    return (found.first if brokers_own else found.last), found.last


def _registrations(node: int, log: str) -> Iterator[Evidence]:
    """Yield the first registration of each release that a node ran, in order."""
    from kdump.replay.cluster import read_replay
    from kdump.replay.cluster_facts import Broker, Controller

    found: list[Evidence] = []

    def take(change: Change) -> None:
        one = change.after
        if not isinstance(one, Broker | Controller) or not one.features:
            return
        number = one.broker_id if isinstance(one, Broker) else one.controller_id
        if number != node:
            return
        word = "broker" if isinstance(one, Broker) else "controller"
        levels = {name: most for name, (_, most) in one.features.items()}
        for evidence in registration_evidence(levels, log, f"{word} {node}"):
            if not found or found[-1].release != evidence.release:
                found.append(evidence._replace(at_ms=change.at.known_ms))

    with suppress(PathError):
        read_replay(log, whole=True, on_change=take, only=_REGISTERING)
    yield from found


def _of_log(node: int | None, log: str, state: ClusterState) -> Iterator[Evidence]:
    feature = state.features.get(METADATA_VERSION)
    if feature is not None:
        yield from level_evidence(feature.feature_level, log)
    yield from _registration_evidence(node, log, state)


def _registration_evidence(node: int | None, log: str, state: ClusterState) -> Iterator[Evidence]:
    if node is None:
        return
    for word, table in (("controller", state.controllers), ("broker", state.brokers)):
        one = table.get(node)
        if one is not None:
            levels = {name: most for name, (_, most) in one.features.items()}
            yield from registration_evidence(levels, log, f"{word} {node}")

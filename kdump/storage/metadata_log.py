"""Where the metadata log of the cluster lies that a data directory is of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.directory_facts import owner_of

_SIBLINGS = 1000  # of a folder that holds data directories
_LEVELS = 3  # how far up a path may differ from that of another data directory of its node


def metadata_log_for(directory: str, others: Iterable[str] = ()) -> str | None:
    """Return the metadata log of the cluster that a data directory is of; None where none is near.

    It lies in the directory itself; else in another that is given and of the same cluster, best of
    the same node; else beside it, in the only directory of the same node that has one. Beside
    `/disk1/kafka` are the folders of `/disk1`, then `/disk2/kafka`.
    """
    own = _metadata_log_in(directory)
    if own is not None:
        return own
    node, cluster = owner_of(directory)
    if node is None or cluster is None:
        return None
    given = [
        (owner_of(other)[0] != node, log)
        for other in others
        if (log := _metadata_log_in(other)) is not None and owner_of(other)[1] == cluster
    ]
    if given:
        return min(given)[1]
    for levels in range(1, _LEVELS + 1):
        beside = [
            log
            for other in _siblings(directory, levels)
            if (log := _metadata_log_in(other)) is not None and owner_of(other) == (node, cluster)
        ]
        if beside:
            # Of copies, nothing tells which one holds.
            return beside[0] if len(beside) == 1 else None
    return None


def _metadata_log_in(directory: str) -> str | None:
    path = os.path.join(directory, names.METADATA_LOG)
    try:
        return path if places.isdir(path) else None
    except (OSError, PathError, StoreError):
        return None


def _siblings(directory: str, levels: int) -> list[str]:
    """Name the folders that differ from a data directory in one part of the path, so far up.

    None in a store, where each look costs.
    """
    if places.is_uri(directory) and not directory.startswith("file:"):
        return []
    parts = directory.split("/")
    if levels >= len(parts):
        return []
    folder, below = "/".join(parts[:-levels]), parts[len(parts) - levels + 1 :]
    try:
        listed = list(islice(places.entries(folder or "/"), _SIBLINGS))
    except (OSError, PathError):
        return []
    beside = ("/".join((folder, entry.name, *below)) for entry in listed if places.is_dir(entry))
    return sorted(path for path in beside if path != directory)

"""Describe a data directory: its broker, and whether one runs on it."""

from __future__ import annotations

import os

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.properties import SIZE_LIMIT, parse_meta_properties
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple


class DirectoryFacts(NamedTuple):
    """One data directory; None is what is not said or cannot be known."""

    path: str
    node_id: str | None
    cluster_id: str | None
    locked: bool | None


def facts_of(path: str) -> DirectoryFacts:
    """Read a data directory's `meta.properties`, if it has one, and ask for its lock."""
    from kdump.storage import lock

    node_id, cluster_id = owner_of(path)
    locked = None if places.is_uri(path) else lock.is_held(path)
    return DirectoryFacts(path, node_id, cluster_id, locked)


def meta_of(path: str) -> dict[str, str | None]:
    """Read a data directory's `meta.properties`; empty where there is none that can be read."""
    try:
        data = read_whole(os.path.join(path, names.META_PROPERTIES), SIZE_LIMIT)
    except (PathError, StoreError):
        return {}
    return parse_meta_properties(data).values


def owner_of(path: str) -> tuple[str | None, str | None]:
    """Read the node and the cluster that a data directory is of; None where it does not say."""
    values = meta_of(path)
    return values.get("node.id") or values.get("broker.id"), values.get("cluster.id")

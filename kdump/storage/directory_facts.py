"""Describe a data directory: its broker, and whether one runs on it."""

from __future__ import annotations

import os
import time
from functools import lru_cache

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.properties import SIZE_LIMIT, parse_meta_properties
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

_LATELY_NS = 1_000_000_000  # file systems give times in steps of a few milliseconds, or of seconds


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
    """Read a data directory's `meta.properties`; empty where there is none that can be read.

    A command asks for it several times, so the values are kept for as long as the file is the
    same one; that a file changed lately does not always show in its time.
    """
    file = os.path.join(path, names.META_PROPERTIES)
    try:
        status = places.stat(file)
    except (OSError, StoreError):
        return {}
    if time.time_ns() - status.st_mtime_ns < _LATELY_NS:
        return _read_meta(file)
    return _kept_meta(file, (status.st_ino, status.st_size, status.st_mtime_ns))


def _read_meta(file: str) -> dict[str, str | None]:
    try:
        return parse_meta_properties(read_whole(file, SIZE_LIMIT)).values
    except (PathError, StoreError):
        return {}


@lru_cache(maxsize=64)
def _kept_meta(file: str, _identity: tuple[int, int, int]) -> dict[str, str | None]:
    return _read_meta(file)


def owner_of(path: str) -> tuple[str | None, str | None]:
    """Read the node and the cluster that a data directory is of; None where it does not say."""
    values = meta_of(path)
    return values.get("node.id") or values.get("broker.id"), values.get("cluster.id")

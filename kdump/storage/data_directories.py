"""Find the data directories that a path stands for, itself or up to two levels below."""

from __future__ import annotations

import os
from itertools import islice

from kdump.errors import PathError
from kdump.storage import names, places
from kdump.storage.local_log import looks_like_partition
from kdump.storage.log_dir import LogDir

_LEVELS = 2
_FOLDERS = 1000  # of one folder; a home directory is not searched through
_MARKS = frozenset((
    names.META_PROPERTIES,
    names.LOG_START_CHECKPOINT,
    names.RECOVERY_POINT_CHECKPOINT,
    names.REPLICATION_CHECKPOINT,
))  # fmt: skip


def data_directories_below(path: str) -> list[str]:
    """Return the data directories below a folder that is none itself, in the order of names.

    Nothing for a file, a data directory or a partition. What may not be listed is passed over, as
    it may well be a file system's own, like `lost+found`.
    """
    try:
        if not places.isdir(path):
            return []
        entries = places.listdir(path)
        if looks_like_partition(entries) or any(
            not places.isdir(os.path.join(path, mark)) for mark in _MARKS.intersection(entries)
        ):
            return []
        return [] if _is_data_directory(LogDir.open(path)) else _below(path, _LEVELS)
    except (OSError, PathError):
        return []


def spread(path: str) -> list[str]:
    """Return the data directories that a path stands for, or the path itself."""
    return data_directories_below(path) or [path]


def _below(path: str, levels: int) -> list[str]:
    found = []
    listed = sorted(places.entries(path), key=lambda entry: entry.name)
    for entry in islice(listed, _FOLDERS):
        at = os.path.join(path, entry.name)
        try:
            if not entry.is_dir():
                continue
            if _is_data_directory(LogDir.open(at)):
                found.append(at)
            elif levels > 1:
                found += _below(at, levels - 1)
        except (OSError, PathError):
            continue
    return found


def _is_data_directory(directory: LogDir) -> bool:
    if any(os.path.basename(file) in _MARKS for file in directory.files):
        return True
    return any(looks_like_partition(places.listdir(at)) for _, at in directory.partitions)

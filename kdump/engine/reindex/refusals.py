"""Refuse to change files: a broker may be running, they are not ours, or not writable."""

from __future__ import annotations

import os
import sys

from kdump.errors import RefusedError, path_errors
from kdump.storage import lock, names
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind

_SLACK_BYTES = 64 << 10
_OF_A_DATA_DIRECTORY = frozenset(
    (Kind.META_PROPERTIES, Kind.LOCK, Kind.OFFSET_CHECKPOINT, Kind.CLEAN_SHUTDOWN)
)


def refuse_partition(path: str) -> None:
    """Refuse a partition directory that a broker may have open, or that is a link to elsewhere."""
    plain, real = os.path.abspath(path), os.path.realpath(path)
    if os.path.dirname(real) != os.path.realpath(os.path.dirname(plain)):
        raise RefusedError(path, f"is a symbolic link to {real}, outside its data directory")
    refuse_locked(os.path.dirname(real))


def refuse_locked(directory: str) -> None:
    """Refuse a data directory whose lock a broker holds."""
    held = lock.is_held(directory)
    if held:
        raise RefusedError(directory, "a broker is running here (it holds .lock); stop it first")
    if held is None and sys.platform == "linux":
        raise RefusedError(
            os.path.join(directory, names.LOCK), "cannot find out whether a broker is running here"
        )


def refuse_file(path: str, log: str) -> None:
    """Refuse a file that is a link, or of another owner; `log` speaks for one that is not there."""
    if os.path.islink(path):
        raise RefusedError(path, f"is a symbolic link, to {os.path.realpath(path)}")
    if not hasattr(os, "geteuid"):
        return
    with path_errors(path):
        owner = os.stat(path if os.path.lexists(path) else log).st_uid
    if os.geteuid() not in (0, owner):
        raise RefusedError(path, f"belongs to user {owner}; run as that user or as root")


def refuse_space(directory: str, size_bytes: int) -> None:
    """Refuse to begin what the file system has no room for."""
    with path_errors(directory):
        status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    if free < size_bytes + _SLACK_BYTES:
        raise RefusedError(
            directory, f"no space: {size_bytes:,} bytes are needed, {free:,} are free"
        )


def refuse_out(out: str, partition: str) -> None:
    """Refuse to build inside the partition, or inside its data directory: brokers would read it."""
    target, source = os.path.realpath(out), os.path.realpath(partition)
    if _within(target, source):
        raise RefusedError(out, "is inside the partition itself")
    parent = os.path.dirname(source)
    if _within(target, parent):
        kinds = {names.parse(os.path.basename(at)).kind for at in LogDir.open(parent).files}
        if kinds & _OF_A_DATA_DIRECTORY:
            raise RefusedError(out, f"is inside the data directory {parent}")


def _within(path: str, directory: str) -> bool:
    return os.path.commonpath((path, directory)) == directory

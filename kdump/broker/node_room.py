"""Whether a start has room for what it writes, names for it, and may open files enough (N13)."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from kdump.broker.node_settings import REFUSES, UNKNOWN, Fact, NodeSettings
from kdump.broker.versions import Version
from kdump.storage import names
from kdump.storage.names import Kind

_FILES_EACH = 4  # of a partition's small files and preallocated indexes, a block each
_FILES = 16  # of a data directory: checkpoints, their new versions, .lock
_LONGEST = len(f"/{0:020}.timeindex.cleaned")  # of what a broker start may make in a partition


def room_facts(node: NodeSettings, broker: Version) -> Iterator[Fact]:
    """Say where a start finds no room; what it needs beyond a little nobody knows before."""
    segments = 0
    for directory in filter(os.path.isdir, node.log_dirs):
        partitions, found, longest = _count(directory)
        segments += found
        yield from _names(directory, longest)
        room = os.statvfs(directory)
        free, inodes = room.f_bavail * room.f_frsize, room.f_favail
        needed = (_FILES + _FILES_EACH * partitions) * room.f_frsize
        no_inodes = bool(room.f_files) and not inodes
        if no_inodes:
            yield Fact(REFUSES, "space", "No space left on device", directory, _MAKE_ROOM)
        elif free < needed or (room.f_files and inodes < _FILES):
            message = (
                f"Whether {free:,} free bytes and {inodes:,} free inodes are enough: with "
                f"{partitions:,} partitions, a broker start may write {needed:,} bytes."
            )
            yield Fact(UNKNOWN, "space", message, directory, _MAKE_ROOM)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if resource.RLIM_INFINITY != limit < segments:
        message = (
            f"Whether the broker can open {segments:,} segments, each at least one file: the "
            f"limit here is {limit:,} files per process."
        )
        yield Fact(
            UNKNOWN, "open-files", message, None, "Raise the limit (ulimit -n, LimitNOFILE)."
        )


def _names(directory: str, longest: str) -> Iterator[Fact]:
    size, most = len(os.fsencode(longest)) + _LONGEST, os.pathconf(directory, "PC_PATH_MAX")
    if longest and size >= most:
        message = (
            f"Whether files can be created under this path: paths can have {most - 1:,} bytes "
            f"here, and those of its indexes would have {size:,}."
        )
        yield Fact(UNKNOWN, "path-length", message, longest, "Mount the volume at a shorter path.")


_MAKE_ROOM = (
    "Free space (kdump why lists leftovers; or remove files that are not Kafka's), or enlarge the "
    "volume. Do not delete segments by hand."
)


def _count(directory: str) -> tuple[int, int, str]:
    """The partitions of a data directory, their segments, and the longest path of one."""
    partitions = segments = 0
    longest = ""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir() and names.parse_directory(entry.name) is not None:
                    partitions += 1
                    longest = max(longest, os.path.abspath(entry.path), key=len)
                    listed = os.listdir(entry.path)
                    segments += sum(names.parse(name).kind is Kind.LOG for name in listed)
    except OSError:
        pass  # it is said elsewhere what may not be listed
    return partitions, segments, longest

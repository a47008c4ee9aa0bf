"""Find the file systems under data directories, and what is to be freed on each: `why --free`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kdump.broker.versions import Version, text_of
from kdump.errors import UsageError
from kdump.rows.why import DataDirectory
from kdump.storage import places
from kdump.tuples import NamedTuple


class FreeRequest(NamedTuple):
    """Bytes to free, in one data directory; None: wherever they are lacking."""

    size_bytes: int
    directory: str | None = None


class Volume(NamedTuple):
    """The file system of a data directory; None is what cannot be known, as of a store.

    `free_bytes` are those that the broker may use, so without what is reserved for root.
    """

    directory: str
    device: str | None = None
    size_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None

    def row(
        self, asked_bytes: int | None, planned_bytes: int | None, kafka_bytes: int, broker: Version
    ) -> DataDirectory:
        """Make the row of a data directory. `kafka_bytes` are those of its files."""
        return DataDirectory(
            path=self.directory,
            broker_version=text_of(broker),
            device=self.device,
            size_bytes=self.size_bytes,
            used_bytes=self.used_bytes,
            free_bytes=self.free_bytes,
            apparent_bytes=kafka_bytes,
            asked_bytes=asked_bytes,
            planned_bytes=planned_bytes,
        )


class Goal(NamedTuple):
    """Bytes to free in some data directories together: of one file system, or one that is named."""

    directories: tuple[str, ...]
    asked_bytes: int


def volume_of(directory: str) -> Volume:
    """Ask for the file system of a data directory."""
    if places.is_uri(directory):
        return Volume(directory)
    try:
        room, device = os.statvfs(directory), os.stat(directory).st_dev
    except OSError:
        return Volume(directory)
    unit = room.f_frsize
    return Volume(
        directory,
        f"{os.major(device)}:{os.minor(device)}",
        room.f_blocks * unit,
        (room.f_blocks - room.f_bfree) * unit,
        room.f_bavail * unit,
    )


def goals_of(requests: Iterable[FreeRequest], volumes: Sequence[Volume]) -> list[Goal]:
    """Decide what is to be freed where; raises UsageError for a directory that is not there.

    A request that names no directory is one of each file system that has less free, or, where none
    has, of each. Directories that are named have requests of their own.
    """
    plain: int | None = None
    named: dict[str, int] = {}
    for request in requests:
        if request.directory is None:
            plain = request.size_bytes
        else:
            named[_find_directory(request.directory, volumes)] = request.size_bytes
    goals = [Goal((directory,), size) for directory, size in named.items()]
    if plain is None:
        return goals
    shared: dict[str, list[Volume]] = {}
    for volume in volumes:
        if volume.directory not in named:
            shared.setdefault(volume.device or volume.directory, []).append(volume)
    lacking = [
        group for group in shared.values() if (group[0].free_bytes or 0) < plain
    ] or shared.values()
    goals += [Goal(tuple(one.directory for one in group), plain) for group in lacking]
    return goals


def _find_directory(name: str, volumes: Sequence[Volume]) -> str:
    """Return the data directory of a path, or of the last parts of one."""
    directories = [volume.directory for volume in volumes]
    wanted = places.real(name)
    found = [one for one in directories if places.real(one) == wanted]
    parts = tuple(name.strip("/").split("/"))
    if not found and not name.startswith("/"):
        found = [one for one in directories if _ends_with(one, parts)]
    if len(found) != 1:
        known = ", ".join(directories)
        why = "names several of" if found else "is not one of"
        raise UsageError(f"--free: {name!r} {why} the data directories: {known}")
    return found[0]


def _ends_with(directory: str, parts: tuple[str, ...]) -> bool:
    return tuple(places.real(directory).split("/"))[-len(parts) :] == parts

"""Account for every byte under a directory, as `du` does, by what the files are.

Apparent bytes are sizes of files, those of directories among them; allocated ones are what the
file system took for them. A file of several names counts once, under the first of them. Nothing is
followed: a symbolic link is as long as its text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.sound_start import written_slots
from kdump.errors import PathError
from kdump.storage import names, places
from kdump.storage.names import INDEX_KINDS, Kind
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from kdump.storage.local_log import LogSegment
    from kdump.storage.places import FileStatus

_BLOCK = 512  # what st_blocks counts in
_LOGS = (Kind.LOG, Kind.PRE08_LOG)


class Space(NamedTuple):
    """Bytes by what they are; the four of them are apparent, and make all."""

    log_bytes: int = 0
    index_bytes: int = 0
    other_bytes: int = 0
    retired_bytes: int = 0
    allocated_bytes: int | None = 0
    deleted_bytes: int = 0  # of the retired ones: files that the broker has deleted already

    @property
    def apparent_bytes(self) -> int:
        """All of it, as `du --apparent-size` counts."""
        return self.log_bytes + self.index_bytes + self.other_bytes + self.retired_bytes

    def plus(self, part: str, one: FileStatus | os.stat_result) -> Space:
        """Add a file to one of the four."""
        assert not isinstance(one, OSError)
        blocks = getattr(one, "st_blocks", None)  # a store has none
        known = self.allocated_bytes
        allocated = None if blocks is None or known is None else known + blocks * _BLOCK
        total = getattr(self, part) + one.st_size
        return self._replace(**{part: total}, allocated_bytes=allocated)


def space_of(path: str, *, retired: bool = False, around: bool = False) -> Space:
    """Add up a directory. `retired`: all of it is; `around`: without its partitions."""
    space = Space()
    seen: set[tuple[int, int]] = set()
    for entry_name, status in _files(path, around=around):
        if getattr(status, "st_nlink", 1) > 1 and not stat.S_ISDIR(status.st_mode):
            identity = status.st_dev, status.st_ino
            if identity in seen:
                continue
            seen.add(identity)
        space = space.plus("retired_bytes" if retired else _part(entry_name), status)
        if entry_name.endswith(names.DELETED):
            space = space._replace(deleted_bytes=space.deleted_bytes + status.st_size)
    return space


def _part(entry_name: str) -> str:
    """Say which part of a partition a file is, by its name; "" is a directory."""
    name = names.parse(entry_name)
    if name.retired:
        return "retired_bytes"
    if name.kind in _LOGS:
        return "log_bytes"
    return "index_bytes" if name.kind in INDEX_KINDS else "other_bytes"


def _files(path: str, *, around: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the directory itself under no name, and all that is in it; what vanishes is left."""
    if places.is_uri(path):
        yield from _files_in_store(path, around=around)
        return
    waiting = [(path, True)]
    while waiting:
        directory, is_top = waiting.pop()
        try:
            yield "", os.lstat(directory)
            entries = places.entries(directory)
        except OSError as error:
            if is_top:
                raise PathError.from_os(path, error) from error
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)  # type: ignore[call-arg]
            except OSError:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield entry.name, status  # type: ignore[misc]
            elif not (around and is_top and names.parse_directory(entry.name)):
                waiting.append((os.path.join(directory, entry.name), False))


def _files_in_store(path: str, *, around: bool) -> Iterator[tuple[str, os.stat_result]]:
    for name, status in places.statuses(path).items():
        is_partition = around and names.parse_directory(name) is not None
        if not isinstance(status, OSError) and not is_partition:
            yield name, status  # type: ignore[misc]


def reserved_bytes(segment: LogSegment) -> int:
    """Count the bytes of a segment's indexes that are reserved and hold no entry yet (I2)."""
    reserved = 0
    for kind, read in ((Kind.OFFSET_INDEX, OffsetIndex), (Kind.TIME_INDEX, TimeIndex)):
        if (path := segment.files.get(kind)) is None:
            continue
        try:
            with Source(path) as source:
                index = read(source, segment.base_offset, slotwise=True)
                if index.entries and index.raw(index.entries - 1) == (0, 0):
                    written = written_slots(index)
                    reserved += source.size - written * index.layout.size
        except PathError:
            continue
    return reserved

"""LogDir: one data directory of a broker (a `log.dirs` entry) and what its checkpoints say."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.errors import PathError, path_errors
from kdump.storage import checkpoints, names, places
from kdump.storage.names import DirectoryName
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.stores.store import Entry

#: What changes when a directory's entries do, or the checkpoints that are read of it. A start ends
#: all that the mark of a clean stop says.
_STAMPED = (
    "",
    names.CLEAN_SHUTDOWN,
    names.LOG_START_CHECKPOINT,
    names.REPLICATION_CHECKPOINT,
    names.RECOVERY_POINT_CHECKPOINT,
    names.CLEANER_CHECKPOINT,
)
#: A listing of a store, which has no such stamps, is made anew after so long.
_STORE_SECONDS = 30.0
_MOST = 64  # directories held at one time
#: For so long the listing of a data directory is taken as it is by the partitions in it.
LISTED_SECONDS = 0.05


class _Listing(NamedTuple):
    partitions: list[tuple[DirectoryName, str]]
    files: list[str]
    unknown: list[tuple[DirectoryName | None, PathError]]


class LogDir:
    """One data directory, listed once."""

    def __init__(self, path: str, entries: Sequence[os.DirEntry[str] | Entry]) -> None:
        self.path = path
        self._entries = entries
        self._offsets: dict[str, dict[tuple[str, int], int] | None] = {}
        self._times: dict[str, float | None] = {}
        self._of_topics: dict[str, list[tuple[DirectoryName, str]]] = {}

    @cached_property
    def _listing(self) -> _Listing:
        """Sort the entries out; whoever asks for checkpoints alone need not wait for that."""
        listed = _Listing([], [], [])
        prefix = os.path.join(self.path, "")
        for entry in sorted(self._entries, key=lambda entry: entry.name):
            at = prefix + entry.name
            try:
                is_dir = entry.is_dir()
            except OSError as error:
                name = names.parse_directory(entry.name)
                listed.unknown.append((name, PathError.from_os(at, error)))
                continue
            if not is_dir:
                listed.files.append(at)
            elif name := names.parse_directory(entry.name):
                listed.partitions.append((name, at))
        listed.partitions.sort(key=lambda item: (item[0].topic, item[0].partition, item[1]))
        return listed

    @property
    def partitions(self) -> list[tuple[DirectoryName, str]]:
        """Its partitions: (directory name, path), in the order of topic and partition."""
        return self._listing.partitions

    def of_topic(self, topic: str) -> list[tuple[DirectoryName, str]]:
        """Give the partitions of a topic; each partition asks for those of one."""
        if topic not in self._of_topics:
            self._of_topics[topic] = [one for one in self.partitions if one[0].topic == topic]
        return self._of_topics[topic]

    @property
    def files(self) -> list[str]:
        """The paths of the plain files in it."""
        return self._listing.files

    @property
    def unknown(self) -> list[tuple[DirectoryName | None, PathError]]:
        """Entries of which the system does not say what they are, such as a link to itself."""
        return self._listing.unknown

    @classmethod
    def open(cls, path: str) -> LogDir:
        """List a data directory."""
        with path_errors(path):
            return cls(path, places.entries(path))

    @cached_property
    def meta(self) -> dict[str, str | None]:
        """What `meta.properties` says; nothing where there is none that can be read."""
        from kdump.storage.directory_facts import meta_of  # few commands ask whose directory it is

        return meta_of(self.path)

    @property
    def node_id(self) -> str | None:
        """The node that `meta.properties` names."""
        return self.meta.get("node.id") or self.meta.get("broker.id")

    def offsets(self, checkpoint: str) -> dict[tuple[str, int], int] | None:
        """Read one of the offset checkpoints (X3), once; None where a broker could not read it.

        A file that is not there has no entries.
        """
        if checkpoint not in self._offsets:
            self._offsets[checkpoint] = self._read(checkpoint)
        return self._offsets[checkpoint]

    def offset(self, checkpoint: str, topic: str | None, partition: int | None) -> int | None:
        """Say what one of them has of a partition; None where it has nothing, or is not read."""
        return (self.offsets(checkpoint) or {}).get((topic or "", partition or 0))

    def _read(self, checkpoint: str) -> dict[tuple[str, int], int] | None:
        path = os.path.join(self.path, checkpoint)
        if not places.lexists(path):
            return {}
        try:
            found = checkpoints.parse_offsets(read_whole(path, checkpoints.SIZE_LIMIT))
        except PathError:
            return None
        if found.problems:
            return None
        return {(topic, partition): offset for topic, partition, offset in found.entries}

    def checkpoint_time(self, checkpoint: str) -> float | None:
        """When a checkpoint was last written, in seconds; None where it is not there.

        It is asked once.
        """
        if checkpoint not in self._times:
            try:
                written = places.stat(os.path.join(self.path, checkpoint)).st_mtime
            except OSError:
                written = None
            self._times[checkpoint] = written
        return self._times[checkpoint]


class _CachedLogDir(NamedTuple):
    directory: LogDir | None
    stamps: object
    seen_at: float


class LogDirs:
    """Data directories, each listed once for all of its partitions, for as long as it stays so.

    There may be many thousands of partitions in one, and each asks for its checkpoints. A listing
    stands while inode, size and time of the directory and of its checkpoints do; in a store, where
    to ask costs as much as to list, for half a minute.
    """

    def __init__(self) -> None:
        self._known: dict[str, _CachedLogDir] = {}

    def find_parent(self, partition: str, seconds: float = 0.0) -> LogDir | None:
        """Give the data directory that a partition's directory lies in; None: it is not listed.

        For so many `seconds` after it was last looked at it is not asked whether it changed.
        """
        path = places.parent(partition)
        in_store = places.is_uri(path)
        now = time.monotonic()
        known = self._known.get(path)
        if known is not None and now - known.seen_at < (_STORE_SECONDS if in_store else seconds):
            return known.directory
        stamps = None if in_store else _stamps(path)
        if known is not None and not in_store and known.stamps == stamps:
            self._known[path] = known._replace(seen_at=now)
            return known.directory
        try:
            found = LogDir.open(path)
        except PathError:
            found = None
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[path] = _CachedLogDir(found, stamps, now)
        return found

    def forget(self) -> None:
        """Begin anew, as whoever resolves paths: what an earlier run saw may be long past."""
        self._known.clear()


#: In each worker its own.
LOG_DIRS = LogDirs()


def _stamps(directory: str) -> tuple[tuple[int, int, int] | None, ...]:
    found: list[tuple[int, int, int] | None] = []
    for name in _STAMPED:
        try:
            status = places.stat(os.path.join(directory, name))
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)

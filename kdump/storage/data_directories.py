"""Find the data directories that a path stands for, itself or at any depth below.

A folder below with segments of its own is one partition, and is found as well.

Links are not followed, and the search is bounded. What it did not look into is named, with the
reason: whoever reads the result must not take a part for the whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, PathError
from kdump.storage import names, places
from kdump.storage.local_log import looks_like_partition
from kdump.storage.log_dir import LogDir
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.stores.store import Entry

#: So many folders are searched, for so long: a whole disk of a broker, and no file server.
_FOLDERS = 500_000
_SECONDS = 120.0
#: So many places are named that were not searched; more are counted.
_NAMED = 1000
#: What has folders without end, and no files of a disk.
_PSEUDO = frozenset({"/proc", "/sys"})
#: Files that a broker has in each of its data directories.
MARKS = frozenset((
    names.META_PROPERTIES,
    names.LOG_START_CHECKPOINT,
    names.RECOVERY_POINT_CHECKPOINT,
    names.REPLICATION_CHECKPOINT,
))  # fmt: skip


class Below(NamedTuple):
    """The data directories below a folder, and what of it was not searched for them.

    `tiers`: the remote storage next to them, which is not theirs to read.
    """

    found: list[str]
    unsearched: list[KdumpError]
    tiers: Sequence[str] = ()


def look_below(path: str) -> Below:
    """Find the data directories below a folder that is none itself, in the order of names.

    Nothing for a file, a data directory or a partition, or what cannot be listed: who reads the
    path says why.
    """
    try:
        if not places.isdir(path):
            return Below([], [])
        entries = places.listdir(path)
        if looks_like_partition(entries) or any(
            not places.isdir(os.path.join(path, mark)) for mark in MARKS.intersection(entries)
        ):
            return Below([], [])
        if is_data_directory(LogDir.open(path)):
            return Below([], [])
    except (OSError, PathError):
        return Below([], [])
    return _Search(path).below()


def data_directories_below(path: str) -> list[str]:
    """Return the data directories below a folder that is none itself."""
    return look_below(path).found


def spread(path: str) -> list[str]:
    """Return the data directories that a path stands for, or the path itself."""
    return data_directories_below(path) or [path]


def spread_all(paths: Iterable[str]) -> tuple[list[str], list[KdumpError]]:
    """Return the data directories that some paths stand for, and what was not searched for them.

    What an archive holds and was not read of it is reported as well, once a run.
    """
    found: list[str] = []
    unsearched: list[KdumpError] = []
    for path in paths:
        if places.is_uri(path):
            from kdump.stores.view_store import file_of, take_problems

            problems = take_problems(path)
            unsearched += (PathError(file_of(path) or path, problem) for problem in problems)
        below = look_below(path)
        found += below.found or [path]
        unsearched += below.unsearched
    return found, unsearched


class _Search:
    """A search below one folder, from front to back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: list[str] = []
        self._unsearched: list[KdumpError] = []
        self._more = 0
        self._links: list[str] = []
        self._seen: set[tuple[int, int]] = set()
        self._tiers: dict[str, None] = {}

    def below(self) -> Below:
        """Search all folders there are."""
        until = time.monotonic() + _SECONDS
        todo, count = [self._path], 0
        while todo:
            if count == _FOLDERS or time.monotonic() > until:
                self._note_stop(todo, count)
                break
            count += 1
            folder = todo.pop()
            todo += reversed(self._folders_in(folder))
        root = os.path.join(places.real(self._path), "")
        for link in self._links:
            if not os.path.join(places.real(link), "").startswith(root):
                self._note_unsearched(
                    link, "it is a link to a directory elsewhere; name its target"
                )
        if self._more:
            words = f"has {self._more:,} more places that were not searched"
            self._unsearched.append(PathError(self._path, words))
        if not self._found:
            for tier in self._tiers:
                self._note_unsearched(
                    tier, "it is remote storage (pass it as the only PATH, or with --tier)"
                )
        return Below(self._found, self._unsearched, [*self._tiers])

    def _folders_in(self, folder: str) -> list[str]:
        """Look into a folder; return those in it that are to be searched, if it is none itself."""
        from kdump.storage.tier_layout import is_of_a_tier

        if folder in _PSEUDO:
            self._note_unsearched(folder, "it is not a disk file system")
            return []
        try:
            if self._was_seen(folder):
                return []
            entries: Sequence[os.DirEntry[str] | Entry] = places.entries(folder)
            if folder != self._path and _has_logs(LogDir(folder, entries)):
                self._found.append(folder)
                return []
        except OSError as error:
            if places.lexists(folder):  # else it vanished since it was listed
                self._note_unsearched(folder, error.strerror or str(error))
            return []
        if is_of_a_tier(entry.name for entry in entries):
            self._pass_tier(folder)
            return []
        prefix = os.path.join(folder, "")
        found = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            at = prefix + entry.name
            try:
                if not entry.is_dir():
                    continue
            except OSError as error:  # a link to itself, or into what may not be entered
                self._note_unsearched(at, error.strerror or str(error))
                continue
            if isinstance(entry, os.DirEntry) and entry.is_symlink():
                self._links.append(at)
            else:
                found.append(at)
        return found

    def _pass_tier(self, folder: str) -> None:
        """Note remote storage once, whose folders of partitions are side by side."""
        self._tiers[folder if folder == self._path else os.path.dirname(folder)] = None

    def _was_seen(self, folder: str) -> bool:
        """Whether a folder was searched under another path, as a bind mount may show it."""
        if places.is_uri(folder):
            return False
        status = os.stat(folder)
        key = status.st_dev, status.st_ino
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def _note_stop(self, todo: list[str], count: int) -> None:
        more = f", nor were {len(todo) - 1:,} others" if len(todo) > 1 else ""
        words = f"the search ended after {count:,} directories; name the directories to read{more}"
        self._note_unsearched(todo[-1], words)

    def _note_unsearched(self, path: str, reason: str) -> None:
        if len(self._unsearched) < _NAMED:
            words = f"was not searched for data directories: {reason}"
            self._unsearched.append(PathError(path, words))
        else:
            self._more += 1


def _has_logs(directory: LogDir) -> bool:
    """Whether a folder is a data directory, or a partition under any name."""
    return looks_like_partition(list(map(os.path.basename, directory.files))) or (
        is_data_directory(directory)
    )


def is_data_directory(directory: LogDir) -> bool:
    """Whether a folder is a data directory: it has a broker's own files, or a partition."""
    if any(os.path.basename(file) in MARKS for file in directory.files):
        return True
    return any(map(_is_partition, (at for _, at in directory.partitions)))


def _is_partition(path: str) -> bool:
    try:
        return looks_like_partition(places.listdir(path))
    except OSError:  # whoever looks into it says why
        return False

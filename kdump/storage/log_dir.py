"""LogDir: one data directory of a broker (a `log.dirs` entry) and what its checkpoints say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdump.errors import PathError
from kdump.storage import checkpoints, names, places
from kdump.storage.checkpoints import Checkpoint, PartitionOffset
from kdump.storage.names import DirectoryName
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.stores.store import Entry


class LogDir:
    """One data directory, listed once.

    `partitions` are (directory name, path), in the order of topic and partition; `files` are the
    paths of the plain files in it. `unknown` are entries of which the system does not say what they
    are, such as a link to itself: only they are lost, not the directory around them.
    """

    def __init__(self, path: str, entries: Sequence[os.DirEntry[str] | Entry]) -> None:
        self.path = path
        self.partitions: list[tuple[DirectoryName, str]] = []
        self.files: list[str] = []
        self.unknown: list[tuple[DirectoryName | None, PathError]] = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            at = os.path.join(path, entry.name)
            try:
                is_dir = entry.is_dir()
            except OSError as error:
                name = names.parse_directory(entry.name)
                self.unknown.append((name, PathError.from_os(at, error)))
                continue
            if not is_dir:
                self.files.append(at)
            elif name := names.parse_directory(entry.name):
                self.partitions.append((name, at))
        self.partitions.sort(key=lambda item: (item[0].topic, item[0].partition, item[1]))
        self._offsets: dict[str, dict[tuple[str, int], int] | None] = {}

    @classmethod
    def open(cls, path: str) -> LogDir:
        """List a data directory."""
        try:
            return cls(path, places.entries(path))
        except OSError as error:
            raise PathError.from_os(path, error) from error

    def offsets(self, checkpoint: str) -> dict[tuple[str, int], int] | None:
        """Read one of the offset checkpoints (X3), once; None where a broker could not read it.

        A file that is not there has no entries.
        """
        if checkpoint not in self._offsets:
            self._offsets[checkpoint] = self._read(checkpoint)
        return self._offsets[checkpoint]

    def _read(self, checkpoint: str) -> dict[tuple[str, int], int] | None:
        path = os.path.join(self.path, checkpoint)
        if not places.lexists(path):
            return {}
        try:
            with Source(path) as source:
                found: Checkpoint[PartitionOffset] = checkpoints.parse_offsets(
                    source.whole(checkpoints.SIZE_LIMIT)
                )
        except PathError:
            return None
        if found.problems:
            return None
        return {(topic, partition): offset for topic, partition, offset in found.entries}

    def checkpoint_time(self, checkpoint: str) -> float | None:
        """When a checkpoint was last written, in seconds; None where it is not there."""
        try:
            return places.stat(os.path.join(self.path, checkpoint)).st_mtime
        except OSError:
            return None

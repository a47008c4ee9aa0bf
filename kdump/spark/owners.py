"""Which broker the file behind a row belongs to, and what the file system says of the file.

A view has these columns behind those of its rows: `OWNER` in every view, `FILE` in those whose rows
come out of one file each, under the names that Spark's `_metadata` has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kdump.rows.declarations import Field
from kdump.storage import names, places
from kdump.storage.checkpoints import java_int
from kdump.storage.directory_facts import owner_of
from kdump.tuples import NamedTuple

OWNER = (
    Field("cluster_id", "string", "the cluster that meta.properties names"),
    Field("node_id", "int32", "the node that meta.properties names"),
    Field("data_directory", "string", "the data directory that the file is in"),
)
FILE = (
    Field("file_size", "int64", "size of the file when it was read"),
    Field("file_modification_time", "timestamp", "when the file was last modified"),
)
_NAMES = tuple(one.name for one in (*OWNER, *FILE))


class FileFacts(NamedTuple):
    """A file with the values of those columns; the time in microseconds."""

    path: str
    cluster_id: str | None = None
    node_id: int | None = None
    data_directory: str | None = None
    file_size: int | None = None
    file_modification_time: int | None = None

    @property
    def owner(self) -> dict[str, object]:
        """The columns of its owner."""
        return {one.name: getattr(self, one.name) for one in OWNER}

    @property
    def columns(self) -> dict[str, object]:
        """All of them, and its path."""
        return self._asdict()


class Owners:
    """Finds the owner of each file; each data directory is asked once."""

    def __init__(self, columns: Iterable[str] = _NAMES) -> None:
        wanted = frozenset(columns)
        self._wants_owner = not wanted.isdisjoint(one.name for one in OWNER)
        self._wants_file = not wanted.isdisjoint(one.name for one in FILE)
        self._known: dict[str, tuple[str | None, int | None]] = {}

    def of_log(self, path: str) -> FileFacts:
        """Return what is known of a file of a partition."""
        facts = FileFacts(path)
        if self._wants_owner:
            above = places.parent(path)
            is_partition = names.parse_directory(os.path.basename(above)) is not None
            facts = self._find_owner(facts, places.parent(above) if is_partition else above)
        if self._wants_file:
            try:
                status = places.stat(path)
            except (OSError, ValueError):
                return facts
            changed = status.st_mtime_ns // 1_000_000 * 1000
            facts = facts._replace(file_size=status.st_size, file_modification_time=changed)
        return facts

    def of_place(self, path: str, *, in_partition: bool) -> FileFacts:
        """Return what is known of a file or directory that a finding is about."""
        facts = FileFacts(path)
        if not self._wants_owner:
            return facts
        is_folder = places.isdir(path)
        directory = path if is_folder else places.parent(path)
        if in_partition and self._of(directory) == _NOBODY:
            above = names.parse_directory(os.path.basename(directory)) is not None
            directory = places.parent(directory) if above else directory
        return self._find_owner(facts, directory)

    def of_directory(self, directory: str) -> FileFacts:
        """Return the owner of a data directory."""
        return self._find_owner(FileFacts(directory), directory)

    def _find_owner(self, facts: FileFacts, directory: str) -> FileFacts:
        owner = self._of(directory)
        if owner == _NOBODY:
            owner = self._of(places.parent(directory))
        cluster_id, node_id = owner
        return facts._replace(cluster_id=cluster_id, node_id=node_id, data_directory=directory)

    def _of(self, directory: str) -> tuple[str | None, int | None]:
        if directory not in self._known:
            node, cluster_id = owner_of(directory)
            self._known[directory] = cluster_id, None if node is None else java_int(node, 1 << 31)
        return self._known[directory]


_NOBODY = (None, None)

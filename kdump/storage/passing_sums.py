"""Hash files while others read them, so that what is read once is not read again for its hash."""

from __future__ import annotations

import hashlib
from threading import Lock

from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.source import WATCHED, Source
from kdump.tuples import NamedTuple

_BLOCK_BYTES = 1 << 20
_ZEROS = bytes(_BLOCK_BYTES)
#: A hole is hashed as the zeros that it reads as, up to this size.
_LONGEST_HOLE = 1 << 30


class FileHash(NamedTuple):
    """A file as it was when it was hashed; `text`: why it was not."""

    path: str
    size_bytes: int | None
    modified_ms: int | None
    sha256: str | None
    text: str | None


class PassingSum:
    """The SHA-256 of a file, as far as it was read from its start without a gap."""

    def __init__(self, path: str, size: int, modified: int) -> None:
        self.path, self._size, self._modified = path, size, modified
        self._restart()

    def _restart(self) -> None:
        self._sum, self._position, self._lock = hashlib.sha256(), 0, Lock()

    def take(self, view: memoryview, position: int, count: int) -> None:
        """Take bytes that were read at a position; others may read the file meanwhile."""
        with self._lock:
            if position <= self._position < position + count:
                self._sum.update(view[self._position - position : count])
                self._position = position + count

    def finish(self) -> FileHash:
        """Read what nobody read yet, and return the sum; the file may have changed meanwhile."""
        try:
            with Source(self.path) as source:
                return self._finish(source)
        except PathError as error:
            return FileHash(self.path, self._size, self._modified // 1_000_000, None, error.reason)

    def _finish(self, source: Source) -> FileHash:
        status = source.status()
        size, modified = source.size, status.st_mtime_ns // 1_000_000
        if (size, status.st_mtime_ns) != (self._size, self._modified):
            self._restart()
        data_end = source.data_end()
        if size - max(data_end, self._position) > _LONGEST_HOLE:
            return FileHash(self.path, size, modified, None, "has more than 1 GiB of holes")
        while self._position < data_end:
            block = source.read(self._position, min(_BLOCK_BYTES, data_end - self._position))
            if not block:
                return FileHash(self.path, size, modified, None, "became shorter while it was read")
            if source.unreadable:
                return FileHash(self.path, size, modified, None, "cannot be read completely")
            with memoryview(block) as view:
                self.take(view, self._position, len(block))
        for start in range(self._position, size, _BLOCK_BYTES):
            self._sum.update(_ZEROS[: size - start])
        return FileHash(self.path, size, modified, self._sum.hexdigest(), None)


def watch(paths: list[str]) -> list[PassingSum | FileHash]:
    """Hash these files from now on as they are read; what cannot be asked about says why."""
    sums: list[PassingSum | FileHash] = []
    for path in paths:
        try:
            status = places.stat(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            sums.append(FileHash(path, None, None, None, reason))
            continue
        made = PassingSum(path, status.st_size, status.st_mtime_ns)
        WATCHED[path] = made.take
        sums.append(made)
    return sums


def finish_sums(sums: list[PassingSum | FileHash]) -> list[FileHash]:
    """Return what came of all of them, and hash no longer."""
    for one in sums:
        WATCHED.pop(one.path, None)
    return [one.finish() if isinstance(one, PassingSum) else one for one in sums]


def without_sums(paths: list[str]) -> list[FileHash]:
    """Return what is said of files without hashing them."""
    found = []
    for one in watch(paths):
        WATCHED.pop(one.path, None)
        if isinstance(one, PassingSum):
            one = FileHash(one.path, one._size, one._modified // 1_000_000, None, None)
        found.append(one)
    return found

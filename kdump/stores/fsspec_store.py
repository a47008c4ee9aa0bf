"""Stores that fsspec knows: WebHDFS, SFTP, HTTP, what lies in memory, and many more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from kdump.stores.failures import failures
from kdump.stores.passwords import with_password, with_signature
from kdump.stores.store import Status

# What the implementations call the time of the last change.
_TIMES = ("mtime", "modificationTime", "LastModified", "last_modified", "updated", "modified")
_MS = 1e11  # numbers above it are milliseconds, not seconds


class FsspecStore:
    """A file system of fsspec. Its own caches are passed by: they would hide changes."""

    def __init__(self, root: str) -> None:
        self._root = root
        with failures(root):
            from fsspec.core import url_to_fs

            self.files, _ = url_to_fs(with_password(root))

    def at(self, path: str) -> str:
        """Return a path as the file system wants it."""
        found: str = self.files._strip_protocol(with_signature(self._uri(path)))
        return found

    def status(self, path: str) -> Status | None:
        """Say what lies at a path; None for nothing."""
        with suppress(FileNotFoundError), failures(self._uri(path)):
            self.files.invalidate_cache()
            return _status(self.files.info(self.at(path)))
        return None

    def entries(self, path: str) -> Sequence[tuple[str, Status]]:
        """List a directory."""
        at = self.at(path)
        with failures(self._uri(path)):
            self.files.invalidate_cache()
            found = self.files.ls(at, detail=True)
            names = [(str(one["name"]).rstrip("/"), one) for one in found]
            if [name for name, _ in names] == [at.rstrip("/")] and _status(found[0]).is_file:
                raise NotADirectoryError(at)
        inside = ((name.rpartition("/")[2], one) for name, one in names if name != at.rstrip("/"))
        return [(name, _status(one)) for name, one in inside]

    def open(self, path: str) -> FsspecFile:
        """Open a file for reading."""
        at = self.at(path)
        with failures(self._uri(path)):
            # Unbuffered: what is read ahead is decided in one place, and not here.
            file = self.files.open(at, "rb", cache_type="none")
            size = getattr(file, "size", None)
            size = self.files.info(at)["size"] if size is None else size
            return FsspecFile(self._uri(path), file, int(size))

    def _uri(self, path: str) -> str:
        return f"{self._root}/{path}"


class FsspecFile:
    """An open file of fsspec's."""

    def __init__(self, uri: str, file: Any, size: int) -> None:
        self._uri = uri
        self._file = file
        self.size = size

    def read_at(self, position: int, size: int) -> bytes:
        """Read a range by one request."""
        with failures(self._uri):
            self._file.seek(position)
            return bytes(self._file.read(size))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def _status(info: Mapping[str, Any]) -> Status:
    is_dir = info.get("type") == "directory"
    size = 0 if is_dir else info.get("size") or 0
    time = next((info[word] for word in _TIMES if info.get(word) is not None), 0)
    return Status(is_dir, info.get("type") == "file", int(size), _ns(time))


def _ns(time: object) -> int:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return 0
    if isinstance(time, datetime):
        time = time.timestamp()
    if not isinstance(time, (int, float)):
        return 0
    return int(time * (1_000_000 if time > _MS else 1_000_000_000))

"""Stores that pyarrow opens by itself: S3, GCS, Azure, HDFS through libhdfs, local files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kdump.stores.failures import failures
from kdump.stores.store import Status

SCHEMES = frozenset("s3 gs abfs abfss hdfs viewfs file".split())


class ArrowStore:
    """A `pyarrow.fs.FileSystem`, at the root that a URI names."""

    def __init__(self, root: str) -> None:
        self._root = root
        with failures(root):
            from pyarrow.fs import FileSystem

            self.files: Any
            self.files, base = FileSystem.from_uri(root + "/")
        self._base = base.rstrip("/")

    def at(self, path: str) -> str:
        """Return a path as pyarrow wants it."""
        return f"{self._base}/{path}" if path else self._base or "/"

    def status(self, path: str) -> Status | None:
        """Say what lies at a path; None for nothing."""
        with suppress(FileNotFoundError), failures(self._uri(path)):
            return _status(self.files.get_file_info(self.at(path)))
        return None

    def entries(self, path: str) -> Sequence[tuple[str, Status]]:
        """List a directory."""
        with failures(self._uri(path)):
            from pyarrow.fs import FileSelector

            found = self.files.get_file_info(FileSelector(self.at(path)))
        listed = ((one.base_name, _status(one)) for one in found)
        return [(name, status) for name, status in listed if status is not None]

    def open(self, path: str) -> ArrowFile:
        """Open a file for reading."""
        with failures(self._uri(path)):
            return ArrowFile(self._uri(path), self.files.open_input_file(self.at(path)))

    def _uri(self, path: str) -> str:
        return f"{self._root}/{path}"


class ArrowFile:
    """An open file of pyarrow's."""

    def __init__(self, uri: str, file: Any) -> None:
        self._uri = uri
        self._file = file
        self.size: int = file.size()

    def read_at(self, position: int, size: int) -> bytes:
        """Read a range by one request."""
        with failures(self._uri):
            return bytes(self._file.read_at(size, position))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def _status(info: Any) -> Status | None:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        return None
    is_file = info.type == FileType.File
    size = (info.size or 0) if is_file else 0
    return Status(info.type == FileType.Directory, is_file, size, info.mtime_ns or 0)

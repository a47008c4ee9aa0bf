"""File operations on the parts of a bulk dump in a directory of a store.

Object stores have no directories and no renaming: a part is copied inside the store, and what was
staged goes all at once. pyarrow leaves an empty object behind that stands for the directory, and of
a worker that is killed an upload that was not finished, which no one sees but the store's owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kdump.stores.failures import failures
from kdump.stores.opening import writable

#: In these, a directory is there when something is in it.
_WITHOUT_DIRECTORIES = frozenset({"s3", "gs"})


class StoreFiles:
    """A directory of a store, by its URI."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._files, self._root, scheme = writable(uri)
        self._plain = scheme in _WITHOUT_DIRECTORIES

    def names(self) -> list[str]:
        """Return the names in the directory; none where it is not there."""
        from pyarrow.fs import FileSelector

        with failures(self._uri):
            found = self._files.get_file_info(FileSelector(self._root, allow_not_found=True))
        return sorted(one.base_name for one in found if one.base_name)

    def make(self, path: str) -> None:
        """Make a directory, and those around it, in stores that have some."""
        if not self._plain:
            with failures(self._uri):
                self._files.create_dir(self._at(path), recursive=True)

    def create(self, path: str) -> Any:
        """Open a file for writing, which is there when it is closed."""
        with failures(self._uri):
            return self._files.open_output_stream(self._at(path))

    def close(self, file: Any) -> int:
        """Close a file, which makes it; return its size."""
        with failures(self._uri):
            size: int = file.tell()
            file.close()
        return size

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        from pyarrow.fs import FileType

        with failures(self._uri):
            if self._files.get_file_info(self._at(path)).type == FileType.File:
                self._files.delete_file(self._at(path))

    def move(self, path: str, to: str) -> None:
        """Move a file, or copy it where a store has no renaming: its directory is to be cleared."""
        with failures(self._uri):
            if self._plain:
                self._files.copy_file(self._at(path), self._at(to))
                return
            self.make(to.rpartition("/")[0])
            self._files.move(self._at(path), self._at(to))

    def settle(self, paths: Iterable[str]) -> None:
        """What a store has confirmed, it keeps."""

    def clear(self, path: str) -> bool:
        """Remove a directory with all that is in it, and say whether it is gone."""
        from pyarrow.fs import FileType

        with failures(self._uri):
            if self._files.get_file_info(self._at(path)).type == FileType.NotFound:
                return True
        with suppress(Exception):  # some stores cannot delete what their last object stood for
            self._files.delete_dir(self._at(path))
        with failures(self._uri):
            return bool(self._files.get_file_info(self._at(path)).type == FileType.NotFound)

    def drop(self) -> None:
        """Remove the directory itself, if nothing is in it."""
        if not self.names():
            self.clear("")

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

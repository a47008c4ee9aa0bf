"""File operations on the parts of a bulk dump, on this machine or in a store.

Both do the same few things. Paths are relative to the directory, with slashes. What cannot be done
raises OSError.

Object stores have no directories and no renaming: a part is copied inside the store, and what was
staged goes all at once. pyarrow leaves an empty object behind that stands for the directory, and of
a worker that is killed an upload that was not finished, which no one sees but the store's owner.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from kdump.stores.failures import failures
from kdump.stores.opening import writable
from kdump.stores.uris import is_uri

if TYPE_CHECKING:
    PartFiles: TypeAlias = "LocalFiles | StoreFiles"


def files_at(path: str) -> PartFiles:
    """Return what works on a directory, by its path or URI."""
    if is_uri(path):
        from kdump.output.part_files import StoreFiles

        return StoreFiles(path)
    return LocalFiles(path)


class LocalFiles:
    """A directory of this machine."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        """Return the names in the directory; none where it is not there."""
        try:
            return sorted(entry.name for entry in self._path.iterdir())
        except FileNotFoundError:
            return []

    def make(self, path: str) -> None:
        """Make a directory, and those around it."""
        (self._path / path).mkdir(parents=True, exist_ok=True)

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing; its directory must be there."""
        return (self._path / path).open("xb", buffering=0)

    def close(self, file: BinaryIO) -> int:
        """Close a file so that it survives a power failure; return its size."""
        os.fsync(file.fileno())
        size = file.tell()
        file.close()
        return size

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        (self._path / path).unlink(missing_ok=True)

    def move(self, path: str, to: str) -> None:
        """Rename a file."""
        target = self._path / to
        target.parent.mkdir(parents=True, exist_ok=True)
        (self._path / path).rename(target)

    def settle(self, paths: Iterable[str]) -> None:
        """See to it that the entries of directories survive a power failure."""
        for path in paths:
            handle = os.open(self._path / path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def clear(self, path: str) -> bool:
        """Remove a directory with all that is in it, and say whether it is gone."""
        import shutil

        shutil.rmtree(self._path / path, ignore_errors=True)
        return not (self._path / path).exists()

    def drop(self) -> None:
        """Remove the directory itself, if nothing is in it."""
        try:
            self._path.rmdir()
        except OSError:
            pass


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

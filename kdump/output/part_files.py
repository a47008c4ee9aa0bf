"""File operations on the parts of a bulk dump, on this machine or in a store.

Both do the same few things. Paths are relative to the directory, with slashes. What cannot be done
raises OSError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from kdump.stores.uris import is_uri

if TYPE_CHECKING:
    from kdump.output.part_store import StoreFiles

    PartFiles: TypeAlias = "LocalFiles | StoreFiles"


def files_at(path: str) -> PartFiles:
    """Return what works on a directory, by its path or URI."""
    if is_uri(path):
        from kdump.output.part_store import StoreFiles

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

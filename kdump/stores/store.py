"""The protocol of a store: what is asked of it, and what it answers."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Any, Protocol

from kdump.tuples import NamedTuple


class Status(NamedTuple):
    """What a store says of a path, by the names of `os.stat_result`.

    Only of what there is: no owner and no permissions. `st_ino` is 0: nothing but size and time
    tells one object from another of the same name. `st_mtime_ns` is 0 where the store has none.
    """

    is_dir: bool
    is_file: bool
    st_size: int
    st_mtime_ns: int

    @property
    def st_mtime(self) -> float:
        """The time of the last change, in seconds."""
        return self.st_mtime_ns / 1_000_000_000

    @property
    def st_mode(self) -> int:
        """The kind alone."""
        return stat.S_IFDIR if self.is_dir else stat.S_IFREG if self.is_file else 0

    @property
    def st_ino(self) -> int:
        """Objects have no number."""
        return 0

    @property
    def st_dev(self) -> int:
        """Nor a device."""
        return 0


class Entry(NamedTuple):
    """One entry of a listing, by the names of `os.DirEntry`."""

    name: str
    path: str
    status: Status

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.status.is_dir

    def stat(self) -> Status:
        """What the listing said of it."""
        return self.status


class RangedFile(Protocol):
    """One open file. Its size is that at opening."""

    size: int

    def read_at(self, position: int, size: int) -> bytes:
        """Read a range inside the file by one request; fewer bytes only if it became shorter."""

    def close(self) -> None:
        """Give the file back."""


class Store(Protocol):
    """One store. Paths are those inside it.

    Methods raise FileNotFoundError, PermissionError, NotADirectoryError or IsADirectoryError, or
    StoreError. `files` is the client's own file system, which takes paths as `at` gives them.
    """

    files: Any

    def at(self, path: str) -> str:
        """Return a path as the client wants it."""

    def status(self, path: str) -> Status | None:
        """Say what lies at a path; None for nothing."""

    def entries(self, path: str) -> Sequence[tuple[str, Status]]:
        """List a directory."""

    def open(self, path: str) -> RangedFile:
        """Open a file for reading."""

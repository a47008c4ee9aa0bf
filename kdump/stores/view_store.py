"""Ranges of files of this machine as a store: members of archives, files under other names.

A view is a table of paths inside it; each is a range of a file. So a member of a tar is read where
it lies, and nothing is ever extracted under a name that an archive chose. Views are known by their
root, `archive:///mnt/backup.tar!`; a table of them goes to worker processes by a file that the
environment names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import IO, Any

from kdump.errors import StoreError
from kdump.stores.quiet_open import open_quietly
from kdump.stores.store import Status
from kdump.tuples import NamedTuple

SCHEME = "archive"
STDIN = "standard input"  # what has no path
_SECTOR = 512  # bytes of a block, as `st_blocks` counts them
#: Names the file from which worker processes learn of views.
TABLE = "KDUMP_ARCHIVES"


class Member(NamedTuple):
    """A range of a file that is a file of a view."""

    file: str
    start: int
    size: int
    mtime_ns: int = 0


_views: dict[str, dict[str, Member]] = {}
#: What of each view was not read, in words, until it is reported.
_problems: dict[str, list[str]] = {}


def root_of(path: str) -> str:
    """Name the view of an archive by a URI, so that no other mark can be taken for its end."""
    if path == STDIN:
        return f"{SCHEME}://stdin!"
    return f"{SCHEME}://{os.path.abspath(path).replace('%', '%25').replace('!', '%21')}!"


def file_of(uri: str) -> str:
    """Return the archive that a URI of one of its members names."""
    root = uri.partition("://")[2].partition("!")[0]
    return root.replace("%21", "!").replace("%25", "%")


def stat_of(file: IO[bytes]) -> Member:
    """Say how large a file is and when it changed."""
    status = os.fstat(file.fileno())
    return Member("", 0, status.st_size, status.st_mtime_ns)


def add_view(root: str, members: dict[str, Member], problems: Sequence[str] = ()) -> None:
    """Make a view known to this process, with what there is that is not in it."""
    _views[root] = members
    _problems[root] = list(problems)


def take_problems(uri: str) -> list[str]:
    """Return what was not read of the archive that a URI leads into, the first time it is asked."""
    return _problems.pop(uri.partition("!")[0] + "!", [])


def pack_views() -> bytes:
    """Return all views that this process knows, for `TABLE` to name a file of."""
    import pickle

    return pickle.dumps(_views)


def _view(root: str) -> dict[str, Member]:
    if root not in _views and TABLE in os.environ:
        import pickle

        with open(os.environ[TABLE], "rb") as file:
            _views.update(pickle.load(file))
    if root not in _views:
        raise StoreError(root, "is known only to the process that opened it")
    return _views[root]


class ViewStore:
    """One view."""

    files: Any = None

    def __init__(self, root: str) -> None:
        self._root = root
        self._members = _view(root)
        self._directories: dict[str, dict[str, Status]] = {"": {}}
        for path, member in self._members.items():
            self._enter(path, Status(False, True, member.size, member.mtime_ns))

    def _enter(self, path: str, status: Status) -> None:
        above, _, name = path.rpartition("/")
        if above not in self._directories:
            self._directories[above] = {}
            self._enter(above, Status(True, False, 0, 0))
        self._directories[above][name] = status

    @property
    def is_replaced(self) -> bool:
        """Whether there is a newer view of the same path, because its file has changed."""
        return _views.get(self._root) is not self._members

    def at(self, path: str) -> str:
        """Return a path as it is."""
        return path

    def status(self, path: str) -> Status | None:
        """Say what lies at a path; None for nothing."""
        if path in self._directories:
            return Status(True, False, 0, 0)
        above, _, name = path.rpartition("/")
        return self._directories.get(above, {}).get(name)

    def entries(self, path: str) -> Sequence[tuple[str, Status]]:
        """List a directory."""
        if path not in self._directories:
            number = errno.ENOENT if self.status(path) is None else errno.ENOTDIR
            raise OSError(number, os.strerror(number))
        return list(self._directories[path].items())

    def open(self, path: str) -> MemberFile:
        """Open a file for reading."""
        member = self._members.get(path)
        if member is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return MemberFile(member)


class MemberFile:
    """An open member."""

    def __init__(self, member: Member) -> None:
        self._start = member.start
        self._descriptor = open_quietly(member.file)
        self.size = member.size
        status = os.fstat(self._descriptor)
        self._has_holes = status.st_blocks * _SECTOR < status.st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Read a range."""
        size = min(size, self.size - position)
        start = self._start + position
        if self._has_holes and self._next_data(start) >= start + size:
            return bytes(size)
        return os.pread(self._descriptor, size, start)

    def _next_data(self, start: int) -> int:
        """Say where data follows a position: in a hole, of which a sparse file may have GiBs."""
        try:
            return os.lseek(self._descriptor, start, os.SEEK_DATA)
        except OSError:
            return self._start + self.size

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

"""A new file in the place of an old one: the one way in which kdump writes what has a name.

The new file is written beside the old one, under a name that nobody holds; it gets the old one's
owner, group, mode and extended attributes; it is flushed; one rename puts it in place; the
directory is flushed. So at every moment the name is that of the old file or of the new one, whole,
also where the power fails. Nothing is written through a link, and what a run has begun and does not
finish, it removes.

All names are relative to an open directory, so that nothing is written elsewhere when a directory
is moved or replaced by a link meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_os = os  # a test counts and fails the calls of this module through it

_NO_ATTRIBUTE = frozenset((errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA))
#: What file systems say that cannot flush a directory, or not through such a handle.
_NO_FLUSH = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF))
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC
_PIECE_BYTES = 1 << 20

_unfinished: set[NewFile | NewDirectory] = set()


class NewFile:
    """A file being written in an open directory, there under a temporary name until `rename`.

    A context manager, behind which it is in its place or gone. `mode` is what the system is asked
    for; the umask takes from it.
    """

    def __init__(self, directory: int, temporary: str, *, mode: int = 0o600) -> None:
        self._directory = directory
        self._temporary = temporary
        self.fd = _os.open(temporary, _NEW, mode, dir_fd=directory)
        _unfinished.add(self)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def write(self, data: bytes | memoryview) -> None:
        """Write all of the bytes."""
        with memoryview(data) as view:
            done = 0
            while done < len(view):
                done += _os.write(self.fd, view[done : done + _PIECE_BYTES])

    def be_like(self, other: str, *, timed: bool, owned: bool) -> None:
        """Take owner, group, mode and extended attributes of another file, and its times if asked.

        `owned`: it is an error where the system does not let us give the file away, or look.
        """
        try:
            source = _os.open(other, _OLD, dir_fd=self._directory)
        except PermissionError:
            if owned:
                raise
            status = _os.stat(other, dir_fd=self._directory, follow_symlinks=False)
            _take_status(status, self.fd, owned=False)
            return
        try:
            status = _os.fstat(source)
            _take_status(status, self.fd, owned=owned)
            _take_attributes(source, self.fd)
            if timed:
                _os.utime(self.fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            _os.close(source)

    def seal(self) -> None:
        """Flush the file and close it."""
        _os.fsync(self.fd)
        fd, self.fd = self.fd, -1
        _os.close(fd)

    def rename(self, name: str) -> None:
        """Put the file in its place."""
        _os.rename(self._temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        _unfinished.discard(self)

    def drop(self) -> None:
        """Leave nothing of it behind; of one that is in its place already, nothing is touched."""
        if self not in _unfinished:
            return
        _unfinished.discard(self)
        with suppress(OSError):
            if self.fd >= 0:
                fd, self.fd = self.fd, -1
                _os.close(fd)
        with suppress(OSError):
            _os.unlink(self._temporary, dir_fd=self._directory)


class NewDirectory:
    """A directory being filled, beside its place and under a temporary name until `rename`.

    A context manager, behind which it is in its place, whole and flushed, or gone. A run that is
    killed leaves it under the temporary name, and nothing in its place.
    """

    def __init__(self, path: str, ending: str) -> None:
        parent, self._name = os.path.split(os.path.abspath(path))
        self._temporary = self._name + ending
        self.path = os.path.join(parent, self._temporary)
        self._parent = open_directory(parent)
        self._open: dict[str, int] = {}
        try:
            _os.mkdir(self._temporary, 0o777, dir_fd=self._parent)
        except BaseException:
            _os.close(self._parent)
            raise
        _unfinished.add(self)
        self._open[""] = _os.open(self._temporary, os.O_RDONLY | _DIRECTORY, dir_fd=self._parent)

    def __enter__(self) -> NewDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def directory(self, name: str = "") -> int:
        """Open a directory in it to write in, which is made; without a name, itself."""
        if name not in self._open:
            _os.mkdir(name, 0o777, dir_fd=self._open[""])
            self._open[name] = _os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=self._open[""])
        return self._open[name]

    def rename(self) -> None:
        """Put it in its place, where there is nothing or an empty directory."""
        for directory in reversed(self._open.values()):
            flush_directory(directory)
        _os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        _unfinished.discard(self)
        flush_directory(self._parent)
        self._close()

    def drop(self) -> None:
        """Leave nothing of it behind; of one that is in its place already, nothing is touched."""
        if self not in _unfinished:
            return
        _unfinished.discard(self)
        with suppress(OSError):
            import shutil  # it brings every compression of the library

            shutil.rmtree(self._temporary, dir_fd=self._parent)
        self._close()

    def _close(self) -> None:
        for directory in (*self._open.values(), self._parent):
            with suppress(OSError):
                _os.close(directory)


def write_file(directory: int, name: str, data: bytes, ending: str) -> None:
    """Write a whole small file, flushed, in the place of what has its name."""
    with NewFile(directory, name + ending, mode=0o666) as new:
        new.write(data)
        new.seal()
        new.rename(name)


def open_directory(path: str) -> int:
    """Open a directory to write in, also one that may be written to and not listed."""
    try:
        return _os.open(path, os.O_RDONLY | _DIRECTORY)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        return _os.open(path, os.O_PATH | _DIRECTORY)


def flush_directory(directory: int) -> None:
    """See to it that what was renamed in a directory survives a power failure."""
    try:
        _os.fsync(directory)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise


def drop_unfinished() -> None:
    """Remove what a run that ends now has begun and not finished."""
    for file in list(_unfinished):
        file.drop()


def _take_status(status: os.stat_result, target: int, *, owned: bool) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            _os.fchown(target, status.st_uid, status.st_gid)
        except PermissionError:
            if owned:
                raise
    _os.fchmod(target, stat.S_IMODE(status.st_mode))  # after the owner, whose change clears bits


def _take_attributes(source: int, target: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        attributes = _os.listxattr(source)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return
        raise
    for attribute in attributes:
        try:
            _os.setxattr(target, attribute, _os.getxattr(source, attribute))
        except OSError as error:
            # Labels of the system's own (security.*, trusted.*) are not everyone's to set.
            if error.errno not in _NO_ATTRIBUTE and attribute.startswith(("user.", "system.")):
                raise

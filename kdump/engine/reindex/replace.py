"""Replace index files: the only module that writes in data directories.

How a file is written and put in place is described in `kdump.writing`; here stands what is more
than that where a broker's files are replaced.

    NAME.kdump-tmp    the new file: written, given the old one's owner and times, flushed
    NAME.bak-<UTC>    the old file: a second link to it, flushed with the directory
    NAME              the new file, by one rename; the directory is flushed again

At every moment NAME is the old file or the new one, whole, also where the power fails. Killed in
between, a run leaves the directory as it was, but for the new file under its temporary name and
perhaps the second link; the next run removes both. Where a file system has no hard links the
backup is a copy, made in the same way: moving the old file aside instead would leave a moment in
which NAME is missing, and a broker that starts then reads the whole log again.

All names are relative to an open directory, so that nothing is written elsewhere when a directory
is moved or replaced by a link meanwhile. The directory is locked against a second kdump.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kdump.errors import PathError, RefusedError
from kdump.storage import names
from kdump.tuples import NamedTuple
from kdump.writing import NewFile, flush_directory

_os = os  # a test counts and fails the calls of this module through it

_NO_LINKS = frozenset(
    getattr(errno, name) for name in ("EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EMLINK", "EXDEV")
)
#: What the system says when it will not have the change at all, against when it failed in it.
_REFUSALS = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "no space left in the quota",
    errno.EPERM: "the system does not permit it",
    errno.EACCES: "the system does not permit it",
    errno.EROFS: "the file system is read-only; build elsewhere with --out DIR",
}
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE_BYTES = 1 << 20


class Backup(NamedTuple):
    """A file that was put aside: its name, and that of the file it was."""

    name: str
    original: str
    utc: str


class Directory:
    """One directory to write in, open and locked; see `open_directory`."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def replace(self, name: str, data: bytes, utc: str, like: str) -> str | None:
        """Put a new file in the place of `name` and return the name of the backup, if it was there.

        Owner, group, mode, times and extended attributes are the old file's; of a file that was
        not there, they are those of the file `like`, but for the times.
        """
        old: os.stat_result | None = None
        backup: str | None = None
        new: NewFile | None = None
        try:
            with _convert_errors(self._path_of(name)):
                old = self._status(name)
                new = self._write(name, data, name if old else like, timed=old is not None)
                if old is not None:
                    backup = self._keep(name, names.backup_name(name, utc))
                    flush_directory(self.fd)
                new.rename(name)
        except BaseException:
            if new is not None:
                new.drop()
            if backup is not None:
                with suppress(OSError):
                    now = self._status(name)
                    if old and now and os.path.samestat(old, now):
                        _os.unlink(backup, dir_fd=self.fd)
            raise
        with _convert_errors(self._path_of(name)):
            flush_directory(self.fd)
        return backup

    def create(self, name: str, data: bytes, like: str) -> None:
        """Write a file that must not be there yet; `like` is the path of a file it is like.

        The owner of that one is kept where the system lets us.
        """
        with _convert_errors(self._path_of(name)):
            if self._status(name) is not None:
                raise RefusedError(self._path_of(name), "already exists")
            with self._write(name, data, like, timed=False, owned=False) as new:
                new.rename(name)
            flush_directory(self.fd)

    def restore(self, backup: Backup) -> None:
        """Put a backup back under its old name.

        What stands there now goes, unless it was changed since it was written: the new file has
        the old one's modification time.
        """
        at = self._path_of(backup.original)
        with _convert_errors(at):
            kept, now = self._status(backup.name), self._status(backup.original)
            if kept is None:
                raise RefusedError(at, f"{backup.name} no longer exists")
            if now is not None and now.st_mtime_ns != kept.st_mtime_ns:
                raise RefusedError(
                    at, "was changed after it was rebuilt; the backup was not restored"
                )
            if now is not None and os.path.samestat(kept, now):
                _os.unlink(backup.name, dir_fd=self.fd)  # a rename of a file to itself does nothing
            else:
                _os.rename(backup.name, backup.original, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            flush_directory(self.fd)

    def tidy(self) -> None:
        """Remove what a killed run left: new files not finished, and second links to old ones."""
        with _convert_errors(self.path):
            for name in _os.listdir(self.fd):
                if names.parse(name).suffix == names.OURS:
                    _os.unlink(name, dir_fd=self.fd)
            for backup in self.backups():
                kept, now = self._status(backup.name), self._status(backup.original)
                if kept is not None and now is not None and os.path.samestat(kept, now):
                    _os.unlink(backup.name, dir_fd=self.fd)

    def backups(self) -> list[Backup]:
        """List the files that earlier runs put aside."""
        with _convert_errors(self.path):
            return backups_among(_os.listdir(self.fd))

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return _os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _write(
        self, name: str, data: bytes, like: str, *, timed: bool, owned: bool = True
    ) -> NewFile:
        """Write and flush what will be `name`: it belongs to whom, and is as old as, `like`."""
        new = NewFile(self.fd, name + names.OURS)
        try:
            new.write(data)
            new.be_like(like, timed=timed, owned=owned)
            new.seal()
        except BaseException:
            new.drop()
            raise
        return new

    def _keep(self, name: str, backup: str) -> str:
        """Give the file a second name; a copy where the file system has no links."""
        try:
            _os.link(name, backup, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with self._write(backup, self._content(name), name, timed=True) as new:
                new.rename(backup)
        return backup

    def _content(self, name: str) -> bytes:
        pieces = []
        fd = _os.open(name, _OLD, dir_fd=self.fd)
        try:
            while piece := _os.read(fd, _PIECE_BYTES):
                pieces.append(piece)
        finally:
            _os.close(fd)
        return b"".join(pieces)


@contextmanager
def open_directory(path: str) -> Iterator[Directory]:
    """Open a directory to write in, and lock it against another kdump."""
    with _convert_errors(path):
        fd = _os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(path, "another kdump is writing here") from None
        except OSError:
            pass  # a file system without such locks
        yield Directory(path, fd)
    finally:
        with suppress(OSError):  # what was to be on disk was flushed
            _os.close(fd)


def make_directory(path: str) -> None:
    """Make a directory, and those above it, where it is not there."""
    with _convert_errors(path):
        _os.makedirs(path, exist_ok=True)


def backups_among(entries: list[str]) -> list[Backup]:
    """Pick the backups out of a directory's names, the newest first."""
    found = []
    for entry in entries:
        suffix = names.parse(entry).suffix
        if suffix.startswith(names.BACKUP):
            original, utc = entry[: -len(suffix)], suffix[len(names.BACKUP) :]
            found.append(Backup(entry, original, utc))
    return sorted(found, key=lambda backup: (backup.utc, backup.name), reverse=True)


@contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    """Turn what the system says into an error about a path."""
    try:
        yield
    except OSError as error:
        if error.errno in _REFUSALS:
            raise RefusedError(path, _REFUSALS[error.errno]) from error
        raise PathError.from_os(path, error) from error

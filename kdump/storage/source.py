"""Bounded reads of one file, never mapped and never written.

A mapped file that a live broker truncates kills the reader with SIGBUS; a short read is only a
short read. The size is taken once, when the file is opened, and nothing is read past it: a broker
may be appending (X16). Bytes the device will not give come back as zeros, with their ranges in
`unreadable`.

A file of a store, which a URI names, never grows and has no pages in a cache. Bytes that a store
does not give are an error and no zeros: they may well be there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from kdump.errors import PathError, path_errors
from kdump.record.layout import LOG_OVERHEAD
from kdump.storage import places
from kdump.stores.quiet_open import open_quietly

if TYPE_CHECKING:
    from kdump.stores.store import Status
    from kdump.stores.windows import Windows

_AT_ONCE = 1 << 18  # what is read at a time of a file that is only asked what can be read
UNREADABLE_STEP = 4096  # what is read at a time around an I/O error, aligned in the file
SMALL_FILE_LIMIT = 64 << 20
_READ_AHEAD = 128 << 10  # what Linux reads ahead by itself
_EXTENTS = 64  # so many pieces of data between holes are looked at
_ZEROS = bytes(1 << 18)

# What file systems say of bytes they cannot give back: EIO, and checksum or medium errors that
# reach a reader under another name.
_UNREADABLE_ERRORS = frozenset(
    getattr(errno, name)
    for name in ("EIO", "ENODATA", "EBADMSG", "EUCLEAN", "EILSEQ")
    if hasattr(errno, name)
)
#: Descriptors of files that stay open for a whole run, by path; see `held_files.py`.
HELD: dict[str, int] = {}
#: What is handed all that is read of a file, by path; see `passing_sums.py`.
WATCHED: dict[str, Callable[[memoryview, int, int], None]] = {}

_KINDS = (
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISFIFO, "is a FIFO, not a regular file"),
    (stat.S_ISSOCK, "is a socket, not a regular file"),
    (stat.S_ISCHR, "is a device, not a regular file"),
    (stat.S_ISBLK, "is a device, not a regular file"),
)


class Unreadable(PathError):
    """A device does not give back all bytes of a file; `ranges` are those that it does not."""

    def __init__(self, path: str, ranges: list[tuple[int, int]]) -> None:
        start, end = ranges[0]
        super().__init__(path, f"bytes {start:,} to {end - 1:,}: {os.strerror(errno.EIO)}")
        self.ranges = ranges

    def __reduce__(self) -> tuple[type[Unreadable], tuple[str, list[tuple[int, int]]]]:
        return Unreadable, (self.path, self.ranges)


class Source:
    """One regular file open for reading; a context manager.

    `path` is kept as given. `size` is that at opening (see `refresh`). `shrank` becomes
    true when a read inside that size found the end of the file, `grew` when it was found longer
    later. `in_store`: it is one of a store, which no broker writes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.unreadable: list[tuple[int, int]] = []
        self.shrank = False
        self.grew = False
        self._fd = -1
        self._windows: Windows | None = None
        self.in_store = places.is_uri(self.path)
        if self.in_store:
            self._open_in_store()
            return
        try:
            held = HELD.get(self.path)
            if held is not None:  # its name may be gone
                self._fd = os.dup(held)
            else:
                # Asked first, because opening some devices is already an act.
                if not stat.S_ISREG((status := os.stat(self.path)).st_mode):
                    _refuse_irregular(self.path, status)
                self._fd = open_for_reading(self.path)
            if not stat.S_ISREG((status := os.fstat(self._fd)).st_mode):
                _refuse_irregular(self.path, status)
        except OSError as error:
            self.close()
            raise PathError.from_os(self.path, error) from error
        except (PathError, ValueError) as error:
            self.close()
            if isinstance(error, ValueError):  # a null character in the path
                raise PathError(self.path, str(error)) from error
            raise
        self.size = status.st_size

    def _open_in_store(self) -> None:
        with path_errors(self.path):
            status = places.status_in_store(self.path)
            _refuse_irregular(self.path, status)
            self._windows = places.open_in_store(self.path)
        self.size = self._windows.size
        self._status = status._replace(st_size=self.size)

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back; closing twice is harmless."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
        if self._windows is not None:
            windows, self._windows = self._windows, None
            windows.close()

    def status(self) -> os.stat_result | Status:
        """What the file system says of the open file now; a store: what it said at opening."""
        if self.in_store:
            return self._status
        try:
            return os.fstat(self._fd)
        except OSError as error:
            raise PathError.from_os(self.path, error) from error

    def is_growing(self) -> bool:
        """Whether the file is longer now than the size that was taken."""
        return self.status().st_size > self.size

    def refresh(self) -> int:
        """Take the size again, for a reader that follows a growing file, and return it."""
        size = self.status().st_size
        self.shrank = self.shrank or size < self.size
        self.grew = self.grew or size > self.size
        self.size = size
        return size

    def advise_sequential(self) -> None:
        """Ask for a longer read-ahead; file systems without it are left alone.

        A small file is read ahead whole anyway.
        """
        if self._windows is not None:
            self._windows.sequential = True
            return
        if self.size > _READ_AHEAD:
            self._advise(0, 0, "POSIX_FADV_SEQUENTIAL")

    def advise_done(self, position: int, size: int) -> None:
        """Say that a range will not be read again, so that it need not push out other pages."""
        self._advise(position, size, "POSIX_FADV_DONTNEED")

    @property
    def is_closed(self) -> bool:
        """Whether the file was given back, or never opened."""
        return self._fd < 0 and self._windows is None

    def data_end(self) -> int:
        """Where the last byte that was ever written may lie: behind it there is only a hole.

        A preallocated index is some megabytes of hole, which need not be read to know it is zero.
        """
        if self.in_store or not hasattr(os, "SEEK_HOLE"):
            return self.size
        end = 0
        for _ in range(_EXTENTS):
            try:
                data = os.lseek(self._fd, end, os.SEEK_DATA)
                end = os.lseek(self._fd, data, os.SEEK_HOLE)
            except OSError as error:
                return end if error.errno == errno.ENXIO else self.size
            if end >= self.size:
                break
        return self.size

    def next_data(self, position: int) -> int:
        """Where the next byte may lie that is not in a hole, from a position on; else the size.

        All between is zeros, and need not be read: a file of a few blocks may be a tebibyte long.
        """
        if self.in_store or not hasattr(os, "SEEK_DATA"):
            return position
        try:
            return max(position, min(os.lseek(self._fd, position, os.SEEK_DATA), self.size))
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else position

    def next_entry(self, position: int) -> int:
        """Where the next entry may start that does not lie in a hole whole; see `next_data`.

        Of its first twelve bytes the last four are its size, which is not zero.
        """
        return max(position, self.next_data(position) - LOG_OVERHEAD + 1)

    def only_zeros(self, position: int, end: int) -> bool:
        """Whether nothing but zeros lies in [position, end); holes are not read."""
        size = 1 << 10  # most of what is no zeros shows it at once
        while (position := self.next_data(position)) < end:
            block = self.read(position, min(size, end - position))
            if not block or block != _ZEROS[: len(block)]:
                return False
            position += len(block)
            size = len(_ZEROS)
        return True

    def is_cached(self, position: int) -> bool:
        """Whether the byte at `position` can be read without waiting for the device.

        True where the system cannot tell: nobody then takes a page for one that is not wanted.
        """
        no_wait = getattr(os, "RWF_NOWAIT", 0)
        if self.in_store or not no_wait:
            return True
        try:
            os.preadv(self._fd, [bytearray(1)], position, no_wait)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _advise(self, position: int, size: int, advice: str) -> None:
        if hasattr(os, "posix_fadvise") and self._fd >= 0:
            with suppress(OSError):
                os.posix_fadvise(self._fd, position, size, getattr(os, advice))

    def read_into(self, buffer: bytearray | memoryview, position: int, size: int) -> int:
        """Read up to `size` bytes at `position` to the buffer's start and return how many.

        Fewer come back only at the size taken at opening, or where the file has become shorter.
        """
        assert position >= 0
        size = max(0, min(size, len(buffer), self.size - position))
        with memoryview(buffer) as view:
            done = 0
            while done < size:
                try:
                    count = self._pread(view[done:size], position + done)
                except OSError as error:
                    if error.errno not in _UNREADABLE_ERRORS:
                        raise PathError.from_os(self.path, error) from error
                    return self._read_around(view, position, done, size)
                if count == 0:
                    self.shrank = True
                    break
                done += count
            if WATCHED and (watch := WATCHED.get(self.path)) is not None:
                watch(view, position, done)
            return done

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes at `position`; see `read_into`."""
        size = max(0, min(size, self.size - position))
        buffer = bytearray(size)
        count = self.read_into(buffer, position, size)
        return bytes(buffer) if count == size else bytes(buffer[:count])

    def descriptor(self) -> int:
        """Return what may be read past this object; -1: nothing, or somebody watches all reads."""
        return -1 if WATCHED and self.path in WATCHED else self._fd

    def read_whole(self, limit: int = SMALL_FILE_LIMIT, *, with_holes: bool = False) -> bytes:
        """Read all of a small file; one larger than the limit is not what it says it is.

        Raises `Unreadable` where the device does not give all of it, which is not asked of those
        who read `with_holes`: they look at `unreadable` themselves.
        """
        if self.size > limit:
            reason = f"is {self.size} bytes long; files of this kind have at most {limit}"
            raise PathError(self.path, reason)
        data = self.read(0, self.size)
        if self.unreadable and not with_holes:
            raise Unreadable(self.path, self.unreadable)
        return data

    def _pread(self, view: memoryview, position: int) -> int:
        if self._windows is not None:
            return self._from_store(self._windows, view, position)
        return os.preadv(self._fd, [view], position)

    def _from_store(self, windows: Windows, view: memoryview, position: int) -> int:
        with path_errors(self.path):
            count = windows.read_into(view, position)
        if not count:
            self._status = self._status._replace(st_size=windows.now())
        return count

    def _read_around(self, view: memoryview, position: int, done: int, size: int) -> int:
        """Go on page by page; pages that cannot be read are zeros and noted."""
        while done < size:
            start = position + done
            step = min(size - done, UNREADABLE_STEP - start % UNREADABLE_STEP)
            try:
                count = self._pread(view[done : done + step], start)
            except OSError as error:
                if error.errno not in _UNREADABLE_ERRORS:
                    raise PathError.from_os(self.path, error) from error
                view[done : done + step] = bytes(step)
                self._note_unreadable(start, start + step)
                count = step
            if count == 0:
                self.shrank = True
                break
            done += count
        return done

    def _note_unreadable(self, start: int, end: int) -> None:
        """Add a range; it is joined with those it touches, and reading twice notes it once."""
        ranges = self.unreadable
        if not ranges or start > ranges[-1][1]:
            ranges.append((start, end))
            return
        kept = []
        for low, high in ranges:
            if high < start or low > end:
                kept.append((low, high))
            else:
                start, end = min(start, low), max(end, high)
        kept.append((start, end))
        kept.sort()
        ranges[:] = kept


def open_for_reading(path: str) -> int:
    """Open without touching the access time where that is allowed; a FIFO cannot hang us."""
    return open_quietly(path, os.O_NONBLOCK)


def _refuse_irregular(path: str, status: os.stat_result | Status) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    for is_kind, reason in _KINDS:
        if is_kind(status.st_mode):
            raise PathError(path, reason)
    raise PathError(path, "is not a regular file")


def read_whole(path: str | os.PathLike[str], limit: int = SMALL_FILE_LIMIT) -> bytes:
    """Read all of a small file; see `Source.read_whole`."""
    with Source(path) as source:
        return source.read_whole(limit)


def unreadable_ranges(path: str) -> list[tuple[int, int]]:
    """Read all of a file, and return the ranges that the device does not give back."""
    buffer = bytearray(_AT_ONCE)
    with Source(path) as source:
        source.advise_sequential()
        position = source.next_data(0)
        while position < source.size:
            source.read_into(buffer, position, len(buffer))
            position = source.next_data(position + len(buffer))
        return source.unreadable

"""Keep files open for a whole run, so that they can be read after their names are gone.

A broker deletes a `-delete` directory a minute after the topic, and retention deletes segments at
any time. The system frees the blocks of a file only when nobody has it open: `Source` reads a held
file through the descriptor that is kept here, whatever became of its path.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress

from kdump.storage.places import is_uri, size_or_zero
from kdump.storage.source import HELD, open_for_reading
from kdump.tuples import NamedTuple

_SPARE = 256  # descriptors for everything else: connections, results, files that are being read
_FULL = (errno.EMFILE, errno.ENFILE)


class UnheldFile(NamedTuple):
    """A file that is not kept open, and why; `is_gone`: it was listed and is not there."""

    path: str
    reason: str
    is_gone: bool


class HeldFiles:
    """The files that a run keeps open; a context manager that closes them."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def __enter__(self) -> HeldFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._paths:
            os.close(HELD.pop(self._paths.pop()))

    def hold(self, paths: Iterable[str]) -> list[UnheldFile]:
        """Open files and keep them; give those that could not be opened, or not be kept.

        The first count most where not all can be kept. Of a store nothing is held: nothing there
        goes away by itself.
        """
        wanted = [path for path in dict.fromkeys(paths) if not is_uri(path) and path not in HELD]
        room = _room_for(len(wanted))
        failed = []
        for number, path in enumerate(wanted):
            if number >= room:
                failed.append(UnheldFile(path, "the limit of open files is too low", False))
                continue
            try:
                HELD[path] = open_for_reading(path)
            except OSError as error:
                reason = error.strerror or str(error)
                failed.append(UnheldFile(path, reason, isinstance(error, FileNotFoundError)))
                if error.errno in _FULL:
                    room = number
            except ValueError as error:  # a null character
                failed.append(UnheldFile(path, str(error), False))
            else:
                self._paths.append(path)
        return failed


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a held file: two names of one file have the same."""
    if path not in HELD:
        return None
    status = os.fstat(HELD[path])
    return status.st_dev, status.st_ino


def size_of(path: str) -> int:
    """Return the size of a file, also of a held one whose name is gone; 0 where nobody says."""
    return os.fstat(HELD[path]).st_size if path in HELD else size_or_zero(path)


def _room_for(count: int) -> int:
    """Raise the limit of open files as far as is needed and allowed; give how many may be held."""
    try:
        import resource
    except ImportError:
        return count
    opened = _count_open()
    needed = opened + count + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft != endless and soft < needed:
        for limits in ((needed, hard), (needed, needed), (hard, hard)):
            if limits[0] > limits[1] != endless:
                continue
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                break
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == endless or soft >= needed:
        return count
    free = max(0, soft - opened)
    return free - min(_SPARE, free // 2)


def _count_open() -> int:
    """Count the descriptors of this process, those of held files among them."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return len(HELD)

"""Read a directory again where files went since it was listed: a running broker takes them away.

Retention deletes segments, and the cleaner replaces them.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from kdump.errors import PathError
from kdump.storage import places

_GONE = os.strerror(errno.ENOENT)
_LISTINGS = 6  # of a partition from which files go while it is read
_PAUSE_SECONDS = 0.01  # a cleaner puts its segment in place in less
_Read = TypeVar("_Read")


def is_gone(error: PathError | OSError) -> bool:
    """Whether an error says that a file is not there, which was when it was listed."""
    if isinstance(error, PathError):
        return error.reason == _GONE and not _is_dangling(error.path)
    return error.errno == errno.ENOENT


def _is_dangling(path: str) -> bool:
    return places.lexists(path) and not places.isfile(path)


def read_listed(read: Callable[[], _Read], *directories: str) -> _Read:
    """Return what `read` gives, which lists directories; call it again where files went meanwhile.

    Raise its error where that is another, or a directory itself is gone.
    """
    for turn in range(1, _LISTINGS):
        try:
            return read()
        except (PathError, FileNotFoundError) as error:
            if not is_gone(error) or not all(map(places.isdir, directories)):
                raise
        time.sleep(_PAUSE_SECONDS * turn)
    return read()

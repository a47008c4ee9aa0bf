"""Open files for reading without a change to them: the time of the last access stays as it is."""

from __future__ import annotations

import os

_NO_ACCESS_TIME = getattr(os, "O_NOATIME", 0)  # Linux, and only for the file's owner or root


def open_quietly(path: str, flags: int = 0) -> int:
    """Open for reading, and leave the access time alone where the system allows that."""
    flags |= os.O_RDONLY | os.O_CLOEXEC
    if _NO_ACCESS_TIME:
        try:
            return os.open(path, flags | _NO_ACCESS_TIME)
        except PermissionError:
            pass
    return os.open(path, flags)

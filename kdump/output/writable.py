"""Check that a file can be written before anything is read, so that no long run fails late.

Nothing is created to find out. What changes while the run goes on is reported when the file is
written.
"""

from __future__ import annotations

import os
import stat

from kdump.errors import PathError
from kdump.stores.uris import is_uri


def need_writable(path: str, option: str) -> None:
    """Raise unless a file can be written at `path`; what is there and is no file is written to."""
    named = f"{option} {path}"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise _refusal(named, error) from error
    if stat.S_ISDIR(mode):
        raise PathError(named, "is a directory")
    if stat.S_ISREG(mode):
        _need_directory(named, os.path.dirname(os.path.realpath(path)))
    elif not _may(path, os.W_OK):
        raise PathError(named, "may not be written to")


def need_writable_directory(path: str, option: str) -> None:
    """Raise unless a directory can be written into, or made with those above it."""
    if is_uri(path):
        return
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    _need_directory(f"{option} {path}", above)


def _need_directory(named: str, directory: str) -> None:
    try:
        found = stat.S_ISDIR(os.stat(directory).st_mode)
    except (OSError, ValueError) as error:
        raise _refusal(named, error, f"{directory}: ") from error
    if not found:
        raise PathError(named, f"{directory} is no directory")
    if not _may(directory, os.W_OK | os.X_OK):
        raise PathError(named, f"nothing may be written in {directory}")


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _refusal(named: str, error: OSError | ValueError, where: str = "") -> PathError:
    return PathError(named, where + (getattr(error, "strerror", None) or str(error)))

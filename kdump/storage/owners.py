"""Find out who may read a file that this user may not read."""

from __future__ import annotations

import os

from kdump.tuples import NamedTuple


class ClosedPath(NamedTuple):
    """A file or directory that keeps a user out, and who owns it."""

    path: str
    uid: int
    mode: int


def find_closed_path(path: str) -> ClosedPath | None:
    """Return what keeps this user from reading a path: itself, or a directory above it."""
    at = os.path.abspath(path)
    while True:
        try:
            found = os.stat(at)
        except PermissionError:
            above = os.path.dirname(at)
            if above == at:
                return None
            at = above
        except OSError:
            return None
        else:
            return ClosedPath(at, found.st_uid, found.st_mode & 0o7777)


def user_name(uid: int) -> str:
    """Return the name of a user, or the number where this machine has no name for it."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"  # which sudo takes in place of a name

"""Find out whether a broker runs on a data directory, by its lock on `.lock` (X7)."""

from __future__ import annotations

import os
import struct
import sys

from kdump.storage.names import LOCK
from kdump.storage.places import is_uri, parent

# struct flock of Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")


def is_held(directory: str) -> bool | None:
    """Ask who would stand in the way of a lock, which takes none; None where that is not known.

    The file outlives the broker, so its being there says nothing. Over a network file system the
    answer is that of this machine only.
    """
    if is_uri(directory):
        return False  # no broker works in a store
    if sys.platform != "linux":
        return None  # the structure differs from system to system
    import fcntl

    try:
        fd = os.open(os.path.join(directory, LOCK), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except (OSError, struct.error):
        return None
    finally:
        os.close(fd)
    return bool(answer[0] != fcntl.F_UNLCK)


def is_held_around(partition: str) -> bool | None:
    """Ask for the data directory that a partition lies in; None where that is not known.

    Some versions lock the directory of the metadata log by itself. A partition that was copied
    alone has no lock around it: nobody holds one.
    """
    around = is_held(parent(partition))
    return around or is_held(partition) or around

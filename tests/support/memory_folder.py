"""A folder for the files of all tests in memory: making files on a disk takes twice the time."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PREFIX = "kdump-tests-"
_ROOM_BYTES = 6 << 30  # three times what a run was seen to hold


def memory_folder() -> tuple[Path, Callable[[], None]] | None:
    """Make a folder, and what removes it; None where memory has no room, or is no file system.

    What runs that were killed left behind is removed: nobody holds its lock.
    """
    if not os.access(_MEMORY, os.W_OK) or _room_bytes() < _ROOM_BYTES:
        return None
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        if (lock := _locked(left)) is not None:
            remove(left)
            os.close(lock)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    held = _locked(folder)

    def end() -> None:
        remove(folder)
        if held is not None:
            os.close(held)

    return folder, end


def is_in_memory(folder: Path) -> bool:
    """Whether what lies there takes room that is wanted elsewhere."""
    return folder.is_relative_to(_MEMORY)


def remove(folder: Path) -> None:
    """Remove a folder with all in it, also where a test left folders that nobody may write to."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for at, names, _ in os.walk(folder):
        for path in (Path(at, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _room_bytes() -> int:
    file_system = os.statvfs(_MEMORY)
    memory = re.search(r"\nMemAvailable: *(\d+) kB\n", Path("/proc/meminfo").read_text())
    free = file_system.f_bavail * file_system.f_frsize
    return min(free, int(memory[1]) << 10 if memory else 0)


def _locked(folder: Path) -> int | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor

"""Read a file of a store by few, large requests.

A request costs some tens of milliseconds, as much as some megabytes do. So a small file comes whole
with the first byte of it. Of a large one, a window is fetched: small where reads are scattered,
growing where each starts where the last window ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from errno import ENOENT

from kdump.errors import StoreError
from kdump.stores.store import RangedFile, Status

#: A file of no more bytes is fetched whole: nearly every index and snapshot is, and some logs.
SMALL_FILE_BYTES = 4 << 20
SCATTERED_BYTES = 64 << 10
SEQUENTIAL_BYTES = 1 << 20
LARGEST_BYTES = 8 << 20
_GROWTH = 4
_KEPT_BYTES = 2 * LARGEST_BYTES + (1 << 20)
_ATTEMPTS = 2
_PAUSE_SECONDS = 0.5


class Windows:
    """One open file and the parts of it that were fetched last.

    `status` asks the store what lies under the file's name now. `size` is that at opening.
    """

    def __init__(self, file: RangedFile, status: Callable[[], Status | None]) -> None:
        self._file = file
        self._status = status
        self.size = file.size
        self.sequential = False
        self._windows: dict[int, bytes] = {}  # by position, the oldest use first
        self._ahead = (-1, 0)  # where the window that was fetched last ends, and its size

    def read_into(self, view: memoryview, position: int) -> int:
        """Read to a buffer and return how many bytes: at least one, except where there is none."""
        for start, window in self._windows.items():
            if start <= position < start + len(window):
                self._windows[start] = self._windows.pop(start)
                break
        else:
            start, window = self._fetch(position, len(view))
        part = window[position - start : position - start + len(view)]
        view[: len(part)] = part
        return len(part)

    def now(self) -> int:
        """Return how large the file is now; 0 if it is gone."""
        status = self._status()
        return 0 if status is None else status.st_size

    def close(self) -> None:
        """Give the file back."""
        self._windows.clear()
        self._file.close()

    def _fetch(self, position: int, wanted: int) -> tuple[int, bytes]:
        start, size = self._reach(position, wanted)
        window = self._read(start, size)
        self._ahead = (start + len(window), size)
        if len(window) <= LARGEST_BYTES:
            self._windows[start] = window
            while sum(map(len, self._windows.values())) > _KEPT_BYTES:
                del self._windows[next(iter(self._windows))]
        return start, window

    def _reach(self, position: int, wanted: int) -> tuple[int, int]:
        if self.size <= SMALL_FILE_BYTES:
            return 0, self.size
        end, before = self._ahead
        if position == end:
            size = min(before * _GROWTH, LARGEST_BYTES)
        else:
            size = SEQUENTIAL_BYTES if self.sequential else SCATTERED_BYTES
        return position, min(max(size, wanted), self.size - position)

    def _read(self, position: int, size: int) -> bytes:
        """Read a range, or what is left of it where the file has become shorter meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._file.read_at(position, size)
            except (OSError, StoreError):
                # A store has one name for ranges that are no longer there and for broken lines.
                status = self._status()
                if status is None:
                    raise FileNotFoundError(ENOENT, os.strerror(ENOENT)) from None
                if status.st_size < position + size:
                    size = max(0, status.st_size - position)
                    if not size:
                        return b""
                elif attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE_SECONDS)
        return self._file.read_at(position, size)

"""Read files beside a broker: slowly enough, and without filling the page cache.

A broker serves most fetches from the page cache. A scan that reads a whole data directory would
push those pages out, so what the scan alone brought in is given back behind it, some megabytes at
a time. What was cached before stays: the broker, or its consumers, may be about to want it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kdump.storage.source import Source

Pace = Callable[[int], None]

_WINDOW_BYTES = 8 << 20


class BackgroundSource(Source):
    """A file that is read once from front to back.

    `pace`, if given, is called with the bytes of each read and may sleep. For each window of the
    file one page in its middle is asked for without waiting: not its first, which our own
    read-ahead may have brought in. Where it was not cached, the window goes when it was read.
    """

    def __init__(self, path: str | os.PathLike[str], pace: Pace | None = None) -> None:
        self._window = 0  # where the window starts that is being read
        self._drop = False  # until it is open: what cannot be opened is closed as well
        super().__init__(path)
        self._pace = pace
        self._drop = self._is_foreign(0)

    def read_into(self, buffer: bytearray | memoryview, position: int, size: int) -> int:
        """Read as `Source` does, then keep the pace and clear up behind."""
        done = super().read_into(buffer, position, size)
        if self._pace is not None:
            self._pace(done)
        if position + done >= self._window + _WINDOW_BYTES:
            self._forget(self._window)
            self._window = (position + done) // _WINDOW_BYTES * _WINDOW_BYTES
            self._drop = self._is_foreign(self._window)
        return done

    def close(self) -> None:
        """Clear up what is left, then give the file back."""
        if not self.is_closed:
            self._forget(self._window)
        super().close()

    def _is_foreign(self, window: int) -> bool:
        """Whether the pages of a window are ours to drop: they are not in the cache by now."""
        middle = (window + min(window + _WINDOW_BYTES, self.size)) // 2
        return self.size > window and not self.is_cached(middle)

    def _forget(self, window: int) -> None:
        if self._drop:
            self.advise_done(window, _WINDOW_BYTES)

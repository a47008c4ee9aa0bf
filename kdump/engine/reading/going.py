"""Tell how far the reading of logs has come, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.findings.rows import BatchChunk, RecordChunk


class Going:
    """Tells the pace how much of the planned bytes was read; `start` is where the first log is."""

    def __init__(self, size_bytes: int, pace: Callable[[int], None], start: int = 0) -> None:
        self._left = size_bytes
        self._pace = pace
        self._path = ""
        self._position = start

    def reached(self, chunk: RecordChunk | BatchChunk) -> None:
        """Take note that the batches of a chunk were read."""
        if chunk.place.path != self._path:
            if self._path:
                self._position = 0
            self._path = chunk.place.path
        batches = chunk.batches
        position = batches.end_position(batches.count - 1)
        done = min(max(position - self._position, 0), self._left)
        if done:
            self._position = position
            self._left -= done
            self._pace(done)

    def end(self) -> None:
        """Take note that all was read."""
        self._pace(self._left)

"""Limit the pace of work and count its progress, across processes."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableSequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.findings.rows import BatchChunk, RecordChunk
    from kdump.storage.directory_facts import DirectoryFacts


#: What may be read at once after a pause, in seconds of the rate.
_BURST_SECONDS = 0.1
#: No sleep is longer, so that progress is shown meanwhile.
_NAP_SECONDS = 0.2


class Throttle:
    """Lets through so many bytes a second, over all who share it.

    `free_at` holds one number, the moment on the monotonic clock from which the next bytes may be
    read: in memory that several processes share, with a lock, they keep one rate together.
    """

    def __init__(
        self,
        bytes_per_second: int,
        free_at: MutableSequence[float] | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._rate = bytes_per_second
        self._free_at = [0.0] if free_at is None else free_at
        self._lock = nullcontext() if lock is None else lock

    def wait(self, size_bytes: int, tick: Callable[[], None]) -> None:
        """Sleep until the bytes that were just read are paid for, ticking meanwhile."""
        with self._lock:
            now = time.monotonic()
            until = max(now - _BURST_SECONDS, self._free_at[0]) + size_bytes / self._rate
            self._free_at[0] = until
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))
            tick()


class Progress:
    """How much is planned and done, and which partition is at hand.

    `slots` has one counter of bytes for each worker, which only that worker adds to; `done_before`
    is what was done before these workers began. `tick` is called often while the work goes on, by
    the process that shows it.
    """

    def __init__(self) -> None:
        self.planned_bytes = 0
        self.planned_items = 0
        self.items_done = 0
        self.at: list[str] = []  # the paths being read
        self.slots: MutableSequence[int] = [0]
        self.done_before = 0
        self.tick: Callable[[], None] = lambda: None
        self.findings: dict[str, int] = {}
        self.directories: list[DirectoryFacts] = []

    @property
    def done_bytes(self) -> int:
        """Bytes of logs read so far, by all workers."""
        return self.done_before + sum(self.slots)


class Pace:
    """Called with the size of each read: counts it, keeps the rate and lets progress be shown."""

    def __init__(
        self,
        slots: MutableSequence[int],
        number: int,
        throttle: Throttle | None,
        tick: Callable[[], None],
    ) -> None:
        self.slots, self.number, self.throttle, self.tick = slots, number, throttle, tick

    def __call__(self, size_bytes: int) -> None:
        """Take note of a read."""
        self.slots[self.number] += size_bytes
        if self.throttle is not None:
            self.throttle.wait(size_bytes, self.tick)
        self.tick()


class ReadProgress:
    """Tells the pace how much of the planned bytes was read; `start` is where the first log is."""

    def __init__(self, size_bytes: int, pace: Callable[[int], None], start: int = 0) -> None:
        self._left = size_bytes
        self._pace = pace
        self._path = ""
        self._position = start

    def advance(self, chunk: RecordChunk | BatchChunk) -> None:
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

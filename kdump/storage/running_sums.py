"""Compute checksums of entries of any claimed size, with no more work than the file has bytes.

The checksum of a range follows from two running ones: that up to its end and that up to its start.
They are kept every few kilobytes, so that a claim of a gigabyte costs what one of some kilobytes
does, once the file was read that far.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.record.layout import CRC32, CRC32C

if TYPE_CHECKING:
    from kdump.storage.source import Source

_STEP = 4096
_BLOCK_BYTES = 1 << 18
_KEPT = 1 << 19  # marks behind the entry: no entry is larger than 2 GiB
_FREE_BYTES = 16 << 20
_KINDS = {
    CRC32: (kernels.crc32, kernels.crc32_joined),
    CRC32C: (kernels.crc32c, kernels.crc32c_joined),
}


class Sums:
    """Sums of ranges of one file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._running: dict[str, _RunningSum] = {}  # most logs are sound, and need none
        # What is summed directly, which is faster for a few, comes to no more than the file.
        self._direct = source.size + _FREE_BYTES

    def of(self, start: int, end: int, kind: str) -> int:
        """Return the sum of [start, end); where the file is shorter by now, any number."""
        running = self._running.get(kind)
        if running is None:
            running = self._running[kind] = _RunningSum(self._source, *_KINDS[kind])
        if end - start > self._direct or running.reaches(start, end):
            return running.of(start, end)
        self._direct -= end - start
        return sum_of(self._source, running.crc, start, end)


class _RunningSum:
    def __init__(
        self, source: Source, crc: Callable[..., int], joined: Callable[[int, int, int], int]
    ) -> None:
        self._source = source
        self.crc = crc
        self._joined = joined
        self._first = 0  # number of the first mark
        self._marks = array("I", [0])

    def reaches(self, start: int, end: int) -> bool:
        """Whether no more than some kilobytes have to be read for this range."""
        return self._first * _STEP <= start and end // _STEP - self._first < len(self._marks)

    def of(self, start: int, end: int) -> int:
        mark = start // _STEP
        if not self._first <= mark < self._first + len(self._marks):
            self._first, self._marks = mark, array("I", [0])
        elif mark - self._first > _KEPT:
            del self._marks[: mark - self._first]
            self._first = mark
        return self._joined(self._up_to(start), self._up_to(end), end - start)

    def _up_to(self, position: int) -> int:
        """Return the sum from the first mark to a position."""
        mark = position // _STEP - self._first
        if mark >= len(self._marks):
            self._go_on(mark)
        start = (self._first + mark) * _STEP
        return sum_of(self._source, self.crc, start, position, self._marks[mark])

    def _go_on(self, mark: int) -> None:
        position = (self._first + len(self._marks) - 1) * _STEP
        running = self._marks[-1]
        block = bytearray(_BLOCK_BYTES)
        while len(self._marks) <= mark:
            left = (self._first + mark) * _STEP - position
            got = self._source.read_into(block, position, min(left, _BLOCK_BYTES))
            for at in range(0, min(left, _BLOCK_BYTES), _STEP):
                running = self.crc(block, at, min(at + _STEP, got), running)
                self._marks.append(running)
            position += _BLOCK_BYTES


def sum_of(source: Source, crc: Callable[..., int], start: int, end: int, running: int = 0) -> int:
    """Compute the checksum of [start, end), or go on with a `running` one."""
    while start < end:
        block = source.read(start, min(end - start, _BLOCK_BYTES))
        if not block:
            break
        running = crc(block, 0, len(block), running)
        start += len(block)
    return running

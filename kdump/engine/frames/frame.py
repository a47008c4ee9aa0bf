"""Frames: the bytes of requests and responses, and where in the file each of them is."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.frames.exchange import DecodedFrame
    from kdump.storage.source import Source

LENGTH_BYTES = 4
#: Of a frame that is too large, and of the beginning of any.
HEAD_BYTES = 1 << 12
_SCATTERED = 1 << 16


class Pieces:
    """Ranges of a file that follow each other in a stream."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._sizes = array("q")
        self.size = 0

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def position(self) -> int:
        """Where the first byte is."""
        return self._positions[0]

    def add(self, position: int, size: int) -> None:
        """Add a range behind the others; one that touches the last becomes part of it."""
        if self._positions and self._positions[-1] + self._sizes[-1] == position:
            self._sizes[-1] += size
        else:
            self._positions.append(position)
            self._sizes.append(size)
        self.size += size

    def split(self, size: int) -> Pieces:
        """Take bytes from the front."""
        front, left, used = Pieces(), size, 0
        for position, length in zip(self._positions, self._sizes, strict=True):
            if length > left:
                break
            front.add(position, length)
            left -= length
            used += 1
        if used:
            del self._positions[:used], self._sizes[:used]
        if left:
            front.add(self._positions[0], left)
            self._positions[0] += left
            self._sizes[0] -= left
        self.size -= size
        return front

    def read(self, source: Source, size: int | None = None) -> bytes:
        """Read the bytes, all or the first of them."""
        size = self.size if size is None else min(size, self.size)
        if not size:
            return b""
        if size <= self._sizes[0]:
            return source.read(self._positions[0], size)
        start, last = self._positions[0], 0
        kept, left = [], size
        for position, length in zip(self._positions, self._sizes, strict=True):
            kept.append((position, min(length, left)))
            start, last = min(start, position), max(last, position + kept[-1][1])
            left -= length
            if left <= 0:
                break
        if last - start <= 2 * size + _SCATTERED:
            data = source.read(start, last - start)
            return b"".join([data[at - start : at - start + count] for at, count in kept])
        return b"".join([source.read(at, count) for at, count in kept])

    def places(self) -> tuple[list[int], list[int]]:
        """Return where each range begins in the stream, and where in the file."""
        begins = [0, *accumulate(self._sizes)][:-1]
        return begins, list(self._positions)


class Frame(NamedTuple):
    """A request or a response as it was sent.

    `data` is what follows the length, or the beginning of it where it is too large; `places` is
    where each range of it begins, with the length, and where in the file.
    """

    position: int
    size: int
    data: bytes
    said: DecodedFrame
    places: tuple[list[int], list[int]] = ([0], [0])
    at_ms: int | None = None
    source: str | None = None
    destination: str | None = None

    def position_of(self, at: int) -> int:
        """Return where in the file a byte of the data is."""
        begins, positions = self.places
        number = max(bisect_right(begins, at + LENGTH_BYTES) - 1, 0)
        return positions[number] + at + LENGTH_BYTES - begins[number]

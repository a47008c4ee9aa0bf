"""Put the two directions of TCP connections together, segment by segment.

What was sent twice counts once, what came early waits, and what the capture lacks is a gap. Of the
bytes only positions in the file are kept, so that what waits is bounded by a number of segments,
of a stream and of all of them (`MOST_WAITING`, `MOST_WAITING_IN_ALL`): where more would wait, what
is missing is given up. Sequence numbers that no window allows are passed over.
"""

from __future__ import annotations

from bisect import insort

from kdump.storage.pcap import Segment
from kdump.tuples import NamedTuple

MOST_WAITING = 4096
MOST_WAITING_IN_ALL = 1 << 17
_WINDOW = 1 << 30  # bytes that may be under way at the most


_Piece = tuple[int, int, int, int | None, int]  # first byte, position, size, time, bytes left out


class Chunk(NamedTuple):
    """Bytes of a stream, in order: where they are, and when they came.

    `lacking` bytes in front of them are missing. `starts`: a segment begins with them.
    """

    position: int
    size: int
    at_ms: int | None
    lacking: int = 0
    starts: bool = True


class Stream:
    """One direction of a connection. `next` is the number of the byte to come, counted up."""

    def __init__(self) -> None:
        self.next: int | None = None
        self.from_start = False
        self.is_ended = False
        self._end: int | None = None
        self._cut = 0  # bytes before the next that the capture left out
        self._waiting: list[_Piece] = []

    @property
    def waiting_count(self) -> int:
        """How many segments wait for bytes before them."""
        return len(self._waiting)

    def open(self, sequence: int) -> None:
        """Start behind a SYN."""
        self.next = (sequence + 1) & 0xFFFFFFFF
        self.from_start = True

    def take(self, segment: Segment, *, is_last: bool) -> list[Chunk]:
        """Take a segment, and return the bytes that are in order now."""
        if self.next is None:
            if not segment.size + segment.missing:
                return []
            self.next = segment.sequence
        ahead = (segment.sequence - self.next + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
        if abs(ahead) > _WINDOW:
            return []
        start = self.next + ahead
        end = start + segment.size + segment.missing
        if is_last:
            self._end = end
        if end > max(self.next, start):
            piece = (start, segment.position, segment.size, segment.at_ms, segment.missing)
            if start > self.next or self._waiting:
                insort(self._waiting, piece, key=lambda one: one[:2])
            else:
                return [*self._next_of(piece), *self._ready()]
        return self._ready()

    def give_up(self) -> list[Chunk]:
        """Pass over the bytes that are missing before those that wait; return what is in order."""
        if not self._waiting or self.next is None:
            return []
        lacking = self._waiting[0][0] - self.next
        self._cut += lacking
        self.next += lacking
        return self._ready()

    def count_left_out(self) -> int:
        """Return how many bytes the capture left out at the end."""
        return self._cut

    def _ready(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        used = 0
        assert self.next is not None
        for piece in self._waiting:
            if piece[0] > self.next:
                break
            used += 1
            chunks += self._next_of(piece)
        del self._waiting[:used]
        self.is_ended = self._end is not None and self.next >= self._end
        return chunks

    def _next_of(self, piece: _Piece) -> list[Chunk]:
        """Take a piece that begins with the next byte or before it."""
        start, position, size, at_ms, missing = piece
        assert self.next is not None
        known, cut = self.next - start, self._cut
        end = start + size + missing
        if end <= self.next:
            return []
        chunks = []
        if known < size:
            chunks = [Chunk(position + known, size - known, at_ms, cut, starts=known == 0)]
            cut = 0
        self._cut = cut + min(missing, end - self.next)
        self.next = end
        return chunks

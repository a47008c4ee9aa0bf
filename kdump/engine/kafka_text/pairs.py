"""Keep pairs of numbers for the reports that kafka-dump-log prints at its end.

A hostile file gives one for every few bytes, so they are kept as bare numbers, and those that
there is no room for are only counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

_PAIR_BYTES = 16


class Room:
    """How many more pairs of one run may be held, in `limit` bytes of memory."""

    def __init__(self, limit: int) -> None:
        self.left = limit // _PAIR_BYTES


class Pairs:
    """Pairs in the order in which they came; `left_out` counts those there was no room for."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._numbers = array("q")
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self._pairs(range(len(self)))

    def __reversed__(self) -> Iterator[tuple[int, int]]:
        return self._pairs(range(len(self) - 1, -1, -1))

    def append(self, first: int, second: int) -> None:
        """Take one more."""
        if self._room.left <= 0:
            self.left_out += 1
            return
        self._room.left -= 1
        self._numbers.append(first)
        self._numbers.append(second)

    def extend(self, others: Pairs) -> None:
        """Take over all of another's, which found room already."""
        self._numbers += others._numbers
        self.left_out += others.left_out

    def _pairs(self, places: range) -> Iterator[tuple[int, int]]:
        numbers = self._numbers
        return ((numbers[2 * place], numbers[2 * place + 1]) for place in places)

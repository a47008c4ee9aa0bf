"""Read one index file for `verify`: the slots to be checked, and those that cannot be."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.storage.source import Source

# Brokers make no index larger than segment.index.bytes, 10 MiB; of a larger one this much is read.
PROVED_BYTES = 12 << 20
_BLOCK_BYTES = 1 << 16
_ODD_SLOTS_KEPT = 1000

_LAYOUTS = {Kind.OFFSET_INDEX: OFFSET_INDEX_ENTRY, Kind.TIME_INDEX: TIME_INDEX_ENTRY}


class IndexFile:
    """The slots of one `.index` or `.timeindex`.

    `entries` slots are in the file; those from `used` on are zeros. `slots` are the bytes of those
    that rise as written entries do, the rest of `used` are `odd`: the first thousand, of
    `odd_count`. If all that do not rise lie behind all that do, in front of zeros, they are not
    damage but what a truncation left there: `stale_from` says where they start.
    """

    def __init__(self, source: Source, kind: Kind) -> None:
        self.path = source.path
        self.kind = kind
        self.layout = _LAYOUTS[kind]
        self.slot_bytes = self.layout.size
        self.entries, self.trailing_bytes = divmod(source.size, self.slot_bytes)
        # A small one is read as it is: where its holes are costs as much to ask.
        end = source.size if source.size <= _BLOCK_BYTES else source.data_end()
        data = _read_written(source, min(end, PROVED_BYTES))
        self.unread = max(0, end - PROVED_BYTES) // self.slot_bytes
        self.unreadable = list(source.unreadable)
        self.used = min(-(-len(data) // self.slot_bytes), self.entries)
        if not self.used and self.entries == 1 and kind is Kind.TIME_INDEX:
            self.used = 1  # time 0 at the base offset, or a zeroed file: the log tells
        data = data.ljust(self.used * self.slot_bytes, b"\0")[: self.used * self.slot_bytes]
        self.odd: list[int] = []
        self.odd_count = 0
        self.stale_from: int | None = None
        self._numbers: array[int] | None = None  # slots of the file, where some are left out
        # The last slot that is no zero, whether or not it rises: what a broker takes for the last.
        self.last_key, self.last_value = -1, 0
        if data:
            last = self.layout.unpack_from(data, len(data) - self.slot_bytes)
            self.last_key, self.last_value = int(last[0]), int(last[1])
        rising = kernels.rising_slots(data, self.slot_bytes)
        if rising == self.used:
            self.slots = data
        else:
            self.slots = self._sort_out(data, rising)

    def __len__(self) -> int:
        return len(self.slots) // self.slot_bytes

    @property
    def is_untrimmed(self) -> bool:
        """Whether zeros follow: the file still has the length it was made with (I2)."""
        return self.used < self.entries

    def may_be_stale_from(self, number: int, *, quick: bool = False) -> bool:
        """Whether entry `number` of `slots`, the first that the log denies, may start old ones.

        The newest entry may then be the odd one: the first old one has a higher offset and yet a
        lower position, or time, and those behind it rise. `quick`: old ones that the log could
        deny may go before that entry, as they were not held against it.
        """
        if not self.odd_count or self.stale_from is not None or self.odd == [number]:
            return True
        return quick and self.odd_count == 1 and self.odd[0] <= number < len(self)

    def slot(self, number: int) -> int:
        """Where in the file entry `number` of `slots` stands."""
        return number if self._numbers is None else self._numbers[number]

    def entry(self, number: int) -> tuple[int, int]:
        """The two fields of entry `number` of `slots`."""
        key, value = self.layout.unpack_from(self.slots, number * self.slot_bytes)
        return key, value

    def entries_around(self, slot: int) -> list[tuple[int, int]]:
        """The entries of `slots` before and behind an odd slot of the file."""
        behind = bisect_left(range(len(self)), slot, key=self.slot)
        return [self.entry(number) for number in (behind - 1, behind) if 0 <= number < len(self)]

    def _sort_out(self, data: bytes, rising: int) -> bytes:
        """Keep what rises; a slot that the next one contradicts is the odd one of the two."""
        strict = self.kind is Kind.OFFSET_INDEX
        size = self.slot_bytes
        numbers = array("q", range(max(rising - 1, 0)))
        kept = bytearray(data[: len(numbers) * size])
        last: tuple[int, ...] = self.layout.unpack_from(kept, len(kept) - size) if kept else (-1, 0)

        def above(high: tuple[int, ...], low: tuple[int, ...]) -> bool:
            return high[0] > low[0] and (high[1] > low[1] or (not strict and high[1] == low[1]))

        rest = self.layout.iter_unpack(memoryview(data)[len(kept) :])
        slot: tuple[int, ...] | None = next(rest, None)
        number = len(numbers)
        while slot is not None:
            following = next(rest, None)
            too_high = (
                following is not None and above(following, last) and not above(following, slot)
            )
            if above(slot, last) and not too_high:
                numbers.append(number)
                kept += self.layout.pack(*slot)
                last = slot
            else:
                self.odd_count += 1
                if len(self.odd) < _ODD_SLOTS_KEPT:
                    self.odd.append(number)
            slot = following
            number += 1
        if self.is_untrimmed and len(numbers) == self.odd[0]:
            self.stale_from = self.odd[0]
        self._numbers = numbers
        return bytes(kept)


def _read_written(source: Source, end: int) -> bytes:
    """Read what was written of a file before `end`: up to its last byte that is no zero."""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        left = source.read(start, end - start).rstrip(b"\0")
        if left:
            return source.read(0, start + len(left)) if start else left
        end = start
    return b""

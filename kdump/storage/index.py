"""Read the slots of an index file, and tell which were written; what all index files share.

An index is entries of one size with two rising numbers each: a key, which is searched for, and a
value. A broker believes every slot of the file it opens (I2). We also say where the written
entries end (I3) and what lies behind: on a running or crashed broker the file has its full
preallocated length, zeros after the last entry, and after a truncation old entries before them.

The offset index: `.index`, eight bytes an entry (I6 to I11).

An entry (E, p) says that a batch starts at p and that every batch before p ends below E. It does
not say that the batch at p holds E: which offset of an append is written changed with the broker
(first until 1.1, last from 2.0), and one entry may stand for several batches (I9).

    0000 001d 0000 1078    relative offset 29, position 4216
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from operator import lt

from kdump.record.layout import int64
from kdump.storage.layout import OFFSET_INDEX_ENTRY
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

SLOTS_A_RUN = 4096
_HELD_BYTES = 12 << 20  # brokers make no index larger than segment.index.bytes, 10 MiB


class Extent(NamedTuple):
    """How the slots of an index file divide.

    Slots before `end` rise as written entries do. Slots before `used` are not all zero, the rest
    of the file is. `breaking` slots between the two do not rise above the last that did before
    them, `rising` ones do.
    """

    end: int
    used: int
    entries: int
    breaking: int
    rising: int

    @property
    def is_sound(self) -> bool:
        """Nothing but zeros behind the written entries."""
        return self.end == self.used

    @property
    def is_stale(self) -> bool:
        """Old entries before the zeros of an untrimmed file, as a truncation leaves them (I2).

        A damaged slot in the midst of a file looks otherwise: the slots behind it rise again, or
        the file has no zeros at its end.
        """
        return self.end < self.used < self.entries and self.rising == 0


class EntryFile:
    """The slots of a file of equal entries, in memory or, if it is too large for that, on disk.

    `slotwise` leaves any file on disk: a lookup compares a few slots of many.
    Total on any bytes: a part of an entry at the end is counted in `trailing_bytes` and left out.
    """

    def __init__(
        self, data: bytes | Source, layout: struct.Struct, *, slotwise: bool = False
    ) -> None:
        if isinstance(data, Source) and data.size <= _HELD_BYTES and not slotwise:
            data = data.read_whole(with_holes=True)
        self.data = data
        self.layout = layout
        self.size_bytes = data.size if isinstance(data, Source) else len(data)
        self.entries, self.trailing_bytes = divmod(self.size_bytes, layout.size)

    def __len__(self) -> int:
        return self.entries

    def block(self, slot: int, count: int) -> bytes:
        """Give the bytes of `count` slots; fewer where the file has become shorter."""
        start, size = slot * self.layout.size, count * self.layout.size
        if isinstance(self.data, Source):
            block = self.data.read(start, size)
            return block[: len(block) - len(block) % self.layout.size]
        return self.data[start : start + size]

    def raw(self, slot: int) -> tuple[int, ...]:
        """Give the fields of one slot as stored; zeros where the file has become shorter."""
        block = self.block(slot, 1) or bytes(self.layout.size)
        return self.layout.unpack(block)

    def runs(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the slots of [start, end) as pieces: the first slot, and the bytes."""
        end = self.entries if end is None else min(end, self.entries)
        while start < end:
            block = self.block(start, min(SLOTS_A_RUN, end - start))
            if not block:
                return
            yield start, block
            start += len(block) // self.layout.size

    def count_used(self) -> int:
        """Count the slots up to the last that is not all zero."""
        size = self.layout.size
        end = self.entries
        while end > 0:
            start = max(0, end - SLOTS_A_RUN)
            left = self.block(start, end - start).rstrip(b"\0")
            if left:
                return start + -(-len(left) // size)
            end = start
        return 0


class Index(EntryFile):
    """An offset or time index: two numbers a slot, of which the broker searches the first."""

    slot_layout: struct.Struct
    key_floor = -1  # what the first key has to be above
    value_floor = 0
    value_rises = staticmethod(lt)  # `le` where a value may repeat

    def __init__(self, data: bytes | Source, base_offset: int, *, slotwise: bool = False) -> None:
        super().__init__(data, self.slot_layout, slotwise=slotwise)
        self.base_offset = base_offset
        self._codes = self.slot_layout.format.lstrip(">")

    def columns(self, block: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take a piece of `runs` apart: its keys, its values."""
        count = len(block) // self.layout.size
        numbers = struct.unpack(f">{self._codes * count}", block)
        return numbers[::2], numbers[1::2]

    def pairs(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield (slot, key, value) as stored."""
        for slot, block in self.runs(start, end):
            for key, value in self.layout.iter_unpack(block):
                yield slot, key, value
                slot += 1

    def count_rising(self, value_limit: int | None = None) -> int:
        """Count the slots from 0 on that rise (I3); `value_limit` is what values stay below."""
        key, value = self.key_floor, self.value_floor
        rises = self.value_rises
        for slot, block in self.runs():
            keys, values = self.columns(block)
            if (
                key < keys[0]
                and rises(value, values[0])
                and all(map(lt, keys, islice(keys, 1, None)))
                and all(map(rises, values, islice(values, 1, None)))
                and (value_limit is None or values[-1] < value_limit)
            ):
                key, value = keys[-1], values[-1]
                continue
            for above, next_value in zip(keys, values, strict=True):
                if not (key < above and rises(value, next_value)) or (
                    value_limit is not None and next_value >= value_limit
                ):
                    return slot
                key, value = above, next_value
                slot += 1
        return self.entries

    @abstractmethod
    def logical_end(self) -> int:
        """Count the written entries as far as the index alone can tell (I3)."""

    def extent(self) -> Extent:
        """Divide the slots into written, stale or damaged, and never written."""
        end = self.logical_end()
        used = max(end, self.count_used())
        key, value = self.key_floor, self.value_floor
        if end:
            key, value = self.raw(end - 1)
        breaking = rising = 0
        for _, next_key, next_value in self.pairs(end, used):
            if next_key > key and self.value_rises(value, next_value):
                key, value = next_key, next_value
                rising += 1
            else:
                breaking += 1
        return Extent(end, used, self.entries, breaking, rising)

    def odd_length(self) -> str | None:
        """Say that the file ends inside a slot, as the end of `sanityCheck` does (I11, I17)."""
        if self.trailing_bytes:
            return f"length {self.size_bytes} is not a multiple of {self.layout.size}"
        return None

    def zero_slot(self, field: int) -> int:
        """Find where DumpLogSegments stops: the first slot but 0 that stores offset 0 (D5, D6)."""
        for slot, block in self.runs(1):
            column = self.columns(block)[field]
            if 0 in column:
                return slot + column.index(0)
        return self.entries


class OffsetPosition(NamedTuple):
    """One entry: an offset, and the position in the log of a batch to scan from."""

    offset: int
    position: int


class OffsetIndex(Index):
    """The entries of one `.index` file; total on any bytes."""

    slot_layout = OFFSET_INDEX_ENTRY

    def entry(self, slot: int) -> OffsetPosition:
        """Give one slot with its absolute offset, written or not."""
        relative, position = self.raw(slot)
        return OffsetPosition(int64(self.base_offset + relative), position)

    def slots(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, OffsetPosition]]:
        """Yield slots in file order, each with its number."""
        base = self.base_offset
        for slot, relative, position in self.pairs(start, end):
            yield slot, OffsetPosition(int64(base + relative), position)

    @property
    def last_offset(self) -> int:
        """The offset of the last slot, the base offset where there is none (I8)."""
        return self.entry(self.entries - 1).offset if self.entries else self.base_offset

    def logical_end(self, log_size: int | None = None) -> int:
        """Count the written entries as far as the index alone can tell (I3).

        They rise in both fields, from a relative offset of 0 and a position above 0; positions lie
        inside the log if its size is given. A stale slot can pass for one: only the log says.
        """
        return self.count_rising(log_size)

    def tool_end(self) -> int:
        """Count the slots that DumpLogSegments prints (D5)."""
        return self.zero_slot(0)

    def sanity(self, *, may_end_at_base: bool = True) -> str | None:
        """Say why `sanityCheck` refuses the file, or None (I11).

        Whether the last entry may name the base offset itself is the broker's affair.
        """
        if self.entries:
            last = self.last_offset
            if may_end_at_base and last < self.base_offset:
                return f"last offset {last} is below the base offset {self.base_offset}"
            if not may_end_at_base and last <= self.base_offset:
                return f"last offset {last} is not above the base offset {self.base_offset}"
        return self.odd_length()

"""Search an index as a broker does (I4): the one place where the way of a release is chosen.

On rising keys all ways give what any binary search does; on others the answer depends on the slots
that are compared, so the warm tail and the order of the tests are the broker's. A release that
searches otherwise is a `Change` in `versions.py` and its way in `floor_slot`.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from kdump.broker.versions import NEWEST, WARM_SECTION_SEARCH, Version, has
from kdump.storage.index import OffsetIndex, OffsetPosition
from kdump.storage.time_index import TimeIndex, TimestampOffset

WARM_BYTES = 8192  # the tail that brokers since 2.1 search first, at least three pages of cache


def floor_slot(
    index: OffsetIndex | TimeIndex,
    target: int,
    broker: Version = NEWEST,
    compared: list[int] | None = None,
) -> int:
    """Find the slot a broker finds for an offset or a time: the last at or below it, or -1.

    All slots of the file take part, a zero tail too, as they do in a broker that opens it.
    `compared` is given the slots that are looked at, in order.
    """

    def key(slot: int) -> int:
        if compared is not None:
            compared.append(slot)
        return index.raw(slot)[0]

    if isinstance(index, OffsetIndex):
        target -= index.base_offset
    two_section = has(broker, WARM_SECTION_SEARCH)
    warm = WARM_BYTES // index.layout.size if two_section else None
    return floor_of(key, index.entries, target, warm)


def floor_of(key: Callable[[int], int], entries: int, target: int, warm: int | None) -> int:
    """Find it over `key`, the last `warm` slots first; None: all slots at once."""
    if not entries:
        return -1
    last = entries - 1
    if warm is not None:
        first_warm = max(0, last - warm)
        if key(first_warm) < target:
            return _bisect(key, target, first_warm, last)
        last = first_warm
    return -1 if key(0) > target else _bisect(key, target, 0, last)


def _bisect(key: Callable[[int], int], target: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high + 1) >> 1
        found = key(middle)
        if found == target:
            return middle
        if found > target:
            high = middle - 1
        else:
            low = middle
    return low


def find_offset(index: OffsetIndex, offset: int, broker: Version = NEWEST) -> OffsetPosition:
    """Find where a broker starts to scan for an offset: position 0 below the first entry (I7)."""
    slot = floor_slot(index, offset, broker)
    return OffsetPosition(index.base_offset, 0) if slot < 0 else index.entry(slot)


def offset_finder(index: OffsetIndex) -> Callable[[int], OffsetPosition]:
    """Make a `find_offset` for very many offsets: on rising keys any search finds the same."""
    data = index.data
    if not isinstance(data, bytes) or index.count_rising() < index.entries:
        return partial(find_offset, index)
    numbers = array("i", data[: index.entries * index.layout.size])
    if sys.byteorder == "little":
        numbers.byteswap()
    keys, base = numbers[::2], index.base_offset

    def find(offset: int) -> OffsetPosition:
        slot = bisect_right(keys, offset - base) - 1
        return OffsetPosition(base, 0) if slot < 0 else index.entry(slot)

    return find


def find_time(index: TimeIndex, timestamp_ms: int, broker: Version = NEWEST) -> TimestampOffset:
    """Find the entry a broker starts from for a timestamp, or (-1, base offset) (I15)."""
    slot = floor_slot(index, timestamp_ms, broker)
    return TimestampOffset(-1, index.base_offset) if slot < 0 else index.entry(slot)

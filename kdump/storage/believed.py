"""Between which offsets an entry is believed that a search behind damage comes upon.

A right sum proves an entry's bytes, not its place: a record's value may hold one, and a block that
was used before may hold an old one. And the base offset of the entry before is under no sum, so
that one which flipped upwards must not make all that follows unbelievable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.kernels import columns as c

if TYPE_CHECKING:
    from kdump.kernels.columns import Columns

MAX_OFFSET = (1 << 63) - 1
_RELATIVE = 1 << 31  # so many offsets an index of a segment can name
_RECENT = 16  # so many entries in a row are not all wrong the same way
_JOINED = 2


class Bounds(NamedTuple):
    """Offsets that are believed, both ends exclusive; `wide_low` to `wide_high` if there are no
    others in the file: brokers before 1.1 wrote segments that reach further, and a file's name may
    be wrong."""

    low: int
    high: int
    wide_low: int
    wide_high: int


class Believed:
    """What is believed behind the entries of a walk met so far.

    `base_offset` is that of the file's name, None where it says none, `next_base` the next
    segment's; `last_offset` that of the entry before the walk, -1 for none; `whole`: it began at
    the file's start.
    """

    def __init__(
        self, base_offset: int | None, next_base: int, last_offset: int, *, whole: bool
    ) -> None:
        self._base = base_offset
        self._next_base = next_base
        self._start = last_offset if base_offset is None else max(last_offset, base_offset - 1)
        self._anchored = base_offset is not None or last_offset >= 0
        self._whole = whole
        self._recent: list[Columns] = []
        self._bounds: Bounds | None = None

    def met(self, batches: Columns) -> None:
        """Take up sound entries."""
        if batches.count >= _RECENT:
            self._recent = [batches]
        else:
            self._recent.append(batches)
            del self._recent[:-_RECENT]
        self._bounds = None

    def bounds(self) -> Bounds:
        """Return what is believed of the next entry."""
        if self._bounds is None:
            self._bounds = self._judged()
        return self._bounds

    def _judged(self) -> Bounds:
        firsts, lasts = self._newest()
        joined = _joined(firsts, lasts)
        if len(lasts) < _RECENT:
            joined = joined or (
                self._anchored and _joined([*firsts, -1], [*lasts, self._start], 0)
            )
            lasts.append(self._start)
        cap = self._next_base
        if self._base is not None:
            cap = min(cap, self._base + _RELATIVE)
        inside = [last for last in lasts if last < cap]
        low = min(inside or lasts)
        if joined and lasts[0] < cap:
            low = lasts[0]
        next_base = self._next_base if low + 1 < self._next_base else MAX_OFFSET
        reach = max(low + 1, 0)
        if self._base is not None and low + 1 < self._base + _RELATIVE:
            reach = self._base
        high = min(next_base, reach + _RELATIVE)
        wide_low = -1 if self._whole and not self._recent else low
        return Bounds(low, high, wide_low, next_base)

    def _newest(self) -> tuple[list[int], list[int]]:
        """Return the first and last offsets of the newest entries, the newest first."""
        firsts: list[int] = []
        lasts: list[int] = []
        for batches in reversed(self._recent):
            for row in range(batches.count - 1, -1, -1):
                firsts.append(batches.value(c.B_BASE_OFFSET, row))
                lasts.append(batches.value(c.B_LAST_OFFSET, row))
                if len(lasts) == _RECENT:
                    return firsts, lasts
        return firsts, lasts


def _joined(firsts: list[int], lasts: list[int], fewest: int = _JOINED) -> bool:
    """Whether the newest entry goes on where the one before ends, and so on for some, or all."""
    joins = 0
    for newer in range(len(lasts) - 1):
        if firsts[newer] != lasts[newer + 1] + 1:
            return False
        joins += 1
        if joins == fewest:
            return True
    return not fewest and joins > 0

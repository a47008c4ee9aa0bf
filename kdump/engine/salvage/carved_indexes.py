"""Tell by pages of offset indexes which extents of an image are of one log.

An entry has an offset and the position of a batch in its log (I9), so from one entry to the next
there are as many offsets and bytes as between two batches. An extent in which several such steps
agree with a page, and at one place alone, lies at that place in the page's log. Logs whose batches
are all of one size agree anywhere, which says nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.settings import Settings
from kdump.engine.salvage.carving import ENDS_BYTES, Extent, Piece
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.source import Source

_ENTRY = Struct(">ii")
_AGREE = 2  # steps, at least
_ROWS = 1 << 16  # of all extents, from which steps are taken
_FEWEST_ROWS = 16  # of each of them
_COMMON = 16  # a step that is in more places says nothing

Entry = tuple[int, int]  # a relative offset and a position


class _Place(NamedTuple):
    """Where an extent lies in the log of a page, and what makes the page's offsets its own.

    `is_last`: entries have the last offsets of batches, else the first.
    """

    position: int
    base_offset: int
    is_last: bool


class _Batch(NamedTuple):
    """A batch from which an entry may step to the next: its extent, and where it lies in this."""

    extent: int
    position: int
    offset: int
    is_last: bool


class LogOfPage(NamedTuple):
    """A piece of a page, the extents that lie in its log, and the log's base offset.

    That is None where the page may be of entries of first offsets as well as of last ones.
    """

    page: Piece
    extents: list[int]
    base_offset: int | None


def logs_of_pages(
    source: Source, pages: Sequence[Piece], extents: dict[int, Extent]
) -> Iterator[LogOfPage]:
    """Yield pieces of pages with the extents that lie in the log of each."""
    steps = _steps(source, extents)
    for page in pages:
        for piece, entries in _find_rising(source, page):
            places = _places(entries, steps)
            fits = {(one.base_offset, one.is_last) for each in places.values() for one in each}
            bases = {base for base, _ in fits}
            for fit in fits:
                at = sorted(
                    (place.position, number)
                    for number, each in places.items()
                    for place in each
                    if place[1:] == fit and place.base_offset <= extents[number].first
                )
                found = [number for _, number in at]
                first = [extents[number].first for number in found]
                if found and first == sorted(first):
                    yield LogOfPage(piece, found, fit[0] if len(bases) == 1 else None)


def _steps(source: Source, extents: dict[int, Extent]) -> dict[Entry, list[_Batch]]:
    """Find the steps in offsets and bytes that entries may make, at both ends of each extent."""
    found: dict[Entry, list[_Batch]] = defaultdict(list)
    interval = Settings().index_interval_bytes
    most = max(_ROWS // max(len(extents), 1), _FEWEST_ROWS)
    for number, extent in extents.items():
        for start in {extent.position, extent.late}:
            data = source.read(start, min(extent.end - start, ENDS_BYTES))
            rows = kernels.walk(data, 0, len(data), start, -1, False, most)[0]
            at = rows.positions
            for row in range(rows.count):
                behind = bisect_right(at, at[row] + interval, row)
                if behind == rows.count:
                    break
                for is_last, offsets in enumerate((rows.base_offsets, rows.last_offsets)):
                    step = offsets[behind] - offsets[row], at[behind] - at[row]
                    position = at[row] - extent.position
                    found[step].append(_Batch(number, position, offsets[row], bool(is_last)))
    return {step: batches for step, batches in found.items() if len(batches) <= _COMMON}


def _find_rising(source: Source, page: Piece) -> Iterator[tuple[Piece, list[Entry]]]:
    """Yield the entries of a page, those of each file by themselves."""
    data = memoryview(source.read(page.position, page.end - page.position))
    start = 0
    while start < len(data):
        count = kernels.rising_slots(data[start:], _ENTRY.size)
        end = start + count * _ENTRY.size
        if count > _AGREE:
            piece = Piece(page.position + start, page.position + end)
            yield piece, list(_ENTRY.iter_unpack(data[start:end]))
        start = max(end, start + _ENTRY.size)


def _places(entries: list[Entry], steps: dict[Entry, list[_Batch]]) -> dict[int, list[_Place]]:
    """Find extents that agree with entries, and at one position alone."""
    votes: dict[int, Counter[_Place]] = defaultdict(Counter)
    for (offset, position), behind in pairwise(entries):
        for one in steps.get((behind[0] - offset, behind[1] - position), ()):
            place = _Place(position - one.position, one.offset - offset, one.is_last)
            if place.position >= 0 <= place.base_offset:
                votes[one.extent][place] += 1
    found = {}
    for number, counted in votes.items():
        places = [place for place, count in counted.items() if count >= _AGREE]
        if len({place.position for place in places}) == 1:
            found[number] = places
    return found

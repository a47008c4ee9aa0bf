"""Put together the batches that a file system cut into pieces: the checksum decides.

A file system cuts files where blocks begin. The header of a batch lies in its first piece, and the
last lies right before what follows in its log. A checksum is a sum: what each block adds at its
place can be told by itself, so that cuts and places are compared by numbers, not by bytes laid side
by side. One or two pieces between the first and the last are looked for near these, in blocks where
no sound batch lies; how many places are tried is bounded by what 32 bits can prove. A header that
is cut itself is looked for behind the batch before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import count, islice
from math import isqrt
from struct import Struct
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.salvage.carving import SECTOR, Extent, Piece, epoch_of, first_of
from kdump.kernels import columns as c
from kdump.kernels.layout import FORMATS
from kdump.record.batch import read_batch
from kdump.record.layout import CRC32C, LARGEST_HEADER, LOG_OVERHEAD, SMALLEST_MESSAGE
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels.columns import BatchHeader
    from kdump.storage.source import Source

_BLOCKS = (4096, 1024, SECTOR)  # of file systems; where the larger cannot be, the next
_LARGEST = 4 << 20  # a larger batch is not looked for in pieces
_EXPANDS = 1000  # no codec makes more of a byte that is worth having here
_PAIRS = 1 << 18  # of cuts that may be tried for a batch: of 16,384 that are lost one seems found
_SHIFTS = 1024  # places for a piece between the others
_SUMS_KEPT = 1 << 16
_OFFSET_LENGTH = Struct(">qi")
_FOLLOWING = 16  # places in which a batch with a cut header may end
_LEAST_LEFT = max(each.crc_start for each in FORMATS)  # before the cut: the checksum, too
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 32, 1 << 22, 1 << 27  # a step for so many bytes of the image

Start = tuple[int, int]  # the first offset of an entry, and its position


class _Cuts(NamedTuple):
    """Where a batch may be cut, and the sums of what lies on either side.

    `heads` and `tails`: what the bytes before each cut, and those behind it, add to the checksum of
    the whole, if they lie together with the first piece and with the last. `head` and `tail` say in
    which block of the image those behind the first cut would then be.
    """

    size: int
    block: int
    offsets: range
    heads: list[int]
    tails: list[int]
    head: int
    tail: int
    total: int


class Pieces:
    """Puts together what lies in pieces in one image; `sound` is where batches lie whole."""

    def __init__(self, source: Source, sound: Iterable[Piece]) -> None:
        self._source = source
        taken = sorted(sound)
        self._starts = [each.position for each in taken]
        self._ends = [each.end for each in taken]
        self._sums: dict[tuple[int, int, bool], int | None] = {}
        self._steps = min(max(source.size // _STEPS, _FEWEST_STEPS), _MOST_STEPS)

    def assemble(self, torn: BatchHeader, end: int) -> Extent | None:
        """Find the pieces of a torn batch, the last of which ends at `end`; None without them."""
        size = torn.size_bytes
        apart = end - torn.position - size
        block = next((each for each in _BLOCKS if not apart % each), None)
        if block is None or not apart or end < size or size > _LARGEST:
            return None
        head, tail = self._source.read(torn.position, size), self._source.read(end - size, size)
        if len(head) < size or len(tail) < size:
            return None
        cuts = _cuts(torn, head, tail, end, block)
        for found in self._find_pieces(torn, cuts):
            whole = self._join_pieces(torn, end, cuts, found)
            if whole is not None:
                return whole
        return None

    def _find_pieces(self, torn: BatchHeader, cuts: _Cuts) -> Iterator[list[tuple[int, int]]]:
        """Yield the pieces between the first and the last, each with where it begins and ends.

        These are cuts, by number, and between them the block of the image that lies behind the
        first cut, as if the batch lay there whole.
        """
        self._steps -= len(cuts.offsets)
        for number, (before, behind) in enumerate(zip(cuts.heads, cuts.tails, strict=True)):
            if before ^ behind == cuts.total:
                yield [(number, cuts.tail)]
        shifts = _Shifts(self, torn, cuts)
        slots = len(cuts.offsets) - 1
        if slots < 1 or not self._spend(slots * (most := min(_SHIFTS, 2 * _PAIRS // slots**2))):
            return
        yield from shifts.one_between(most)
        most = min(_SHIFTS, isqrt(6 * _PAIRS // slots**3))
        if slots > 1 and most > 1 and self._spend(2 * most * slots**2):
            yield from shifts.two_between(most)

    def _spend(self, steps: int) -> bool:
        self._steps -= steps
        return self._steps >= 0

    def sum(self, block: int, size: int, *, is_crc32c: bool) -> int | None:
        """Return the checksum of a block of the image; None for one that is a sound batch's."""
        key = block, size, is_crc32c
        if key not in self._sums:
            if len(self._sums) >= _SUMS_KEPT:
                self._sums.clear()
            self._sums[key] = self._sum(block, size, is_crc32c=is_crc32c)
        return self._sums[key]

    def _sum(self, block: int, size: int, *, is_crc32c: bool) -> int | None:
        start, end = block * size, (block + 1) * size
        at = bisect_right(self._ends, start)
        if block < 0 or (at < len(self._starts) and self._starts[at] < end):
            return None
        data = self._source.read(start, size)
        if len(data) < size:
            return None
        return kernels.crc32c(data, 0, size) if is_crc32c else kernels.crc32(data, 0, size)

    def _join_pieces(
        self, torn: BatchHeader, end: int, cuts: _Cuts, found: list[tuple[int, int]]
    ) -> Extent | None:
        """Lay the pieces side by side, and see that this is a sound batch."""
        pieces = [Piece(torn.position, torn.position + cuts.offsets[found[0][0]])]
        for (number, block), behind in zip(found, [*found[1:], None], strict=True):
            first = cuts.offsets[number]
            last = cuts.size if behind is None else cuts.offsets[behind[0]]
            shift = block * cuts.block - cuts.offsets[0]
            pieces.append(Piece(shift + first, shift + last))
        assert pieces[-1].end == end
        return self._batch(pieces)

    def with_cut_header(self, before: Extent, starts: dict[int, list[Start]]) -> Extent | None:
        """Find the batch in two pieces whose header is cut, right behind an extent.

        What follows it is one of the `starts`, which are by their place in a sector, in order. The
        stored checksum has to lie before the cut, or the header could be another log's as well.
        """
        left = -before.end % SECTOR
        if not _LEAST_LEFT <= left < min(LARGEST_HEADER, self._source.size - before.end):
            return None
        offset, length = _OFFSET_LENGTH.unpack(self._source.read(before.end, LOG_OVERHEAD))
        rest = length + LOG_OVERHEAD - left
        if offset <= before.last or not SMALLEST_MESSAGE <= length <= _LARGEST or rest <= 0:
            return None
        first = Piece(before.end, before.end + left)
        likely = starts.get(rest % SECTOR, [])
        at = bisect_right(likely, (offset, self._source.size))
        for _, end in likely[at : at + _FOLLOWING]:
            if rest <= end != first.end + rest and (
                found := self._batch([first, Piece(end - rest, end)])
            ):
                return found
        return None

    def _batch(self, pieces: list[Piece]) -> Extent | None:
        """Lay pieces side by side, and see that this is one sound batch."""
        data = b"".join(
            self._source.read(each.position, each.end - each.position) for each in pieces
        )
        rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
        if not rows.count or rows.flags & c.WRONG or rows.size_bytes(0) != len(data):
            return None
        read = read_batch(data, 0, rows, 0, limit=len(data) * _EXPANDS)
        if len(pieces) > 2 and not all(piece.is_sound for piece in read):
            return None
        epoch = epoch_of(rows, 0)
        return Extent(
            self._source.path, pieces, first_of(data, 0, rows, 0, len(data) * _EXPANDS),
            rows.last_offset(0), 1, rows.layout(0), (epoch, epoch),
        )  # fmt: skip


def _cuts(torn: BatchHeader, head: bytes, tail: bytes, end: int, block: int) -> _Cuts:
    """Sum up a batch from the front, as if it lay there whole, and from the end."""
    size, read = torn.size_bytes, torn.format
    is_crc32c = read.crc_kind == CRC32C
    crc = kernels.crc32c if is_crc32c else kernels.crc32
    joined = kernels.crc32c_joined if is_crc32c else kernels.crc32_joined
    offsets = range(block - torn.position % block, size, block)
    while offsets and offsets[0] <= read.crc_start:
        offsets = offsets[1:]
    heads, tails, running, at = [], [0] * len(offsets), 0, read.crc_start
    for offset in offsets:
        running, at = crc(head, at, offset, running), offset
        heads.append(joined(running, 0, size - offset))
    running, behind = 0, size
    for number in range(len(offsets) - 1, -1, -1):
        offset = offsets[number]
        running = joined(crc(tail, offset, behind), running, size - behind)
        tails[number], behind = running, offset
    first = offsets[0] if offsets else 0
    return _Cuts(
        size, block, offsets, heads, tails,
        (torn.position + first) // block, (end - size + first) // block, torn.crc,
    )  # fmt: skip


class _Shifts:
    """Tries places for pieces that lie with neither end of a batch."""

    def __init__(self, pieces: Pieces, torn: BatchHeader, cuts: _Cuts) -> None:
        self._pieces = pieces
        self._cuts = cuts
        self._is_crc32c = torn.format.crc_kind == CRC32C
        self._joined = kernels.crc32c_joined if self._is_crc32c else kernels.crc32_joined

    def one_between(self, most: int) -> Iterator[list[tuple[int, int]]]:
        """Yield what fits with one piece between."""
        heads, tails, total = self._cuts.heads, self._cuts.tails, self._cuts.total
        for at in islice(self._nearby_places(), most):
            begun: dict[int, int] = {}
            running = 0
            for number, added in enumerate(self._block_sums(at)):
                if added is None:
                    begun.clear()
                    continue
                begun.setdefault(heads[number] ^ running, number)
                running ^= added
                first = begun.get(total ^ tails[number + 1] ^ running)
                if first is not None:
                    yield [(first, at), (number + 1, self._cuts.tail)]

    def two_between(self, most: int) -> Iterator[list[tuple[int, int]]]:
        """Yield what fits with two pieces between, which meet at a cut.

        Files grow upward: where the last piece lies above the first, so do those between.
        """
        rises = self._cuts.head < self._cuts.tail
        heads, tails, total = self._cuts.heads, self._cuts.tails, self._cuts.total
        places = {at: list(self._block_sums(at)) for at in islice(self._nearby_places(), most)}
        for meeting in range(1, len(heads) - 1):
            begun: dict[int, tuple[int, int]] = {}
            for at, added in places.items():
                running = 0
                for number in range(meeting - 1, -1, -1):
                    one = added[number]
                    if one is None:
                        break
                    running ^= one
                    begun.setdefault(heads[number] ^ running, (number, at))
            for at, added in places.items():
                running = 0
                for number in range(meeting, len(added)):
                    one = added[number]
                    if one is None:
                        break
                    running ^= one
                    first = begun.get(total ^ tails[number + 1] ^ running)
                    if first is not None and (first[1] < at if rises else first[1] != at):
                        yield [first, (meeting, at), (number + 1, self._cuts.tail)]

    def _nearby_places(self) -> Iterator[int]:
        """Yield places near both ends, the nearest first, those between them before all others."""
        head, tail = self._cuts.head, self._cuts.tail
        known = {head, tail}
        for outside in (False, True):
            for apart in count(1) if outside else range(1, tail - head):
                for at in (head + apart, tail - apart, head - apart, tail + apart):
                    if at not in known and (outside or head < at < tail):
                        known.add(at)
                        yield at

    def _block_sums(self, at: int) -> Iterator[int | None]:
        """Yield what each block of the batch adds to its sum, if it lies in a place."""
        cuts = self._cuts
        for number, behind in enumerate(cuts.offsets[1:]):
            found = self._pieces.sum(at + number, cuts.block, is_crc32c=self._is_crc32c)
            yield None if found is None else self._joined(found, 0, cuts.size - behind)

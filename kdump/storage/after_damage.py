"""Find the next entry of a log behind a broken one.

Its claimed end is trusted where an entry with a right checksum starts, or the file ends, or where
headers that fit lead on to one. Even then something may lie in between, if the length is what
broke: entries whose offsets have room between its own and those behind. Otherwise the next start
is searched for byte by byte, to the end of the file if need be: what an entry claims to cover is
summed in no more time for many than for one (`running_sums`), so that nothing has to be given up.

An entry inside a record's value, or a message of a wrapper whose compression left it as it was, is
an entry to such a search if its offset is believed (`believed`). It is not looked for where the
header around it leads on and says that those offsets are its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap
from kdump.record.layout import LAST_OFFSET_DELTA, LOG_OVERHEAD, SMALLEST_MESSAGE, format_of
from kdump.storage.believed_offsets import BelievedOffsets, Bounds
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.running_sums import Sums
    from kdump.storage.source import Source

BROKEN = c.CRC_BAD | c.TOO_SMALL
_DOUBTFUL = c.TOO_SMALL | c.MAGIC_UNKNOWN | c.CODEC_UNKNOWN | c.DELTA_COUNT
_HEADER_BYTES = 96
_LINKS = 64  # so many headers that lead from one to the next are proof enough
_SUMMED = 4096  # bytes; what an entry that is larger covers is summed with care
_FIRST_WINDOW = 1 << 14
_WINDOW = 1 << 18
_AT_ONCE = 1 << 18  # bytes of an entry that are held to compute its checksum
_SEARCHES_AGAIN = 16  # for what is believed first, through all that is left of the file
_KEPT_GAPS = 1000  # bytes of no more broken entries than that are kept for a second look


class Window(NamedTuple):
    """Bytes of the file at hand: `data[:end]` are those from `base` on."""

    data: bytearray
    base: int
    end: int


class _Entry(NamedTuple):
    """What an entry says of itself. `first` is the last offset of a wrapper."""

    size: int
    flags: int
    first: int
    last: int

    @property
    def is_sound(self) -> bool:
        return not self.flags & (BROKEN | c.MAGIC_UNKNOWN)


class AfterDamage:
    """Gaps of one walk, and where it goes on behind them.

    `largest`: no entry that claims more bytes is believed where it is searched for. `summed`: the
    search itself takes the sum of no more bytes.
    """

    largest = 1 << 31
    summed = _SUMMED

    def __init__(self, source: Source, sums: Sums, believed: BelievedOffsets) -> None:
        self._source = source
        self._sums = sums
        self.believed = believed
        self._gaps = 0
        # Positions where headers were seen to lead on, with the offset there; and where not.
        self._leading: dict[int, int] = {}
        self._astray: frozenset[int] = frozenset()
        # From where on no entry lies between which offsets; how often that was found out.
        self._none: tuple[int, int, int] | None = None
        self._in_vain = 0
        self._room = bytearray()  # of a window

    def entry(self, rows: RecordBatches, row: int, window: Window, limit: int) -> tuple[Gap, int]:
        """Measure the gap that starts with a broken entry; return it and where to go on.

        The rows behind this one are those of the entries that follow at its claimed end.
        """
        header = rows.slice(row, row + 1)
        header.flags = flags = header.flags_of(0)
        position, size = header.position(0), header.size_bytes(0)
        reason = "batch-too-small" if flags & c.TOO_SMALL else "crc-mismatch"
        known = b""
        at = position - window.base
        self._gaps += 1
        if self._gaps <= _KEPT_GAPS and at + size <= window.end:
            known = bytes(memoryview(window.data)[at : at + size])
        claimed = position + size
        behind = self._leads_on(claimed, limit, rows, row + 1, window)
        if behind < 0:
            return self.search(position, limit, reason, header, known, window)
        bounds = self.believed.bounds()
        entry, low = _entry(header, 0), bounds.low
        if not flags & _DOUBTFUL and low < entry.first <= entry.last:
            low = entry.last
        if low + 1 < behind:
            # One that reaches beyond the claimed end may go on behind the offset there.
            between = Bounds(low, bounds.high, OFFSET_MAX, -1)
            found = self._find(position + 1, limit, between, window, (claimed, behind))
            if found >= 0:
                claimed = found
        self.believed.gap()
        size = claimed - position
        return Gap(position, size, reason, header, known, claimed >= limit), claimed

    def measure_gap(
        self, position: int, limit: int, reason: str, window: Window
    ) -> tuple[Gap, int]:
        """Measure the gap that starts where no entry can; return it and where to go on."""
        if reason == "length-too-small" and self._source.only_zeros(position, limit):
            return Gap(position, limit - position, "zeros", None, b"", True), limit
        return self.search(position, limit, reason, None, b"", window)

    def search(
        self,
        position: int,
        limit: int,
        reason: str,
        header: RecordBatches | None,
        known: bytes,
        window: Window,
    ) -> tuple[Gap, int]:
        found = self._find(position + 1, limit, self.believed.bounds(), window)
        self.believed.gap()
        end = limit if found < 0 else found
        return Gap(position, end - position, reason, header, known, found < 0), end

    # Claimed ends --------------------------------------------------------------------------------

    def _leads_on(
        self, position: int, limit: int, rows: RecordBatches, row: int, window: Window
    ) -> int:
        """Return the first offset behind a claimed end, -1 if nothing shows that it is one."""
        known = self._leading.get(position)
        if known is not None:
            return known
        links: dict[int, int] = {}
        bounds = self.believed.bounds()
        last = bounds.low
        while len(links) < _LINKS:
            if position >= limit:
                links[position] = bounds.high
                break
            if row < rows.count and rows.position(row) == position:
                entry: _Entry | None = _entry(rows, row)
                row += 1
            else:
                entry = (
                    None if position in self._astray else self._read_entry(position, limit, window)
                )
            if entry is not None and entry.is_sound:
                fits = bounds.low < entry.first < bounds.high
                links[position] = entry.first if fits else bounds.high
                break
            if (
                entry is None
                or entry.flags & _DOUBTFUL
                or not last < entry.first <= entry.last < bounds.high
            ):
                self._astray = frozenset((*links, position))
                return -1
            links[position] = entry.first
            last = entry.last
            position += entry.size
        self._leading = links
        return next(iter(links.values()))

    def _read_entry(self, position: int, limit: int, window: Window) -> _Entry | None:
        """Read what an entry at a position says of itself, None where none can lie."""
        row = self.row(position, limit, window)
        return None if row is None else _entry(row, 0)

    def row(self, position: int, limit: int, window: Window) -> RecordBatches | None:
        """Return the entry at a position as a walk does, however large it is."""
        at = position - window.base
        if 0 <= at <= window.end:
            row, _, _ = kernels.walk(window.data, at, window.end, window.base, -1, True, 1)
            if row.count:
                return row
        header = header_at(self._source, position)
        if header is None:
            return None
        size = header.size_bytes(0)
        if size > limit - position:
            return None
        if size <= _AT_ONCE:
            data = self._source.read(position, size)
            row, _, _ = kernels.walk(data, 0, len(data), position, -1, True, 1)
            return row if row.count else None
        self.check(header)
        return header

    def check(self, header: RecordBatches) -> None:
        """Look at the checksum of an entry of which there is the header."""
        position, size = header.position(0), header.size_bytes(0)
        read = header.format(0)
        start = position + read.crc_start
        computed = self._sums.of(start, max(position + size, start), read.crc_kind)
        header.put(0, computed_crc=computed)
        if computed != header.crc(0):
            header.put(0, flags=header.flags_of(0) | c.CRC_BAD)

    # The search ----------------------------------------------------------------------------------

    def _find(
        self,
        start: int,
        limit: int,
        bounds: Bounds,
        window: Window,
        claimed: tuple[int, int] | None = None,
    ) -> int:
        """Find where the next entry starts that is believed, -1 for nowhere before `limit`.

        The first with offsets in the wide bounds counts only where no other follows. `claimed`: it
        starts before a position, and where it ends there or before it does so below an offset.
        """
        wide = -1
        lowest = bounds.lowest
        low, high = min(lowest, bounds.wide_low), max(bounds.high, bounds.wide_high)
        size = _FIRST_WINDOW
        while True:
            at = start - window.base
            behind = limit - window.base - window.end
            if 0 <= at < window.end:
                end, more = window.end + min(behind, 0), min(max(behind, 0), self.largest)
                found, stop, right = kernels.resync(
                    window.data, at, end, more, low, high, self.summed
                )
                if found >= 0:
                    position = window.base + found
                    if claimed is not None and position >= claimed[0]:
                        break
                    if right or self.is_right(position, window.base + stop, window):
                        offsets = _offsets_of(window, found)
                        if claimed is not None and window.base + stop <= claimed[0]:
                            if offsets[1] < claimed[1] and bounds.admit(*offsets):
                                return position
                        elif bounds.admit(*offsets):
                            return position
                        if wide < 0 and bounds.admit_wide(*offsets):
                            if self._is_hopeless(position, lowest, bounds.high):
                                return position
                            wide, low, high = position, lowest, bounds.high
                    start = position + 1
                    continue
                start = window.base + stop
            start = self._source.next_entry(start)
            if claimed is not None and start >= claimed[0]:
                break
            if (behind <= 0 and at >= 0) or limit - start < LOG_OVERHEAD + SMALLEST_MESSAGE:
                break
            if len(self._room) != size:
                self._room = bytearray(size)
            filled = self._source.read_into(self._room, start, min(size, limit - start))
            if self._source.shrank:
                break
            window = Window(self._room, start, filled)
            size = min(4 * size, _WINDOW)
        if wide >= 0:
            self._in_vain += 1
            self._none = (wide, lowest, bounds.high)
        return wide

    def is_right(self, position: int, end: int, window: Window) -> bool:
        """Look at the checksum of an entry whose header is at hand."""
        at = position - window.base
        read = format_of(window.data[at + 16])
        at += read.crc_position
        stored = int.from_bytes(window.data[at : at + 4], "big")
        return self._sums.of(position + read.crc_start, end, read.crc_kind) == stored

    def _is_hopeless(self, position: int, low: int, high: int) -> bool:
        """Whether nothing that is believed at once follows, or was looked for too often."""
        if self._in_vain >= _SEARCHES_AGAIN:
            return True
        return self._none is not None and (
            self._none[0] <= position and self._none[1] <= low and high <= self._none[2]
        )


def header_at(source: Source, position: int) -> RecordBatches | None:
    """Return the header of the entry at `position` as one row, its checksum not checked.

    None when no entry can start there.
    """
    data = bytearray(source.read(position, _HEADER_BYTES))
    size = LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True)
    if size < LOG_OVERHEAD + SMALLEST_MESSAGE or size > source.size - position:
        return None
    # The walk looks at no more than the header when no checksum is asked for, but holds the
    # size against its end; so it is shown an entry that ends with the header.
    del data[size:]
    data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    row, _, _ = kernels.walk(data, 0, len(data), position, -1, False, 1)
    if not row.count:
        return None
    row.put(0, size_bytes=size)
    return row


def _offsets_of(window: Window, at: int) -> tuple[int, int]:
    """Return the first and last offset of an entry whose header is at hand."""
    first = last = int.from_bytes(window.data[at : at + 8], "big", signed=True)
    read = format_of(window.data[at + 16])
    if not read.is_legacy:
        at += read.crc_start + LAST_OFFSET_DELTA
        last += int.from_bytes(window.data[at : at + 4], "big", signed=True)
    return first, last


def _entry(rows: RecordBatches, row: int) -> _Entry:
    first, last = rows.known_offset(row), rows.last_offset(row)
    return _Entry(rows.size_bytes(row), rows.flags_of(row), first, last)

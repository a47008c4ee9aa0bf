"""FileRecords: the entries of one log file, from a position on.

The file is read in bounded blocks into one reused buffer, never mapped: a mapped file that a live
broker truncates kills its reader. Each block goes through the kernel's walk, which frames entries
by the broker's rule (S6) and checks every sum. Where an entry is broken its claimed end is trusted
only if a valid entry starts there, or another broken one whose claimed end proves good; else the
next start is searched for byte by byte, and all that lies between is one gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import CRC_START_LEGACY, CRC_START_V2, LOG_OVERHEAD, SMALLEST_MESSAGE

if TYPE_CHECKING:
    from kdump.kernels.columns import Columns
    from kdump.storage.source import Source

# Small enough to stay in the cache between reading and summing; measured against 1 MiB.
BLOCK_BYTES = 1 << 18
BATCHES_A_RUN = 4096
# What a walk looks at behind a broken entry, at first: what lies behind the next broken one would
# be walked over again.
BATCHES_BEHIND_DAMAGE = 8
DEFAULT_LIMIT = 64 << 20
MAX_OFFSET = (1 << 63) - 1
_BROKEN = c.CRC_BAD | c.TOO_SMALL
_HEADER_BYTES = 96
HEADER_BLOCK_BYTES = 1 << 16
_SEARCH_BYTES = 1 << 18
# Bytes of checksum that may be spent on entries that turn out broken: 8 for each byte of the
# file, so that no file can make the search quadratic.
_WASTE_FACTOR = 8
_WASTE_AT_LEAST = 256 << 20  # a small file may cost some tens of milliseconds
_BROKEN_IN_A_ROW = 4  # so many neighbours may be hit at once and still be told apart
_DOUBTFUL = c.TOO_SMALL | c.OFFSET_NOT_RISING | c.MAGIC_UNKNOWN | c.CODEC_UNKNOWN | c.DELTA_COUNT


class FileRecords:
    """The entries of one `.log` or `.checkpoint` file.

    `limit` (bytes) bounds the largest entry held in memory; `next_base` is the next segment's base
    offset, above which no entry of this file is believed when searching after damage.
    """

    def __init__(
        self, source: Source, *, limit: int = DEFAULT_LIMIT, next_base: int | None = None
    ) -> None:
        self.source = source
        self.limit = max(limit, BLOCK_BYTES)
        self.next_base = MAX_OFFSET if next_base is None else next_base
        self._wasted = 0
        self._gave_up = False
        self.stopped_by = reasons.END

    def walk(
        self,
        position: int = 0,
        end: int | None = None,
        last_offset: int = -1,
        *,
        anew: bool = True,
    ) -> Iterator[Run | Oversize | Gap]:
        """Yield what lies in [position, end), in order.

        `last_offset` is that of the entry before (-1: none). Not the highest of all before: one
        base offset that flipped upwards must not make all that follows unbelievable. `anew` False:
        what may be spent on searches is what earlier walks left of it, for many walks of one file.
        """
        if anew:
            self._wasted = 0
        limit = self.source.size if end is None else min(end, self.source.size)
        buffer = bytearray(min(BLOCK_BYTES, max(limit - position, 1)))
        most = BATCHES_A_RUN
        while position < limit:
            filled = self.source.read_into(buffer, position, min(len(buffer), limit - position))
            if filled <= 0:
                return  # the file shrank; the source says so
            at_end = position + filled >= limit or self.source.shrank
            base, start = position, 0
            needed = 0
            while True:
                batches, stop, reason = kernels.walk(
                    buffer, start, filled, base, last_offset, True, most
                )
                broken = first_broken(batches)
                most = BATCHES_BEHIND_DAMAGE if broken >= 0 else min(4 * most, BATCHES_A_RUN)
                if broken >= 0:
                    sound = _part(batches, 0, broken)
                    if sound.count:
                        last_offset = _last_of(sound)
                        yield Run(buffer, base, sound)
                    header = _part(batches, broken, broken + 1)
                    gap, position = self._gap_at(
                        header, buffer, base, filled, limit, last_offset, "crc-mismatch"
                    )
                    yield gap
                    start = position - base
                    if start < filled:
                        continue
                    break
                if batches.count:
                    last_offset = _last_of(batches)
                    yield Run(buffer, base, batches)
                position = base + stop
                start = stop
                if reason == reasons.FULL:
                    continue
                if reason == reasons.LENGTH_TOO_SMALL or (
                    at_end and reason in (reasons.CUT_SHORT, reasons.SHORT_TAIL)
                ):
                    gap, position = self._gap_at(
                        None, buffer, base, filled, limit, last_offset, reasons.NAMES[reason],
                        position,
                    )  # fmt: skip
                    yield gap
                    start = position - base
                    if start < filled:
                        continue
                elif reason == reasons.CUT_SHORT:
                    needed = LOG_OVERHEAD + int.from_bytes(buffer[stop + 8 : stop + 12], "big")
                break
            if needed > limit - position:
                gap, position = self._gap_at(
                    None, buffer, base, filled, limit, last_offset, "cut-short", position
                )
                yield gap
            elif needed > self.limit:
                item, position = self._oversize(position, needed, limit, last_offset)
                if isinstance(item, Oversize):
                    last_offset = _last_of(item.batches)
                yield item
            elif needed > len(buffer):
                buffer = bytearray(needed)
            elif len(buffer) > BLOCK_BYTES:
                buffer = bytearray(BLOCK_BYTES)

    def header(self, position: int) -> Columns | None:
        """Return the header of the entry at `position` as one row, its checksum not checked.

        None when no entry can start there. For lookups and for proving index entries.
        """
        data = bytearray(self.source.read(position, _HEADER_BYTES))
        size = LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True)
        if size < LOG_OVERHEAD + SMALLEST_MESSAGE or size > self.source.size - position:
            return None
        # The walk looks at no more than the header when no checksum is asked for, but holds the
        # size against its end; so it is shown an entry that ends with the header.
        del data[size:]
        data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
        row, _, _ = kernels.walk(data, 0, len(data), position, -1, False, 1)
        if not row.count:
            return None
        row.block[c.B_SIZE * row.stride] = size
        return row

    def headers(self, position: int, end: int | None = None) -> Iterator[Columns]:
        """Yield headers from `position` on as a broker's lookup meets them: no sum is checked (L2).

        What ends the walk is a broker's reason to stop (S6); `stopped_by` names it afterwards:
        END, SHORT_TAIL, CUT_SHORT (silent), LENGTH_TOO_SMALL (a broker raises).
        """
        limit = self.source.size if end is None else min(end, self.source.size)
        buffer = bytearray(HEADER_BLOCK_BYTES)
        self.stopped_by = reasons.END
        while position < limit:
            filled = self.source.read_into(buffer, position, min(len(buffer), limit - position))
            if filled <= 0:
                return
            batches, stop, reason = kernels.walk(
                buffer, 0, filled, position, -1, False, BATCHES_A_RUN
            )
            at_end = position + filled >= limit
            position += stop
            if batches.count:
                yield batches
            if reason == reasons.LENGTH_TOO_SMALL:
                self.stopped_by = reason
                return
            if reason in (reasons.CUT_SHORT, reasons.SHORT_TAIL) and (at_end or not batches.count):
                one = self.header(position) if reason == reasons.CUT_SHORT else None
                if one is None or position + one.value(c.B_SIZE, 0) > limit:
                    self.stopped_by = reason
                    return
                position += one.value(c.B_SIZE, 0)
                yield one

    def runs_as_is(self, position: int, end: int | None = None) -> Iterator[Run]:
        """Yield entries from `position` on with their bytes, as a broker's read meets them (L2).

        Like `headers`, no sum is checked and the first thing that is no entry ends it; an entry
        larger than the limit does, too.
        """
        limit = self.source.size if end is None else min(end, self.source.size)
        buffer = bytearray(HEADER_BLOCK_BYTES)
        self.stopped_by = reasons.END
        while position < limit:
            filled = self.source.read_into(buffer, position, min(len(buffer), limit - position))
            if filled <= 0:
                return
            batches, stop, reason = kernels.walk(
                buffer, 0, filled, position, -1, False, BATCHES_A_RUN
            )
            if batches.count:
                yield Run(buffer, position, batches)
                position += stop
                continue
            size = LOG_OVERHEAD + int.from_bytes(buffer[8:12], "big", signed=True)
            if reason != reasons.CUT_SHORT or size > min(limit - position, self.limit):
                self.stopped_by = reason
                return
            buffer = bytearray(size)

    def valid_at(self, position: int, limit: int, last_offset: int) -> Columns | None:
        """Return the header of a valid, believable entry at `position`, or None."""
        head = self.source.read(position, 12)
        if len(head) < 12:
            return None
        size = LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if size > min(limit - position, self.limit):
            return None
        self._wasted += max(size, 0)
        if self._wasted > self._allowance():
            return None
        data = self.source.read(position, max(size, 0))
        row, _, _ = kernels.walk(data, 0, len(data), position, last_offset, True, 1)
        if not row.count or row.flags & (_BROKEN | c.OFFSET_NOT_RISING | c.MAGIC_UNKNOWN):
            return None
        return row if row.value(c.B_LAST_OFFSET, 0) < self.next_base else None

    def _leads_on(self, position: int, limit: int, last_offset: int) -> bool:
        """Whether the claimed end of a broken entry is one: the file's, or where an entry starts.

        That may be broken too, as long as its header fits and its own claimed end leads on.
        """
        for _ in range(_BROKEN_IN_A_ROW):
            if position >= limit or self.valid_at(position, limit, last_offset) is not None:
                return True
            header = self.header(position)
            if header is None or header.flags & _DOUBTFUL:
                return False
            last = header.value(c.B_LAST_OFFSET, 0)
            if not last_offset < last < self.next_base:
                return False
            position += header.value(c.B_SIZE, 0)
        return False

    def _allowance(self) -> int:
        return _WASTE_FACTOR * self.source.size + _WASTE_AT_LEAST

    def _gap_at(
        self,
        header: Columns | None,
        buffer: bytearray,
        base: int,
        filled: int,
        limit: int,
        last_offset: int,
        reason: str,
        position: int | None = None,
    ) -> tuple[Gap, int]:
        """Measure the gap that starts at the entry `header`, or at `position` where none was read.

        Returns the gap and the position behind it.
        """
        known = b""
        if header is not None:
            position = header.value(c.B_POSITION, 0)
            size = header.value(c.B_SIZE, 0)
            if header.flags & c.TOO_SMALL:
                reason = "batch-too-small"
            known = bytes(buffer[position - base : position - base + size])
            self._wasted += size
            claimed = position + size
            if self._leads_on(claimed, limit, last_offset):
                return Gap(position, size, reason, header, known, claimed >= limit), claimed
        assert position is not None
        if reason == "length-too-small" and self._only_zeros(position, limit):
            return Gap(position, limit - position, "zeros", None, b"", True), limit
        found = self._search(position + 1, limit, last_offset, buffer, base, filled)
        if found < 0:
            if self._gave_up:
                reason = "search-given-up"
            return Gap(position, limit - position, reason, header, known, True), limit
        return Gap(position, found - position, reason, header, known, False), found

    def _search(
        self, position: int, limit: int, last_offset: int, buffer: bytearray, base: int, filled: int
    ) -> int:
        """Find where the next valid entry starts, -1 for nowhere before `limit`.

        Looks first at what is in memory; then in windows that double, since an entry is only
        believed when all of it can be summed.
        """
        window, start, end, origin = buffer, position - base, filled, base
        size = _SEARCH_BYTES
        while True:
            left = self._allowance() - self._wasted
            self._gave_up = left <= 0
            if self._gave_up:
                return -1
            found, used = kernels.resync(
                window, start, end, origin, last_offset, self.next_base, left
            )
            self._wasted += used
            if found >= 0:
                return origin + found
            # Less is left than one entry may ask for, so one may have been passed over.
            self._gave_up = left - used < end - start
            if self._gave_up:
                return -1
            if origin + end >= limit or self.source.shrank:
                return -1
            if size > self.limit:
                # A window as large as the largest entry held: whatever starts in its first half
                # has been judged, unless it is larger than half the limit.
                position += self.limit // 2
            else:
                size *= 2
            position = min(self.source.next_entry(position), limit)
            window = bytearray(min(size, limit - position))
            end = self.source.read_into(window, position, len(window))
            if end <= 0:
                return -1
            start, origin = 0, position

    def _oversize(
        self, position: int, size: int, limit: int, last_offset: int
    ) -> tuple[Oversize | Gap, int]:
        """Sum an entry too large to hold, piece by piece."""
        header = self.header(position)
        if header is None:  # the file shrank just now
            return Gap(position, limit - position, "cut-short", None, b"", True), limit
        self._wasted += size
        legacy = header.value(c.B_LAYOUT, 0) != 2
        crc = 0
        at = position + (CRC_START_LEGACY if legacy else CRC_START_V2)
        block = bytearray(BLOCK_BYTES)
        while at < position + size:
            got = self.source.read_into(block, at, min(len(block), position + size - at))
            if got <= 0:
                break
            crc = (kernels.crc32 if legacy else kernels.crc32c)(block, 0, got, crc)
            at += got
        header.block[c.B_COMPUTED_CRC * header.stride] = crc
        if crc == header.value(c.B_CRC, 0):
            return Oversize(header), position + size
        header.block[c.B_FLAGS * header.stride] |= c.CRC_BAD
        header.flags |= c.CRC_BAD
        claimed = position + size
        if self._leads_on(claimed, limit, last_offset):
            return Gap(position, size, "crc-mismatch", header, b"", claimed >= limit), claimed
        found = self._search(position + 1, limit, last_offset, bytearray(), position + 1, 0)
        behind = limit if found < 0 else found
        return Gap(position, behind - position, "crc-mismatch", header, b"", found < 0), behind

    def _only_zeros(self, position: int, limit: int) -> bool:
        size = 1 << 10  # most of what is no zeros shows it at once
        while (position := self.source.next_data(position)) < limit:
            block = self.source.read(position, min(size, limit - position))
            if not block or block.count(0) != len(block):
                return False
            position += len(block)
            size = BLOCK_BYTES
        return True


def first_broken(batches: Columns) -> int:
    """Return the first row whose checksum is wrong or whose size cannot be, -1 for none."""
    if not batches.flags & _BROKEN:
        return -1
    for row, flags in enumerate(batches.column(c.B_FLAGS)):
        if flags & _BROKEN:
            return row
    return -1


def _part(batches: Columns, start: int, stop: int) -> Columns:
    """Copy some rows, with the flags of these alone."""
    part = batches.slice(start, stop)
    part.flags = reduce(or_, part.column(c.B_FLAGS), 0)
    return part


def _last_of(batches: Columns) -> int:
    return batches.value(c.B_LAST_OFFSET, batches.count - 1)

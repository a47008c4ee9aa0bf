"""FileRecords: the entries of one log file, from a position on.

The file is read in bounded blocks into one reused buffer, never mapped: a mapped file that a live
broker truncates kills its reader. Each block goes through the kernel's walk, which frames entries
by the broker's rule (S6) and checks every checksum. Where an entry is broken `after_damage` says
where the log goes on, and all that lies between is one gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import LOG_OVERHEAD
from kdump.storage import names, places
from kdump.storage.after_damage import BROKEN, AfterDamage, Window, header_at
from kdump.storage.believed_offsets import BelievedOffsets
from kdump.storage.names import OFFSET_MAX
from kdump.storage.running_sums import Sums
from kdump.storage.source import Source

# Small enough to stay in the cache between reading and checking; measured against 1 MiB.
BLOCK_BYTES = 1 << 18
BATCHES_A_RUN = 4096
# What a walk looks at behind a broken entry, at first: where it does not lead on, what lies behind
# the next one would be walked over again.
BATCHES_BEHIND_DAMAGE = 8
DEFAULT_LIMIT = 64 << 20
HEADER_BLOCK_BYTES = 1 << 16
# Headers of entries of this size are read one by one: copying what lies between would cost more.
_HOP_OVER = 4 << 10
_HOPS = 64  # at first, as a lookup takes few
# The checksum of a larger entry is computed before it is held: a broken length claims any size.
_HELD_UNSEEN = 8 << 20


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
        self.next_base = OFFSET_MAX if next_base is None else next_base
        self.stopped_by = reasons.END
        self._sums = Sums(source)

    def walk(
        self, position: int = 0, end: int | None = None, last_offset: int = -1
    ) -> Iterator[Run | Oversize | Gap]:
        """Yield what lies in [position, end), in order.

        `last_offset` is that of the entry before (-1: none).
        """
        limit = self.source.size if end is None else min(end, self.source.size)
        behind = self._after_damage(last_offset, whole=position == 0)
        believed = behind.believed
        damaged = False
        buffer = bytearray(min(BLOCK_BYTES, max(limit - position, 1)))
        most = BATCHES_A_RUN
        while position < limit:
            filled = self.source.read_into(buffer, position, min(len(buffer), limit - position))
            if filled <= 0:
                return  # the file shrank; the source says so
            at_end = position + filled >= limit or self.source.shrank
            window = Window(buffer, position, filled)
            start = needed = 0
            while True:
                batches, stop, reason = kernels.walk(
                    buffer, start, filled, window.base, last_offset, True, most
                )
                row, broken = 0, find_first_broken(batches)
                most = BATCHES_BEHIND_DAMAGE if broken >= 0 else min(4 * most, BATCHES_A_RUN)
                position = window.base + stop
                while broken >= 0:
                    if broken > row:
                        sound = _part(batches, row, broken)
                        last_offset = _last_of(sound)
                        believed.add(sound)
                        yield Run(buffer, window.base, sound)
                    damaged = True
                    gap, behind_it = behind.entry(batches, broken, window, limit)
                    yield gap
                    row = broken + 1
                    claimed = gap.position + batches.size_bytes(broken)
                    if behind_it != claimed or batches.flags & c.OFFSET_NOT_RISING:
                        position = behind_it
                        break
                    broken = find_first_broken(batches, row)
                else:
                    rest = _part(batches, row, batches.count) if row else batches
                    if rest.count:
                        last_offset = _last_of(rest)
                        believed.add(rest)
                        yield Run(buffer, window.base, rest)
                    if reason == reasons.FULL:
                        start = stop
                        continue
                    if reason == reasons.LENGTH_TOO_SMALL or (
                        at_end and reason in (reasons.CUT_SHORT, reasons.SHORT_TAIL)
                    ):
                        damaged = True
                        gap, position = behind.measure_gap(
                            position, limit, reasons.NAMES[reason], window
                        )
                        yield gap
                    else:
                        if reason == reasons.CUT_SHORT:
                            size = int.from_bytes(buffer[stop + 8 : stop + 12], "big")
                            needed = LOG_OVERHEAD + size
                        break
                start = position - window.base
                if start >= filled:
                    break
            if needed > limit - position:
                gap, position = behind.measure_gap(position, limit, "cut-short", window)
                damaged = True
                yield gap
            elif needed > self.limit or needed > (len(buffer) if damaged else _HELD_UNSEEN):
                item, position = self._large(position, needed, limit, behind, window)
                if isinstance(item, Gap):
                    damaged = True
                    yield item
                elif needed > self.limit:
                    last_offset = _last_of(item.batches)
                    believed.add(item.batches)
                    yield item
                else:
                    buffer = bytearray(needed)
            elif needed > len(buffer):
                buffer = bytearray(needed)
            elif len(buffer) > BLOCK_BYTES:
                buffer = bytearray(BLOCK_BYTES)

    def _after_damage(self, last_offset: int, *, whole: bool) -> AfterDamage:
        believed = BelievedOffsets(self._base_offset(), self.next_base, last_offset, whole=whole)
        return AfterDamage(self.source, self._sums, believed)

    def _base_offset(self) -> int | None:
        name = names.parse(places.file_name(self.source.path))
        return name.base_offset if name.kind is names.Kind.LOG else None

    def header(self, position: int) -> RecordBatches | None:
        """Return the header of the entry at `position` as one row, its checksum not checked.

        None when no entry can start there. For lookups and for proving index entries.
        """
        return header_at(self.source, position)

    def headers(self, position: int, end: int | None = None) -> Iterator[RecordBatches]:
        """Yield headers from `position` on as a broker's lookup meets them, checksums unread (L2).

        What ends the walk is a broker's reason to stop (S6); `stopped_by` names it afterwards:
        END, SHORT_TAIL, CUT_SHORT (silent), LENGTH_TOO_SMALL (a broker raises).
        """
        limit = self.source.size if end is None else min(end, self.source.size)
        buffer = bytearray(HEADER_BLOCK_BYTES)
        self.stopped_by = reasons.END
        most = _HOPS
        while position < limit:
            filled, batches, stop, reason = self._frame(buffer, position, limit)
            if filled <= 0:
                return
            at_end = position + filled >= limit
            position += stop
            if batches.count:
                yield batches
            if reason == reasons.LENGTH_TOO_SMALL:
                self.stopped_by = reason
                return
            if reason in (reasons.CUT_SHORT, reasons.SHORT_TAIL) and (at_end or not batches.count):
                one = self.header(position) if reason == reasons.CUT_SHORT else None
                if one is None or position + one.size_bytes(0) > limit:
                    self.stopped_by = reason
                    return
                batches, stop = one, one.size_bytes(0)  # larger than the block
                position += stop
                yield one
            while 0 < batches.count * _HOP_OVER <= stop and (fd := self.source.descriptor()) >= 0:
                start = position
                batches, position = kernels.hop(fd, position, limit, _HOP_OVER, most)
                stop, most = position - start, min(4 * most, BATCHES_A_RUN)
                if batches.count:
                    yield batches

    def runs_as_is(
        self, position: int, end: int | None = None, *, checked: bool = False
    ) -> Iterator[Run]:
        """Yield entries from `position` on with their bytes, as a broker's read meets them (L2).

        Like `headers` it goes by no checksum, and the first thing that is no entry ends it; an
        entry larger than the limit does, too. `checked`: rows are flagged where theirs is wrong.
        """
        limit = self.source.size if end is None else min(end, self.source.size)
        buffer = bytearray(HEADER_BLOCK_BYTES)
        self.stopped_by = reasons.END
        while position < limit:
            filled, batches, stop, reason = self._frame(buffer, position, limit, checked=checked)
            if filled <= 0:
                return
            if batches.count:
                yield Run(buffer, position, batches)
                position += stop
                continue
            size = LOG_OVERHEAD + int.from_bytes(buffer[8:12], "big", signed=True)
            if reason != reasons.CUT_SHORT or size > min(limit - position, self.limit):
                self.stopped_by = reason
                return
            buffer = bytearray(size)

    def _frame(
        self, buffer: bytearray, position: int, limit: int, *, checked: bool = False
    ) -> tuple[int, RecordBatches, int, int]:
        """Fill the buffer and frame what is in it, by no offset: how many bytes it holds, the
        batches, where they stop, and why.
        """
        filled = self.source.read_into(buffer, position, min(len(buffer), limit - position))
        walked = kernels.walk(buffer, 0, filled, position, -1, checked, BATCHES_A_RUN)
        return filled, *walked

    def valid_at(self, position: int, limit: int, last_offset: int) -> RecordBatches | None:
        """Return the header of a valid, believable entry at `position`, or None."""
        believed = BelievedOffsets(None, self.next_base, last_offset, whole=False)
        nothing = Window(bytearray(), 0, 0)
        row = AfterDamage(self.source, self._sums, believed).row(position, limit, nothing)
        if row is None or row.flags & (BROKEN | c.MAGIC_UNKNOWN):
            return None
        first, last = row.known_offset(0), row.last_offset(0)
        return row if last_offset < first <= last < self.next_base else None

    def _large(
        self, position: int, size: int, limit: int, behind: AfterDamage, window: Window
    ) -> tuple[Oversize | Gap, int]:
        """Check a large entry piece by piece; what is sound is not passed yet if it may be held."""
        header = self.header(position)
        if header is None:  # the file shrank just now
            return Gap(position, limit - position, "cut-short", None, b"", True), limit
        behind.check(header)
        if header.flags & BROKEN:
            return behind.entry(header, 0, window, limit)
        return Oversize(header), position + size if size > self.limit else position


def walk(
    path: str,
    position: int = 0,
    end: int | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
    next_base: int | None = None,
    last_offset: int = -1,
) -> Iterator[Run | Oversize | Gap]:
    """Open a log and yield what lies in [position, end), all of it if unsaid."""
    with Source(path) as source:
        source.advise_sequential()
        records = FileRecords(source, limit=limit, next_base=next_base)
        yield from records.walk(position, end, last_offset)


def find_first_broken(batches: RecordBatches, start: int = 0) -> int:
    """Return the first row whose checksum is wrong or whose size cannot be, -1 for none."""
    if not batches.flags & BROKEN:
        return -1
    for row, flags in enumerate(batches.row_flags[start:], start):
        if flags & BROKEN:
            return row
    return -1


def _part(batches: RecordBatches, start: int, stop: int) -> RecordBatches:
    """Copy some rows, with the flags of these alone."""
    part = batches.slice(start, stop)
    part.flags = reduce(or_, part.row_flags, 0)
    return part


def _last_of(batches: RecordBatches) -> int:
    return batches.last_offset(batches.count - 1)

"""Pre08Records: the entries of one `.kafka` file (0.6, 0.7), from a position on.

The same bargain as `file_records`: bounded reads, every checksum checked, and where an entry is
broken its claimed end is trusted only if a valid entry starts there. The format has nothing but a
length, two small numbers and the payload's checksum to know an entry by, and the checksum of no
bytes is 0: zeros and a small number look like an empty message. So an entry with a payload of less
than four bytes is believed, where we search, only if what follows it is believed too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from kdump import kernels
from kdump.kernels import reasons
from kdump.record.layout import PRE08_LENGTH, PRE08_SMALLEST
from kdump.record.pre08 import Entry, attributes_size, read_entry, signed_byte
from kdump.storage.running_sums import sum_of
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels.columns import DecodedRecords, RecordBatches
    from kdump.storage.source import Source

BLOCK_BYTES = 1 << 20
_SEARCH_BYTES = 1 << 18
_FIRST_LOOK_BYTES = 1 << 10  # most gaps are short, and there may be very many
_WASTE_FACTOR = 8  # bytes of checksum spent in vain, for each byte of the file
_SMALLEST_ENTRY = PRE08_LENGTH.size + PRE08_SMALLEST
_DOUBTFUL_BYTES = 64  # a larger entry is worth a look at where it leads, before it is summed
_WEAK_BYTES = 4  # a payload shorter than its own checksum
_WEAK_ENTRIES = 8  # so many in a row are proof enough
_HEADER_BYTES = 10
_RUN = 1 << 14  # messages
_HIGHEST_CODEC = 2


class Pre08Entry(NamedTuple):
    """One entry with a right checksum. It is at `data[entry.position:]`, valid until the next item.

    `data` is None where the entry is too large to be held in memory.
    """

    position: int
    size_bytes: int
    entry: Entry
    data: memoryview | None


class Pre08Run(NamedTuple):
    """Messages of one magic that are neither compressed nor wrong, as a kernel's columns."""

    data: memoryview
    batches: RecordBatches
    records: DecodedRecords


class Pre08Gap(NamedTuple):
    """Bytes that hold no usable entry, and why; the reasons are those of `record.frames`.

    `entry` is what was read there if its length led somewhere: then `data` is as in `Pre08Entry`.
    `to_end`: no valid entry follows in this file.
    """

    position: int
    size_bytes: int
    reason: str
    entry: Entry | None
    data: memoryview | None
    to_end: bool


class Pre08Records:
    """The entries of one file; `limit` (bytes) bounds the largest that is held in memory."""

    def __init__(self, source: Source, *, limit: int) -> None:
        self.source = source
        self.limit = max(limit, BLOCK_BYTES)
        self._end = source.size
        self._base = 0
        self._window = memoryview(b"")
        self._wasted = self._wasted_in_doubt = 0

    def starts_with_entry(self) -> bool:
        """Say whether a valid entry is the first thing in the file; none is searched for."""
        return self._end > 0 and _is_sound(self._read(0)[0])

    def walk(self, position: int = 0) -> Iterator[Pre08Entry | Pre08Gap]:
        """Yield what lies from `position` on, in order; together it is all of the file."""
        for item in self.runs(None, position):
            assert not isinstance(item, Pre08Run)
            yield item

    def runs(
        self, segment: int | None, position: int = 0
    ) -> Iterator[Pre08Run | Pre08Entry | Pre08Gap]:
        """Yield the same, plain messages many at a time if the offset of the file is given."""
        self._wasted = self._wasted_in_doubt = 0
        self._end = self.source.size
        while position < self._end:
            if segment is not None:
                at = self._fill(position, PRE08_LENGTH.size)
                held, base = self._window, self._base
                run = Pre08Run(held, *kernels.walk_pre08(held, at, len(held), base, segment, _RUN))
                if run.batches.count:
                    position = run.batches.end_position(run.batches.count - 1)
                    yield run
                    continue
            entry, data, reason = self._read(position)
            if position >= self._end:
                return  # the file shrank; the source says so
            if not _is_sound(entry):
                gap = self._gap(position, entry, data, reason)
                position = gap.position + gap.size_bytes
                yield gap
                continue
            yield Pre08Entry(position, entry.size_bytes, entry, data)
            position += entry.size_bytes

    def _read(self, position: int) -> tuple[Entry | None, memoryview | None, int]:
        """Read the entry at `position`: (entry, the bytes it lies in, why there is none)."""
        at = self._fill(position, PRE08_LENGTH.size)
        left = self._end - position
        if left < PRE08_LENGTH.size:
            return None, None, reasons.SHORT_TAIL
        (length,) = PRE08_LENGTH.unpack_from(self._window, at)
        size = PRE08_LENGTH.size + length
        if size < _SMALLEST_ENTRY:
            return None, None, reasons.LENGTH_TOO_SMALL
        if size > left:
            return None, None, reasons.CUT_SHORT
        if size > self.limit:
            return self._read_large(position, size), None, reasons.END
        at = self._fill(position, size)
        if len(self._window) - at < size:  # the file shrank just now
            return None, None, reasons.CUT_SHORT
        entry, reason = read_entry(self._window, at, at + size)
        return entry, self._window, reason

    def _fill(self, position: int, size: int) -> int:
        """Have `size` bytes at `position` in the window, as far as there are; return the index."""
        at = position - self._base
        if at >= 0 and at + size <= len(self._window):
            return at
        wanted = min(max(size, BLOCK_BYTES), self._end - position)
        self._window = memoryview(self.source.read(position, wanted))
        self._base = position
        if len(self._window) < wanted:
            self._end = position + len(self._window)
        return 0

    def _read_large(self, position: int, size: int) -> Entry:
        """Compute the checksum of an entry too large to hold, piece by piece."""
        head = memoryview(self.source.read(position, _HEADER_BYTES)).tobytes().ljust(_HEADER_BYTES)
        magic = signed_byte(head[4])
        attributes = head[5 : 5 + attributes_size(magic)]
        crc_at = 5 + len(attributes)
        crc = int.from_bytes(head[crc_at : crc_at + 4], "big")
        computed = sum_of(self.source, kernels.crc32, position + crc_at + 4, position + size)
        return Entry(0, size, magic, attributes[0] if attributes else 0, crc, computed, crc_at + 4)

    def _gap(
        self, position: int, entry: Entry | None, data: memoryview | None, reason: int
    ) -> Pre08Gap:
        """Measure the gap that starts at `position`."""
        word = reasons.NAMES[reason]
        end = self._end
        if entry is not None:
            word = "crc-mismatch" if entry.known_magic else "magic-unknown"
            claimed = position + entry.size_bytes
            self._wasted += entry.size_bytes
            if claimed >= end or self._believable(claimed):
                return Pre08Gap(position, claimed - position, word, entry, data, claimed >= end)
        elif reason == reasons.SHORT_TAIL:
            return Pre08Gap(position, end - position, word, None, None, True)
        elif reason == reasons.LENGTH_TOO_SMALL and self.source.only_zeros(position, end):
            return Pre08Gap(position, end - position, "zeros", None, None, True)
        found = self._search(position + 1)
        if found < 0:
            if self._wasted > self._allowance():
                word = "search-given-up"
            return Pre08Gap(position, end - position, word, entry, data, True)
        return Pre08Gap(position, found - position, word, entry, data, False)

    def _allowance(self) -> int:
        return _WASTE_FACTOR * self._end + BLOCK_BYTES

    def _believable(self, position: int) -> bool:
        """Whether a valid entry starts here that is not there by chance."""
        for _ in range(_WEAK_ENTRIES):
            if self._wasted > self._allowance():
                return False
            entry, _, _ = self._read(position)
            if entry is None:
                return position == self._end
            if not entry.crc_valid:
                self._wasted += entry.size_bytes
                return False
            if not entry.known_magic or entry.attributes > _HIGHEST_CODEC:
                return False
            overhead = _SMALLEST_ENTRY + attributes_size(entry.magic)
            if entry.size_bytes - overhead >= _WEAK_BYTES:
                return True
            position += entry.size_bytes
        return True

    def _search(self, position: int) -> int:
        """Find where the next valid entry starts, -1 for nowhere; first by what a look can tell."""
        pattern = _candidate(self._end - position)
        step = _FIRST_LOOK_BYTES
        while self._end - position >= _SMALLEST_ENTRY:
            chunk = self.source.read(position, min(step, self._end - position))
            step = min(step * 4, _SEARCH_BYTES)
            if len(chunk) < _SMALLEST_ENTRY:
                break
            for match in pattern.finditer(chunk):
                at = match.start()
                size = PRE08_LENGTH.size + PRE08_LENGTH.unpack_from(chunk, at)[0]
                if size > self._end - position - at:
                    continue
                start = position + at
                if size > _DOUBTFUL_BYTES and not self._may_start(start + size, pattern):
                    # Sums of what leads nowhere have a budget of their own, so that they alone
                    # cannot end the search; past it such a candidate is passed over.
                    self._wasted_in_doubt += size
                    if self._wasted_in_doubt > self._allowance() // 2:
                        continue
                else:
                    self._wasted += size
                    if self._wasted > self._allowance():
                        return -1
                if self._sum_is_right(chunk, at, size, position) and self._believable(start):
                    return start
            # A start whose first bytes are the chunk's last ones is met again in the next chunk.
            position += len(chunk) - _SMALLEST_ENTRY + 1
        return -1

    def _may_start(self, position: int, pattern: re.Pattern[bytes]) -> bool:
        """Whether the file ends here or an entry might begin, at a glance."""
        if position >= self._end:
            return True
        return pattern.match(self.source.read(position, _HEADER_BYTES)) is not None

    def _sum_is_right(self, chunk: bytes, at: int, size: int, base: int) -> bool:
        crc_at = at + (6 if chunk[at + 4] else 5)
        payload = crc_at + 4
        head = chunk[crc_at:payload]
        if len(head) < 4:
            head = self.source.read(base + crc_at, 4)
        if at + size <= len(chunk):
            computed = kernels.crc32(chunk, payload, at + size)
        else:
            computed = sum_of(self.source, kernels.crc32, base + payload, base + at + size)
        return int.from_bytes(head, "big") == computed


def _is_sound(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and entry.crc_valid and entry.known_magic


def _candidate(left: int) -> re.Pattern[bytes]:
    """Match where a length of 5 or more that may fit, a known magic and a known codec stand."""
    highest = min(left >> 24, 0x7F)
    length = rb"(?!\x00\x00\x00[\x00-\x04])[\x00-\x%02x]..." % highest
    return re.compile(rb"(?s)(?=" + length + rb"(?:\x00|\x01[\x00-\x02]))")

"""Read the log of one segment as a starting broker does: its entries, and what ends them.

There are two ways. Recovery checks each entry (`read_sound`, R2); what looks for the log end or
replays producers takes entries as they are (`as_is`, L2). What ends a reading is either silent or
an exception of the broker's, and which of the two it is changed with the broker (S2 to S7).
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.versions import Version, has
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import BatchHeader, RecordBatches
from kdump.record.frames import Oversize, Run
from kdump.record.layout import (
    BATCH_OVERHEAD_V2,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAX_INT32,
    SMALLEST_MESSAGE,
)
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

BLOCK_BYTES = 1 << 18
_ROWS = 4096
_HEAP_BYTES = 1 << 30  # of a broker started with the scripts that come with it
_V2_HEAD = struct.Struct(">q15xi")  # base offset, last offset delta
_ENTRY = struct.Struct(">qi")  # offset, size
_NOT_OPENED = (reasons.OVER_LIMIT, reasons.CODEC_MISSING)
_UNREADABLE = (
    reasons.INNER_SIZE,
    reasons.INNER_EMPTY,
    reasons.WRAPPER_OFFSET,
    reasons.VALUE_NULL,
    reasons.ZSTD_IN_LEGACY,
)


class RefusalError(Exception):
    """The broker does not get over this: it would not start."""


class MemoryRefusalError(RefusalError):
    """The broker would ask for more memory than there is."""


class CorruptRecordError(RefusalError):
    """CorruptRecordException, InvalidRecordException: recovery catches it and cuts the log at
    `end_position`; nothing else does."""

    end_position = -1


class UnknowableError(Exception):
    """What the broker would meet cannot be found out with what is installed here."""


class SearchEnd(NamedTuple):
    """The entry that a search ends at; its base offset None where that takes opening a wrapper.

    `scanned` counts the entries from where the search began up to it.
    """

    position: int
    size_bytes: int
    base_offset: int | None
    last_offset: int
    scanned: int


class Entries:
    """The entries in [start, end) of one log file, as a broker of one version meets them.

    `stop` is where the last entry that was handed out ends; `why` says what ended a checked
    reading. `bytes_read` counts across readings.
    """

    def __init__(
        self, source: Source, broker: Version, start: int, end: int, *, limit: int = DEFAULT_LIMIT
    ) -> None:
        self.source = source
        self.broker = broker
        self.start = start
        self.end = end
        self.limit = limit
        self.stop = start
        self.why = ""
        self.bytes_read = 0

    def read_sound(self, message_max_bytes: int) -> Iterator[Run]:
        """Yield sound entries up to the first that recovery would not take (R2)."""
        position = self.stop = self.start
        self.why = ""
        buffer = bytearray(min(BLOCK_BYTES, max(self.end - position, 1)))
        while position < self.end:
            filled = self.source.read_into(buffer, position, min(len(buffer), self.end - position))
            if filled <= 0:
                return
            at, reason = 0, reasons.FULL
            while reason == reasons.FULL:
                rows, at, reason = kernels.walk(buffer, at, filled, position, -1, True, _ROWS)
                bad = self._first_unsound(rows, message_max_bytes)
                if bad >= 0:
                    good = rows.slice(0, bad)
                    yield from self._hand_out(buffer, position, good)
                    return
                yield from self._hand_out(buffer, position, rows)
            if reason == reasons.LENGTH_TOO_SMALL:
                self.why = "an impossible entry size"
                return
            if reason != reasons.END and position + filled >= self.end:
                if reason == reasons.CUT_SHORT and has(self.broker, v.RECORD_BATCHES):
                    self._refuse_int_overflow(position + at, _ENTRY.unpack_from(buffer, at)[1])
                self.why = "an incomplete entry"
                return
            if at == 0 and reason == reasons.CUT_SHORT:
                needed = LOG_OVERHEAD + _ENTRY.unpack_from(buffer)[1]
                if has(self.broker, v.RECORD_BATCHES):
                    self._refuse_int_overflow(position, needed - LOG_OVERHEAD)
                if needed > self.end - position:
                    self.why = "an incomplete entry"
                    return
                if needed > self.limit:
                    if not (yield from self._oversize(position, needed)):
                        return
                    position += needed
                else:
                    buffer = bytearray(needed)
                continue
            position += at
            if len(buffer) > BLOCK_BYTES:
                buffer = bytearray(BLOCK_BYTES)

    def _hand_out(self, buffer: bytearray, base: int, rows: RecordBatches) -> Iterator[Run]:
        if rows.count:
            end = rows.end_position(rows.count - 1)
            self.bytes_read += end - self.stop
            self.stop = end
            yield Run(buffer, base, rows)

    def _oversize(self, position: int, size: int) -> Generator[Run, None, bool]:
        """Yield one entry too large to be held; return whether it is sound."""
        walk = FileRecords(self.source, limit=self.limit).walk(position, position + size)
        item = next(walk, None)
        if not isinstance(item, Oversize) or not self._sound(item.batches.header(0)):
            self.why = "a checksum mismatch"
            return False
        yield from self._hand_out(bytearray(), position, item.batches)
        return True

    def _first_unsound(self, rows: RecordBatches, message_max_bytes: int) -> int:
        """The first entry that `ensureValid` or the size limit of recovery refuses, or -1."""
        old = not has(self.broker, v.RECORD_BATCHES)
        too_large = old and rows.count > 0 and max(rows.sizes) - LOG_OVERHEAD > message_max_bytes
        if not (rows.flags & (c.CRC_BAD | c.TOO_SMALL | c.MAGIC_UNKNOWN) or too_large or old):
            return -1
        if old and not too_large and not rows.flags and all(map(rows.is_legacy, range(rows.count))):
            return -1
        for number, flags in enumerate(rows.row_flags):
            if too_large and rows.size_bytes(number) - LOG_OVERHEAD > message_max_bytes:
                self.why = "an entry larger than message.max.bytes"
                return number
            if (old or flags) and not self._sound(rows.header(number)):
                self.why = "a checksum mismatch"
                return number
        return -1

    def _sound(self, row: BatchHeader) -> bool:
        """Whether `ensureValid` takes an entry: old brokers know no batch, new ones no odd magic
        over a v0 message (F9, F22)."""
        if row.flags & (c.CRC_BAD | c.TOO_SMALL):
            return False
        if not has(self.broker, v.RECORD_BATCHES):
            return row.is_legacy
        return not row.is_mislabelled

    def as_is(self, position: int) -> Iterator[RecordBatches]:
        """Yield headers from `position` to the end, no checksum checked.

        Raises what ends it, unless the end is silent.
        """
        records = FileRecords(self.source)
        self.stop = position
        for rows in records.headers(position, self.end):
            if has(self.broker, v.RECORD_BATCHES) and rows.flags & c.TOO_SMALL:
                unread = self._read_past(rows)
                if unread >= 0:
                    if unread:
                        yield rows.slice(0, unread)
                    raise RefusalError("KafkaException: a batch header cut off by the file end")
            self.stop = rows.end_position(rows.count - 1)
            self.bytes_read += BATCH_OVERHEAD_V2 * rows.count
            yield rows
        self._raise_ending(self.stop)

    def _read_past(self, rows: RecordBatches) -> int:
        """Give batches too small for their header what a broker reads there: what follows (S9).

        Returns the first row of which the file holds too little for that, -1 for none.
        """
        for number, flags in enumerate(rows.row_flags):
            if not flags & c.TOO_SMALL or rows.is_legacy(number):
                continue
            position = rows.position(number)
            head = self.source.read(position, min(BATCH_OVERHEAD_V2, self.end - position))
            if len(head) < BATCH_OVERHEAD_V2:
                return number
            base, delta = _V2_HEAD.unpack_from(head)
            rows.put(number, last_offset=base + delta)
        return -1

    def _raise_ending(self, position: int) -> None:
        """Raise what a broker raises at the bytes that are no whole entry, if it does."""
        left = self.end - position
        if left <= 0:
            return
        head = self.source.read(position, min(_ENTRY.size, left))
        if len(head) < _ENTRY.size:
            return
        size = _ENTRY.unpack(head)[1]
        if not has(self.broker, v.IMPOSSIBLE_SIZE_RAISES):
            if not has(self.broker, v.SIZE_HELD_AGAINST_END):
                hungry = size > _HEAP_BYTES
            else:
                hungry = self._wraps(position, size) and left > LOG_OVERHEAD
            if hungry and size >= SMALLEST_MESSAGE:
                raise MemoryRefusalError(f"OutOfMemoryError: {size} bytes requested for one entry")
            return
        if left <= (
            HEADER_SIZE_UP_TO_MAGIC if has(self.broker, v.RECORD_BATCHES) else LOG_OVERHEAD
        ):
            return
        if size < SMALLEST_MESSAGE:
            raise CorruptRecordError(
                f"CorruptRecordException: record size {size} at position {position - self.start} "
                f"is below the minimum, {SMALLEST_MESSAGE}"
            )
        self._refuse_int_overflow(position, size)

    def _wraps(self, position: int, size: int) -> bool:
        return position - self.start + LOG_OVERHEAD + size > MAX_INT32

    def _refuse_int_overflow(self, position: int, size: int) -> None:
        """Before 1.1.1 the end of an entry could wrap, and seem to lie before the file's (S6)."""
        if has(self.broker, v.SIZES_WRAP) and self._wraps(position, size):
            raise RefusalError(f"IllegalArgumentException: a size of {size} wraps around")

    def next_offset(self, position: int, indexed: int, base: int) -> int:
        """The offset behind the last entry as a start finds it (`readNextOffset`).

        `indexed` is the offset of the last index entry, `position` where it leads. Where nothing
        there reaches that offset, or no whole entry stands there (the twelve bytes that brokers
        before 0.10.2 searched by may be those of a torn one), the segment counts as empty, however
        much it holds: that gives `base`.
        """
        found = self.search(position, indexed)
        last = base - 1
        for rows in self.as_is(found.position) if found is not None else ():
            last = rows.last_offset(rows.count - 1)
        return last + 1

    def search(self, position: int, offset: int) -> SearchEnd | None:
        """Find the first entry from `position` on whose last offset reaches `offset` (L2)."""
        if not has(self.broker, v.IMPOSSIBLE_SIZE_RAISES):
            return self._search_old(position, offset)
        if has(self.broker, v.BASE_OFFSET_SEARCH):
            return self._search_bases(position, offset)
        passed = 0
        for rows in self.as_is(position):
            row = _first_from(rows.last_offsets, offset)
            if row < rows.count:
                return _make_end(rows, row, passed)
            passed += rows.count
        return None

    def _search_bases(self, position: int, offset: int) -> SearchEnd | None:
        """Find it by base offsets, looking at a last offset only where it decides (KAFKA-18989).

        The header behind the entry is read before that is taken, unless its base offset is the
        one looked for. Where offsets fall, this finds other entries, or none; of an entry written
        twice it finds the second. Each wrapper is opened for it.
        """
        before: SearchEnd | None = None
        passed = 0
        for rows in self.as_is(position):
            wrapped = rows.flags & c.WRAPPER
            first = 0 if wrapped else _first_from(rows.base_offsets, offset)
            if first:
                before = _make_end(rows, first - 1, passed)
            for number in range(first, rows.count):
                found = _make_end(rows, number, passed)
                base = self.first_offset(rows, number)
                if base == offset:
                    return found
                if base > offset:
                    return before if before is not None and before.last_offset >= offset else found
                before = found
            passed += rows.count
        return before if before is not None and before.last_offset >= offset else None

    def first_offset(self, rows: RecordBatches, number: int) -> int:
        """The base offset of an entry; a wrapper is opened for it (F18)."""
        if not rows.flags_of(number) & c.WRAPPER:
            return rows.base_offset(number)
        from kdump.record.wrapper import open_wrapper

        position, size = rows.position(number), rows.size_bytes(number)
        if size > self.limit:
            raise UnknowableError(f"a compressed entry of {size} bytes")
        data = self.source.read(position, size)
        wrapper = open_wrapper(data, position, rows, number, self.limit)
        if wrapper.reason in _NOT_OPENED:
            raise UnknowableError(f"a compressed entry that is not opened: {wrapper.detail}")
        offset, _, compressed = next(wrapper.messages(), (-1, -1, False))
        if wrapper.reason in _UNREADABLE or compressed:
            error = CorruptRecordError("CorruptRecordException: a broken compressed entry")
            error.end_position = position
            raise error
        if wrapper.reason:
            raise RefusalError("KafkaException: a compressed entry that cannot be opened")
        return offset

    def _search_old(self, position: int, offset: int) -> SearchEnd | None:
        """Find it by twelve bytes of each entry; an offset is looked at before the size (L2)."""
        block, start, scanned = b"", 0, 0
        while position + LOG_OVERHEAD < self.end:
            if not start <= position <= start + len(block) - LOG_OVERHEAD:
                block, start = self.source.read(position, 1 << 16), position
            if len(block) < LOG_OVERHEAD:
                return None
            last, size = _ENTRY.unpack_from(block, position - start)
            self.bytes_read += LOG_OVERHEAD
            scanned += 1
            if last >= offset:
                return SearchEnd(position, LOG_OVERHEAD + size, None, last, scanned)
            if size < SMALLEST_MESSAGE:
                raise RefusalError(f"IllegalStateException: invalid message size {size}")
            position += LOG_OVERHEAD + size
        return None


def _first_from(values: memoryview, offset: int) -> int:
    """The first row whose value reaches `offset`; the number of rows where none does."""
    if max(values) < offset:
        return len(values)
    return next(row for row, value in enumerate(values) if value >= offset)


def _make_end(rows: RecordBatches, row: int, passed: int) -> SearchEnd:
    wrapper = rows.flags_of(row) & c.WRAPPER
    return SearchEnd(
        rows.position(row),
        rows.size_bytes(row),
        None if wrapper else rows.base_offset(row),
        rows.last_offset(row),
        passed + row + 1,
    )

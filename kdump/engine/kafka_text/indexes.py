"""Print and check index files as kafka-dump-log does (D5 to D7)."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator

from kdump.broker.index_search import offset_finder
from kdump.broker.versions import BOTH_VERSION_BYTES, has
from kdump.engine.kafka_text.log import read_frames
from kdump.engine.kafka_text.pairs import Pairs, Room
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record import layout
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.record.read_ahead import RecordsAhead
from kdump.storage.index import OffsetIndex, OffsetPosition
from kdump.storage.names import FileName, Kind, file_name
from kdump.storage.producer_snapshot import SIZE_LIMIT, ProducerSnapshot, ProducerState
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset
from kdump.storage.transaction_index import VERSION, AbortedTransaction, TransactionIndex
from kdump.tuples import NamedTuple

_TOOL = (4, 1)  # the release whose text this is
_NEAR = 1 << 15  # bytes read at once where a batch is looked for that an index names
_FAR = 1 << 18  # the same where the look before ended near it
#: `--max-message-size`: how far the index check looks for a batch behind a position.
MAX_MESSAGE_SIZE = 5 * 1024 * 1024


class EmptyIndex(NamedTuple):
    """An offset index without a slot: the tool says so instead of printing entries."""

    path: str


class ToolDeath(NamedTuple):
    """Where the tool would die of an exception; what it was about to print is left out."""

    path: str
    reason: str


class ToolComplaint(NamedTuple):
    """A line the tool itself prints to standard error."""

    text: str


class Mismatches:
    """What the tool found wrong in one file, to be printed at the end of the run."""

    def __init__(self, room: Room) -> None:
        self.index = Pairs(room)
        self.timestamp = Pairs(room)
        self.order = Pairs(room)
        self.not_found = Pairs(room)


#: What a line is printed of.
Entry = OffsetPosition | TimestampOffset | AbortedTransaction | ProducerState
IndexItem = Entry | EmptyIndex | ToolDeath | ToolComplaint


class _Log:
    """The log an index belongs to, for one look at a time.

    Looks mostly go from front to back, so what was framed for one is held for the next.
    """

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._held = Run(bytearray(), 0, c.RecordBatches.empty(c.BATCH_WIDTH))
        self._ahead = RecordsAhead(limit)

    def first_last_offset(self, position: int) -> int:
        """Return the last offset of the batch at a position; raise what would kill the tool."""
        size = self._source.size
        if position < 0 or position > size:
            raise _Death(f"slice from position {position} exceeds end position {size}")
        window = min(size, position + MAX_MESSAGE_SIZE)
        head = self._source.read(position, layout.BATCH_OVERHEAD_V2)
        length = int.from_bytes(head[8:12], "big", signed=True)
        left = window - position
        if min(left, len(head)) <= layout.HEADER_SIZE_UP_TO_MAGIC:
            raise _Death(f"no batch at position {position} (NoSuchElementException)")
        if length < layout.SMALLEST_MESSAGE:
            raise _Death(f"record size {length} at position {position} (CorruptRecordException)")
        if length > left - layout.LOG_OVERHEAD:
            raise _Death(f"no whole batch at position {position} (NoSuchElementException)")
        offset = int.from_bytes(head[:8], "big", signed=True)
        if layout.format_of(head[16]).is_legacy:
            return offset
        return layout.int64(offset + int.from_bytes(head[23:27], "big", signed=True))

    def find_batch(self, position: int, offset: int) -> tuple[int, int] | None:
        """Find the first batch from a position on that ends at or behind an offset.

        Returns its last offset and the largest timestamp of its records, -1 where it ends behind
        the offset and is not opened.
        """
        if position < 0 or position > self._source.size:
            raise _Death(f"slice from position {position} exceeds end position")
        held = self._held.batches
        row = bisect_left(held.positions, position)
        end = held.end_position(held.count - 1) if held.count else 0
        if row < held.count and held.position(row) == position:
            while row < held.count and held.last_offset(row) < offset:
                row += 1
            if row < held.count:
                return self._entry_end(row, offset)
        block = _FAR if end > 0 and abs(position - end) < _FAR else _NEAR
        for item in read_frames(self._source, self._limit, position, block):
            if not isinstance(item, Run):
                if getattr(item, "reason", "") not in ("short-tail", "cut-short"):
                    raise _Death(f"the log is damaged after position {position}")
                continue
            self._held = item
            for row, last in enumerate(item.batches.last_offsets):
                if last >= offset:
                    return self._entry_end(row, offset)
        return None

    def _entry_end(self, row: int, offset: int) -> tuple[int, int]:
        last = self._held.batches.last_offset(row)
        return last, self._largest(row) if last == offset else -1

    def _largest(self, row: int) -> int:
        data, base, batches = self._held
        if batches.is_legacy(row) and not batches.flags_of(row) & c.WRAPPER:
            return batches.max_timestamp(row)
        view = memoryview(data)
        known = self._ahead.records(batches, row, lambda at, size: view[at - base :][:size])
        if known is not None:
            return max(known[1].timestamps[known[2] :], default=-1)
        largest = -1
        for piece in read_batch(data, base, batches, row, limit=self._limit):
            if piece.reason not in (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT):
                raise _Death(f"the batch cannot be decoded ({reasons.NAMES[piece.reason]})")
            largest = max(largest, *piece.records.timestamps, -1)
        return largest


class _Death(Exception):
    """Why the tool would end here."""


def _sibling(path: str, name: FileName, kind: Kind) -> str:
    digits = name.name.partition(".")[0]
    assert name.base_offset is not None
    return os.path.join(os.path.dirname(path), digits + file_name(kind, 0)[20:])


def offset_index(
    path: str, name: FileName, limit: int, mismatches: Mismatches
) -> Iterator[IndexItem]:
    """Yield what is printed of an `.index`; every entry is held against the log."""
    assert name.base_offset is not None
    with Source(path) as source:
        index = OffsetIndex(source, name.base_offset)
        if not index.entries:
            yield EmptyIndex(path)
            return
        try:
            log_source = Source(_sibling(path, name, Kind.LOG))
        except PathError as error:
            yield ToolDeath(path, str(error))
            yield from (entry for _, entry in index.slots(0, index.tool_end()))
            return
        with log_source:
            log = _Log(log_source, limit)
            for slot, entry in index.slots(0, index.tool_end()):
                try:
                    last_offset = log.first_last_offset(entry.position)
                except _Death as death:
                    yield ToolDeath(path, f"slot {slot}: {death}")
                    continue
                if last_offset != entry.offset:
                    mismatches.index.append(entry.offset, last_offset)
                yield entry


def time_index(
    path: str, name: FileName, limit: int, mismatches: Mismatches
) -> Iterator[IndexItem]:
    """Yield what is printed of a `.timeindex`; every entry is looked up as a broker would."""
    assert name.base_offset is not None
    with Source(path) as source:
        index = TimeIndex(source, name.base_offset)
        slots = index.slots(0, index.tool_end())
        try:
            with (
                Source(_sibling(path, name, Kind.LOG)) as log_source,
                Source(_sibling(path, name, Kind.OFFSET_INDEX)) as index_source,
            ):
                find = offset_finder(OffsetIndex(index_source, name.base_offset))
                log = _Log(log_source, limit)
                previous = -1
                for slot, entry in slots:
                    try:
                        _check_time(entry, previous, find(entry[1]).position, log, mismatches)
                    except _Death as death:
                        yield ToolDeath(path, f"slot {slot}: {death}")
                        continue
                    yield entry
                    previous = entry[0]
        except PathError as error:
            yield ToolDeath(path, str(error))
            yield from (entry for _, entry in slots)


def _check_time(
    entry: tuple[int, int], previous: int, position: int, log: _Log, mismatches: Mismatches
) -> None:
    timestamp_ms, offset = entry
    found = log.find_batch(position, offset)
    if found is None or found[0] != offset:
        mismatches.not_found.append(offset, -1 if found is None else found[0])
        return
    if found[1] != timestamp_ms:
        mismatches.timestamp.append(timestamp_ms, found[1])
    if previous >= timestamp_ms:
        mismatches.order.append(timestamp_ms, previous)


def transaction_index(path: str, name: FileName) -> Iterator[IndexItem]:
    """Yield what is printed of a `.txnindex`."""
    assert name.base_offset is not None
    one_byte = not has(_TOOL, BOTH_VERSION_BYTES)
    with Source(path) as source:
        index = TransactionIndex(source, name.base_offset, one_byte=one_byte)
        for slot, transaction in index.slots():
            if (version := index.version_of(transaction)) > VERSION:
                yield ToolDeath(
                    path, f"slot {slot}: unexpected aborted transaction version {version}"
                )
                continue
            yield transaction


def producer_snapshot(path: str) -> Iterator[IndexItem]:
    """Yield what is printed of a `.snapshot`."""
    with Source(path) as source:
        snapshot = ProducerSnapshot(source.read_whole(SIZE_LIMIT))
    complaint = _complaint(snapshot)
    if complaint is not None:
        yield ToolComplaint(complaint)
        return
    yield from snapshot


def _complaint(snapshot: ProducerSnapshot) -> str | None:
    """Return the tool's words for a snapshot it cannot read, in the order in which it looks."""
    failed = "Snapshot failed schema validation: "
    size = len(snapshot.data)
    if size < 2:
        return f"{failed}null"
    version = int.from_bytes(snapshot.data[:2], "big", signed=True)
    if version != 1:
        return f"{failed}Snapshot contained an unknown file version {version}"
    if snapshot.declared is None:
        return f"{failed}null"
    left = size - 10
    if snapshot.declared > left:
        return (
            f"{failed}Tried to allocate a collection of size {snapshot.declared}, "
            f"but there are only {left} bytes remaining."
        )
    if snapshot.declared < 0:
        return f"{failed}non-nullable field producerEntries was serialized as null"
    if snapshot.declared > snapshot.entries:
        return f"{failed}null"
    if snapshot.crc != snapshot.computed_crc:
        return (
            "Snapshot is corrupt (CRC is no longer valid). "
            f"Stored crc: {snapshot.crc}. Computed crc: {snapshot.computed_crc}"
        )
    return None

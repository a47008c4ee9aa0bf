"""Find the bytes that one fetch returns from a partition: from where to where, and what they are.

The slice begins at the entry that a lookup finds and ends anywhere: at the size asked for, at the
bound of what the reader is given, or at the end of the segment (L3, L4).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kdump.broker.index_search import find_offset
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import FetchStart, PartitionView
from kdump.broker.segment import Segment
from kdump.broker.versions import FETCH_ENDS_AT_POSITION, FIRST_ENTRY_WHOLE, has
from kdump.errors import PathError
from kdump.record.batch import read_batch
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.transaction_index import AbortedTransaction, TransactionIndex
from kdump.tuples import NamedTuple

_OFFSET_AND_SIZE = 12
_PIECE_BYTES = 1 << 20


class FetchResult(NamedTuple):
    """The bytes [start, end) of a segment's log that one fetch returns, and the first entry.

    `bound` is the offset from which on nothing is returned, None where it was not looked up.
    """

    found: FetchStart | None
    start: int = 0
    end: int = 0
    bound: int | None = None

    @property
    def size_bytes(self) -> int:
        """How many bytes are returned."""
        return self.end - self.start


class Contents(NamedTuple):
    """The whole entries in a slice, and the entry that is cut at its end.

    `cut_size_bytes` is what the cut entry would take, None where its size field is cut, too.
    """

    entries: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    end: int = 0
    cut_offset: int | None = None
    cut_size_bytes: int | None = None


def fetch(
    view: PartitionView,
    offset: int,
    max_bytes: int,
    max_offset: int | None = None,
    *,
    whole_first: bool | None = None,
) -> FetchResult:
    """Find what a fetch of `max_bytes` at `offset` returns.

    `max_offset` lowers the bound. `whole_first`: the first entry is returned whole, however large;
    None: as the release does for its own consumers. Raises what the broker answers with.
    """
    found = view.fetch(offset)
    if found is None:
        return FetchResult(None)
    bound = view.bound if max_offset is None else min(view.bound, max_offset)
    segment = view.segment_at(found.segment)
    start = found.position
    if offset >= bound:
        view.note(
            "bound", segment.path, f"nothing from offset {bound:,} on is returned", offset=bound
        )
        return FetchResult(found, start, start, bound)
    limit = _limit(view, segment, found, bound)
    if whole_first is None:
        whole_first = has(view.broker, FIRST_ENTRY_WHOLE)
    size = max(max_bytes, found.size_bytes) if whole_first else max_bytes
    end = max(start, min(start + size, limit))
    view.note("slice", segment.path, _words(start, end, limit, max_bytes), start=start, end=end)
    return FetchResult(found, start, end, bound)


def _words(start: int, end: int, limit: int, max_bytes: int) -> str:
    if end == limit:
        why = "at the last offset that is served, or at the end of the segment"
    elif end - start > max_bytes:
        why = (
            f"with the first batch, which is returned complete although it exceeds "
            f"{max_bytes:,} bytes"
        )
    else:
        why = f"after {max_bytes:,} bytes"
    return f"the bytes from {start:,} to {end:,} are returned, which end {why}"


def _limit(view: PartitionView, segment: Segment, found: FetchStart, bound: int) -> int:
    """Where the bytes below an offset end in a segment: the entry that holds it is left out."""
    if has(view.broker, FETCH_ENDS_AT_POSITION):
        following = view.segments.index(segment) + 1
        if following < len(view.segments) and bound >= view.segments[following].base_offset:
            return segment.end
    lowest = max(find_offset(segment.offset_index(), bound, view.broker).position, 0)
    limit = view.translate(segment, bound, max(found.position, segment.start + lowest))
    return segment.end if limit is None else limit.position


def contents(view: PartitionView, fetched: FetchResult) -> Contents:
    """List what is in the bytes as a consumer takes them apart."""
    if fetched.found is None or not fetched.size_bytes:
        return Contents(end=fetched.start)
    segment = view.segment_at(fetched.found.segment)
    entries, first, last, at = 0, None, None, fetched.start
    records = FileRecords(segment.log(), limit=view.limit)
    for rows in records.headers(fetched.start, fetched.end):
        if not entries:
            first = None if fetched.found.base_offset is None else rows.base_offset(0)
        entries += rows.count
        last = rows.last_offset(rows.count - 1)
        at = rows.end_position(rows.count - 1)
    cut_offset = cut_size = None
    head = segment.log().read(at, min(_OFFSET_AND_SIZE, fetched.end - at))
    if len(head) >= 8:
        cut_offset = int.from_bytes(head[:8], "big", signed=True)
    if len(head) == _OFFSET_AND_SIZE:
        cut_size = _OFFSET_AND_SIZE + int.from_bytes(head[8:], "big", signed=True)
    return Contents(entries, first, last, at, cut_offset, cut_size)


def records_before(view: PartitionView, fetched: FetchResult, offset: int) -> int:
    """Count the records below the target in the first entry, which a consumer drops (L5)."""
    found = fetched.found
    if found is None or fetched.size_bytes < found.size_bytes:
        return 0
    if found.base_offset is not None and found.base_offset >= offset:
        return 0
    segment = view.segment_at(found.segment)
    records = FileRecords(segment.log(), limit=view.limit)
    run = next(records.runs_as_is(found.position, segment.end), None)
    if run is None:
        return 0
    return sum(
        piece.records.offset(row) < offset
        for piece in read_batch(run.data, run.base, run.batches, 0, limit=view.limit)
        for row in range(piece.records.count)
    )


def list_aborted(
    view: PartitionView, fetched: FetchResult, offset: int
) -> list[AbortedTransaction]:
    """List the aborted transactions that the answer to a read_committed consumer names (L8)."""
    if not view.committed or fetched.found is None:
        return []
    number = view.segments.index(view.segment_at(fetched.found.segment))
    upper = _upper_bound(view, number, fetched.end)
    named = []
    for segment in view.segments[number:]:
        for entry in _entries(segment):
            if entry.last_offset >= offset and entry.first_offset < upper:
                named.append(entry)
            if entry.last_stable_offset >= upper:
                return named
    return named


def _upper_bound(view: PartitionView, number: int, end: int) -> int:
    segment = view.segments[number]
    for slot, entry in segment.offset_index().slots():
        # The search never compares for equality with its first slot.
        if segment.start + entry.position >= end + (slot == 0):
            return entry.offset
    if number + 1 < len(view.segments):
        return view.segments[number + 1].base_offset
    return view.log_end


def _entries(segment: Segment) -> Iterator[AbortedTransaction]:
    path = segment.files.get(Kind.TRANSACTION_INDEX)
    if path is not None:
        with suppress(PathError), Source(path) as source:
            yield from TransactionIndex(source, segment.base_offset).readable()


def pieces(view: PartitionView, fetched: FetchResult) -> Iterator[bytes]:
    """Yield the bytes, a bounded piece at a time."""
    if fetched.found is None:
        return
    log = view.segment_at(fetched.found.segment).log()
    at = fetched.start
    while at < fetched.end:
        data = log.read(at, min(_PIECE_BYTES, fetched.end - at))
        if not data:
            raise BrokerError("the log was truncated while it was read")
        yield bytes(data)
        at += len(data)

"""Entries of bytes: made of records and keys, sorted, and merged (see entries.py)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import entries as e
from kdump.kernels._pure.layout import view_of
from kdump.kernels._pure.text import headers_of, row_numbers
from kdump.kernels.members import sequence_at

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data, Row, Rows
    from kdump.kernels.columns import DecodedRecords, RecordBatches


def lay_out_records(
    data: Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: Rows,
    topic: int,
    partition: int,
    by: int,
    header: bytes | None,
    by_offset: bool,
    timed: bool,
) -> tuple[bytes, int, int, int]:
    """Lay out what is compared of records: of `by` the key and the value, and the last header of a
    name.

    Returns the entries as a block, and how many records were looked at, were without what is
    compared, and, where it has to be `timed`, without a time. A MARKER is passed over.
    """
    view = view_of(data)
    block, seen, without, untimed = bytearray(), 0, 0, 0
    for row in row_numbers(records, rows):
        record = records.row(row)
        if record[c.R_FLAGS] & c.MARKER:
            continue
        seen += 1
        parts: list[bytes | None] = []
        if by & e.BY_KEY:
            parts.append(bytes_of(view, record, c.R_KEY))
        if by & e.BY_VALUE:
            parts.append(bytes_of(view, record, c.R_VALUE))
        if header is not None:
            parts.append(_last_header(view, record, header))
        if all(part is None for part in parts):
            without += 1
            continue
        if timed and record[c.R_TIMESTAMP] < 0:
            untimed += 1
            continue
        batch = batches.header(_in_range(record[c.R_BATCH], batches.count))
        offset = record[c.R_OFFSET]
        where = (
            partition,
            offset,
            record[c.R_TIMESTAMP],
            batch.producer_id,
            _wrap(batch.producer_epoch, 16),
            sequence_at(batch.base_sequence, offset - batch.base_offset),
            _wrap(record[c.R_VALUE_SIZE], 32),
        )
        block += e.framed(e.lay_out(topic, parts, where, by_offset))
    return bytes(block), seen, without, untimed


def _in_range(row: int, count: int) -> int:
    if not 0 <= row < count:
        raise IndexError(row)
    return row


def _wrap(number: int, bits: int) -> int:
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def bytes_of(view: memoryview, record: Row, column: int) -> bytes | None:
    """Give a key or a value; None for null, and where it does not lie in the data."""
    at, size = record[column], record[column + 1]
    return bytes(view[at : at + size]) if size >= 0 and 0 <= at <= len(view) - size else None


def _last_header(view: memoryview, record: Row, name: bytes) -> bytes | None:
    """Give the value of the last header of a name, as a client's `lastHeader` does."""
    found = None
    if record[c.R_HEADERS_COUNT] > 0:
        for key, key_size, value, size in headers_of(view, record):
            if bytes(view[key : key + key_size]) == name:
                found = None if size < 0 else bytes(view[value : value + size])
    return found


def span_keys(
    data: Data,
    records: DecodedRecords,
    rows: Rows,
    first: int,
    slots: dict[bytes, int],
    spans: array[int],
    size: int,
    most: int,
) -> tuple[int, int]:
    """Note the first and the last record of each key, from `rows[first]` on.

    `slots` says which four numbers of `spans` are a key's: offset and timestamp of either record.
    Returns where to go on, and `size`, the bytes of the keys, to which those of new ones are added:
    it stops at a new key where these would be more than `most`, unless there is none yet, or where
    `spans` is full.
    """
    view = view_of(data)
    numbers = row_numbers(records, rows)
    for at in range(max(first, 0), len(numbers)):
        record = records.row(numbers[at])
        key = None if record[c.R_FLAGS] & c.MARKER else bytes_of(view, record, c.R_KEY)
        if key is None:
            continue
        last = array("q", (record[c.R_OFFSET], record[c.R_TIMESTAMP]))
        slot = slots.get(key)
        if slot is None:
            slot = len(slots)
            if 4 * slot + 4 > len(spans) or (slot and size + len(key) > most):
                return at, size
            slots[key] = slot
            size += len(key)
            spans[4 * slot : 4 * slot + 2] = last
        spans[4 * slot + 2 : 4 * slot + 4] = last
    return len(numbers), size


def lay_out_keys(slots: dict[bytes, int], spans: array[int], topic: int, partition: int) -> bytes:
    """Lay out the keys that `span_keys` took, as a block of entries."""
    return b"".join(
        [
            e.framed(e.lay_out_key(topic, key, partition, spans[4 * slot : 4 * slot + 4]))
            for key, slot in slots.items()
        ]
    )


def sort_entries(block: bytes | bytearray, starts: array[int]) -> tuple[bytes, array[int]]:
    """Sort the entries of a block as bytes; those that are not there whole are left out.

    Also returns where in the result the first entry lies whose first four bytes are a number that
    is not below each of `starts`, which rise.
    """
    entries = sorted(e.entries_of(bytes(block)))
    blocks = [e.framed(entry) for entry in entries]
    firsts = [int.from_bytes(entry[:4].ljust(4, b"\0"), "big") for entry in entries]
    places = array("q", (sum(map(len, blocks[: bisect_left(firsts, at)])) for at in starts))
    return b"".join(blocks), places


def merge_entries(
    windows: list[bytes],
    at: array[int],
    more: array[int],
    tail: int,
    folds: bool,
    held: tuple[bytes, bool] | None,
    keys: array[int],
) -> tuple[bytes, int, tuple[bytes, bool] | None]:
    """Merge sorted blocks from their places `at` on, which move on, and give what is repeated.

    That is each entry that another is equal to but for the last `tail` bytes. With `folds` these
    are `span_of` a key, and the entries of one on one partition become one before. It ends where
    the window of a run that has `more` holds no further entry. Returns a block, the number of that
    run, -1 where all have ended, and what is to be passed as `held` the next time: the last entry,
    and whether it is repeated. `keys` counts by topic those that are not equal to the one before.
    """
    out: list[bytes] = []
    heap: list[tuple[bytes, int]] = []
    for number, window in enumerate(windows):
        entry = e.entry_at(window, at[number])
        if entry is not None:
            heap.append((entry, number))
        elif more[number]:
            return b"", number, held
    heapify(heap)
    while heap:
        entry, number = heap[0]
        at[number] += e.FRAME_BYTES + len(entry)
        held = _take(entry, held, tail, folds, out, keys)
        following = e.entry_at(windows[number], at[number])
        if following is not None:
            heapreplace(heap, (following, number))
            continue
        heappop(heap)
        if more[number]:
            return b"".join(out), number, held
    if held is not None and held[1]:
        out.append(e.framed(held[0]))
    return b"".join(out), -1, None


def _take(
    entry: bytes,
    held: tuple[bytes, bool] | None,
    tail: int,
    folds: bool,
    out: list[bytes],
    keys: array[int],
) -> tuple[bytes, bool]:
    said = max(len(entry) - tail, 0)
    if held is not None:
        before, repeated = held
        if len(before) == len(entry) and before[:said] == entry[:said]:
            at = len(entry) - e.SPAN_BYTES
            if folds and at >= 0 and before[at : at + 4] == entry[at : at + 4]:
                return e.with_both(before, entry), repeated
            out.append(e.framed(before))
            return entry, True
        if repeated:
            out.append(e.framed(before))
    topic = int.from_bytes(entry[4:8], "big")
    if len(entry) >= 8 and topic < len(keys):
        keys[topic] += 1
    return entry, False

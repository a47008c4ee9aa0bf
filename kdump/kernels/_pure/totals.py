"""Add up bytes and records by group."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kdump.kernels import columns as c
from kdump.kernels._pure.layout import view_of
from kdump.kernels._pure.text import headers_of
from kdump.kernels.layout import CODEC_MASK, int64

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data
    from kdump.kernels.columns import DecodedRecords, RecordBatches


def sum_batches(
    batches: RecordBatches,
    first: int,
    by_producer: bool,
    by_codec: bool,
    sums: array[int],
    slot: int,
) -> int:
    """Add batches to TOTALS_WIDTH numbers of `sums`, from row `first` on; return where to go on.

    Those are the numbers from `slot` * TOTALS_WIDTH on. With `by_producer` and `by_codec` it stops
    at the first batch with another producer id or codec. Negative counts of records add nothing; a
    wrapper whose count is not known is counted as UNOPENED.
    """
    at = slot * c.TOTALS_WIDTH
    if slot < 0 or at + c.TOTALS_WIDTH > len(sums):
        raise IndexError(slot)
    row = first = max(first, 0)
    producers, attributes = batches.producer_ids, batches.all_attributes
    while row < batches.count:
        if by_producer and producers[row] != producers[first]:
            break
        if by_codec and (attributes[row] ^ attributes[first]) & CODEC_MASK:
            break
        flags = batches.flags_of(row)
        count = batches.records_count(row)
        sums[at + c.T_BATCHES] += 1
        sums[at + c.T_RECORDS] += max(count, 0)
        sums[at + c.T_BYTES] += batches.size_bytes(row)
        sums[at + c.T_CONTROL] += bool(flags & c.CONTROL)
        sums[at + c.T_UNOPENED] += bool(flags & c.WRAPPER) and count < 0
        _spread(sums, at, batches.max_timestamp(row))
        row += 1
    return row


def sum_keys(
    data: Data,
    records: DecodedRecords,
    first: int,
    slots: dict[Any, int],
    sums: array[int],
    floor: int,
    most: int,
    longest: int,
) -> int:
    """Add records to the numbers of their keys, from row `first` on; return where to go on.

    `slots` says which TOTALS_WIDTH numbers of `sums` are a key's. A key that is not there takes the
    next ones, which begin with `floor` as ERROR. It stops at a key that is longer than `longest`,
    and at a new one when there are `most` already. A record's bytes are those of its key, its value
    and its headers' keys and values. A MARKER is passed over.
    """
    view = view_of(data)
    row = max(first, 0)
    most = min(most, len(sums) // c.TOTALS_WIDTH)
    while row < records.count:
        record = records.row(row)
        if record[c.R_FLAGS] & c.MARKER:
            row += 1
            continue
        size = record[c.R_KEY_SIZE]
        key = None
        if 0 <= size <= len(view) and 0 <= record[c.R_KEY] <= len(view) - size:
            if size > longest:
                break
            key = bytes(view[record[c.R_KEY] : record[c.R_KEY] + size])
        slot = slots.get(key)
        if slot is None:
            slot = len(slots)
            if slot >= most:
                break
            slots[key] = slot
            at = slot * c.TOTALS_WIDTH
            for number in range(c.TOTALS_WIDTH):
                sums[at + number] = 0
            sums[at + c.T_FIRST] = sums[at + c.T_LAST] = -1
            sums[at + c.T_ERROR] = floor
        at = slot * c.TOTALS_WIDTH
        sums[at + c.T_RECORDS] += 1
        sums[at + c.T_BYTES] += plain_size(view, record)
        _spread(sums, at, record[c.R_TIMESTAMP])
        row += 1
    return row


def plain_size(view: memoryview, record: tuple[int, ...]) -> int:
    """Add up the bytes of a record's key, value and headers."""
    size = max(record[c.R_KEY_SIZE], 0) + max(record[c.R_VALUE_SIZE], 0)
    if record[c.R_HEADERS_COUNT] > 0:
        for _, key_size, _, value_size in headers_of(view, record):
            size += key_size + max(value_size, 0)
    return size


def _spread(sums: array[int], at: int, timestamp: int) -> None:
    if timestamp >= 0:
        if sums[at + c.T_FIRST] < 0 or timestamp < sums[at + c.T_FIRST]:
            sums[at + c.T_FIRST] = timestamp
        sums[at + c.T_LAST] = max(sums[at + c.T_LAST], timestamp)


def bounds_of(sums: array[int], count: int) -> array[int]:
    """Say what each of the first `count` groups may come to at most: its BYTES and its ERROR."""
    _fits(sums, count)
    starts = range(0, count * c.TOTALS_WIDTH, c.TOTALS_WIDTH)
    return array("q", (int64(sums[at + c.T_BYTES] + sums[at + c.T_ERROR]) for at in starts))


def keep_largest(
    sums: array[int], count: int, threshold: int, ties: int
) -> tuple[bytearray, int, array[int]]:
    """Move the groups that may come to more than `threshold` to the front, in their order.

    Of those that may just come to it the first `ties` are kept, too. Returns a byte for each
    group, 1 for those kept, the largest that one of the others may come to (0: none), and what the
    others' numbers add up to.
    """
    bounds = bounds_of(sums, count)
    kept, floor = bytearray(count), 0
    dropped = array("q", bytes(8 * c.TOTALS_WIDTH))
    to = 0
    for group, bound in enumerate(bounds):
        numbers = sums[group * c.TOTALS_WIDTH : (group + 1) * c.TOTALS_WIDTH]
        tied = bound == threshold and ties > 0
        ties -= tied
        if bound > threshold or tied:
            kept[group] = 1
            sums[to : to + c.TOTALS_WIDTH] = numbers
            to += c.TOTALS_WIDTH
            continue
        floor = max(floor, bound)
        for number, value in enumerate(numbers):
            dropped[number] = int64(dropped[number] + value)
    return kept, floor, dropped


def _fits(sums: array[int], count: int) -> None:
    if count < 0 or count * c.TOTALS_WIDTH > len(sums):
        raise IndexError(count)

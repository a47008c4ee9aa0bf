"""Count the keys that are on another partition than their hashes say."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels._pure.layout import view_of
from kdump.kernels._pure.sorting import bytes_of
from kdump.kernels._pure.text import row_numbers
from kdump.kernels.partitioners import PARTITIONERS

if TYPE_CHECKING:
    from array import array

    from kdump.kernels._pure.layout import Data, Rows
    from kdump.kernels.columns import DecodedRecords, RecordBatches

#: Hashes that are kept, of keys no longer than this.
_KEPT_KEY_BYTES = 64
_FUNCTIONS = tuple(PARTITIONERS.values())
_KEPT = tuple(lru_cache(1 << 16)(function) for function in _FUNCTIONS)


def count_placed(
    data: Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: Rows,
    first: int,
    which: bytes,
    lies: int,
    count: int,
    producers: dict[int, int],
    sums: array[int],
    others: int,
    most: int,
) -> tuple[int, int, int]:
    """Count where the keys of records belong that lie on a partition, from `rows[first]` on.

    `which` are numbers of partitioners, `count` is that of partitions. `producers` says which
    PLACED_WIDTH numbers of `sums` for each partitioner are a producer's; a new one takes the next,
    or when there are `most`, is one of the `others`. Returns where to go on, since it stops at a
    new one when `sums` is full, and how many records were looked at and had no key. A MARKER is
    passed over.
    """
    view = view_of(data)
    numbers = row_numbers(records, rows)
    width = len(which) * c.PLACED_WIDTH
    seen = without = 0
    if count < 1:
        raise IndexError(count)
    for at in range(max(first, 0), len(numbers)):
        record = records.row(numbers[at])
        if record[c.R_FLAGS] & c.MARKER:
            continue
        key = bytes_of(view, record, c.R_KEY)
        if key is None:
            seen += 1
            without += 1
            continue
        batch = record[c.R_BATCH]
        if not 0 <= batch < batches.count:
            raise IndexError(batch)
        producer = batches.producer_id(batch)
        if producer not in producers and len(producers) >= most:
            producer = others
        slot = producers.get(producer, len(producers))
        if slot < 0 or (slot + 1) * width > len(sums):
            return at, seen, without
        producers[producer] = slot
        seen += 1
        functions = _KEPT if len(key) <= _KEPT_KEY_BYTES else _FUNCTIONS
        for place, partitioner in enumerate(which):
            number = functions[partitioner](key)
            if number is not None:
                away = None if number % count == lies else number - lies
                to = slot * width + place * c.PLACED_WIDTH
                _add(sums, to, away, record[c.R_OFFSET], record[c.R_TIMESTAMP])
    return len(numbers), seen, without


def _add(sums: array[int], to: int, away: int | None, offset: int, timestamp: int) -> None:
    sums[to + c.P_RECORDS] += 1
    if away is None:
        return
    if not sums[to + c.P_MISPLACED]:
        sums[to + c.P_FIRST_OFFSET], sums[to + c.P_FIRST_TIME] = offset, timestamp
    sums[to + c.P_MISPLACED] += 1
    sums[to + c.P_FACTOR] = gcd(sums[to + c.P_FACTOR], away)
    sums[to + c.P_LAST_OFFSET], sums[to + c.P_LAST_TIME] = offset, timestamp

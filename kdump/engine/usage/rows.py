"""Make the rows of `usage`: one for each group, the largest first, and the summary."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from kdump.engine.usage.step import Counted, LongKey, PlaceOfGroup, UsageOptions
from kdump.engine.usage.totals import Totals
from kdump.findings.rows import Row
from kdump.kernels import columns as c
from kdump.rows.usage import Usage, UsageSummary

Tables = Mapping[PlaceOfGroup, Totals]
Entry = tuple[PlaceOfGroup, Hashable, Sequence[int]]

_ADDED = (c.T_BATCHES, c.T_RECORDS, c.T_BYTES, c.T_CONTROL, c.T_UNOPENED)
#: What groups are made of -> the members that name it, which a row has even where they are null.
_MEMBERS = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "producer": ("producer_id",),
    "codec": ("codec",),
    "key": ("key", "key_size_bytes"),
}


class _Names(NamedTuple):
    """What names a group within its place; None is also what was not asked for."""

    producer_id: int | None = None
    codec: str | None = None
    key: bytes | None = None
    key_size_bytes: int | None = None


class Sums:
    """What all that was counted comes to, however many groups are held."""

    def __init__(self) -> None:
        self.totals = [0] * c.TOTALS_WIDTH
        self.bytes_not_counted = 0
        self.control_records = 0
        self.paths_unfinished = 0

    def add(self, parts: Iterable[Counted]) -> None:
        """Add what came of a split, or of the pieces of a log."""
        for part in parts:
            for number in _ADDED:
                self.totals[number] += part.sums[number]
            self.bytes_not_counted += part.bytes_lost
            self.control_records += part.control_records


def usage_rows(tables: Tables, options: UsageOptions, sums: Sums) -> Iterator[Row]:
    """Yield a `usage` row for each group, or for the largest, and last a `usage-summary`."""
    listed = _largest(tables, options.top)
    total = sums.totals[c.T_BYTES]
    for entry in listed:
        yield _row(entry, total, options)
    yield _summary(tables, listed, options, sums)


def _largest(tables: Tables, top: int) -> list[Entry]:
    """Give the largest groups, `top` 0: all; of groups as large, those first in their names."""
    least = -1
    if top:
        sizes = sorted(chain.from_iterable(table.column(c.T_BYTES) for table in tables.values()))
        least = sizes[-top] if top <= len(sizes) else -1
    found: list[Entry] = []
    for place, table in tables.items():
        groups = table.sizes(least)
        # Of very many groups as large few are listed: the others are not made into entries.
        largest = nsmallest(top, groups, _order) if top else groups
        found += [(place, group, table.numbers(group)) for group, _ in largest]
    found.sort(key=_order_of_entry)
    return found[:top] if top else found


def _unlisted(tables: Tables, listed: Sequence[Entry]) -> int:
    """Give the most that a group which is not among the rows may come to."""
    most = 0
    shown = {(place, group) for place, group, _ in listed}
    for place, table in tables.items():
        most = max(most, table.floor)
        bounds = zip(table.slots, table.bounds(), strict=True)
        most = max(
            (bound for group, bound in bounds if bound > most and (place, group) not in shown),
            default=most,
        )
    return most


def _order(sized: tuple[Hashable, int]) -> tuple[object, ...]:
    """Tell which group of one place comes first: the largest, then by name."""
    group, size = sized
    if isinstance(group, LongKey) or not isinstance(group, tuple):
        return -size, _comparable(group)
    return -size, *map(_comparable, group)


def _order_of_entry(entry: Entry) -> tuple[object, ...]:
    place, group, numbers = entry
    size, *names = _order((group, numbers[c.T_BYTES]))
    return size, tuple(map(_comparable, place)), tuple(names)


def _comparable(value: object) -> tuple[bool, object, object]:
    if isinstance(value, LongKey):
        return True, value.start, value.digest
    return value is not None, 0 if value is None else value, b""


def _row(entry: Entry, total: int, options: UsageOptions) -> Usage:
    (topic, partition), group, numbers = entry
    names = _names(group, options)
    by_key = options.wants_records
    size, unopened = numbers[c.T_BYTES], numbers[c.T_UNOPENED]
    at_most = size + numbers[c.T_ERROR]
    first, last = numbers[c.T_FIRST], numbers[c.T_LAST]
    return Usage(
        by=",".join(options.by),
        topic=topic,
        partition=partition,
        producer_id=names.producer_id,
        codec=names.codec,
        key=names.key,
        key_size_bytes=names.key_size_bytes,
        segments=None if by_key else numbers[c.T_SEGMENTS],
        batches=None if by_key else numbers[c.T_BATCHES],
        records_count=numbers[c.T_RECORDS] if by_key or not unopened else None,
        plain_bytes=size if by_key else None,
        plain_bytes_at_most=at_most if by_key else None,
        size_bytes=None if by_key else size,
        size_bytes_at_most=None if by_key else at_most,
        share=round(size / total, 6) if total else 0.0,
        first_timestamp_ms=None if first < 0 else first,
        last_timestamp_ms=None if last < 0 else last,
        control_batches=None if by_key else numbers[c.T_CONTROL],
        unopened_wrappers=None if by_key else unopened,
        asked_=tuple(chain.from_iterable(map(_MEMBERS.__getitem__, options.by))),
    )


def _names(group: Hashable, options: UsageOptions) -> _Names:
    """Name a group within its place: what it was asked to be made of, in order."""
    if isinstance(group, LongKey):
        return _Names(key=group.start, key_size_bytes=group.size_bytes)
    if isinstance(group, bytes):
        return _Names(key=group, key_size_bytes=len(group))
    values = list(group) if isinstance(group, tuple) else []
    producer_id = values.pop(0) if "producer" in options.by else None
    codec = values.pop(0) if "codec" in options.by else None
    return _Names(None if producer_id == -1 else producer_id, codec)


def _summary(
    tables: Tables, listed: Sequence[Entry], options: UsageOptions, sums: Sums
) -> UsageSummary:
    """Say what all groups come to, and the most that one that is not listed may come to."""
    totals, by_key = sums.totals, options.wants_records
    size, unopened = totals[c.T_BYTES], totals[c.T_UNOPENED]
    most = _unlisted(tables, listed)
    exact = not any(table.floor for table in tables.values())
    return UsageSummary(
        by=",".join(options.by),
        groups=sum(map(len, tables.values())) if exact else None,
        listed=len(listed),
        batches=None if by_key else totals[c.T_BATCHES],
        records_count=totals[c.T_RECORDS] if by_key or not unopened else None,
        size_bytes=None if by_key else size,
        unlisted_size_bytes_at_most=None if by_key else most,
        plain_bytes=size if by_key else None,
        unlisted_plain_bytes_at_most=most if by_key else None,
        control_batches=None if by_key else totals[c.T_CONTROL],
        unopened_wrappers=None if by_key else unopened,
        control_records=sums.control_records if by_key else None,
        exact=exact,
        bytes_not_counted=sums.bytes_not_counted,
        paths_unfinished=sums.paths_unfinished,
    )

"""Make the rows of `usage`: one for each group, the largest first, and the summary."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain
from typing import Any

from kdump.engine.usage.step import Counted, LongKey, UsageOptions
from kdump.engine.usage.totals import Totals
from kdump.findings.rows import Row
from kdump.kernels import columns as c
from kdump.rows.usage import Usage, UsageSummary

Tables = Mapping[tuple[object, ...], Totals]
Entry = tuple[tuple[object, ...], Hashable, Sequence[int]]

_ADDED = (c.T_BATCHES, c.T_RECORDS, c.T_BYTES, c.T_CONTROL, c.T_UNOPENED)


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
    for place, group, numbers in listed:
        fields = _names(place, group, options) | _numbers(numbers, total, options)
        yield Usage(**fields, asked_=tuple(fields))
    summary = _summary(tables, listed, options, sums)
    yield UsageSummary(**summary, asked_=tuple(summary))


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


def _names(place: tuple[object, ...], group: object, options: UsageOptions) -> dict[str, Any]:
    """Name a group: what it was asked to be made of, in order."""
    names: dict[str, Any] = {"by": ",".join(options.by)}
    if place:
        names["topic"] = place[0]
    if len(place) > 1:
        names["partition"] = place[1]
    if options.wants_records:
        long = group if isinstance(group, LongKey) else None
        names["key"] = long.start if long else group
        size = long.size_bytes if long else len(group) if isinstance(group, bytes) else None
        names["key_size_bytes"] = size
        return names
    values = list(group) if isinstance(group, tuple) else []
    if "producer" in options.by:
        producer_id = values.pop(0)
        names["producer_id"] = None if producer_id == -1 else producer_id
    if "codec" in options.by:
        names["codec"] = values.pop(0)
    return names


def _numbers(numbers: Sequence[int], total: int, options: UsageOptions) -> dict[str, Any]:
    size = numbers[c.T_BYTES]
    at_most = size + numbers[c.T_ERROR]
    first, last = numbers[c.T_FIRST], numbers[c.T_LAST]
    times: dict[str, Any] = {
        "share": round(size / total, 6) if total else 0.0,
        "first_timestamp_ms": None if first < 0 else first,
        "last_timestamp_ms": None if last < 0 else last,
    }
    if options.wants_records:
        counted: dict[str, Any] = {
            "records_count": numbers[c.T_RECORDS],
            "plain_bytes": size,
            "plain_bytes_at_most": at_most,
        }
        return counted | times
    unopened = numbers[c.T_UNOPENED]
    return {
        "segments": numbers[c.T_SEGMENTS],
        "batches": numbers[c.T_BATCHES],
        "records_count": None if unopened else numbers[c.T_RECORDS],
        "size_bytes": size,
        "size_bytes_at_most": at_most,
        **times,
        "control_batches": numbers[c.T_CONTROL],
        "unopened_wrappers": unopened,
    }


def _summary(
    tables: Tables, listed: Sequence[Entry], options: UsageOptions, sums: Sums
) -> dict[str, Any]:
    """Say what all groups come to, and the most that one that is not listed may come to."""
    totals = sums.totals
    groups = sum(map(len, tables.values()))
    most = _unlisted(tables, listed)
    exact = not any(table.floor for table in tables.values())
    unopened = totals[c.T_UNOPENED]
    counted: dict[str, Any] = {
        "by": ",".join(options.by),
        "groups": groups if exact else None,
        "listed": len(listed),
    }
    if options.wants_records:
        counted |= {
            "records_count": totals[c.T_RECORDS],
            "plain_bytes": totals[c.T_BYTES],
            "unlisted_plain_bytes_at_most": most,
            "control_records": sums.control_records,
        }
    else:
        counted |= {
            "batches": totals[c.T_BATCHES],
            "records_count": None if unopened else totals[c.T_RECORDS],
            "size_bytes": totals[c.T_BYTES],
            "unlisted_size_bytes_at_most": most,
            "control_batches": totals[c.T_CONTROL],
            "unopened_wrappers": unopened,
        }
    return counted | {
        "exact": exact,
        "bytes_not_counted": sums.bytes_not_counted,
        "paths_unfinished": sums.paths_unfinished,
    }

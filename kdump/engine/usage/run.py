"""Run `usage`: total logs by topic, partition, hour or day, producer, codec or key.

All but keys stand in the headers of batches, and nothing is opened; by key every record is
read. A split is one step, and gives the totals of its own groups; these are put together in the
order of the plan. Totals are sums, so they are the same however the work was cut, as long as there
is room for all groups; what happens beyond that says `totals`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import chain

from kdump.engine.reading.split_edges import edges_meet
from kdump.engine.usage.step import LongKey, PlaceOfGroup, SplitTotals, UsageOptions, count_split
from kdump.engine.usage.totals import Totals, shrink
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.engine.work.splits import Split, plan
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.kernels import columns as c
from kdump.rows.usage import Usage, UsageSummary
from kdump.tuples import NamedTuple

Tables = Mapping[PlaceOfGroup, Totals]
Entry = tuple[PlaceOfGroup, Hashable, Sequence[int]]

_ADDED = (c.T_BATCHES, c.T_RECORDS, c.T_BYTES, c.T_CONTROL, c.T_UNOPENED)
#: What groups are made of -> the members that name it, which a row has even where they are null.
_MEMBERS = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    **dict.fromkeys(("hour", "day"), ("time_ms", "share_of_largest")),
    "producer": ("producer_id",),
    "codec": ("codec",),
    "key": ("key", "key_size_bytes"),
}


class _Names(NamedTuple):
    """What names a group within its place; None is also what was not asked for."""

    time_ms: int | None = None
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

    def add(self, parts: Iterable[SplitTotals]) -> None:
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
    largest = max((numbers[c.T_BYTES] for _, _, numbers in listed), default=0)
    if options.step_ms:  # as time goes by; of one time the largest first
        listed.sort(key=lambda entry: _comparable(_names(entry[1], options).time_ms))
    for entry in listed:
        yield _row(entry, total, largest, options)
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


def _most_unlisted(tables: Tables, listed: Sequence[Entry]) -> int:
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


def _row(entry: Entry, total: int, largest: int, options: UsageOptions) -> Usage:
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
        time_ms=names.time_ms,
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
        share_of_largest=round(size / max(largest, 1), 6) if options.step_ms else None,
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
    time_ms = values.pop(0) if options.step_ms else None
    producer_id = values.pop(0) if "producer" in options.by else None
    codec = values.pop(0) if "codec" in options.by else None
    return _Names(time_ms, None if producer_id == -1 else producer_id, codec)


def _summary(
    tables: Tables, listed: Sequence[Entry], options: UsageOptions, sums: Sums
) -> UsageSummary:
    """Say what all groups come to, and the most that one that is not listed may come to."""
    totals, by_key = sums.totals, options.wants_records
    size, unopened = totals[c.T_BYTES], totals[c.T_UNOPENED]
    most = _most_unlisted(tables, listed)
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


#: Headers are read some ten times as fast as records.
_HEADERS_SPLIT_BYTES = 1 << 30
_RECORDS_SPLIT_BYTES = 256 << 20
#: Groups that are held, and those that all splits together may hand over.
GROUPS_KEPT = 500_000
_GROUPS_SENT = 4_000_000
_LEAST_GROUPS = 1_000


def usage(
    paths: Iterable[str],
    options: UsageOptions,
    *,
    driver: Driver = ONE_BY_ONE,
    progress: Progress | None = None,
    split_bytes: int | None = None,
    groups_kept: int = GROUPS_KEPT,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield errors, findings in the order of the paths, `usage` rows and a `usage-summary`.

    The rows come with the largest first. They are the same for any driver and number of workers.
    """
    progress = progress or Progress()
    if split_bytes is None:
        split_bytes = _RECORDS_SPLIT_BYTES if options.wants_records else _HEADERS_SPLIT_BYTES
    splits: list[Split] = []
    merged = _UsageMerge(options, groups_kept)
    for error in take_up(plan(paths, options.of_dump, split_bytes), splits, progress):
        merged.sums.paths_unfinished += 1
        yield error
    most = min(groups_kept, max(_LEAST_GROUPS, _GROUPS_SENT // max(len(splits), 1)))
    step = partial(count_split, options=options, most=most)
    yield from merged.take(driver(splits, step, progress))
    if merged.splits_to_reread:
        yield from merged.take(driver(merged.splits_to_reread, step, progress))
    yield from merged.findings()
    yield from usage_rows(merged.tables, options, merged.sums)


class _UsageMerge:
    """Puts together what comes of the splits; a log whose pieces do not fit is read as one."""

    def __init__(self, options: UsageOptions, most: int) -> None:
        self.tables: dict[PlaceOfGroup, Totals] = {}
        self.sums = Sums()
        self.splits_to_reread: list[Split] = []
        self._options = options
        self._most = most
        self._held = 0
        self._findings: dict[int, tuple[Finding | KdumpError, ...]] = {}
        self._pieces: list[tuple[Split, SplitTotals]] = []

    def take(
        self, results: Iterable[tuple[Split, SplitTotals | KdumpError]]
    ) -> Iterator[KdumpError]:
        """Take all results of a driver; yield the errors of what could not be done."""
        for split, result in results:
            if self._pieces and self._pieces[0][0].segment != split.segment:
                self._end_log()
            if isinstance(result, KdumpError):
                self.sums.paths_unfinished += 1
                yield result
            elif split.segment is None:
                self._add(split, (result,))
            else:
                self._pieces.append((split, result))
        self._end_log()

    def _end_log(self) -> None:
        pieces, self._pieces = self._pieces, []
        if not pieces:
            return
        seams = [counted.seam for _, counted in pieces]
        first = pieces[0][0]
        whole = first.number == first.segment and pieces[-1][0].end is None
        if whole and edges_meet([seam for seam in seams if seam is not None], first.sizes[0]):
            self._add(first, [counted for _, counted in pieces])
        elif whole:
            self.splits_to_reread.append(first.uncut())

    def _add(self, split: Split, parts: Sequence[SplitTotals]) -> None:
        totals = Totals.unpack(parts[0].totals)
        for part in parts[1:]:
            totals.merge(Totals.unpack(part.totals))
        if len(parts) > 1:
            totals.one_segment()
        place = self._options.place_of(split.target.topic, split.target.partition)
        mine = self.tables.setdefault(place, totals)
        before = 0 if mine is totals else len(mine)
        if mine is not totals:
            mine.merge(totals)
        self._held += len(mine) - before
        if self._held > self._most:
            shrink(list(self.tables.values()), self._most)
            self._held = sum(map(len, self.tables.values()))
        self.sums.add(parts)
        reported = tuple(item for part in parts for item in part.reported)
        if reported:
            self._findings[split.number] = reported

    def findings(self) -> Iterator[Finding | KdumpError]:
        """Yield what was met, in the order of the plan."""
        for number in sorted(self._findings):
            for item in self._findings[number]:
                self.sums.paths_unfinished += isinstance(item, KdumpError)
                yield item

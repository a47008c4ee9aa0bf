"""Run `usage`: total logs by topic, partition, producer, codec or key.

All but keys stand in the headers of batches, and nothing is opened; by key every record is
read. A split is one step, and gives the totals of its own groups; these are put together in the
order of the plan. Totals are sums, so they are the same however the work was cut, as long as there
is room for all groups; what happens beyond that says `totals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kdump.engine.reading.split_edges import edges_meet
from kdump.engine.usage.rows import Sums, usage_rows
from kdump.engine.usage.step import Counted, PlaceOfGroup, UsageOptions, count_split
from kdump.engine.usage.totals import Totals, shrink
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.engine.work.splits import Split, plan
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

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
    merged = _Merged(options, groups_kept)
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


class _Merged:
    """Puts together what comes of the splits; a log whose pieces do not fit is read as one."""

    def __init__(self, options: UsageOptions, most: int) -> None:
        self.tables: dict[PlaceOfGroup, Totals] = {}
        self.sums = Sums()
        self.splits_to_reread: list[Split] = []
        self._options = options
        self._most = most
        self._held = 0
        self._findings: dict[int, tuple[Finding | KdumpError, ...]] = {}
        self._pieces: list[tuple[Split, Counted]] = []

    def take(self, results: Iterable[tuple[Split, Counted | KdumpError]]) -> Iterator[KdumpError]:
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

    def _add(self, split: Split, parts: Sequence[Counted]) -> None:
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

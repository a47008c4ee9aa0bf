"""Run `compare --mirror`: hash the records of both sides, pair them, and walk the pairs in order.

Memory does not grow with the logs: hashes and pairs are sorted in scratch files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from kdump.engine.coordinators.partitions import Reported
from kdump.engine.mirror.offsets import Translations
from kdump.engine.mirror.pairing import pair_bucket, read_place, spool_split
from kdump.engine.mirror.plan import MirrorOptions, Pair, Plan, plan
from kdump.engine.mirror.walking import (
    DUPLICATED,
    END,
    INSIDE,
    LEFT_OUT,
    MIRRORED,
    ONLY_SOURCE,
    ONLY_TARGET,
    REORDERED,
    START,
    Stretch,
    Walk,
    shift_of,
)
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.engine.work.splits import Split, of_whole_logs
from kdump.engine.work.splits import plan as plan_splits
from kdump.engine.work.spool import (
    SortedRun,
    buckets_for,
    merge_runs,
    scratch_directory,
    take_up_buckets,
)
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.code import Severity
from kdump.findings.rows import Row
from kdump.rows.compare import MirrorComparison, MirrorStretch


def mirror(
    paths: Sequence[str],
    options: MirrorOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Reported]:
    """Yield for each partition its stretches, translated offsets and comparison, in order.

    The first path is the source, the second the target.
    """
    progress = progress or Progress()
    planned = Plan([], [], [])
    source, target = (*paths, *paths)[:2]  # a broker may have both under different names
    yield from plan(source, target, options, planned)
    pairs = planned.pairs
    if not any(pair.target is not None for pair in pairs):
        yield NothingToDo(f"no topic of {source} has a mirror in {target}: nothing to compare")
        return
    translations = Translations(pairs, options)
    if options.groups:
        yield from translations.gather(source, planned)
    sides = {
        path: (number, side, pair.starts[side], {} if side else pair.aborted)
        for number, pair in enumerate(pairs)
        for side, path in enumerate((pair.source, pair.target))
        if path is not None and pair.target is not None
    }
    splits: list[Split] = []
    reading = options.of_all
    yield from take_up(plan_splits(sides, reading), splits, progress)
    buckets = buckets_for(sum(split.size_bytes for split in splits))
    counts: Counter[tuple[int, int]] = Counter()
    with scratch_directory(options.scratch, driver) as directory:
        step = partial(
            spool_split, options=reading, sides=sides, directory=directory, buckets=buckets
        )
        runs: list[SortedRun] = []
        for result in of_whole_logs(splits, step, driver, progress):
            if isinstance(result, KdumpError):
                yield result
                continue
            yield from result.reported
            number, side, count = result.counts
            counts[number, side] += count
            runs += result.runs
        items = take_up_buckets(runs, buckets, directory, progress)
        sources: list[SortedRun] = []
        targets: list[SortedRun] = []
        for _, done in driver(items, partial(pair_bucket, options=options), progress):
            if isinstance(done, KdumpError):
                yield done
                continue
            sources += done.by_source
            targets += done.by_target
        streams = _Pairs(sources), _Pairs(targets)
        for number, pair in enumerate(pairs):
            if pair.target is None:
                yield _comparison(pair, "not-here", None, Counter(), 0, 0, 0, None)
                continue
            walk = Walk(translations.wanted_offsets(number), directory)
            here, there = (stream.of(number) for stream in streams)
            of_pair = counts[number, 0], counts[number, 1]
            yield from _rows(pair, walk, here, there, of_pair, options)
            yield from translations.rows(number, walk.found)


class _Pairs:
    """Hands out the entries of one pair after the other, in order."""

    def __init__(self, runs: list[SortedRun]) -> None:
        self._groups = groupby(merge_runs(runs), lambda entry: read_place(entry)[0])
        self._next = next(self._groups, None)

    def of(self, number: int) -> Iterator[bytes]:
        if self._next is not None and self._next[0] == number:
            yield from self._next[1]
            self._next = next(self._groups, None)


def _rows(
    pair: Pair,
    walk: Walk,
    here: Iterator[bytes],
    there: Iterator[bytes],
    counts: tuple[int, int],
    options: MirrorOptions,
) -> Iterator[Row]:
    records: Counter[tuple[str, str | None]] = Counter()
    stretches = shown = 0
    last: Stretch | None = None
    for side in (walk.sources(here), walk.targets(there)):
        for one in side:
            stretches += 1
            records[one.kind, one.place] += one.records
            if one.kind == MIRRORED:
                last = one
            if shown < options.shown:
                shown += 1
                yield _stretch(pair, one)
    yield _comparison(
        pair,
        *_verdict(pair, records, counts),
        records,
        *counts,
        stretches - shown,
        None if last is None else shift_of(last),
    )


def _stretch(pair: Pair, one: Stretch) -> MirrorStretch:
    return MirrorStretch(
        pair.topic,
        pair.partition,
        pair.target_topic,
        one.kind,
        one.place,
        one.first,
        one.last,
        one.target_first,
        one.target_last,
        shift_of(one),
        one.records,
    )


def _verdict(
    pair: Pair, records: Counter[tuple[str, str | None]], counts: tuple[int, int]
) -> tuple[str, str | None]:
    """Say in a word how a partition is mirrored, and how severe that is."""
    paired = records[MIRRORED, None] + records[REORDERED, None]
    damage, note = Severity.DAMAGE.value, Severity.NOTE.value
    if not paired and all(counts):
        return "unrelated", damage
    if records[ONLY_SOURCE, INSIDE]:
        return ("cleaned-differently", note) if pair.is_cleaned else ("missing", damage)
    for kind, place, word in (
        (ONLY_TARGET, INSIDE, "cleaned-differently" if pair.is_cleaned else "foreign-records"),
        (ONLY_TARGET, END, "foreign-records"),
        (REORDERED, None, "reordered"),
        (DUPLICATED, None, "duplicated"),
        (ONLY_SOURCE, END, "behind"),
        (ONLY_SOURCE, START, "start-differs"),
        (ONLY_TARGET, START, "start-differs"),
    ):
        if records[kind, place]:
            return word, note
    return "mirrored", None


def _comparison(
    pair: Pair,
    verdict: str,
    severity: str | None,
    records: Counter[tuple[str, str | None]],
    here: int,
    there: int,
    left: int,
    shift: int | None,
) -> MirrorComparison:
    def count(kind: str) -> int:
        return sum(number for (name, _), number in records.items() if name == kind)

    return MirrorComparison(
        pair.topic,
        pair.partition,
        pair.target_topic,
        verdict,
        severity,
        shift,
        here,
        there,
        count(MIRRORED) + count(REORDERED),
        count(ONLY_SOURCE),
        count(ONLY_TARGET),
        count(DUPLICATED),
        count(REORDERED),
        left,
        count(LEFT_OUT),
    )

"""Run `placement`: keys that are on another partition than their hash says.

Splits are looked at by `placement`; what keys are on several partitions is sorted by `moved`. Of
each topic the partitioner that fits best is the one by which the fewest records are misplaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from math import gcd

from kdump.engine.reading.sequence_rules import COORDINATED
from kdump.engine.usage.moved_keys import Move, Moves, join_results, moves_of
from kdump.engine.usage.placement import (
    OTHERS,
    MisplacedCount,
    PlacementOptions,
    SplitPlacement,
    place_split,
)
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.engine.work.splits import Split, of_whole_logs, plan
from kdump.engine.work.spool import SortedRun, buckets_for, scratch_directory, take_up_buckets
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.rows.usage import KeyPlacement, MisplacedKeys, MovedKey
from kdump.storage import places
from kdump.storage.log_dir import LogDir
from kdump.storage.metadata_log import metadata_log_for
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.targets import Target

GIVEN, METADATA, DIRECTORIES = "option", "metadata log", "directories"


def partition_counts(targets: Iterable[Target], given: int | None) -> dict[str, tuple[int, str]]:
    """Give the count of each topic's partitions, and where it is from.

    Where no metadata log tells, it is one more than the highest partition of which there is a
    directory beside those that are read.
    """
    seen: dict[str, int] = {}
    directories: dict[str, None] = {}
    for target in targets:
        topic = target.topic or ""
        seen[topic] = max(seen.get(topic, 0), (target.partition or 0) + 1)
        for file in target.files[:1]:
            directories.setdefault(places.parent(places.parent(places.absolute(file.path))))
    if given is not None:
        return dict.fromkeys(seen, (given, GIVEN))
    states = dict(_states(directories))
    for directory in directories:
        try:
            for name, _ in LogDir.open(directory).partitions:
                if name.topic in seen:
                    seen[name.topic] = max(seen[name.topic], name.partition + 1)
        except PathError:
            continue
    told: dict[str, int] = {}
    for state in states.values():
        for topic in seen:
            if (topic_id := state.ids.get(topic)) is not None:
                told[topic] = max(told.get(topic, 0), state.topics[topic_id].partitions_count)
    return {
        topic: (told[topic], METADATA) if topic in told else (count, DIRECTORIES)
        for topic, count in seen.items()
    }


def _states(directories: Iterable[str]) -> Iterable[tuple[str, ClusterState]]:
    """Replay each metadata log that belongs to the directories, once."""
    for log in {metadata_log_for(directory): None for directory in directories}:
        if log is not None and (state := read_cluster(log)) is not None:
            yield log, state


_SPLIT_BYTES = 256 << 20
#: Fewer misplaced records than this may be multiples of a number by chance.
_LEAST_TELLING = 8
#: Brokers put what is in these by a part of the key, or have one partition.
_BY_OTHER_RULES = COORDINATED | {CLUSTER_METADATA_TOPIC}

#: Partitioner, partition, producer -> what was counted.
Sums = dict[tuple[str, int, int], MisplacedCount]


class _Topic:
    """What was counted of one topic."""

    def __init__(self) -> None:
        self.sums: Sums = {}
        self.records = self.without_key = 0

    def add(self, partition: int, placed: SplitPlacement) -> None:
        """Add what came of a split of a partition."""
        self.records += placed.records
        self.without_key += placed.without_key
        for (name, producer_id), one in placed.sums.items():
            place = name, partition, producer_id
            self.sums[place] = self.sums.get(place, MisplacedCount()).plus(one)

    def total(self, name: str) -> MisplacedCount:
        """Add up all partitions; the places of these are no places of the topic's."""
        of_name = [one for (which, *_), one in self.sums.items() if which == name]
        return MisplacedCount(
            sum(one.records for one in of_name),
            sum(one.misplaced for one in of_name),
            gcd(*(one.factor for one in of_name)),
        )


def placement(
    paths: Iterable[str],
    options: PlacementOptions,
    *,
    driver: Driver = ONE_BY_ONE,
    progress: Progress | None = None,
    split_bytes: int = _SPLIT_BYTES,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield errors and findings in the order of the paths, and for each topic with keys a
    `key-placement` row, a `misplaced-keys` row for each partition and producer that has some (where
    a partitioner is given or one fits), and `moved-key` rows, the first moves of it.

    The rows are the same for any driver and number of workers.
    """
    progress = progress or Progress()
    splits: list[Split] = []
    planned = (
        one
        for one in plan(paths, options, split_bytes)
        if isinstance(one, KdumpError) or one.target.topic not in _BY_OTHER_RULES
    )
    yield from take_up(planned, splits, progress)
    known = partition_counts((split.target for split in splits), options.partitions)
    names = sorted(known)
    buckets = buckets_for(sum(split.size_bytes for split in splits))
    with scratch_directory(options.scratch, driver) as directory:
        step = partial(
            place_split,
            options=options,
            counts={topic: count for topic, (count, _) in known.items()},
            topics={topic: number for number, topic in enumerate(names)},
            directory=directory,
            buckets=buckets,
        )
        topics: dict[str, _Topic] = defaultdict(_Topic)
        runs: list[SortedRun] = []
        for result in of_whole_logs(splits, step, driver, progress):
            if isinstance(result, KdumpError):
                yield result
                continue
            yield from result.told
            topics[result.topic].add(result.partition, result)
            runs += result.runs
        items = take_up_buckets(runs, buckets, directory, progress)
        found: list[Moves] = []
        for _, moves in driver(
            items, partial(moves_of, topics=len(names), most=options.top), progress
        ):
            if isinstance(moves, KdumpError):
                yield moves
            else:
                found.append(moves)
        moved = join_results(iter(found), options.top)
    for number, topic in enumerate(names):
        of_topic = topics[topic]
        if of_topic.records > of_topic.without_key:
            yield from _rows(topic, of_topic, known[topic], moved.get(number), options)


def _rows(
    topic: str,
    of_topic: _Topic,
    known: tuple[int, str],
    moved: tuple[int, int, list[Move]] | None,
    options: PlacementOptions,
) -> Iterator[Row]:
    count, source = known
    totals = {name: of_topic.total(name) for name in options.names}
    best = min(totals, key=lambda name: (_unfit(totals[name]), options.names.index(name)))
    total = totals[best]
    keys, keys_moved, moves = moved or (0, 0, [])
    tells = count > 1 or total.misplaced > 0
    yield KeyPlacement(
        topic=topic or None,
        partitioner=best if tells else None,
        fits=_fits(total, count) if tells else None,
        is_given=options.partitioner is not None,
        partitions_count=count,
        partitions_from=source,
        records_count=total.records,
        misplaced_count=total.misplaced,
        share=_share(total),
        as_if_partitions=_smaller_count(total, count),
        records_without_key=of_topic.without_key,
        keys=keys,
        keys_moved=keys_moved,
        moved_since_ms=moves[0].timestamp if moves and moves[0].timestamp >= 0 else None,
    )
    # Where no partitioner fits, keys lie elsewhere than one of them says for no reason of theirs.
    names_places = options.partitioner is not None or _fits(total, count)
    for (name, partition, producer_id), one in sorted(of_topic.sums.items()):
        if names_places and name == best and one.misplaced:
            assert one.first is not None
            assert one.last is not None
            yield MisplacedKeys(
                topic=topic or None,
                partition=partition,
                partitioner=best,
                producer_id=None if producer_id < 0 else producer_id,
                other_producers=producer_id == OTHERS,
                records_count=one.records,
                misplaced_count=one.misplaced,
                share=_share(one),
                as_if_partitions=_smaller_count(one, count),
                first_offset=one.first[0],
                first_timestamp_ms=_time(one.first[1]),
                last_offset=one.last[0],
                last_timestamp_ms=_time(one.last[1]),
            )
    for move in moves:
        yield MovedKey(
            topic=topic or None,
            key=move.key,
            key_size_bytes=move.key_size,
            partitions=list(move.partitions),
            partition=move.partitions[1],
            offset=move.offset,
            timestamp_ms=_time(move.timestamp),
            interleaved=move.interleaved,
        )


def _unfit(one: MisplacedCount) -> float:
    """Say how ill a partitioner fits; one that says nothing of any key fits none."""
    return one.misplaced / one.records if one.records else 2.0


def _fits(one: MisplacedCount, count: int) -> bool:
    """Whether far fewer are misplaced than by chance, or all of them for one reason."""
    return _smaller_count(one, count) is not None or 2 * _unfit(one) <= 1 - 1 / count


def _share(one: MisplacedCount) -> float:
    return round(one.misplaced / one.records, 6) if one.records else 0.0


def _smaller_count(one: MisplacedCount, count: int) -> int | None:
    """Give the smaller count of partitions by which all that is misplaced was placed."""
    if one.misplaced < _LEAST_TELLING:
        return None
    return next((less for less in range(count - 1, 1, -1) if one.factor % less == 0), None)


def _time(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp

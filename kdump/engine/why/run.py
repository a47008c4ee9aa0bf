"""Run `why`: each partition is an item, and so is whatever else lies in a data directory."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kdump.engine.reading.remote_partitions import RemotePartition, remote_partitions
from kdump.engine.why.fates import VERDICTS
from kdump.engine.why.freeable import DeletedFiles, Freeable, RetiredDirectory
from kdump.engine.why.freeing import Plan
from kdump.engine.why.options import Item, WhyOptions
from kdump.engine.why.partition import judge
from kdump.engine.why.remote import remote_rows
from kdump.engine.why.volumes import Goal, goals_of, volume_of
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, NothingToDo, PathError, attempt
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.replay.topic_settings import topic_settings
from kdump.rows.why import PartitionSpace, SegmentFate, TierSpace, TopicSpace, WhySummary
from kdump.storage import names, places
from kdump.storage.data_directories import spread
from kdump.storage.directory_facts import meta_of
from kdump.storage.local_log import looks_like_partition
from kdump.storage.log_dir import LogDir
from kdump.storage.names import SEGMENT_KINDS
from kdump.storage.targets import Target, data_directories, resolve

if TYPE_CHECKING:
    from kdump.replay.topic_settings import TopicSettings


_DEFAULTS = "Retention is evaluated with --config, server.properties, and Kafka's defaults."


def report_unknown_settings(directory: str, topics: TopicSettings) -> Finding | None:
    """Report a data directory for which no metadata log was found; None where one was."""
    if topics.metadata_log(directory) is not None:
        return None
    meta = meta_of(directory)
    cluster, node = meta.get("cluster.id"), meta.get("node.id")
    if cluster is None:
        why = "meta.properties does not name a cluster"
    elif node is None:
        why = "ZooKeeper has them, or a metadata log that is not on these disks"
    else:
        why = (
            f"no metadata log of cluster {cluster} was found here or in a nearby directory of "
            f"node {node}"
        )
    path = os.path.join(directory, names.META_PROPERTIES)
    return finding(
        "topic-settings-unknown",
        path=path,
        message=f"Topic settings of {directory} are unknown: {why}. {_DEFAULTS}",
    )


_SUMMED = (
    "log_bytes",
    "index_bytes",
    "other_bytes",
    "retired_bytes",
    "deletable_bytes",
    "reserved_index_bytes",
    "apparent_bytes",
)
_USED = "used"


def why(
    paths: Iterable[str],
    options: WhyOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield the rows of each partition, in the order of the paths, and last a `why-summary`.

    They are the same for any number of workers, and for any driver.
    """
    progress = progress or Progress()
    given = list(paths)
    items: list[Item] = []
    sums = Sums(options.now_ms)
    for error in take_up(plan(given, options), items, progress):
        sums.unfinished += 1
        yield error
    named = given or _directories(options)
    topics = topic_settings(
        options.server_properties,
        named,
        configs=options.configs,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
        tier=options.tier,
    )
    around = {places.parent(item.path) for item in items if item.kind == "partition"}
    not_prepared: list[KdumpError] = []
    attempt("topic settings", partial(topics.prepare, around), None, not_prepared)
    for error in not_prepared:
        sums.unfinished += 1
        yield error
    directories = dict.fromkeys(item.directory for item in items)
    volumes = [volume_of(directory) for directory in directories]
    goals = goals_of(options.free, volumes)
    for directory in directories if options.topic_configs and not not_prepared else ():
        reported = report_unknown_settings(directory, topics)
        if reported is not None:
            yield reported
    here: set[tuple[str, int]] = set()
    logs: list[Freeable] = []
    retired: list[RetiredDirectory] = []
    going: list[DeletedFiles] = []
    step = partial(judge, options=options, topics=topics)
    for item, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            sums.unfinished += 1
            yield result
            continue
        yield from result.findings
        for row in result.rows:
            sums.add(item, row)
            if isinstance(row, TierSpace):
                here.add((row.topic_id, row.partition))
            yield row
        if result.freeable is not None:
            logs.append(result.freeable)
        if result.retired is not None:
            retired.append(result.retired)
        if result.going is not None:
            going.append(result.going)
    if options.tier is not None or any(map(topics.tiers.metadata_paths, directories)):
        yield from _elsewhere(named, options, topics, here)
    freeing = Plan(goals, options.now_ms)
    yield from freeing.steps(retired, going, logs)
    asked = {one: goal.asked_bytes for goal in goals for one in goal.directories}
    for volume in volumes:
        planned = freeing.planned[volume.directory] if goals else None
        at = volume.directory
        yield volume.row(asked.get(at), planned, sums.directories[at], topics.releases.of(at))
    yield from sums.topics()
    yield sums.summary(goals, freeing if options.free else None)


def _elsewhere(
    paths: list[str], options: WhyOptions, topics: TopicSettings, here: set[tuple[str, int]]
) -> Iterator[Row | Finding | KdumpError]:
    """Yield the rows of remote segments of partitions that no data directory has."""
    for one in remote_partitions(paths, options.selection, topics, topics.tiers.objects):
        if not isinstance(one, RemotePartition):
            yield one
        elif (one.topic_id, one.number) not in here:
            rows = [*remote_rows(one, None)]
            yield from rows if len(rows) > 1 else ()


class Sums:
    """Adds up the rows of a run."""

    def __init__(self, now_ms: int) -> None:
        self.unfinished = 0
        self._now_ms = now_ms
        self._sums: Counter[str] = Counter()
        self._segments: Counter[str] = Counter()
        self._topics: dict[tuple[str | None, str | None], Counter[str]] = defaultdict(Counter)
        self.directories: Counter[str] = Counter()
        self._allocated: int | None = 0
        self._next_ms: int | None = None

    def add(self, item: Item, row: Row) -> None:
        """Take up a row."""
        if isinstance(row, PartitionSpace):
            self._sums["partitions"] += item.kind == "partition"
            self.directories[item.directory] += row.apparent_bytes
            used = row.apparent_bytes - row.reserved_index_bytes
            self._topics[row.topic, row.retired][_USED] += used
            for name in _SUMMED:
                self._sums[name] += row[name]
            if self._allocated is not None:
                more = row.allocated_bytes
                self._allocated = None if more is None else self._allocated + more
        elif isinstance(row, SegmentFate):
            self._segments[row.verdict] += 1
            for sizes in (self._sums, self._topics[row.topic, None]):
                sizes[row.verdict] += row.size_bytes - row.reserved_index_bytes
            due_ms = row.deletable_at_ms
            if due_ms is not None and due_ms > self._now_ms:
                self._next_ms = due_ms if self._next_ms is None else min(self._next_ms, due_ms)

    def topics(self) -> list[TopicSpace]:
        """Make the rows of topics, the largest first."""
        rows = [
            TopicSpace(topic, retired, sizes[_USED], _by_verdict(sizes))
            for (topic, retired), sizes in self._topics.items()
        ]
        return sorted(rows, key=lambda row: (-row.size_bytes, row.topic or "", row.retired or ""))

    def summary(self, goals: Sequence[Goal], freeing: Plan | None) -> WhySummary:
        """Make the summary; `freeing` is the plan, where one is asked for."""
        sums = self._sums
        return WhySummary(
            now_ms=self._now_ms,
            partitions=sums["partitions"],
            segments=self._segments.total(),
            **{name: sums[name] for name in _SUMMED},
            allocated_bytes=self._allocated,
            bytes_by_verdict=_by_verdict(self._sums),
            segments_by_verdict=dict(sorted(self._segments.items())),
            next_deletable_ms=self._next_ms,
            paths_unfinished=self.unfinished,
            asked_bytes=sum(goal.asked_bytes for goal in goals) if freeing else None,
            planned_bytes=sum(freeing.planned.values()) if freeing else None,
            plans=freeing.plans if freeing else None,
        )


def _by_verdict(sizes: Counter[str]) -> dict[str, int]:
    return {word: sizes[word] for word in VERDICTS if word in sizes}


def _directories(options: WhyOptions) -> list[str]:
    return data_directories(options.server_properties) if options.server_properties else []


def plan(paths: list[str], options: WhyOptions) -> Iterator[Item | KdumpError]:
    """Yield an item for each partition, then for all else of the data directories."""
    others = list(_others(paths or _directories(options), options))
    selection = options.selection._replace(retired=False)
    segments: dict[str, Item] = {}
    for target in resolve(paths, selection, options.server_properties, loose=False, listed=False):
        if isinstance(target, NothingToDo) and others:
            continue
        if isinstance(target, KdumpError):
            yield target
        elif target.log is None:
            yield PathError(target.path, "is neither a partition nor a segment")
        else:
            log, base = target.log, None if target.whole else _segment_of(target)
            size = sum(places.size_or_zero(str(one.log)) for one in log.logs[-1:])
            item = Item(log.path, "partition", target.topic, target.partition, size)
            if target.whole:
                yield item
            elif base is None:
                yield PathError(target.path, "is not a segment: name its partition's directory")
            else:
                known = segments.setdefault(places.real(log.path), item).bases or frozenset()
                segments[places.real(log.path)] = item._replace(bases=known | {base})
    yield from segments.values()
    yield from others


def _segment_of(target: Target) -> int | None:
    """Return the base offset of the segment that a named file belongs to."""
    name = target.files[0].name
    if target.log is None or name.kind not in SEGMENT_KINDS or name.is_retired:
        return None
    bases = {segment.base_offset for segment in target.log.logs}
    return name.base_offset if name.base_offset in bases else None


def _others(paths: list[str], options: WhyOptions) -> Iterator[Item]:
    """Find what lies in data directories beside the partitions in use; each once."""
    selection = options.selection
    seen = set()
    for path in (each for named in paths for each in spread(named)):
        place = places.real(path)
        if place in seen or not places.isdir(path):
            continue
        seen.add(place)
        try:
            directory = LogDir.open(path)
            is_partition = looks_like_partition(places.listdir(path))
        except (PathError, OSError):
            continue  # resolving the path says so
        if is_partition and not directory.partitions:
            continue
        for name, at in directory.partitions:
            if name.retirement is not None and selection.admits(name.topic, name.partition):
                yield Item(at, "retired", name.topic, name.partition)
        if selection.topic is None and selection.partition is None:
            yield Item(os.path.normpath(path) if not places.is_uri(path) else path, "around")

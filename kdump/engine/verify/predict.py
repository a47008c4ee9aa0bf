"""Predict for `predict`: each partition, then all of a broker's together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.versions import KRAFT_ONLY, Version, has, same_answer, text_of
from kdump.engine.advice.advisor import add_advice
from kdump.engine.predict.recovery import predict_partition, unknown_recovery
from kdump.engine.predict.remedies import remedies
from kdump.engine.predict.strays import cluster_of
from kdump.engine.predict.verdict import (
    DEFAULT_RATE,
    Totals,
    default_threads,
    predict_directory,
    verdict,
)
from kdump.engine.verify import recheck
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.cluster_state import ClusterState
from kdump.rows.verify import Recovery, Remedy, StuckAt
from kdump.storage import lock, names, places
from kdump.storage.directory_facts import DirectoryFacts, facts_of
from kdump.storage.disk_rate import DiskRate, measure
from kdump.storage.local_log import LocalLog, looks_like_partition
from kdump.storage.log_dir import LISTED_SECONDS, LogDir
from kdump.storage.targets import data_directories
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.node_settings import Fact
    from kdump.broker.settings import Settings
    from kdump.engine.verify.options import Item, VerifyOptions
    from kdump.replay.releases import Releases
    from kdump.replay.topic_settings import TopicSettings
    from kdump.storage.targets import Target


#: Of damage that stays, a prediction names so many places.
_UNSERVED = 100


class Predictor(NamedTuple):
    """What a prediction needs to know beside the partition; it goes to every worker.

    `clusters` has what the metadata log of a directory's broker says, by data directory.
    """

    releases: Releases
    settings: Settings
    clusters: dict[str, ClusterState | None]

    def partition(self, target: Target) -> Recovery:
        """Predict the start for one partition."""
        foretold = partial(self._predict, target, self._cluster(target))
        row = foretold()
        if verdict(row) is None or not lock.is_held_around(target.path):
            return row
        # It may have been read in the midst of a broker's write, or beside a newer checkpoint; and
        # what a cut removes is counted after the cut is found, when a preallocated log may have
        # been written to there. So a loss is believed where two looks in a row find it.
        for wait in recheck.WAITS:
            before = _place(row)
            time.sleep(wait)
            row = foretold()
            if verdict(row) is None or _place(row) == before:
                return row
        doubt = "the broker wrote to it during each of several attempts"
        return unknown_recovery(target, doubt)

    def _predict(self, target: Target, cluster: ClusterState | None) -> Recovery:
        start = partial(predict_partition, target, settings=self.settings, cluster=cluster)

        def foretold(broker: Version) -> Recovery:
            return start(broker=broker).replaced(broker_version=text_of(broker))

        directory = places.parent(target.path)
        return self.releases.answer(directory, foretold, ("outcome", "records_lost"))

    def remedies(self, target: Target) -> list[Remedy]:
        """Forecast the start after each change that is cheap to make."""
        broker = self.broker_of(target)
        return list(remedies(target, broker, self.settings, self._cluster(target)))

    def broker_of(self, target: Target) -> Version:
        """Return the release that the start is foretold for."""
        return self.releases.of(places.parent(target.path))

    def _cluster(self, target: Target) -> ClusterState | None:
        directory = target.log_dir(LISTED_SECONDS)
        return None if directory is None else self.clusters.get(directory.path)

    def totals(
        self, rate: int | None, threads: int | None, measured: dict[str, DiskRate | None] | None
    ) -> Totals:
        """Begin the sum of all forecasts."""
        broker = self.releases.newest(self.clusters)
        threads = threads or self.settings.recovery_threads or default_threads(broker)
        return Totals(rate or DEFAULT_RATE, threads, measured)


def measure_disks(items: Iterable[Item]) -> dict[str, DiskRate | None]:
    """Measure the disk of each data directory by reading logs of its partitions; of no store."""
    logs: dict[str, list[tuple[str, int]]] = {}
    for item in items:
        if item.whole and not places.is_uri(item.path):
            of_directory = logs.setdefault(places.parent(item.path), [])
            with suppress(PathError):
                for segment in LocalLog.open(item.path).logs:
                    path = str(segment.log)
                    of_directory.append((path, places.size_or_zero(path)))
    return {directory: measure(files) for directory, files in logs.items()}


def _place(row: Recovery) -> tuple[object, ...]:
    """Say where a loss is, and not how large it has become."""
    names = ("outcome", "truncate_segment", "truncate_position", "first_lost_offset")
    return tuple(row[name] for name in names)


def find_unserved(
    target: Target, findings: Iterable[Finding], recovery: Recovery, predict: Predictor, limit: int
) -> list[StuckAt]:
    """Say at which damage consumers stop after a start, and from where on they are served again.

    What the start cuts off is no more in their way.
    """
    end = recovery.log_end_after
    if end is None:
        return []
    stays = [
        found
        for found in findings
        if found.served_by is not None and found.offset is not None and found.offset < end
    ]
    asked = add_advice(
        target, stays[:_UNSERVED], predict.releases, limit, running=False, settings=predict.settings
    )
    return [
        StuckAt(
            offset=found.offset,
            next_offset=found.next_offset,
            served_from=found.served_from,
            skipped_by_seek=found.skipped_by_seek,
        )
        for found in asked
    ]


def predictor(directories: Iterable[DirectoryFacts], settings: TopicSettings) -> Predictor:
    """Read the metadata log of each broker among the directories."""
    clusters: dict[str, ClusterState | None] = {}
    for group in _nodes(directories):
        cluster = cluster_of(group)
        clusters.update({directory.path: cluster for directory in group})
    return Predictor(settings.releases, settings.broker, clusters)


def refused_rows(
    directories: Iterable[DirectoryFacts], rows: list[Recovery], releases: Releases
) -> Iterator[Finding | Row]:
    """Yield a row for each data directory with which the whole broker would not start.

    What only one of its partitions stops was found there.
    """
    found = {places.parent(str(row.path)) for row in rows}
    for group in _nodes(directories):
        for directory in group:
            broker = releases.of(directory.path)
            row = predict_directory(directory, rows, broker, others=group)
            if row is not None:
                reported = None if places.absolute(directory.path) in found else verdict(row)
                if reported is not None:
                    yield reported
                yield row


def node_rows(
    named: Iterable[str],
    options: VerifyOptions,
    releases: Releases,
    stopping: list[Recovery],
) -> Iterator[Finding | Row]:
    """Say whether the node starts that the data directories are of, with a finding if not.

    Several nodes' directories are several nodes, unless settings were given: those are one's.
    """
    from kdump.broker.node_settings import is_krafts
    from kdump.engine.predict import node

    settings = options.server_properties
    user = None if options.as_user is None else node.user_of(options.as_user)
    data = [path for path in named if is_data_directory(path)]
    groups = (
        [data] if settings else [[at.path for at in one] for one in _nodes(map(facts_of, data))]
    )
    for group in groups:
        if not group and not settings:
            continue
        about = group or _directories_of(settings)
        broker = releases.newest(about)
        start = partial(node.node_start, group, server_properties=settings, user=user)
        # Without a sign of KRaft it may be an older release with ZooKeeper, unless one was given.
        is_decided = (
            options.broker_version or not has(broker, KRAFT_ONLY) or any(map(is_krafts, about))
        )
        oldest = min((releases.range_of(path)[0] for path in about), default=broker)
        ask = partial(start, broker if is_decided else None)
        facts, is_same = same_answer(ask, [(broker, oldest)])
        for fact in _with_partitions(facts, group, stopping):
            yield node.row_of(fact).replaced(broker_version=text_of(broker))
        if is_decided and not is_same and (instead := node.compare_oldest(facts, start(oldest))):
            yield node.row_of(instead).replaced(broker_version=text_of(oldest))
        yield from filter(None, map(node.finding_of, facts))


def _directories_of(server_properties: str | None) -> list[str]:
    """Return what a broker's settings name; they may name none, or not be readable."""
    with suppress(PathError):
        return [] if server_properties is None else data_directories(server_properties)
    return []


def _with_partitions(facts: list[Fact], group: list[str], stopping: list[Recovery]) -> list[Fact]:
    """Add what a partition alone stops, which is known once all were looked at."""
    from kdump.broker.node_settings import REFUSES, STARTS, Fact

    if any(fact.outcome == REFUSES for fact in facts):
        return facts
    inside = {places.absolute(path) for path in group}
    for row in stopping:
        path = str(row.path)
        if not group or places.absolute(places.parent(path)) in inside:
            remedy = (
                "Move the partition's directory out of the data directory; see the finding "
                "start-refused."
            )
            refused = Fact(REFUSES, "partition", str(row.reason), path, remedy)
            return [refused, *(fact for fact in facts if fact[:2] != (STARTS, "none"))]
    return facts


def is_data_directory(path: str) -> bool:
    """Whether a path is treated as a data directory: a folder that is not a partition itself.

    A data directory may be named as a partition is, for example `kafka-1`; its contents decide.
    """
    if places.is_uri(path):
        return False
    is_named = names.parse_directory(os.path.basename(places.absolute(path))) is not None
    try:
        entries = os.listdir(path)
    except OSError:
        return os.path.isdir(path) and not is_named
    if is_named and names.META_PROPERTIES not in entries:
        return any(map(names.parse_directory, entries))
    return not looks_like_partition(entries)


def _nodes(directories: Iterable[DirectoryFacts]) -> list[list[LogDir]]:
    """Group data directories by whose they are; one that says nothing stands alone."""
    groups: dict[object, list[LogDir]] = {}
    for facts in directories:
        known = facts.node_id is not None
        whose = (facts.cluster_id, facts.node_id) if known else facts.path
        try:
            groups.setdefault(whose, []).append(LogDir.open(facts.path))
        except PathError:
            continue
    return list(groups.values())

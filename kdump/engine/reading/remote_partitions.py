"""Bring together what disks and remote storage have of each tiered partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.remote_log import RemoteLog, Tier, tier_of
from kdump.errors import KdumpError
from kdump.findings.finding import Finding, finding
from kdump.storage import names, places
from kdump.storage.properties import read_topic_id
from kdump.storage.remote_objects import NO_OBJECTS, PartitionObjects, RemoteObjects
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.replay.remote_logs import RemoteLogs
    from kdump.replay.topic_settings import TopicSettings
    from kdump.storage.aiven import AivenPartition


class RemotePartition(NamedTuple):
    """One partition: its metadata, its objects, and how it lies here, as far as each is at hand.

    `complete`: all metadata of the cluster is, so that an object without a record has none.
    `tiered` is False for a topic that was deleted, or is tiered no more.
    """

    topic: str
    topic_id: str
    number: int
    log: RemoteLog | None
    objects: PartitionObjects | AivenPartition
    tier: Tier | None
    complete: bool
    tiered: bool


def remote_partitions(
    paths: list[str], selection: Selection, settings: TopicSettings, objects: RemoteObjects | None
) -> Iterator[RemotePartition | Finding | KdumpError]:
    """Yield each partition that metadata or objects are of, and what is wrong with metadata."""
    here: dict[tuple[str, int], Target] = {}
    of_logs: dict[tuple[str, int], tuple[str, RemoteLog]] = {}
    complete, metadata = True, False
    gone: set[tuple[str | None, int]] = set()  # partitions that are tiered no more
    ids: set[str] = set()  # of the existing topics; empty: not known
    everything = Selection(retired=False)
    for target in resolve(paths, everything, listed=False) if paths else ():
        if isinstance(target, KdumpError) or target.log is None or target.log.name is None:
            continue  # the checks of the directories tell of errors
        place = places.parent(target.log.path)
        if target.topic == names.REMOTE_LOG_METADATA_TOPIC:
            found = settings.tiers.metadata_paths(place)
            complete &= settings.has_all(place, target.topic, len(found))
            metadata = True
            logs = settings.tiers.logs_in(found)
            ids |= settings.topic_ids(place)
            yield from _metadata_damage(target, logs)
            for (topic_id, number), log in logs.items():
                of_logs.setdefault((topic_id, number), (logs.topics[topic_id], log))
        target = settings.with_tier(target)
        tier = tier_of(target)
        if tier is not None and tier.topic_id is not None:
            here.setdefault((tier.topic_id, int(target.partition or 0)), target)
        elif tier is None:
            gone.add((read_topic_id(target.path), int(target.partition or 0)))
    keys = {(name, number, one) for (one, number), (name, _) in of_logs.items()}
    if objects is not None:
        keys.update(objects.partitions())
    for topic, number, topic_id in sorted(keys):
        if not selection.admits(topic, number):
            continue
        local = here.get((topic_id, number))
        yield RemotePartition(
            topic,
            topic_id,
            number,
            of_logs.get((topic_id, number), (topic, None))[1],
            objects.of(topic, number, topic_id) if objects is not None else NO_OBJECTS,
            None if local is None else tier_of(local),
            complete and metadata,
            (topic_id, number) not in gone and (not ids or topic_id in ids),
        )


def _metadata_damage(target: Target, logs: RemoteLogs) -> Iterator[Finding]:
    """Tell of damage that a broker cannot read past in a partition of the metadata topic (W9)."""
    problems = {log.problem for log in logs.values() if log.problem is not None}
    for problem in sorted(problems):
        if not problem.startswith(target.path):
            continue
        damaged = [one for (one, _), log in logs.items() if log.problem == problem]
        topics = sorted({logs.topics[one] for one in damaged})
        yield finding(
            "remote-metadata-damaged",
            path=target.path,
            topic=target.topic,
            partition=target.partition,
            message=f"{problem}. Brokers stop reading the metadata there at each start: remote "
            f"reads fail for these topics: {', '.join(topics)}.",
        )


def remote_partition(target: Target, settings: TopicSettings) -> RemotePartition | None:
    """Return what there is of a partition on disk in remote storage; None for one not tiered."""
    tier = tier_of(target)
    if tier is None or tier.topic_id is None:
        return None
    topic, number = str(target.topic), int(target.partition or 0)
    place = places.parent(target.path)
    paths = settings.tiers.metadata_paths(place)
    every = settings.has_all(place, names.REMOTE_LOG_METADATA_TOPIC, len(paths))
    objects = settings.tiers.objects
    return RemotePartition(
        topic,
        tier.topic_id,
        number,
        tier.log,
        NO_OBJECTS if objects is None else objects.of(topic, number, tier.topic_id),
        tier,
        bool(paths) and every,
        tiered=True,
    )


def gaps_of(of: RemotePartition) -> Iterator[tuple[int, int]]:
    """Yield ranges of offsets, both ends included, that no segment leads to."""
    if of.log is None or of.log.problem is not None or not of.tiered:
        return
    if of.tier is not None:
        expected = of.tier.log_start
        for piece in of.tier.pieces():
            if piece.first > expected:
                yield expected, piece.first - 1
            expected = piece.last + 1
        if expected < of.tier.local_start:
            yield expected, of.tier.local_start - 1
        return
    found = of.log.reachable_ids()
    last = None
    for one in sorted(of.log.segments.values(), key=lambda one: one.start_offset):
        if one.segment_id not in found:
            continue
        if last is not None and one.start_offset > last + 1:
            yield last + 1, one.start_offset - 1
        last = max(one.end_offset, last or 0)

"""Say of partitions whether they are tiered, and what of them is in remote storage (W1).

A topic is tiered by its settings where they are known; else where its log starts below its first
local segment, or metadata of remote segments of it is at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from kdump.broker.versions import TIERED_STORAGE, has
from kdump.errors import StoreError
from kdump.storage import names, places
from kdump.storage.checkpoints import load_epochs
from kdump.storage.directory_facts import owner_of
from kdump.storage.log_dir import LISTED_SECONDS, LOG_DIRS
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.broker.remote_log import RemoteLog, Tier
    from kdump.broker.settings import Settings
    from kdump.replay.releases import Releases
    from kdump.replay.remote_logs import RemoteLogs
    from kdump.storage.aiven import AivenPartition
    from kdump.storage.remote_objects import PartitionObjects
    from kdump.storage.targets import Target


class _TopicSettings(Protocol):
    """The questions about the settings of topics."""

    releases: Releases

    def of(self, partition: str, topic: str | None) -> Settings:
        """Return the settings of a topic."""

    def has_all(self, directory: str, topic: str, partitions: int) -> bool:
        """Whether a topic has that many partitions."""

    def has_stopped_copying(self, partition: str, topic: str) -> bool:
        """Whether nothing was copied since the brokers started."""


class CachedObjects:
    """The objects of a partition, with the indexes that its broker has in its cache."""

    def __init__(self, objects: PartitionObjects | AivenPartition, directory: str) -> None:
        self._objects = objects
        self._directory = directory

    def files(self, segment_id: str) -> Mapping[Kind, str] | None:
        """Return the paths of a segment's files; None where none of its objects is there."""
        found = self._objects.files(segment_id)
        if found is None:
            return None
        base = self._objects.bases[segment_id]
        from kdump.storage.remote_objects import find_cached_indexes

        cached = find_cached_indexes(self._directory, segment_id, base)
        if cached is None:
            return found
        kept = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)
        return {kind: at for kind, at in found.items() if kind not in kept} | cached


class Tiers:
    """What is known of tiered partitions; goes to workers with what was read so far.

    `directories` are others that may hold metadata, `objects` where the objects are, if given.
    """

    def __init__(
        self,
        directories: Iterable[str] = (),
        objects: str | None = None,
        key: str | None = None,
    ) -> None:
        self.directories = tuple(directories)
        self.objects: RemoteObjects | None = None
        if objects is not None:
            from kdump.storage.remote_objects import RemoteObjects

            self.objects = RemoteObjects(objects, key)
        self._read: dict[tuple[str, ...], RemoteLogs] = {}
        self._owners: dict[str, tuple[str | None, str | None]] = {}

    def of(self, target: Target, settings: _TopicSettings) -> Tier | None:
        """Return what a broker has of a partition that is tiered; None for one that is not."""
        log = target.log
        if log is None or log.name is None or log.name.retirement is not None:
            return None
        topic, number = log.name.topic, log.name.partition
        if topic.startswith("__") or any(one.is_pre08 for one in log.logs):
            return None
        place = places.parent(log.path)
        directory = target.log_dir(LISTED_SECONDS)
        checkpoint = (
            directory.offset(names.LOG_START_CHECKPOINT, topic, number) if directory else None
        )
        base = log.logs[0].base_offset if log.logs else 0
        starts_below = checkpoint is not None and checkpoint < base
        paths = self.metadata_paths(place)
        if not starts_below and not paths and self.objects is None:
            return None
        own = settings.of(log.path, topic)
        if own.topic_is_known and (not own.tiered or "compact" in own.cleanup_policy):
            return None
        if not has(settings.releases.of(place), TIERED_STORAGE):
            return None
        from kdump.broker.remote_log import RemoteLog, Tier

        remote, topic_id = self._remote_log(paths, log.path, topic, number)
        if not own.topic_is_known and not starts_below and not (remote and remote.segments):
            return None
        if (
            remote is None
            and paths
            and settings.has_all(place, names.REMOTE_LOG_METADATA_TOPIC, len(paths))
        ):
            remote = RemoteLog()  # nothing of it was ever uploaded
        objects = None
        if self.objects is not None and topic_id is not None:
            objects = CachedObjects(self.objects.of(topic, number, topic_id), place)
        return Tier(
            remote,
            load_epochs(log.epoch_starts()),
            checkpoint,
            base,
            copies=not settings.has_stopped_copying(log.path, topic),
            objects=objects,
            topic_id=topic_id,
        )

    def _remote_log(
        self, paths: tuple[str, ...], partition: str, topic: str, number: int
    ) -> tuple[RemoteLog | None, str | None]:
        """Find what the metadata says of a partition, by its topic id or else by its only name."""
        from kdump.storage.properties import read_topic_id

        logs = self.logs_in(paths)
        topic_id = read_topic_id(partition)
        if topic_id is None:
            ids = {one for one, name in logs.topics.items() if name == topic}
            if self.objects is not None and not ids:
                ids = {
                    one
                    for name, at, one in self.objects.partitions()
                    if (name, at) == (topic, number)
                }
            topic_id = ids.pop() if len(ids) == 1 else None
        return (None if topic_id is None else logs.get((topic_id, number))), topic_id

    def logs_in(self, paths: tuple[str, ...]) -> RemoteLogs:
        """Replay the metadata logs in some partition directories, once."""
        from kdump.replay.remote_logs import RemoteLogs, read_remote_logs  # few topics are tiered

        if paths not in self._read:
            self._read[paths] = RemoteLogs()  # reading may fail
            self._read[paths] = read_remote_logs(paths)
        return self._read[paths]

    def metadata_paths(self, directory: str) -> tuple[str, ...]:
        """Return a directory for each partition of the metadata topic that is at hand.

        A copy in the data directory itself comes first, then one of its node, then any other of
        its cluster.
        """
        found: dict[int, str] = {}
        _add(found, directory)
        if others := [one for one in self.directories if one != directory]:
            node, cluster = self._owner(directory)
            owners = ((*self._owner(one), one) for one in others if cluster is not None)
            alike = sorted((of != node, one) for of, its, one in owners if its == cluster)
            for _, one in alike:
                with suppress(StoreError):
                    _add(found, one)
        return tuple(found[number] for number in sorted(found))

    def _owner(self, directory: str) -> tuple[str | None, str | None]:
        if directory not in self._owners:
            self._owners[directory] = owner_of(directory)
        return self._owners[directory]


def _add(found: dict[int, str], directory: str) -> None:
    around = LOG_DIRS.find_parent(f"{directory}/x", LISTED_SECONDS)
    for name, path in around.of_topic(names.REMOTE_LOG_METADATA_TOPIC) if around else ():
        if name.retirement is None:
            found.setdefault(name.partition, path)

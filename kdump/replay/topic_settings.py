"""Settings as they hold for each topic, each with where it came from (O9).

A topic's own come from the metadata log of its cluster, as it lies on the same disks: in the data
directory of the partition, or in another of the same node. A topic id in `partition.metadata` that
is not the cluster's says that the topic of this name is another one; then it has no settings here.

    settings = topic_settings(None, ["/data"]).of("/data/orders-0", "orders")
    settings.index_interval_bytes, settings.source("index_interval_bytes")    1024, "topic"
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker import settings as s
from kdump.errors import PathError, StoreError
from kdump.replay.releases import Releases
from kdump.replay.tiers import Tiers
from kdump.storage import names, places
from kdump.storage.data_directories import spread
from kdump.storage.directory_facts import owner_of
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.metadata_log import metadata_log_for
from kdump.storage.properties import read_topic_id
from kdump.storage.targets import data_directories
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings, TopicConfig
    from kdump.broker.versions import Version
    from kdump.replay.cluster_state import ClusterState
    from kdump.storage.targets import Target


class ClusterSettings(NamedTuple):
    """What one metadata log says of settings: of brokers, and of topics with their ids.

    `partitions` counts those of each topic; empty where the log does not say all.
    """

    brokers: dict[str, dict[str, str]]
    topics: dict[str, dict[str, str]]
    ids: dict[str, str]
    partitions: dict[str, int]
    stopped: frozenset[str] = frozenset()  # topics that no broker has copied since it started


NOTHING = ClusterSettings({}, {}, {}, {})


class KnownTopic(NamedTuple):
    """What a cluster's metadata says of a topic: the settings of its own, and its partitions."""

    configs: dict[str, str]
    partitions: int


class _OfDirectory(NamedTuple):
    """A data directory's node, and the settings in its metadata log, if one was found."""

    node: str | None
    settings: ClusterSettings
    log: str | None


class _OfTopic(NamedTuple):
    """Settings without a topic's own; with them, for the topic of this id; None: it has none."""

    without: Settings
    own: Settings | None
    topic_id: str | None


class TopicSettings:
    """Gives the settings of topics; goes to workers with what was read so far.

    `broker` are the settings of the broker's own file, `options` those that were asked for, by
    field, and `configs` those of some topics. `directories` are others that may hold a metadata
    log. Without `from_disk` no metadata log is looked at. `releases` are the brokers', by data
    directory: `broker_version` for all, else as they are dated.
    """

    def __init__(
        self,
        broker: Settings,
        options: Mapping[str, int | None] | None = None,
        directories: Iterable[str] = (),
        *,
        configs: Iterable[TopicConfig] = (),
        from_disk: bool = True,
        broker_version: Version | None = None,
        tier: str | None = None,
        tier_key: str | None = None,
    ) -> None:
        self.broker = broker
        self.tiers = Tiers(directories, tier, tier_key)
        self._options = {
            field: value for field, value in (options or {}).items() if value is not None
        }
        self._configs = tuple(configs)
        self._directories = self.tiers.directories
        self.releases = Releases(broker_version, self._directories)
        self._from_disk = from_disk
        self._known: dict[str, _OfDirectory] = {}
        self._read: dict[str, ClusterSettings] = {}
        self._cleaned: dict[str, frozenset[str]] = {}
        self._last: tuple[tuple[str, str | None], _OfTopic] | None = None

    def of(self, partition: str, topic: str | None) -> Settings:
        """Return the settings of the topic that a partition's directory belongs to."""
        asked = places.parent(partition), topic
        if self._last is None or self._last[0] != asked:  # partitions of a topic follow each other
            self._last = asked, self._of_topic(*asked)
        found = self._last[1]
        if found.own is not None and read_topic_id(partition) in (None, found.topic_id):
            return found.own
        return found.without

    def with_tier(self, target: Target) -> Target:
        """Return a target with what makes it tiered, if something does."""
        tier = self.tiers.of(target, self)
        return target if tier is None else target._replace(tier=tier)

    def has_stopped_copying(self, partition: str, topic: str) -> bool:
        """Whether copying was disabled before the brokers last started (W7)."""
        if not self._from_disk:
            return self.of(partition, topic).remote_copy_disabled
        return topic in self._in(places.real(places.parent(partition))).settings.stopped

    def topic_ids(self, directory: str) -> set[str]:
        """Return the ids of all topics that the metadata has; empty where it does not tell."""
        cluster = self._in(places.real(directory)).settings if self._from_disk else NOTHING
        return {cluster.ids[name] for name in cluster.partitions if name in cluster.ids}

    def has_all(self, directory: str, topic: str, partitions: int) -> bool:
        """Whether a topic has at most that many partitions, as far as the metadata shows."""
        if not self._from_disk:
            return False
        return self._in(places.real(directory)).settings.partitions.get(topic) == partitions

    def find_topic(self, partition: str, topic: str | None) -> KnownTopic | None:
        """Return what the metadata says of the topic of a partition's directory; None: nothing."""
        if topic is None or not self._from_disk:
            return None
        cluster = self._in(places.real(places.parent(partition))).settings
        is_it = read_topic_id(partition) in (None, cluster.ids.get(topic))
        if topic not in cluster.partitions or not is_it:
            return None
        return KnownTopic(cluster.topics.get(topic, {}), cluster.partitions[topic])

    def _of_topic(self, directory: str, topic: str | None) -> _OfTopic:
        settings = self.broker
        if topic == names.CLUSTER_METADATA_TOPIC:
            # It has settings of its own, and takes none of those of logs (O9).
            settings = s.Settings(internal_segment_bytes=settings.internal_segment_bytes)
        node_id, cluster = None, NOTHING
        if self._from_disk:
            node_id, cluster, _ = self._in(places.real(directory))
        if topic != names.CLUSTER_METADATA_TOPIC:
            settings = settings.of_brokers(s.CLUSTER, cluster.brokers.get("", {}))
            settings = settings.of_brokers(s.BROKER, cluster.brokers.get(node_id or "", {}))
        settings = settings.for_topic(topic)
        if topic not in cluster.ids and self._was_cleaned(directory, topic):
            settings = settings.override(s.CLEANED, {"cleanup_policy": "compact"})
        is_known = topic in cluster.partitions
        own = cluster.topics.get(topic or "", {} if is_known else None)
        of_topic = settings._replace(topic_is_known=is_known)
        return _OfTopic(
            self._with_options(settings, topic),
            None if own is None else self._with_options(of_topic.of_topic(own), topic),
            cluster.ids.get(topic or ""),
        )

    def _was_cleaned(self, directory: str, topic: str | None) -> bool:
        """Whether a data directory's cleaner-offset-checkpoint has partitions of a topic (K4)."""
        if directory not in self._cleaned:
            around = LOG_DIRS.find_parent(os.path.join(directory, names.METADATA_LOG))
            found = around.offsets(names.CLEANER_CHECKPOINT) if around is not None else None
            self._cleaned[directory] = frozenset(name for name, _ in found or ())
        return topic in self._cleaned[directory]

    def _with_options(self, settings: Settings, topic: str | None) -> Settings:
        """Add what the user gave: of two values for a setting the last, an option's own first."""
        given = {config.name: config.value for config in self._configs if config.is_of(topic)}
        return settings.of_topic(given, s.OPTION).override(s.OPTION, self._options)

    def prepare(self, directories: Iterable[str]) -> None:
        """Read what there is to read for the partitions of some data directories, and date them."""
        for directory in directories:
            self.releases.of(directory)
            if self._from_disk:
                self._in(places.real(directory))

    def metadata_log(self, directory: str) -> str | None:
        """Return the metadata log that the settings of a data directory's topics are from."""
        return self._in(places.real(directory)).log if self._from_disk else None

    def _in(self, directory: str) -> _OfDirectory:
        if directory not in self._known:
            log = metadata_log_for(directory, self._directories)
            if log is not None and log not in self._read:
                self._read[log] = NOTHING  # once: reading it may fail
                self._read[log] = _settings_at(log)
            found = NOTHING if log is None else self._read[log]
            self._known[directory] = _OfDirectory(owner_of(directory)[0], found, log)
        return self._known[directory]


def topic_settings(
    server_properties: str | None,
    paths: Iterable[str],
    options: Mapping[str, int | None] | None = None,
    *,
    configs: Iterable[TopicConfig] = (),
    from_disk: bool = True,
    broker_version: Version | None = None,
    tier: str | None = None,
    tier_key: str | None = None,
) -> TopicSettings:
    """Make what gives the settings of topics under some paths, beside a broker's own file."""
    directories = [each for path in paths for each in spread(path)]
    if server_properties is not None:
        with suppress(PathError):  # a file may give settings only
            directories += data_directories(server_properties)
    broker = s.read_settings(server_properties)
    return TopicSettings(
        broker,
        options,
        directories,
        configs=configs,
        from_disk=from_disk,
        broker_version=broker_version,
        tier=tier,
        tier_key=tier_key,
    )


def _settings_at(log: str) -> ClusterSettings:
    from kdump.replay.cluster import read_cluster  # few data directories hold such a log

    try:
        return settings_in(read_cluster(log))
    except StoreError:
        return NOTHING  # whoever reads the partitions there says why


def settings_in(cluster: ClusterState | None) -> ClusterSettings:
    """Take the settings of brokers and topics out of a state."""
    if cluster is None:
        return NOTHING
    found = ClusterSettings({}, {}, dict(cluster.ids), {}, _stopped_topics(cluster))
    if cluster.complete:
        for name, topic_id in cluster.ids.items():
            found.partitions[name] = len(cluster.partitions.get(topic_id, ()))
    for kind, name in cluster.configs:
        own = cluster.settings(kind, name)
        if kind == "broker":
            found.brokers[name] = {key: own[key] for key in s.BROKER_CONFIGS & own.keys()}
        elif kind == "topic":
            found.topics[name] = {key: own[key] for key in s.TOPIC_CONFIGS & own.keys()}
    return found


def _stopped_topics(cluster: ClusterState) -> frozenset[str]:
    """Return the topics whose copying was disabled when the last broker started, or before."""
    started = max((one.registered_ms or -1 for one in cluster.brokers.values()), default=-1)
    return frozenset(
        name
        for (kind, name), own in cluster.configs.items()
        if kind == "topic"
        and (found := own.get("remote.log.copy.disable")) is not None
        and found.value == "true"
        and (found.set_ms is None or found.set_ms <= started)
    )

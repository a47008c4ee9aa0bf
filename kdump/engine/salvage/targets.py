"""See that the topics of a cluster can take what is to be produced to them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.errors import RefusedError
from kdump.findings.shell import explain_refused_topic, format_command, topic_word
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.client.cluster import Cluster, TopicFacts
    from kdump.engine.salvage.copies import Item

_BATCH_BYTES = 61 + 40  # around one record, however long its lengths are written
#: Settings that bound a batch; the last is only of clusters that are tested.
_LIMITS = ("max.message.bytes", "segment.bytes", "internal.segment.bytes")
_DEFAULT_MAX_BYTES = 1_048_588
#: Settings by which a broker refuses or soon deletes what is older, in milliseconds.
_AGES = ("retention.ms", "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")


class Target(NamedTuple):
    """A topic of the cluster, and what it takes; `oldest` has settings with the time they allow.

    `limit` is the setting that bounds a batch to `max_bytes`: no batch is larger than a segment.
    """

    topic: str
    brokers: str
    max_bytes: int
    limit: str
    keeps_times: bool
    oldest: tuple[tuple[str, int], ...]
    topic_id: str | None

    def refuse(self, path: str, offset: int, size_bytes: int, timestamp_ms: int) -> None:
        """Refuse a record that the topic would not take, or not keep."""
        if size_bytes + _BATCH_BYTES > self.max_bytes:
            raise RefusedError(
                path,
                f"the record at offset {offset} has {size_bytes:,} bytes, but {self.topic} "
                f"accepts batches of at most {self.max_bytes:,}; "
                + self._command(f"{self.limit}={size_bytes + _BATCH_BYTES}"),
            )
        if not self.keeps_times:
            return
        if timestamp_ms == 0:
            raise RefusedError(
                path,
                f"the record at offset {offset} has the timestamp 0, which librdkafka replaces "
                "with the current time; skip it with --from-offset, or use --out",
            )
        for name, oldest in self.oldest:
            if 0 < timestamp_ms < oldest:
                value = -1 if name == "retention.ms" else (1 << 63) - 1
                raise RefusedError(
                    path,
                    f"the record at offset {offset} is older than {name} of {self.topic} allows, "
                    "and would be lost again; " + self._command(f"{name}={value}"),
                )

    def _command(self, setting: str) -> str:
        change = settings_command(self.brokers, self.topic, "--add-config", setting)
        return f"run {change}, then the same command again"


def settings_command(brokers: str, topic: str, *change: str) -> str:
    """Return the command that changes settings of a topic of the cluster."""
    tool = ("kafka-configs.sh", "--bootstrap-server", brokers, "--alter")
    named = ("--entity-type", "topics", "--entity-name", topic_word(topic))
    return format_command((*tool, *named, *change))


class MissingTopic(NamedTuple):
    """A topic that the cluster lacks, or that has too few partitions there: so many, or None."""

    topic: str
    partitions: int | None
    needed: int
    path: str


def targets_of(
    cluster: Cluster, brokers: str, items: Iterable[tuple[str, Item]]
) -> tuple[dict[str, Target], list[MissingTopic]]:
    """Ask the cluster for each topic, by the name it is to have there."""
    needed: dict[str, tuple[int, str]] = {}
    for topic, item in items:
        number = (item.partition or 0) + 1
        if number > needed.get(topic, (0, ""))[0]:
            needed[topic] = number, item.path
    found, missing = {}, []
    for topic, (count, path) in needed.items():
        if why := explain_refused_topic(topic):
            raise RefusedError(path, f"{why}; --topic-map gives it another name")
        facts = cluster.topic(topic)
        if facts is None or facts.partitions < count:
            there = None if facts is None else facts.partitions
            missing.append(MissingTopic(topic, there, count, path))
        else:
            found[topic] = _target(topic, brokers, facts)
    return found, missing


def _target(topic: str, brokers: str, facts: TopicFacts) -> Target:
    settings, now_ms = facts.settings, int(time.time() * 1000)
    oldest = []
    for name in _AGES:
        age = int(settings.get(name, -1))
        deletes = "delete" in settings.get("cleanup.policy", "delete")
        if 0 <= age < now_ms and (deletes or name != "retention.ms"):
            oldest.append((name, now_ms - age))
    limits = {name: int(settings[name]) for name in _LIMITS if name in settings}
    limits.setdefault(_LIMITS[0], _DEFAULT_MAX_BYTES)
    limit = min(limits, key=lambda name: limits[name])
    return Target(
        topic,
        brokers,
        limits[limit],
        limit,
        settings.get("message.timestamp.type") != "LogAppendTime",
        tuple(oldest),
        facts.topic_id,
    )

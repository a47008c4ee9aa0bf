"""The broker settings that answers depend on, with Kafka's own defaults."""

from __future__ import annotations

from typing import NamedTuple

from kdump.record.layout import MAX_INT64
from kdump.storage.checkpoints import java_int
from kdump.storage.properties import java_properties
from kdump.storage.source import whole

_HOUR_MS = 3_600_000
_UNLIMITED = MAX_INT64


class Settings(NamedTuple):
    """Broker settings; sizes in bytes. `stated` names those that a file gave.

    What is not stated is Kafka's default, and a topic may have overridden either: neither is on
    disk beside the log.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 168 * _HOUR_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10_485_760
    message_max_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    timestamp_before_max_ms: int = _UNLIMITED
    timestamp_after_max_ms: int = _UNLIMITED
    stated: frozenset[str] = frozenset()
    internal_segment_bytes: tuple[tuple[str, int], ...] = ()  # topic, what a file gave for it
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    transaction_max_timeout_ms: int = 900_000
    recovery_threads: int | None = None  # a data directory's; None: as the version has it
    offsets_retention_ms: int | None = None  # None: as the version has it

    def for_topic(self, topic: str | None) -> Settings:
        """Return what holds for one topic, as far as a broker's own settings tell."""
        for name, segment_bytes in self.internal_segment_bytes:
            if name == topic:
                stated = self.stated | {"segment_bytes"}
                return self._replace(segment_bytes=segment_bytes, stated=stated)
        if topic not in _INTERNAL_TOPICS.values():
            return self
        # The size of these has defaults of its own, which releases differ in.
        return self._replace(stated=self.stated - {"segment_bytes"})


_INTERNAL_TOPICS = {
    "offsets.topic.segment.bytes": "__consumer_offsets",
    "transaction.state.log.segment.bytes": "__transaction_state",
    "share.coordinator.state.topic.segment.bytes": "__share_group_state",
    "metadata.log.segment.bytes": "__cluster_metadata",
}

#: Setting of a broker -> field, factor to the field's unit. Later ones win, as in the broker.
_NAMES: tuple[tuple[str, str, int], ...] = (
    ("log.segment.bytes", "segment_bytes", 1),
    ("log.roll.hours", "segment_ms", _HOUR_MS),
    ("log.roll.ms", "segment_ms", 1),
    ("log.roll.jitter.hours", "segment_jitter_ms", _HOUR_MS),
    ("log.roll.jitter.ms", "segment_jitter_ms", 1),
    ("log.index.interval.bytes", "index_interval_bytes", 1),
    ("log.index.size.max.bytes", "index_size_max_bytes", 1),
    ("message.max.bytes", "message_max_bytes", 1),
    ("log.message.timestamp.difference.max.ms", "timestamp_before_max_ms", 1),
    ("log.message.timestamp.difference.max.ms", "timestamp_after_max_ms", 1),
    ("log.message.timestamp.before.max.ms", "timestamp_before_max_ms", 1),
    ("log.message.timestamp.after.max.ms", "timestamp_after_max_ms", 1),
    ("producer.id.expiration.ms", "producer_id_expiration_ms", 1),
    ("transaction.max.timeout.ms", "transaction_max_timeout_ms", 1),
    ("num.recovery.threads.per.data.dir", "recovery_threads", 1),
    ("offsets.retention.minutes", "offsets_retention_ms", 60_000),
)


def read_settings(server_properties: str | None) -> Settings:
    """Read the settings of a broker's own file; defaults without one."""
    if server_properties is None:
        return Settings()
    text = whole(server_properties, 1 << 20).decode("latin-1")
    given = dict(java_properties(text))
    values: dict[str, int] = {}
    for name, field, factor in _NAMES:
        number = java_int(given.get(name, "").strip())
        if number is not None:
            values[field] = number * factor
    stated = set(values)
    policy = given.get("log.cleanup.policy")
    if policy is not None:
        stated.add("cleanup_policy")
    internal = {
        topic: number
        for name, topic in _INTERNAL_TOPICS.items()
        for spelled in (name, f"internal.{name}")  # later ones win
        if (number := java_int(given.get(spelled, "").strip())) is not None
    }
    return Settings(
        internal_segment_bytes=tuple(internal.items()),
        cleanup_policy=policy or "delete",
        stated=frozenset(stated),
        **values,
    )

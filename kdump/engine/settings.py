"""What of a broker's configuration the engine's answers depend on, with Kafka's own defaults."""

from __future__ import annotations

from typing import NamedTuple

from kdump.storage.checkpoints import java_int
from kdump.storage.properties import java_properties
from kdump.storage.source import whole

_HOUR_MS = 3_600_000
_UNLIMITED = (1 << 63) - 1


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
    return Settings(
        cleanup_policy=policy or "delete",
        stated=frozenset(stated),
        **values,
    )

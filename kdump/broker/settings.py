"""The settings that answers depend on: of a broker, of a topic, and Kafka's own defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from kdump.record.layout import MAX_INT64
from kdump.storage.checkpoints import java_int
from kdump.storage.properties import java_properties
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

_HOUR_MS = 3_600_000
_UNLIMITED = MAX_INT64


# Where a setting came from, in the order in which they count (O9).
OPTION, TOPIC = "option", "topic"
BROKER, CLUSTER = "broker", "broker-default"  # set while brokers ran: for one, or for all
FILE, DEFAULT = "server-properties", "default"
#: Only of `cleanup_policy`, of a topic that no metadata log here knows: a cleaner has been there.
CLEANED = "cleaner-checkpoint"


class Settings(NamedTuple):
    """Settings as they hold for a broker or a topic; sizes in bytes.

    `sources` says of each field that was given where it came from; others are Kafka's defaults.
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
    sources: tuple[tuple[str, str], ...] = ()  # field, where it came from
    internal_segment_bytes: tuple[tuple[str, int], ...] = ()  # topic, what a file gave for it
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    transaction_max_timeout_ms: int = 900_000
    recovery_threads: int | None = None  # a data directory's; None: as the version has it
    offsets_retention_ms: int | None = None  # None: as the version has it
    retention_ms: int = 168 * _HOUR_MS  # -1: no limit, as of the next three
    retention_bytes: int = -1
    local_retention_ms: int = -2  # of tiered topics; -2: as retention_ms has it
    local_retention_bytes: int = -2
    cleaner_enabled: bool = True
    tiered: bool = False  # remote.storage.enable
    remote_copy_disabled: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _UNLIMITED
    delete_retention_ms: int = 24 * _HOUR_MS
    dedupe_buffer: int = 128 << 20  # bytes, of all cleaner threads together
    dedupe_load_factor: float = 0.9
    cleaner_threads: int = 1
    retention_check_ms: int = 300_000
    compression_type: str = "producer"
    timestamp_type: str = "CreateTime"
    message_format: str = ""  # message.format.version; nothing: as the version has it
    protocol: str = ""  # inter.broker.protocol.version
    topic_is_known: bool = False  # a whole metadata log has the topic: what it lacks is not set
    file_is_known: bool = False  # a broker's own file was given: what it lacks is not set

    @property
    def stated_fields(self) -> frozenset[str]:
        """The fields that are more than Kafka's defaults."""
        return frozenset(field for field, _ in self.sources)

    def source(self, field: str) -> str:
        """Say where the value of a field came from."""
        return dict(self.sources).get(field, DEFAULT) if self.sources else DEFAULT

    def override(self, source: str, values: Mapping[str, Any]) -> Settings:
        """Return them with the values of some fields, which count more than what was there."""
        sources = dict(self.sources) | dict.fromkeys(values, source)
        return self._replace(sources=tuple(sorted(sources.items())), **values)

    def for_topic(self, topic: str | None) -> Settings:
        """Return what holds for one topic, as far as a broker's own settings tell."""
        if self.source("segment_bytes") in (OPTION, TOPIC):
            return self
        for name, segment_bytes in self.internal_segment_bytes:
            if name == topic:
                return self.override(FILE, {"segment_bytes": segment_bytes})
        if topic not in _INTERNAL_TOPICS.values():
            return self
        # The size of these has defaults of its own, which releases differ in.
        left = tuple(one for one in self.sources if one[0] != "segment_bytes")
        return self._replace(sources=left)

    def of_brokers(self, source: str, configs: Mapping[str, str]) -> Settings:
        """Return them with what brokers were given while they ran."""
        return self.override(source, _valid(configs, _NAMES))

    def of_topic(self, configs: Mapping[str, str], source: str = TOPIC) -> Settings:
        """Return them with a topic's own."""
        return self.override(source, _valid(configs, _TOPIC_NAMES))


class TopicConfig(NamedTuple):
    """A setting of topics that the user gives; `topic` is a name or a pattern, None for all."""

    name: str
    value: str
    topic: str | None = None

    def is_of(self, topic: str | None) -> bool:
        """Whether it is one of a topic."""
        return self.topic is None or (topic is not None and fnmatchcase(topic, self.topic))


def read_topic_config(text: str) -> TopicConfig:
    """Read `[TOPIC:]KEY=VALUE`; raises ValueError with the end of a sentence."""
    key, sign, value = text.partition("=")
    topic, colon, name = key.rpartition(":")
    config = TopicConfig(name.strip(), value.strip(), topic.strip() if colon else None)
    if not sign or config.topic == "":
        raise ValueError(
            "is not a setting: use KEY=VALUE or TOPIC:KEY=VALUE, for example retention.ms=86400000"
        )
    if config.name not in TOPIC_CONFIGS:
        known = ", ".join(sorted(TOPIC_CONFIGS))
        raise ValueError(f"is not one of the topic settings that kdump uses: {known}")
    words = _WORDS.get(config.name)
    if words is not None and not set(config.value.split(",")) <= set(words):
        raise ValueError(f"has a value that {config.name} does not accept: use {', '.join(words)}")
    if not Settings().of_topic({config.name: config.value}).stated_fields:
        raise ValueError(f"has a value that {config.name} does not accept")
    return config


class SettingsOnDemand:
    """Settings that are looked for when the first of them is needed; most lookups need none.

    `found` are those that were needed; None as long as none was.
    """

    def __init__(self, find: Callable[[], Settings]) -> None:
        self._find = find
        self.found: Settings | None = None

    def __getattr__(self, field: str) -> Any:
        if self.found is None:
            self.found = self._find()
        return getattr(self.found, field)


#: What an index hangs on: settings of a topic -> their fields.
INDEX_SETTINGS = {
    "index.interval.bytes": "index_interval_bytes",
    "segment.index.bytes": "index_size_max_bytes",
}


def index_settings(settings: Settings) -> list[dict[str, Any]]:
    """Say by which settings an index is built, and where each came from."""
    return [
        {"name": name, "value": getattr(settings, field), "source": settings.source(field)}
        for name, field in INDEX_SETTINGS.items()
    ]


_INTERNAL_TOPICS = {
    "offsets.topic.segment.bytes": "__consumer_offsets",
    "transaction.state.log.segment.bytes": "__transaction_state",
    "share.coordinator.state.topic.segment.bytes": "__share_group_state",
    "metadata.log.segment.bytes": "__cluster_metadata",
}

#: Setting of a broker, field. Later ones win, as in the broker.
_NAMES: tuple[tuple[str, str], ...] = (
    ("log.segment.bytes", "segment_bytes"),
    ("log.roll.hours", "segment_ms"),
    ("log.roll.ms", "segment_ms"),
    ("log.roll.jitter.hours", "segment_jitter_ms"),
    ("log.roll.jitter.ms", "segment_jitter_ms"),
    ("log.index.interval.bytes", "index_interval_bytes"),
    ("log.index.size.max.bytes", "index_size_max_bytes"),
    ("message.max.bytes", "message_max_bytes"),
    ("log.message.timestamp.difference.max.ms", "timestamp_before_max_ms"),
    ("log.message.timestamp.difference.max.ms", "timestamp_after_max_ms"),
    ("log.message.timestamp.before.max.ms", "timestamp_before_max_ms"),
    ("log.message.timestamp.after.max.ms", "timestamp_after_max_ms"),
    ("producer.id.expiration.ms", "producer_id_expiration_ms"),
    ("transaction.max.timeout.ms", "transaction_max_timeout_ms"),
    ("num.recovery.threads.per.data.dir", "recovery_threads"),
    ("offsets.retention.minutes", "offsets_retention_ms"),
    ("log.retention.hours", "retention_ms"),
    ("log.retention.minutes", "retention_ms"),
    ("log.retention.ms", "retention_ms"),
    ("log.retention.bytes", "retention_bytes"),
    ("log.local.retention.ms", "local_retention_ms"),
    ("log.local.retention.bytes", "local_retention_bytes"),
    ("log.cleaner.min.compaction.lag.ms", "min_compaction_lag_ms"),
    ("log.cleaner.max.compaction.lag.ms", "max_compaction_lag_ms"),
    ("log.cleaner.delete.retention.ms", "delete_retention_ms"),
    ("log.cleaner.dedupe.buffer.size", "dedupe_buffer"),
    ("log.cleaner.threads", "cleaner_threads"),
    ("log.retention.check.interval.ms", "retention_check_ms"),
    ("log.cleanup.policy", "cleanup_policy"),
    ("compression.type", "compression_type"),
    ("log.message.timestamp.type", "timestamp_type"),
    ("log.message.format.version", "message_format"),
    ("inter.broker.protocol.version", "protocol"),
    ("log.cleaner.enable", "cleaner_enabled"),
    ("log.cleaner.min.cleanable.ratio", "min_cleanable_dirty_ratio"),
    ("log.cleaner.io.buffer.load.factor", "dedupe_load_factor"),
)
#: Fields that may be below 0, and how far; others may not.
_LEAST = {
    "retention_ms": -1,
    "retention_bytes": -1,
    "local_retention_ms": -2,
    "local_retention_bytes": -2,
}
#: Sizes of whole logs, which are no ints.
_LONG_SIZES = ("retention_bytes", "local_retention_bytes")

#: Setting of a topic, field. Later ones win, as in the broker.
_TOPIC_NAMES: tuple[tuple[str, str], ...] = (
    ("segment.bytes", "segment_bytes"),
    ("internal.segment.bytes", "segment_bytes"),  # of a cluster's tests, from 4.1 on
    ("segment.ms", "segment_ms"),
    ("segment.jitter.ms", "segment_jitter_ms"),
    ("index.interval.bytes", "index_interval_bytes"),
    ("segment.index.bytes", "index_size_max_bytes"),
    ("max.message.bytes", "message_max_bytes"),
    ("message.timestamp.difference.max.ms", "timestamp_before_max_ms"),
    ("message.timestamp.difference.max.ms", "timestamp_after_max_ms"),
    ("message.timestamp.before.max.ms", "timestamp_before_max_ms"),
    ("message.timestamp.after.max.ms", "timestamp_after_max_ms"),
    ("retention.ms", "retention_ms"),
    ("retention.bytes", "retention_bytes"),
    ("local.retention.ms", "local_retention_ms"),
    ("local.retention.bytes", "local_retention_bytes"),
    ("min.compaction.lag.ms", "min_compaction_lag_ms"),
    ("max.compaction.lag.ms", "max_compaction_lag_ms"),
    ("delete.retention.ms", "delete_retention_ms"),
    ("cleanup.policy", "cleanup_policy"),
    ("compression.type", "compression_type"),
    ("message.timestamp.type", "timestamp_type"),
    ("message.format.version", "message_format"),
    ("remote.storage.enable", "tiered"),
    ("remote.log.copy.disable", "remote_copy_disabled"),
    ("min.cleanable.dirty.ratio", "min_cleanable_dirty_ratio"),
)
#: Settings that are words, with those that a controller accepts.
_WORDS = {
    "cleanup.policy": ("compact", "delete", ""),
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
#: Settings of a topic that kdump goes by.
TOPIC_CONFIGS = frozenset(name for name, _ in _TOPIC_NAMES)
#: Settings of a broker that kdump goes by.
BROKER_CONFIGS = frozenset(name for name, _ in _NAMES)
#: The last word of a setting's name, where that is not the unit of its field.
_UNITS = {"hours": _HOUR_MS, "minutes": 60_000}
_MAX_INT = (1 << 31) - 1

Value = int | float | str


def _values(given: Mapping[str, str], known: tuple[tuple[str, str], ...]) -> dict[str, Value]:
    """Read the settings that can be read, by field."""
    values = {}
    for name, field in known:
        factor = _UNITS.get(name.rpartition(".")[2], 1)
        value = _value(field, given[name], factor) if name in given else None
        if value is not None:
            values[field] = value
    return values


def _value(field: str, text: str, factor: int) -> Value | None:
    """Read a setting as its field has it: a text, a flag, a part of one, or a number.

    Numbers below 0 have no unit.
    """
    default = Settings._field_defaults[field]
    if isinstance(default, str):
        return text
    text = text.strip()
    if isinstance(default, bool):
        return text.lower() == "true" if text else None
    if isinstance(default, float):
        with suppress(ValueError):
            ratio = float(text)
            return ratio if 0 <= ratio <= 1 else None
        return None
    number = java_int(text)
    return number * factor if number is not None and number > 0 else number


def _valid(given: Mapping[str, str], known: tuple[tuple[str, str], ...]) -> dict[str, Value]:
    """Read the settings that a controller would have taken: sizes are ints, few are below 0."""
    return {
        field: value
        for field, value in _values(given, known).items()
        if isinstance(value, str) or _LEAST.get(field, 0) <= value <= _most(field)
    }


def _most(field: str) -> int:
    return _MAX_INT if field.endswith("_bytes") and field not in _LONG_SIZES else MAX_INT64


def read_settings(server_properties: str | None) -> Settings:
    """Read the settings of a broker's own file; defaults without one."""
    if server_properties is None:
        return Settings()
    text = read_whole(server_properties, 1 << 20).decode("latin-1")
    given = dict(java_properties(text))
    values = _values(given, _NAMES)
    if values.get("cleanup_policy") == "":
        values["cleanup_policy"] = "delete"
    internal = {
        topic: number
        for name, topic in _INTERNAL_TOPICS.items()
        for spelled in (name, f"internal.{name}")  # later ones win
        if (number := java_int(given.get(spelled, "").strip())) is not None
    }
    settings = Settings(internal_segment_bytes=tuple(internal.items()), file_is_known=True)
    return settings.override(FILE, values)

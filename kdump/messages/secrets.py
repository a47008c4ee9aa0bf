"""Mask what must not be shown: credentials, and settings that hold some.

The rules are those by which brokers keep secrets out of their own logs. Salts and keys of SCRAM
users are masked, and of a broker's settings the values of all that are not known to be harmless:
one that is of type password there, or that no broker knows, as those of plugins. Tokens are named
by ids, which the record holds, and proved by a hash that it does not; so their records have nothing
to mask. What is left unread of a record of these types is masked whole (M3).
"""

from __future__ import annotations

from functools import lru_cache

from kdump.messages.records import CLUSTER_METADATA, FRAME_VERSION, DecodedValue, decoders
from kdump.messages.table import UNKNOWN_TAGS

MASK = "(redacted)"

#: Types of records that hold secrets, and the fields that always are some.
_SECRET: dict[int, tuple[str, ...]] = {
    4: (),  # settings, of which some are secrets
    10: (),  # delegation tokens
    11: ("salt", "storedKey", "serverKey"),  # SCRAM users
}
#: The values of records of these types are looked at one by one.
SECRET_TYPES = frozenset(_SECRET)
_CONFIG, _BROKER = 4, 4  # record type; resource type, in Kafka's ConfigResource
_FRAME_BYTES = 3  # varints of the frame, the type and the version of such a record

#: Settings of brokers that may be changed while they run, but for those of type password; those of
#: 4.4 and what was one before. `tests/messages/test_secrets.py` says how they are recognized.
HARMLESS = frozenset(
    """
    advertised.listeners background.threads compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level config.providers cordoned.log.dirs
    errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
    follower.fetch.last.tiered.offset.enable follower.replication.throttled.rate
    group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable
    group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
    group.share.assignor.offload.enable group.streams.assignment.interval.ms
    group.streams.assignor.offload.enable leader.replication.throttled.rate
    listener.security.protocol.map listeners log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
    log.cleanup.policy log.flush.interval.messages log.flush.interval.ms
    log.index.interval.bytes log.index.size.max.bytes log.local.retention.bytes
    log.local.retention.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.difference.max.ms log.message.timestamp.type log.preallocate
    log.remote.copy.lag.bytes log.remote.copy.lag.ms log.retention.bytes log.retention.ms
    log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides max.decompressed.message.bytes message.max.bytes
    metric.reporters min.insync.replicas num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.fetchers principal.builder.class
    producer.id.expiration.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads replica.alter.log.dirs.io.max.bytes.per.second
    sasl.enabled.mechanisms sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.mechanism.inter.broker.protocol share.coordinator.cached.buffer.max.bytes
    ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.keystore.location ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location
    ssl.truststore.type transaction.partition.verification.enable unclean.leader.election.enable
""".split()
)
#: Of topics, groups and client metrics Kafka has no secret settings; others might.
_WORDS = tuple("certificate credential jaas .key passphrase password private secret token".split())


@lru_cache(1 << 12)
def is_sensitive(resource_type: int, name: str) -> bool:
    """Whether the value of a setting is to be masked."""
    if resource_type != _BROKER:
        return any(word in name.lower() for word in _WORDS)
    if name.startswith("listener.name."):
        name = name.removeprefix("listener.name.").partition(".")[2]
    return name not in HARMLESS


def blot_fields(value: bytes, *, is_sure: bool) -> bytes | None:
    """Return the bytes of a record of the metadata log, those of its fields as asterisks.

    None where there is no secret in it. `is_sure`: it is one of the metadata log; elsewhere only
    what can be read to its end is taken for one.
    """
    if len(value) < _FRAME_BYTES or value[0] != FRAME_VERSION or value[1] not in _SECRET:
        return None if value[:1] != b"\x00" or not is_sure else _blot(value)
    known = decoders(CLUSTER_METADATA)[1](None, value)
    if not is_sure and (known.data is None or known.rest):
        return None
    return _blot(value) if mask(known) != known else None


def _blot(value: bytes) -> bytes:
    return value[:_FRAME_BYTES] + b"*" * (len(value) - _FRAME_BYTES)


def mask(value: DecodedValue) -> DecodedValue:
    """Mask the secrets in a record of the metadata log; every other one is as it was."""
    if value.area != "metadata" or value.type_id not in _SECRET:
        return value
    rest = MASK if value.rest else b""
    if value.data is None:
        return value._replace(rest=rest)
    data = value.data | dict.fromkeys(_SECRET[value.type_id], MASK)
    if (
        value.type_id == _CONFIG
        and data["value"] is not None
        and is_sensitive(data["resourceType"], data["name"])
    ):
        data["value"] = MASK
    if UNKNOWN_TAGS in data:
        data[UNKNOWN_TAGS] = [one | {"bytes": MASK} for one in data[UNKNOWN_TAGS]]
    return value._replace(data=data, rest=rest)

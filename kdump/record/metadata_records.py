"""Decode the cluster metadata records that say which replicas are where (M1).

A value is three unsigned varints (frame version 1, record type, record version) and a structure
of the flexible encoding. Only what tells topics, partitions and the data directories of brokers
is taken apart; every other record is an `OtherRecord`.
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.record.flexible import FlexibleReader, Malformed

FRAME_VERSION = 1
_UNCHANGED = -2  # the leader, in a change that leaves it

REGISTER_BROKER, UNREGISTER_BROKER, TOPIC, PARTITION, PARTITION_CHANGE = 0, 1, 2, 3, 5
REMOVE_TOPIC, BROKER_CHANGE, BEGIN, END, ABORT = 9, 17, 23, 24, 25


class BrokerRecord(NamedTuple):
    """A broker registered, or its registration changed; `log_dirs` None: not said, as before."""

    broker_id: int
    log_dirs: tuple[str, ...] | None


class UnregisterBrokerRecord(NamedTuple):
    """A broker left for good."""

    broker_id: int


class TopicRecord(NamedTuple):
    """A topic was created."""

    name: str
    topic_id: str


class RemoveTopicRecord(NamedTuple):
    """A topic was deleted, and its partitions with it."""

    topic_id: str


class PartitionRecord(NamedTuple):
    """A partition was created. `directories` are parallel to `replicas`, or empty before 3.7."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    leader: int


class PartitionChangeRecord(NamedTuple):
    """A partition was changed; None: as before."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...] | None
    directories: tuple[str, ...] | None
    leader: int | None


class TransactionRecord(NamedTuple):
    """BEGIN, END or ABORT of records that take effect together."""

    type_id: int


class OtherRecord(NamedTuple):
    """A record that says nothing of replicas."""

    type_id: int
    version: int


MetadataRecord = (
    BrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | TransactionRecord
    | OtherRecord
)


def parse(value: bytes | None) -> MetadataRecord | None:
    """Read one record; None where the bytes are not what they say they are.

    Bytes behind a record are an error for brokers. For us a version that is not known here, with
    fields more, is one too: nothing is made up.
    """
    reader = FlexibleReader(value or b"")
    try:
        if reader.varint() != FRAME_VERSION:
            return None
        type_id, version = reader.varint(), reader.varint()
        record = _record(reader, type_id, version)
    except Malformed:
        return None
    passed_over = isinstance(record, TransactionRecord | OtherRecord)
    return record if passed_over or reader.at_end else None


def _record(reader: FlexibleReader, type_id: int, version: int) -> MetadataRecord:
    if type_id == TOPIC:
        return _ended(reader, TopicRecord(reader.string(), reader.uuid()))
    if type_id == REMOVE_TOPIC:
        return _ended(reader, RemoveTopicRecord(reader.uuid()))
    if type_id == PARTITION:
        return _partition(reader, version)
    if type_id == PARTITION_CHANGE:
        return _partition_change(reader)
    if type_id == REGISTER_BROKER:
        return _register_broker(reader, version)
    if type_id == BROKER_CHANGE:
        return _broker_change(reader)
    if type_id == UNREGISTER_BROKER:
        broker_id = reader.int32()
        reader.take(8)  # brokerEpoch
        return _ended(reader, UnregisterBrokerRecord(broker_id))
    if type_id in (BEGIN, END, ABORT):
        return TransactionRecord(type_id)
    return OtherRecord(type_id, version)


def _ended(reader: FlexibleReader, record: MetadataRecord) -> MetadataRecord:
    reader.tags()
    return record


def _ids(reader: FlexibleReader) -> tuple[int, ...]:
    return reader.array(reader.int32) or ()


def _partition(reader: FlexibleReader, version: int) -> PartitionRecord:
    partition, topic_id = reader.int32(), reader.uuid()
    replicas = _ids(reader)
    for _ in range(3):  # isr, removingReplicas, addingReplicas
        _ids(reader)
    leader = reader.int32()
    reader.int32()  # leaderEpoch
    reader.int32()  # partitionEpoch
    directories = reader.array(reader.uuid) or () if version >= 1 else ()
    reader.tags()
    return PartitionRecord(topic_id, partition, replicas, directories, leader)


def _partition_change(reader: FlexibleReader) -> PartitionChangeRecord:
    partition, topic_id = reader.int32(), reader.uuid()
    replicas: tuple[int, ...] | None = None
    directories: tuple[str, ...] | None = None
    leader: int | None = None
    for tag, field in reader.tagged():
        if tag == 1:
            leader = field.int32()
        elif tag == 2:
            replicas = field.array(field.int32)
        elif tag == 8:
            directories = field.array(field.uuid)
    if leader == _UNCHANGED:
        leader = None
    return PartitionChangeRecord(topic_id, partition, replicas, directories, leader)


def _register_broker(reader: FlexibleReader, version: int) -> BrokerRecord:
    broker_id = reader.int32()
    if version >= 2:
        reader.take(1)  # isMigratingZkBroker
    reader.take(16)  # incarnationId
    reader.take(8)  # brokerEpoch
    for _ in range(reader.count()):  # endPoints
        reader.string()
        reader.string()
        reader.take(4)
        reader.tags()
    for _ in range(reader.count()):  # features
        reader.string()
        reader.take(4)
        reader.tags()
    reader.take(max(reader.varint() - 1, 0))  # rack
    reader.take(1)  # fenced
    if version >= 1:
        reader.take(1)  # inControlledShutdown
    log_dirs: tuple[str, ...] = ()
    for tag, field in reader.tagged():
        if tag == 0 and version >= 3:
            log_dirs = field.array(field.uuid) or ()
    return BrokerRecord(broker_id, log_dirs)


def _broker_change(reader: FlexibleReader) -> BrokerRecord:
    broker_id = reader.int32()
    reader.take(8)  # brokerEpoch
    log_dirs: tuple[str, ...] | None = None
    for tag, field in reader.tagged():
        if tag == 2:
            log_dirs = field.array(field.uuid)
    return BrokerRecord(broker_id, log_dirs)

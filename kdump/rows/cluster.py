"""The rows of `cluster`: what the metadata log says."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Int16, Int32, Json, Numbers, Texts, Time, Word

_SetMs = Annotated[Time | None, "when it was set"]
_SetOffset = Annotated[int | None, "offset of the record that set it"]
_Objects = Annotated[list[dict[str, Json]] | None, "its listeners"]


class Broker(Row, kind="broker"):
    """A registered broker, running or not."""

    broker_id: Annotated[Int32, "its id"]
    epoch: Annotated[int | None, "broker epoch of the registration"]
    incarnation_id: Annotated[str | None, "id of its process"]
    endpoints: _Objects
    rack: Annotated[str | None, "its rack"]
    fenced: Annotated[bool | None, "whether it is fenced"]
    in_controlled_shutdown: Annotated[bool | None, "whether it is being shut down"]
    directories: Annotated[Texts | None, "ids of its data directories"]
    cordoned_directories: Annotated[
        Texts | None, "ids of the directories that get no new partitions"
    ]
    features: Annotated[
        dict[str, list[int]] | None, "features it supports, with lowest and highest level"
    ]
    registered_ms: Annotated[Time | None, "when it was registered"]


class Controller(Row, kind="controller"):
    """A controller: registered, or a voter of the quorum, or both."""

    controller_id: Annotated[Int32, "its id"]
    endpoints: _Objects
    features: Annotated[dict[str, list[int]], "features it supports, with lowest and highest level"]
    voter: Annotated[bool | None, "whether it is a voter; null: not known"]
    directory_id: Annotated[str | None, "id of its metadata directory"]
    incarnation_id: Annotated[str | None, "id of its process"]
    leader: Annotated[bool, "whether it is the active controller"]
    leader_epoch: Annotated[Int32 | None, "its controller epoch"]


class Topic(Row, kind="topic"):
    """A topic, existing or deleted."""

    topic: Annotated[str, "its name"]
    topic_id: Annotated[str | None, "its id"]
    partitions_count: Annotated[Int32, "number of partitions"]
    created_ms: Annotated[Time | None, "when it was created"]
    created_offset: Annotated[int | None, "offset of the record"]
    deleted_ms: Annotated[Time | None, "when it was deleted"]
    deleted_offset: Annotated[int | None, "offset of the record"]


class Partition(Row, kind="partition"):
    """A partition: its leader and its replicas."""

    topic: Annotated[str | None, "the topic"]
    topic_id: Annotated[str | None, "its id"]
    partition: Annotated[Int32, "the partition number"]
    leader: Annotated[Int32 | None, "the leader, -1: none"]
    leader_epoch: Annotated[Int32 | None, "leader epoch"]
    partition_epoch: Annotated[Int32 | None, "partition epoch"]
    replicas: Annotated[Numbers | None, "its replicas"]
    isr: Annotated[Numbers | None, "the in-sync replicas"]
    elr: Annotated[Numbers | None, "the eligible leader replicas"]
    last_known_elr: Annotated[Numbers | None, "the last known eligible leader replicas"]
    adding_replicas: Annotated[Numbers | None, "replicas being added"]
    removing_replicas: Annotated[Numbers | None, "replicas being removed"]
    directories: Annotated[Texts | None, "ids of the data directories, by replica"]
    recovery_state: Annotated[Word | None, "recovered, or recovering from an unclean election"]
    changed_ms: Annotated[Time | None, "when it last changed"]
    changed_offset: Annotated[int | None, "offset of the record"]


class Config(Row, kind="config"):
    """A setting of a topic, a broker, a group, or a client."""

    resource_type: Annotated[Word, "topic, broker, group, and others"]
    resource: Annotated[str, "its name; empty: the default for all"]
    key: Annotated[str, "the setting"]
    value: Annotated[str, "its value; masked where it is secret"]
    sensitive: Annotated[bool, "whether it is secret"]
    set_ms: _SetMs
    set_offset: _SetOffset


class Feature(Row, kind="feature"):
    """A feature of the cluster."""

    name: Annotated[str, "its name"]
    feature_level: Annotated[Int16, "its level"]
    set_ms: _SetMs
    set_offset: _SetOffset


class Quota(Row, kind="quota"):
    """A client quota."""

    entity: Annotated[dict[str, str | None], "user, client-id, or ip that it applies to"]
    key: Annotated[str, "the quantity limited, for example producer_byte_rate"]
    value: Annotated[Json, "the limit"]
    set_ms: _SetMs
    set_offset: _SetOffset


_SECRETS = ("salt", "stored_key", "server_key")


class ScramUser(Row, kind="scram-user", omits=_SECRETS):
    """A SCRAM credential of a user."""

    name: Annotated[str, "the user"]
    mechanism: Annotated[Word, "SCRAM-SHA-256 or SCRAM-SHA-512"]
    iterations: Annotated[Int32, "iterations"]
    set_ms: _SetMs
    set_offset: _SetOffset
    salt: Annotated[str | None, "base64, with --show-secrets"] = None
    stored_key: Annotated[str | None, "base64, with --show-secrets"] = None
    server_key: Annotated[str | None, "base64, with --show-secrets"] = None


class Acl(Row, kind="acl"):
    """An access control entry."""

    acl_id: Annotated[str | None, "its id"]
    resource_type: Annotated[Word, "TOPIC, GROUP, and others"]
    resource: Annotated[str | None, "the resource"]
    pattern_type: Annotated[Word, "LITERAL or PREFIXED"]
    principal: Annotated[str, "the principal it applies to"]
    host: Annotated[str, "the host it applies to"]
    operation: Annotated[Word, "the operation"]
    permission: Annotated[Word, "ALLOW or DENY"]
    set_ms: _SetMs
    set_offset: _SetOffset


class DelegationToken(Row, kind="delegation-token"):
    """A delegation token."""

    token_id: Annotated[str, "its id"]
    owner: Annotated[str, "its owner"]
    requester: Annotated[str, "the principal that requested it"]
    renewers: Annotated[Texts, "the principals that can renew it"]
    issued_ms: Annotated[Time, "when it was issued"]
    expires_ms: Annotated[Time, "when it expires"]
    max_ms: Annotated[Time, "when it can no longer be renewed"]
    set_ms: _SetMs
    set_offset: _SetOffset


class ProducerIds(Row, kind="producer-ids"):
    """The next block of producer ids."""

    next_producer_id: Annotated[int, "the next id to be assigned"]
    broker_id: Annotated[Int32 | None, "the broker that received the last block of ids"]
    broker_epoch: Annotated[int | None, "its epoch"]
    set_ms: _SetMs
    set_offset: _SetOffset


class ZkMigration(Row, kind="zk-migration"):
    """The state of the migration from ZooKeeper."""

    state: Annotated[Word, "its state"]
    set_ms: _SetMs
    set_offset: _SetOffset


class Change(Row, kind="change"):
    """A change of the metadata, with --history."""

    at_ms: Annotated[Time, "when"]
    metadata_offset: Annotated[int | None, "offset of the record; null: from a snapshot"]
    epoch: Annotated[Int32, "epoch of the active controller"]
    what: Annotated[Word, "topic-created, partition-changed, and others"]
    subject: Annotated[str, "what changed"]
    before: Annotated[Json, "the changed fields before the change"]
    after: Annotated[Json, "the same fields after the change"]
    text: Annotated[str, "description of the change"]


class Znode(Row, kind="znode"):
    """The metadata as a node of ZooKeeper, with --view zookeeper."""

    path: Annotated[str, "its path"]
    depth: Annotated[Int32, "its depth in the tree"]
    value: Annotated[Json, "its data"]


class ClusterSummary(Row, kind="cluster-summary", sums_up=True):
    """The source of the metadata, and its totals."""

    path: Annotated[str, "the metadata log, or the directory"]
    cluster_id: Annotated[str | None, "the cluster's id"]
    source: Annotated[Word, "log, snapshot, or directory"]
    as_of_offset: Annotated[int | None, "the offset up to which records were applied"]
    as_of_ms: Annotated[Time | None, "the time of the last record applied"]
    leader_id: Annotated[Int32 | None, "the active controller"]
    leader_epoch: Annotated[Int32 | None, "its epoch"]
    log_start_offset: Annotated[int | None, "log start offset"]
    snapshot_offset: Annotated[int | None, "end offset of the snapshot that was read"]
    complete: Annotated[bool, "whether the log is complete up to that offset"]
    in_transaction: Annotated[bool, "whether a metadata transaction is open"]
    brokers_count: Annotated[int, "brokers"]
    topics_count: Annotated[int, "topics"]
    partitions_count: Annotated[int, "partitions"]
    deleted_topics_count: Annotated[int, "topics that were deleted"]
    unknown_records: Annotated[int, "records that could not be read"]
    text: Annotated[str | None, "description of what is missing"]
    other_copies: Annotated[Texts, "other copies of the log"]
    paths_unfinished: Annotated[int, "paths that could not be read completely"]

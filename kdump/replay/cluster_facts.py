"""What a cluster's metadata is made of: one class for each kind of thing that records are about.

The members are those of the rows of `cluster`, in their order. When something was said is known
where the log still has the record; a snapshot tells only that it was said before: then the time and
the offset are None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, get_args

from kdump.tuples import NamedTuple

Fields = dict[str, Any]

#: Members that say when a thing was said, not what it is.
TIMES = frozenset(
    "created_ms created_offset deleted_ms deleted_offset changed_ms changed_offset placed_ms"
    " set_ms set_offset registered_ms".split()
)

RESOURCES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
RECOVERY_STATES = {0: "recovered", 1: "recovering"}
PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ACL_RESOURCES = "ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER".split()
_ACL_PATTERNS = "ANY MATCH LITERAL PREFIXED".split()
_ACL_OPERATIONS = (
    "ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS"
    " IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT".split()
)
_ACL_PERMISSIONS = "ANY DENY ALLOW".split()


def word(words: dict[int, str], number: int) -> str:
    """Return Kafka's word for a number, or the number where it has none that is known here."""
    return words.get(number, str(number))


def _nth(words: list[str], number: int) -> str:
    return words[number - 1] if 0 < number <= len(words) else str(number)


def endpoints_of(said: list[Fields]) -> tuple[Fields, ...]:
    """Return the listeners of a registration; those of voters do not say their protocol."""
    return tuple(
        {"name": one["name"], "host": one["host"], "port": one["port"]}
        | (
            {"security_protocol": word(PROTOCOLS, one["securityProtocol"])}
            if "securityProtocol" in one
            else {}
        )
        for one in said
    )


def levels_of(said: list[Fields]) -> Fields:
    """Return the features that a node supports: the lowest and the highest level of each."""
    return {one["name"]: [one["minSupportedVersion"], one["maxSupportedVersion"]] for one in said}


class Moment(NamedTuple):
    """Where the log says something.

    In a snapshot `offset` is None: it was said before, at an offset that is smaller than `below`.
    """

    offset: int | None
    time_ms: int
    epoch: int
    below: int = 0

    @property
    def known_ms(self) -> int | None:
        """The time, where it is that of the record itself."""
        return None if self.offset is None else self.time_ms


class Broker(NamedTuple):
    """A broker that is registered, whether it runs or not."""

    broker_id: int
    epoch: int
    incarnation_id: str
    endpoints: tuple[Fields, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[str, ...]
    cordoned_directories: tuple[str, ...]
    features: Fields
    registered_ms: int | None


class Controller(NamedTuple):
    """A controller: registered (from 3.7 on), or a voter of the quorum, or both.

    Where the voters are settings of the nodes, snapshots do not name them: then `voter` is None.
    """

    controller_id: int
    endpoints: tuple[Fields, ...]
    features: Fields
    voter: bool | None
    directory_id: str | None
    incarnation_id: str | None


class Leader(NamedTuple):
    """Who is the active controller."""

    leader_id: int
    epoch: int
    changed_ms: int | None
    changed_offset: int | None


class Topic(NamedTuple):
    """A topic, or one that was deleted."""

    topic: str
    topic_id: str
    partitions_count: int
    created_ms: int | None
    created_offset: int | None
    deleted_ms: int | None = None
    deleted_offset: int | None = None


class Partition(NamedTuple):
    """A partition: who leads it and who holds it.

    `directories` are parallel to `replicas`, or empty. `placed_ms` is when either of the two last
    changed, or a time before which it did.
    """

    topic: str | None
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    directories: tuple[str, ...]
    recovery_state: str
    changed_ms: int | None
    changed_offset: int | None
    placed_ms: int


class Config(NamedTuple):
    """A setting. An empty resource is the default of all brokers, groups or clients."""

    resource_type: str
    resource: str
    key: str
    value: str
    set_ms: int | None
    set_offset: int | None


class Feature(NamedTuple):
    """A feature and the level that the cluster has agreed on."""

    name: str
    feature_level: int
    set_ms: int | None
    set_offset: int | None


class Quota(NamedTuple):
    """A limit; a name of None stands for all that have no limit of their own."""

    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float
    set_ms: int | None
    set_offset: int | None


class ScramUser(NamedTuple):
    """A user who may log in by SCRAM. The last three are secrets."""

    name: str
    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    set_ms: int | None
    set_offset: int | None


class Acl(NamedTuple):
    """A rule of who may do what."""

    acl_id: str | None
    resource_type: str
    resource: str | None
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str
    set_ms: int | None
    set_offset: int | None

    @classmethod
    def of(cls, said: Fields, at: Moment) -> Acl:
        """Take it from a record."""
        return cls(
            said.get("id"),
            _nth(_ACL_RESOURCES, said["resourceType"]),
            said["resourceName"],
            _nth(_ACL_PATTERNS, said["patternType"]),
            said["principal"],
            said["host"],
            _nth(_ACL_OPERATIONS, said["operation"]),
            _nth(_ACL_PERMISSIONS, said["permissionType"]),
            at.known_ms,
            at.offset,
        )


class DelegationToken(NamedTuple):
    """A token, by its id: what proves it is not in the record."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    set_ms: int | None
    set_offset: int | None


class ProducerIds(NamedTuple):
    """The producer id that the next block begins with, and the broker that has the last one."""

    next_producer_id: int
    broker_id: int | None
    broker_epoch: int | None
    set_ms: int | None
    set_offset: int | None


class ZkMigration(NamedTuple):
    """How far a migration from ZooKeeper has come."""

    state: str
    set_ms: int | None
    set_offset: int | None


Fact = (
    Broker
    | Controller
    | Leader
    | Topic
    | Partition
    | Config
    | Feature
    | Quota
    | ScramUser
    | Acl
    | DelegationToken
    | ProducerIds
    | ZkMigration
)
#: What rows call each kind, as in scram-user.
_KINDS = {one: re.sub(r"\B(?=[A-Z])", "-", one.__name__).lower() for one in get_args(Fact)}

#: What a sentence calls one.
_SUBJECTS: dict[type, Callable[[Any], str]] = {
    Broker: lambda one: f"broker {one.broker_id}",
    Controller: lambda one: f"controller {one.controller_id}",
    Leader: lambda one: "the active controller",
    Topic: lambda one: one.topic,
    Partition: lambda one: f"{one.topic or one.topic_id}-{one.partition}",
    Config: lambda one: f"{one.resource_type} {one.resource or 'default'} {one.key}",
    Feature: lambda one: one.name,
    Quota: lambda one: f"{entity_text(one.entity)} {one.key}",
    ScramUser: lambda one: f"user {one.name} {one.mechanism}",
    Acl: lambda one: f"{one.principal} {one.operation} {one.resource_type} {one.resource}",
    DelegationToken: lambda one: f"token {one.token_id}",
    ProducerIds: lambda one: "producer ids",
    ZkMigration: lambda one: "the migration from ZooKeeper",
}


def kind_of(fact: Fact) -> str:
    """Return the word for the kind of a fact."""
    return _KINDS[type(fact)]


def subject_of(fact: Fact) -> str:
    """Return what a sentence calls a fact."""
    return _SUBJECTS[type(fact)](fact)


def entity_text(entity: Iterable[tuple[str, str | None]]) -> str:
    """Name whom a quota limits."""
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity)


#: Members that tell one fact of a kind from another.
_IDENTITY: dict[type, tuple[str, ...]] = {
    Broker: ("broker_id",),
    Controller: ("controller_id",),
    Topic: ("topic_id",),
    Partition: ("topic_id", "partition"),
    Config: ("resource_type", "resource", "key"),
    Feature: ("name",),
    Quota: ("entity", "key"),
    ScramUser: ("name", "mechanism"),
    Acl: ("acl_id", "resource_type", "resource", "principal", "host", "operation", "permission"),
    DelegationToken: ("token_id",),
}


def identity(fact: Fact) -> tuple[Any, ...]:
    """Return what tells a fact from all others, whatever it says."""
    members = fact._asdict()
    return (kind_of(fact), *(members[name] for name in _IDENTITY.get(type(fact), ())))


def content(fact: Fact) -> Fields:
    """Return what a fact says, without when it was said."""
    return {name: value for name, value in fact._asdict().items() if name not in TIMES}


class Change(NamedTuple):
    """What one record made of one thing; None: it was not there before, or is not after."""

    at: Moment
    before: Fact | None
    after: Fact | None

    @property
    def fact(self) -> Fact:
        """The thing as it is, or as it was."""
        fact = self.after if self.after is not None else self.before
        assert fact is not None
        return fact

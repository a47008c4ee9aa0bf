"""The facts of a metadata log under the paths that ZooKeeper had for them.

A path without a value has none in ZooKeeper either, or is a queue of requests, which KRaft has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.engine.cluster.options import ClusterOptions, has_replica_on
from kdump.engine.cluster.rows import visible_members
from kdump.findings.rows import Row
from kdump.replay.cluster_facts import Broker, Fact, Fields, Partition
from kdump.replay.cluster_state import ClusterState
from kdump.rows.cluster import Znode

_DEFAULT = "<default>"
_CONFIGS = {
    "topic": "topics",
    "broker": "brokers",
    "group": "groups",
    "client-metrics": "client-metrics",
}
_ENTITIES = {"user": "users", "client-id": "clients", "ip": "ips"}


def zookeeper_rows(
    state: ClusterState, options: ClusterOptions, cluster_id: str | None
) -> Iterator[Row]:
    """Yield a row for each path, each behind the path above it."""
    nodes: dict[tuple[str, ...], object] = {}
    for path, value in _nodes(state, options, cluster_id):
        for depth in range(1, len(path)):
            nodes.setdefault(path[:depth], None)
        nodes[path] = value
    for path in sorted(nodes, key=_order):
        name = "/" + "/".join(path)
        yield Znode(name, len(path), nodes[path])


def _order(path: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Put numbers in the order of numbers."""
    return tuple((int(one) if one.isdecimal() and len(one) < 12 else -1, one) for one in path)


Nodes = Iterator[tuple[tuple[str, ...], object]]


def _nodes(state: ClusterState, options: ClusterOptions, cluster_id: str | None) -> Nodes:
    def is_asked(fact: Fact) -> bool:
        return options.admits(fact) and has_replica_on(fact, options.broker)

    if not options.selection.is_narrowed and options.broker is None:
        yield from _of_cluster(state, cluster_id)
    for broker in state.brokers.values():
        if is_asked(broker) and not broker.fenced:  # the path is there while the broker lives
            yield ("brokers", "ids", str(broker.broker_id)), _broker(broker)
    epoch = state.leader[""].epoch if state.leader else None
    for topic_id, topic in state.topics.items():
        asked = [one for one in state.partitions.get(topic_id, {}).values() if is_asked(one)]
        if not (asked or is_asked(topic)):
            continue
        path = ("brokers", "topics", topic.topic)
        yield path, _topic(topic_id, asked)
        for one in asked:
            yield (
                (*path, "partitions", str(one.partition), "state"),
                {
                    "controller_epoch": epoch,
                    "leader": one.leader,
                    "version": 1,
                    "leader_epoch": one.leader_epoch,
                    "isr": list(one.isr),
                },
            )
    yield from _configs(state, options)
    yield from _rules(state, options)


def _of_cluster(state: ClusterState, cluster_id: str | None) -> Nodes:
    leader = state.leader.get("")
    if leader is not None:
        at = leader.changed_ms
        said = {"version": 2, "brokerid": leader.leader_id, "timestamp": at and str(at)}
        yield ("controller",), said
        yield ("controller_epoch",), leader.epoch
    yield ("cluster", "id"), {"version": "1", "id": cluster_id}
    yield ("admin", "delete_topics"), None
    moving = [
        one
        for partitions in state.partitions.values()
        for one in partitions.values()
        if one.adding_replicas or one.removing_replicas
    ]
    requests = {"version": 1, "partitions": [_reassignment(one) for one in moving]}
    yield ("admin", "reassign_partitions"), requests if moving else None
    yield ("isr_change_notification",), None
    yield ("log_dir_event_notification",), None
    if state.features:
        levels = {name: one.feature_level for name, one in sorted(state.features.items())}
        yield ("feature",), {"version": 2, "status": 1, "features": levels}
    for ids in state.producer_ids.values():
        block = {"version": 1, "broker": ids.broker_id, "block_end": str(ids.next_producer_id - 1)}
        yield ("latest_producer_id_block",), block


def _reassignment(one: Partition) -> Fields:
    going = set(one.removing_replicas)
    kept = [replica for replica in one.replicas if replica not in going]
    return {"topic": one.topic, "partition": one.partition, "replicas": kept}


def _broker(broker: Broker) -> Fields:
    listeners = broker.endpoints
    plain = [one for one in listeners if one.get("security_protocol") == "PLAINTEXT"]
    first: Fields = plain[0] if plain else {"host": None, "port": -1}
    return {
        "version": 5,
        "host": first["host"],
        "port": first["port"],
        "endpoints": [f"{one['name']}://{one['host']}:{one['port']}" for one in listeners],
        "listener_security_protocol_map": {
            one["name"]: one.get("security_protocol") for one in listeners
        },
        "rack": broker.rack,
    }


def _topic(topic_id: str, partitions: list[Partition]) -> Fields:
    def by_number(member: str) -> dict[str, list[int]]:
        lists = ((str(one.partition), list(getattr(one, member))) for one in partitions)
        return {number: held for number, held in lists if held}

    return {
        "version": 3,
        "topic_id": topic_id,
        "partitions": by_number("replicas"),
        "adding_replicas": by_number("adding_replicas"),
        "removing_replicas": by_number("removing_replicas"),
    }


def _configs(state: ClusterState, options: ClusterOptions) -> Nodes:
    secrets = options.show_secrets
    for (kind, name), configs in state.configs.items():
        asked = [one for one in configs.values() if options.admits(one)]
        if asked:
            path = ("config", _CONFIGS.get(kind, kind), name or _DEFAULT)
            values = {
                one.key: visible_members(one, one._asdict(), secrets=secrets)["value"]
                for one in asked
            }
            yield path, {"version": 1, "config": values}
    entities: dict[tuple[str, ...], dict[str, Any]] = {}
    for quota in state.quotas.values():
        if options.admits(quota):
            at = ("config", *_entity_path(quota.entity))
            value = visible_members(quota, quota._asdict(), secrets=secrets)["value"]
            entities.setdefault(at, {})[quota.key] = value
    for user in state.users.values():
        if options.admits(user):
            members = visible_members(user, user._asdict(), secrets=secrets)
            hidden = ("name", "mechanism", "set_ms", "set_offset")
            told = {name: value for name, value in members.items() if name not in hidden}
            entities.setdefault(("config", "users", user.name), {})[user.mechanism] = told
    for at, said in entities.items():
        yield at, {"version": 1, "config": said}


def _entity_path(entity: tuple[tuple[str, str | None], ...]) -> list[str]:
    """Users stand above their clients."""
    order = list(_ENTITIES)
    parts = sorted(entity, key=lambda one: order.index(one[0]) if one[0] in order else len(order))
    return [
        part
        for kind, name in parts
        for part in (_ENTITIES.get(kind, kind), _DEFAULT if name is None else name)
    ]


def _rules(state: ClusterState, options: ClusterOptions) -> Nodes:
    acls: dict[tuple[str, ...], list[Fields]] = {}
    for acl in state.acls.values():
        if not options.admits(acl):
            continue
        is_literal = acl.pattern_type == "LITERAL"
        root = ("kafka-acl",) if is_literal else ("kafka-acl-extended", acl.pattern_type.lower())
        rule = {"principal": acl.principal, "permissionType": acl.permission}
        rule |= {"operation": acl.operation, "host": acl.host}
        kind = acl.resource_type.title().replace("_", "")
        acls.setdefault((*root, kind, acl.resource or ""), []).append(rule)
    for at, rules in acls.items():
        yield at, {"version": 1, "acls": rules}
    for token in state.tokens.values():
        if options.admits(token):
            said = visible_members(token, token._asdict(), secrets=False)
            told = {name: value for name, value in said.items() if not name.startswith("set_")}
            yield ("delegation_token", "tokens", token.token_id), {"version": 1} | told

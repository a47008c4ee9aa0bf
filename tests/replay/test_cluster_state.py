"""What single records make of the state of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from each import each
from message_writing import message_bytes

from kdump.messages.records import decode, decode_control
from kdump.messages.table import message
from kdump.replay.cluster_facts import Change, Fields, Moment, content, kind_of, subject_of
from kdump.replay.cluster_state import ClusterState, changes_between, facts

TOPIC = "__cluster_metadata"
A, B, X, Y, Z = ((one * 21) + "A" for one in "ABXYZ")
Said = tuple[str, Fields]


def value(name: str, fields: Fields, version: int | None = None) -> bytes:
    """Make the bytes of a record, in its newest version if no other is named."""
    table = message(f"{name}Record")
    assert table.id is not None
    if version is None:
        version = table.versions.last
    return bytes([1, table.id, version]) + message_bytes(table, version, fields)


def state_of(*records: Said | bytes, on_change: Callable[[Change], None] | None = None) -> Any:
    """Add records at offset 0, 1 and so on, each ten milliseconds behind the one before."""
    state = ClusterState(on_change)
    for number, record in enumerate(records):
        data = record if isinstance(record, bytes) else value(*record)
        state.add(decode(TOPIC, None, data)[1], Moment(number, 100 + 10 * number, 7))
    return state


def topic(name: str, topic_id: str) -> Said:
    return "Topic", {"name": name, "topicId": topic_id}


def removed(topic_id: str) -> Said:
    return "RemoveTopic", {"topicId": topic_id}


def placed(number: int = 0, topic_id: str = A, **fields: Any) -> Said:
    lists = {"replicas": [1, 2], "isr": [1, 2], "directories": [X, Y]}
    lists |= {"leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
    return "Partition", {"partitionId": number, "topicId": topic_id} | lists | fields


def changed(topic_id: str = A, number: int = 0, **fields: Any) -> Said:
    return "PartitionChange", {"partitionId": number, "topicId": topic_id} | fields


def setting(name: str, key: str, text: str | None, kind: int = 2) -> Said:
    return "Config", {"resourceType": kind, "resourceName": name, "name": key, "value": text}


BEGIN, END, ABORT = (f"{word}Transaction" for word in ("Begin", "End", "Abort"))
BEGIN_, END_, ABORT_ = (BEGIN, {}), (END, {}), (ABORT, {})


@each(
    ("records", "topics", "ids", "gone"),
    [
        ([topic("a", A)], {A: "a"}, {"a": A}, {}),
        ([topic("a", A), removed(A)], {}, {}, {A: 110}),
        ([removed(A)], {}, {}, {A: 100}),
        ([topic("a", A), topic("b", B), removed(A)], {B: "b"}, {"b": B}, {A: 120}),
        # made anew before the old one is gone
        ([topic("a", A), topic("a", B), removed(A)], {B: "a"}, {"a": B}, {A: 120}),
        ([BEGIN_, topic("a", A), ABORT_], {}, {}, {}),
        ([BEGIN_, topic("a", A)], {}, {}, {}),
        ([BEGIN_, topic("a", A), END_], {A: "a"}, {"a": A}, {}),
        ([BEGIN_, topic("a", A), END_, END_], {A: "a"}, {"a": A}, {}),
        ([BEGIN_, END_, topic("a", A)], {A: "a"}, {"a": A}, {}),
        ([BEGIN_, removed(A), ("NoOp", {}), END_], {}, {}, {A: 110}),
    ],
)
def test_current_and_deleted_topics_are_known(
    records: list[Said], topics: dict[str, str], ids: dict[str, str], gone: dict[str, int]
) -> None:
    state = state_of(*records)
    assert {key: one.topic for key, one in state.topics.items()} == topics
    assert state.ids == ids
    assert {key: one.deleted_ms for key, one in state.removed.items()} == gone
    assert (state.complete, state.last_ms) == (True, 90 + 10 * len(records))


def test_deleted_topic_has_the_time_and_record() -> None:
    settings = setting("a", "retention.ms", "5"), setting("b", "retention.ms", "6")
    changes: list[Change] = []
    state = state_of(topic("a", A), placed(), *settings, removed(A), on_change=changes.append)
    gone = state.removed[A]
    assert gone._asdict() == {
        "topic": "a",
        "topic_id": A,
        "partitions_count": 1,
        "created_ms": 100,
        "created_offset": 0,
        "deleted_ms": 140,
        "deleted_offset": 4,
    }
    assert (state.settings("topic", "a"), state.settings("topic", "b")) == (
        {},
        {"retention.ms": "6"},
    )
    assert (state.partitions, state.topics) == ({}, {})
    ended = [change for change in changes if change.at.offset == 4]
    assert [kind_of(change.fact) for change in ended] == ["topic", "partition", "config"]
    assert all(change.after is None for change in ended)


@each(
    ("record", "expected"),
    [
        (changed(leader=2), ((1, 2), (X, Y), 100, 2, 1)),
        (changed(replicas=[3]), ((3,), (X, Y), 120, 1, 0)),
        (changed(directories=[Z, Y], leader=1), ((1, 2), (Z, Y), 120, 1, 1)),
        (changed(replicas=[3], directories=[Z], leader=3), ((3,), (Z,), 120, 3, 1)),
        (placed(replicas=[4], directories=[Z], leader=4), ((4,), (Z,), 120, 4, 0)),
        (placed(1, replicas=[4]), ((1, 2), (X, Y), 100, 1, 0)),
        (topic("a", A), ((1, 2), (X, Y), 100, 1, 0)),
        (removed(A), None),
        (removed(B), ((1, 2), (X, Y), 100, 1, 0)),
    ],
)
def test_replicas_have_their_location_and_its_offset(
    record: Said, expected: tuple[Any, ...] | None
) -> None:
    state = state_of(placed(), ("NoOp", {}), record)
    one = state.partitions.get(A, {}).get(0)
    found = one and (one.replicas, one.directories, one.placed_ms, one.leader, one.leader_epoch)
    assert found == expected
    assert state.complete


def test_partition_fields_change_alone() -> None:
    lists = {"isr": [2], "addingReplicas": [3], "removingReplicas": [1]}
    lists |= {"eligibleLeaderReplicas": [1], "lastKnownElr": [5]}
    recovering = changed(**lists, leader=2, leaderRecoveryState=1)
    state = state_of(topic("a", A), placed(), recovering)
    one = state.partitions[A][0]
    assert content(one) == {
        "topic": "a",
        "topic_id": A,
        "partition": 0,
        "leader": 2,
        "leader_epoch": 1,
        "partition_epoch": 1,
        "replicas": (1, 2),
        "isr": (2,),
        "elr": (1,),
        "last_known_elr": (5,),
        "adding_replicas": (3,),
        "removing_replicas": (1,),
        "directories": (X, Y),
        "recovery_state": "recovering",
    }
    assert (one.changed_ms, one.changed_offset, one.placed_ms) == (120, 2, 110)
    for name in ("a", ""):
        cleared = state_of(topic("a", A), placed(), recovering, ("ClearElr", {"topicName": name}))
        assert (cleared.partitions[A][0].elr, cleared.partitions[A][0].last_known_elr) == ((), ())
    other = state_of(topic("a", A), placed(), recovering, ("ClearElr", {"topicName": "b"}))
    assert other.partitions[A][0].elr == (1,)


WRONG = value(*topic("a", A))


@each(
    "record",
    [
        b"",
        b"\x00" + WRONG[1:],  # a frame that no release but a preview wrote
        WRONG[:-3],
        WRONG + b"\0",  # bytes behind a record are an error
        WRONG[:2] + b"\x63" + WRONG[3:],  # a version that nobody knows
        changed(A, 1, replicas=[3]),  # of a partition that is not known
        changed(B, leader=2),
    ],
)
def test_missing_records_are_detected(record: Said | bytes) -> None:
    state = state_of(placed(), record)
    assert not state.complete
    assert list(state.partitions) == [A]
    assert state.partitions[A][0].replicas == (1, 2)


def test_records_of_unknown_types_are_counted() -> None:
    state = state_of(b"\x01\x7e\x00\x00", b"\x01\x10\x00rest")
    assert (state.complete, state.unknown) == (True, 2)


def registered(broker: int, **fields: Any) -> Said:
    return "RegisterBroker", {"brokerId": broker, "brokerEpoch": 5, "incarnationId": A} | fields


def broker_change(broker: int, **fields: Any) -> Said:
    return "BrokerRegistrationChange", {"brokerId": broker, "brokerEpoch": 5} | fields


def test_last_registered_directories_are_kept() -> None:
    first, second = registered(1, logDirs=[X]), registered(2, logDirs=[Y, Z])
    gone = ("UnregisterBroker", {"brokerId": 1, "brokerEpoch": 5})

    def directories(*records: Said) -> dict[int, tuple[str, ...]]:
        return {key: one.directories for key, one in state_of(*records).brokers.items()}

    assert directories(first, second, broker_change(1)) == {1: (X,), 2: (Y, Z)}
    assert directories(first, second, broker_change(1, logDirs=[Z])) == {1: (Z,), 2: (Y, Z)}
    assert directories(first, second, gone) == {2: (Y, Z)}
    assert directories(gone) == {}


@each(
    ("records", "fenced", "shutting_down", "cordoned"),
    [
        ([], True, False, ()),
        ([broker_change(1, fenced=-1)], False, False, ()),
        ([broker_change(1, fenced=-1), broker_change(1, fenced=1)], True, False, ()),
        ([broker_change(1, inControlledShutdown=1)], True, True, ()),
        ([broker_change(1, cordonedLogDirs=[X])], True, False, (X,)),
        ([broker_change(1, cordonedLogDirs=[X]), broker_change(1)], True, False, (X,)),
        (
            [broker_change(1, cordonedLogDirs=[X]), broker_change(1, cordonedLogDirs=[])],
            True,
            False,
            (),
        ),
        ([("UnfenceBroker", {"id": 1, "epoch": 5})], False, False, ()),
        (
            [("UnfenceBroker", {"id": 1, "epoch": 5}), ("FenceBroker", {"id": 1, "epoch": 5})],
            True,
            False,
            (),
        ),
        ([broker_change(2, fenced=-1)], True, False, ()),
    ],
)
def test_broker_states_are_followed(
    records: list[Said], fenced: bool, shutting_down: bool, cordoned: tuple[str, ...]
) -> None:
    listener = {"name": "P", "host": "h", "port": 9092, "securityProtocol": 3}
    feature = {"name": "f", "minSupportedVersion": 1, "maxSupportedVersion": 4}
    said = registered(1, endPoints=[listener], features=[feature], rack="r", fenced=True)
    broker = state_of(said, *records).brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (fenced, shutting_down)
    assert broker.cordoned_directories == cordoned
    assert (broker.rack, broker.epoch, broker.incarnation_id) == ("r", 5, A)
    assert broker.endpoints == (
        {"name": "P", "host": "h", "port": 9092, "security_protocol": "SASL_SSL"},
    )
    assert (broker.features, broker.registered_ms) == ({"f": [1, 4]}, 100)


def control(name: str, kind: int, fields: Fields) -> tuple[bytes, bytes]:
    data = message_bytes(message(name), 0, fields)
    return bytes([0, 0, 0, kind]), data


def test_controllers_voters_and_leader_are_known() -> None:
    state = state_of(("RegisterController", {"controllerId": 3, "incarnationId": A}))
    voters = [{"voterId": number, "voterDirectoryId": X} for number in (3, 4)]
    for number, pair in enumerate(
        (
            control("KRaftVersionRecord", 5, {"kRaftVersion": 1}),
            control("VotersRecord", 6, {"voters": voters}),
            control("LeaderChangeMessage", 2, {"leaderId": 4, "voters": [{"voterId": 9}]}),
        )
    ):
        state.add(decode_control(*pair)[1], Moment(number, 200, 6))
    assert {key: (one.voter, one.directory_id) for key, one in state.controllers.items()} == {
        3: (True, X),
        4: (True, X),
    }
    assert state.leader[""]._asdict() == {
        "leader_id": 4,
        "epoch": 6,
        "changed_ms": 200,
        "changed_offset": 2,
    }
    assert state.features["kraft.version"].feature_level == 1
    fewer = control("VotersRecord", 6, {"voters": voters[1:]})
    state.add(decode_control(*fewer)[1], Moment(3, 200, 6))
    assert {key: one.voter for key, one in state.controllers.items()} == {3: False, 4: True}
    state.add(
        decode(TOPIC, None, value("UnregisterController", {"controllerId": 3}))[1],
        Moment(4, 200, 6),
    )
    assert list(state.controllers) == [4]


def test_leader_names_the_voters_of_a_static_quorum() -> None:
    state = ClusterState()
    said = control("LeaderChangeMessage", 2, {"leaderId": 4, "voters": [{"voterId": 9}]})
    state.add(decode_control(*said)[1], Moment(0, 200, 6))
    assert {key: one.voter for key, one in state.controllers.items()} == {9: True}


def quota(name: str | None, number: float, *, remove: bool = False) -> Said:
    entity = [{"entityType": "user", "entityName": name}]
    return "ClientQuota", {"entity": entity, "key": "k", "value": number, "remove": remove}


def user(name: str, iterations: int) -> Said:
    return "UserScramCredential", {"name": name, "mechanism": 1, "iterations": iterations}


ACL = {"id": A, "resourceType": 2, "resourceName": "t", "patternType": 3, "principal": "User:a"}
ACL |= {"host": "*", "operation": 3, "permissionType": 3}
TOKEN = {"tokenId": "t", "owner": "User:a", "requester": "User:b", "renewers": ["User:c"]}


@each(
    ("records", "left"),
    [
        ([setting("t", "a", "1"), setting("t", "a", "2")], ["topic t a"]),
        ([setting("t", "a", "1"), setting("t", "a", None)], []),
        ([setting("", "a", "1", 4), setting("1", "b", "", 4)], ["broker default a", "broker 1 b"]),
        ([quota("a", 1.0), quota(None, 2.0)], ["user a k", "user (default) k"]),
        ([quota("a", 1.0), quota("a", 0.0, remove=True)], []),
        ([user("a", 4096), user("a", 8192)], ["user a SCRAM-SHA-256"]),
        ([user("a", 4096), ("RemoveUserScramCredential", {"name": "a", "mechanism": 1})], []),
        (
            [user("a", 4096), ("RemoveUserScramCredential", {"name": "a", "mechanism": 2})],
            ["user a SCRAM-SHA-256"],
        ),
        ([("AccessControlEntry", ACL)], ["User:a READ TOPIC t"]),
        ([("AccessControlEntry", ACL), ("RemoveAccessControlEntry", {"id": A})], []),
        ([("AccessControl", ACL), ("AccessControl", ACL)], ["User:a READ TOPIC t"]),
        ([("DelegationToken", TOKEN)], ["token t"]),
        ([("DelegationToken", TOKEN), ("RemoveDelegationToken", {"tokenId": "t"})], []),
        ([("FeatureLevel", {"name": "f", "featureLevel": 3})], ["f"]),
        (
            [("FeatureLevel", {"name": "f", "featureLevel": level}) for level in (3, 0)],
            [],
        ),
        ([("ProducerIds", {"brokerId": 1, "nextProducerId": 1000})], ["producer ids"]),
        ([("ZkMigrationState", {"zkMigrationState": 2})], ["the migration from ZooKeeper"]),
    ],
)
def test_values_set_and_removed(records: list[Said], left: list[str]) -> None:
    changes: list[Change] = []
    state = state_of(*records, on_change=changes.append)
    assert [subject_of(fact) for _, fact in facts(state)] == left
    assert state.complete
    gone = [change for change in changes if change.after is None]
    assert len(gone) == len({subject_of(change.fact) for change in changes}) - len(left)
    for change in changes:  # a newer state is told apart by content alone
        assert change.before is None or change.after is None or change.before != change.after


def test_changes_between_two_states_are_listed() -> None:
    one = state_of(topic("a", A), placed(), setting("a", "x", "1"), setting("a", "y", "1"))
    two = state_of(
        ("NoOp", {}), topic("a", A), placed(leader=2), setting("a", "x", "2"), topic("b", B)
    )
    found = list(changes_between(one, two, Moment(4, 5, 6)))
    assert [(kind_of(change.fact), subject_of(change.fact)) for change in found] == [
        ("config", "topic a x"),
        ("config", "topic a y"),
        ("partition", "a-0"),
        ("topic", "b"),
    ]
    assert [(change.before is None, change.after is None) for change in found] == [
        (False, False),
        (False, True),
        (False, False),
        (True, False),
    ]
    assert not list(changes_between(two, two, Moment(4, 5, 6)))


def test_newest_time_is_kept() -> None:
    state = state_of(topic("a", A))
    state.add(decode(TOPIC, None, value(*topic("b", B)))[1], Moment(1, 7, 0))
    assert state.last_ms == 100

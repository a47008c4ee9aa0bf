"""Read what a replay of `__consumer_offsets` left: groups, members, committed offsets (G2, G3).

Types and states are named as Kafka's admin client names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from kdump.messages.consumer_protocol import PROTOCOL_TYPE, assignment, subscription
from kdump.messages.records import decode
from kdump.messages.table import Fields, message
from kdump.messages.wire import MalformedError, text_of
from kdump.replay.groups import (
    CLASSIC,
    CONSUMER,
    FAMILIES,
    SHARE,
    STREAMS,
    TOPIC,
    OffsetsLog,
    group_of,
)
from kdump.replay.record_bytes import Stored
from kdump.tuples import NamedTuple

#: What members have, by topic name or, in groups of the newer kinds, topic id; of streams groups by
#: subtopology.
Assigned = dict[str, list[int]]

EMPTY, STABLE = "Empty", "Stable"
_PROTOCOL_TYPES = {CONSUMER: "consumer", SHARE: "share", STREAMS: "streams"}
#: The state of a member who has what it should have, and nothing else.
_MEMBER_STABLE = {CONSUMER: 0, STREAMS: 1}
_KEY = message("OffsetCommitKey")
_TYPE_BYTES = 2


class Member(NamedTuple):
    """A member of a group. `epoch` is the generation of a classic group.

    `tasks` are those of a member of a streams group; its `assignment` are the active ones.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None
    subscription: list[str] | None
    subscription_regex: str | None
    assignment: Assigned
    tasks: dict[str, Assigned] | None
    epoch: int | None
    session_timeout_ms: int | None


class Group(NamedTuple):
    """A group.

    `state_ms` is since when a classic group is in its state, None where nothing says it; `topics`
    are those that its members want, None where that is their own affair.
    """

    name: str
    type: str
    state: str
    protocol_type: str
    protocol: str | None
    epoch: int | None
    assignment_epoch: int | None
    leader: str | None
    changed_ms: int
    members: tuple[Member, ...] = ()
    state_ms: int | None = None
    topics: frozenset[str] | None = None


class Commit(NamedTuple):
    """A committed offset, or one that waits for its transaction to end; `offset_at` is its own."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_ms: int
    expire_ms: int | None  # as the record says it; only some releases wrote that
    topic_id: str | None
    producer_id: int | None
    pending: bool
    source_offset: int


class EndedCommit(NamedTuple):
    """A committed offset that a tombstone removed; None where only the tombstone is left."""

    group: str
    topic: str
    partition: int
    offset: int | None
    topic_id: str | None
    ended_ms: int


class GroupsState(NamedTuple):
    """What could be read of one partition's groups, those asked for, and how many records not."""

    groups: tuple[Group, ...]
    commits: tuple[Commit, ...]
    topic_names: dict[str, str]  # by id, as these records tell them
    unreadable: int
    ended: tuple[EndedCommit, ...] = ()


class CommitKey(NamedTuple):
    """What the key of a commit names."""

    group: str
    topic: str
    partition: int


def commit_key(key: bytes) -> CommitKey | None:
    """Read the key of a commit; None where it is malformed."""
    try:
        return CommitKey(*_KEY.read(0, key[_TYPE_BYTES:]).values())
    except MalformedError:
        return None


def read_groups(log: OffsetsLog, wanted: Callable[[str], bool]) -> GroupsState:
    """Read the groups whose names are wanted, and their commits."""
    return _Reader(log, wanted).read()


class _Reader:
    def __init__(self, log: OffsetsLog, wanted: Callable[[str], bool]) -> None:
        self._log = log
        self._wanted = wanted
        names = {group: text_of(group) for group in log.groups()}
        self._names = {group: name for group, name in names.items() if wanted(name)}
        self._unreadable = log.unknown
        self._topic_names: dict[str, str] = {}
        self._newest: dict[str, int] = {}  # time of a group's newest commit

    def read(self) -> GroupsState:
        commits = [
            *self._commits(self._log.commits, None),
            *(
                commit
                for producer_id, pending in self._log.pending.items()
                for commit in self._commits(pending, producer_id)
            ),
        ]
        groups = [self._group(group, name) for group, name in self._names.items()]
        return GroupsState(
            tuple(sorted(groups, key=_name)),
            tuple(sorted(commits, key=_order)),
            self._topic_names,
            self._unreadable,
            tuple(self._read_ended()),
        )

    def _read_ended(self) -> Iterator[EndedCommit]:
        """Yield the removed commits of groups that are wanted, also of groups that are no more."""
        for key, ended in self._log.ended.items():
            names = commit_key(key)
            if names is None or not self._wanted(names.group):
                continue
            for stored, ended_ms in ended:
                read = None if stored is None else _value_of(stored[2])
                offset = None if read is None else read["offset"]
                topic_id = None if read is None else read.get("topicId")
                yield EndedCommit(*names, offset, topic_id, ended_ms)

    def _commits(self, stored: dict[bytes, Stored], producer_id: int | None) -> Iterator[Commit]:
        for key, (at, time_ms, value) in stored.items():
            group = group_of(key)
            if group is not None and group not in self._names:
                continue
            names = commit_key(key)
            read = _value_of(value)
            if names is None or read is None:
                self._unreadable += 1
                continue
            topic_id = read.get("topicId")
            if topic_id is not None:
                self._topic_names[topic_id] = names.topic
            expire_ms = read.get("expireTimestamp", -1)
            epoch = read.get("leaderEpoch", -1)
            self._newest[names.group] = max(time_ms, self._newest.get(names.group, time_ms))
            yield Commit(
                *names,
                read["offset"],
                None if epoch < 0 else epoch,
                read["metadata"],
                read["commitTimestamp"],
                None if expire_ms < 0 else expire_ms,
                topic_id,
                producer_id,
                producer_id is not None,
                at,
            )

    def _group(self, group: bytes, name: str) -> Group:
        held: dict[int, list[tuple[Fields, Fields, int]]] = {}
        for key, (_, time_ms, value) in self._log.records.get(group, {}).items():
            read_key, read_value = decode(TOPIC, key, value)
            if not read_key or not read_value or read_key.data is None or read_value.data is None:
                self._unreadable += 1
                continue
            held.setdefault(key[1], []).append((read_key.data, read_value.data, time_ms))
        if not held:
            # Who only commits is a group of the classic kind, without a protocol.
            changed_ms = self._newest.get(name, -1)
            return Group(name, CLASSIC, EMPTY, "", None, None, None, None, changed_ms)
        self._learn_topics(held)
        family = FAMILIES[next(iter(held))]
        if family == CLASSIC:
            return _classic(name, *held[2][0][1:])
        return _newer(name, family, held)

    def _learn_topics(self, held: dict[int, list[tuple[Fields, Fields, int]]]) -> None:
        """Take up the topics that records name with their ids."""
        lists = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
        for type_id in (4, 9, 15, 18):
            for _, value, _ in held.get(type_id, ()):
                for topic in (topic for name in lists for topic in value.get(name, ())):
                    if isinstance(topic, dict):
                        self._topic_names[topic["topicId"]] = topic["topicName"]


def _name(group: Group) -> str:
    return group.name


def _order(commit: Commit) -> tuple[str, str, int, bool, int]:
    return commit.group, commit.topic, commit.partition, commit.pending, commit.source_offset


def _by_id(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def _value_of(value: bytes) -> Fields | None:
    """Read a committed offset of any version; bytes behind it are passed over, as brokers do."""
    found = decode(TOPIC, _ANY_COMMIT_KEY, value)[1]
    return None if found is None else found.data


# The type, then empty names and partition 0: what a value holds does not depend on them.
_ANY_GROUP_KEY, _ANY_COMMIT_KEY = b"\0\2" + bytes(2), b"\0\1" + bytes(8)


def _classic(name: str, value: Fields, time_ms: int) -> Group:
    protocol_type = value["protocolType"]
    state_ms = value.get("currentStateTimestamp", -1)
    is_consumer = protocol_type == PROTOCOL_TYPE
    members = _by_id(
        _classic_member(member, value["generation"], is_consumer) for member in value["members"]
    )
    wanted = [member.subscription for member in members]
    topics = None if None in wanted else frozenset(topic for one in wanted for topic in one or ())
    return Group(
        name,
        CLASSIC,
        STABLE if members else EMPTY,
        protocol_type,
        value["protocol"],
        value["generation"],
        None,
        value["leader"],
        time_ms if state_ms < 0 else state_ms,
        members,
        None if state_ms < 0 else state_ms,
        topics if is_consumer else None,
    )


def _classic_member(fields: Fields, generation: int, is_consumer: bool) -> Member:
    said = subscription(fields["subscription"]) if is_consumer else None
    has = assignment(fields["assignment"]) if is_consumer else None
    assigned = has["data"]["assignedPartitions"] if has else []
    return Member(
        fields["memberId"],
        fields.get("groupInstanceId"),
        fields["clientId"],
        fields["clientHost"],
        said["data"].get("rackId") if said else None,
        said["data"]["topics"] if said else None,
        None,
        _by("topic", assigned),
        None,
        generation,
        fields["sessionTimeout"],
    )


def _by(name: str, lists: Iterable[Fields]) -> Assigned:
    """Gather partitions by the topic or subtopology that they are of."""
    found: Assigned = {}
    for one in lists:
        found.setdefault(one[name], []).extend(one["partitions"])
    return {key: sorted(partitions) for key, partitions in sorted(found.items())}


#: Kind of group -> types of its records: group, member, target assignment, current assignment.
_MEMBER_TYPES = frozenset((5, 10, 19))
_TYPES = {CONSUMER: (3, 5, 6, 8), SHARE: (11, 10, 12, 14), STREAMS: (17, 19, 20, 22)}


def _newer(name: str, family: str, held: dict[int, list[tuple[Fields, Fields, int]]]) -> Group:
    group_type, member_type, target_type, current_type = _TYPES[family]
    current = {key["memberId"]: value for key, value, _ in held.get(current_type, ())}
    sources = [
        topic
        for _, value, _ in held.get(23, ())
        for part in value["subtopologies"]
        for topic in part["sourceTopics"]
    ]
    members = []
    assignors: Counter[str] = Counter()
    for key, value, _ in held.get(member_type, ()):
        members.append(_newer_member(family, key["memberId"], value, current, sources))
        if assignor := value.get("serverAssignor"):
            assignors[assignor] += 1
    topics = {topic for member in members for topic in member.subscription or ()}
    regexes = {member.subscription_regex for member in members}
    for key, value, _ in held.get(16, ()):
        if key["regularExpression"] in regexes:
            topics.update(value["topics"])
    epoch = _only(held, group_type, "epoch")
    assigned = _only(held, target_type, "assignmentEpoch")
    most = assignors.most_common(1)
    return Group(
        name,
        family,
        _state(family, held, epoch, assigned, [current.get(one.member_id) for one in members]),
        _PROTOCOL_TYPES[family],
        most[0][0] if most else None,
        epoch,
        assigned,
        None,
        max(time_ms for records in held.values() for _, _, time_ms in records),
        _by_id(members),
        None,
        frozenset(topics),
    )


def _only(held: dict[int, list[tuple[Fields, Fields, int]]], type_id: int, name: str) -> int | None:
    """Return a number of the one record of a type, None where there is none."""
    return next((value[name] for _, value, _ in held.get(type_id, ())), None)


def _state(
    family: str,
    held: dict[int, Any],
    epoch: int | None,
    assigned: int | None,
    current: list[Fields | None],
) -> str:
    """Tell the state from epochs, as a coordinator does (G3)."""
    if not current:
        return EMPTY
    if family == SHARE:
        return STABLE
    if family == STREAMS and 23 not in held:
        return "NotReady"  # no member has told the topology
    if (epoch or 0) > (assigned or 0):
        return "Assigning"
    for one in current:
        if one is None or one["state"] != _MEMBER_STABLE[family] or one["memberEpoch"] != assigned:
            return "Reconciling"
    return STABLE


def _newer_member(
    family: str, member_id: str, value: Fields, current: dict[str, Fields], sources: list[str]
) -> Member:
    has = current.get(member_id, {})
    tasks = None
    if family == STREAMS:
        tasks = {
            kind: _by("subtopologyId", has.get(f"{kind}Tasks", ()))
            for kind in ("active", "standby", "warmup")
        }
    classic = value.get("classicMemberMetadata") or {}
    return Member(
        member_id,
        value.get("instanceId"),
        value["clientId"],
        value["clientHost"],
        value.get("rackId"),
        value.get("subscribedTopicNames", sources),
        value.get("subscribedTopicRegex") or None,
        _by("topicId", has.get("assignedPartitions", ())) if tasks is None else tasks["active"],
        tasks,
        has.get("memberEpoch"),
        classic.get("sessionTimeoutMs"),
    )


def members_count(log: OffsetsLog, group: bytes) -> int:
    """Count the members that a group has now; nothing else of it is looked at."""
    held = log.records.get(group, {})
    count = 0
    for key, (_, _, value) in held.items():
        if FAMILIES[key[1]] == CLASSIC:
            return _classic_members(value)
        count += key[1] in _MEMBER_TYPES
    return count


@lru_cache(maxsize=4096)
def _classic_members(value: bytes) -> int:
    read = decode(TOPIC, _ANY_GROUP_KEY, value)[1]
    return 0 if read is None or read.data is None else len(read.data["members"])

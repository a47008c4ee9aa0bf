"""The state that the records of a metadata log come to, as a controller keeps it (M1, M6).

Records between BEGIN and END of a transaction take effect together, and none that are aborted
(KIP-868). Each fact is replaced whole, so that who holds one may compare it with what comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

from kdump.findings.moments import time_text
from kdump.messages.records import UNKNOWN_TYPE, DecodedValue
from kdump.replay import cluster_facts as c
from kdump.replay.cluster_facts import Change, Fact, Fields, Moment, content, word
from kdump.tuples import NamedTuple

_LEADER_AS_BEFORE = -2
_BEGIN, _END, _ABORT = (f"{what}_transaction_record" for what in ("begin", "end", "abort"))
_ZK_STATES = {0: "none", 1: "pre-migration", 2: "migration", 3: "post-migration"}

Table = dict[Any, Any]


class LastOfTopic(NamedTuple):
    """Settings of a topic that was deleted, and how many replicas each of its partitions had."""

    settings: dict[str, str]
    replicas: dict[int, int]


class ClusterState:
    """What the records so far come to.

    Topics and partitions go by topic id, `ids` by name; `removed` are the topics that were deleted,
    by id, and `last_of_removed` what they were like then. `last_ms` is the time of the newest
    record, and `next_offset` where the log goes on.
    `complete`: no record is missing of which the state might depend; `unknown` counts records of
    types that are not known here. Each change is told to `on_change`; with `tells_first` also the
    record that says again what so far only a snapshot said, or fences a broker once more (M8).
    """

    def __init__(
        self, on_change: Callable[[Change], None] | None = None, *, tells_first: bool = False
    ) -> None:
        self.brokers: dict[int, c.Broker] = {}
        self.controllers: dict[int, c.Controller] = {}
        self.leader: dict[str, c.Leader] = {}
        self.topics: dict[str, c.Topic] = {}
        self.ids: dict[str, str] = {}
        self.partitions: dict[str, dict[int, c.Partition]] = {}
        self.configs: dict[tuple[str, str], dict[str, c.Config]] = {}
        self.features: dict[str, c.Feature] = {}
        self.quotas: dict[tuple[Hashable, str], c.Quota] = {}
        self.users: dict[tuple[str, str], c.ScramUser] = {}
        self.acls: dict[Hashable, c.Acl] = {}
        self.tokens: dict[str, c.DelegationToken] = {}
        self.producer_ids: dict[str, c.ProducerIds] = {}
        self.migration: dict[str, c.ZkMigration] = {}
        self.removed: dict[str, c.Topic] = {}
        self.last_of_removed: dict[str, LastOfTopic] = {}
        self.last_ms = -1
        self.next_offset = 0
        self.complete = True
        self.unknown = 0
        self._on_change = on_change
        self._tells_first = tells_first
        self._pending: list[tuple[DecodedValue, Moment]] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether records wait for the end of a transaction."""
        return bool(self._pending)

    @property
    def holds_back(self) -> bool:
        """Whether records take effect later, at the end of a transaction."""
        return self._pending is not None

    def settings(self, resource_type: str, resource: str) -> dict[str, str]:
        """Return the settings of a topic, a broker and so on; those of type "broker" and an empty
        name are the cluster-wide defaults.
        """
        found = self.configs.get((resource_type, resource), {})
        return {key: config.value for key, config in found.items()}

    def topic_id_text(self, topic_id: str) -> str:
        """Say in a sentence which topic an id is of, or was."""
        if (topic := self.topics.get(topic_id)) is not None:
            return f"{topic_id} is the id of topic {topic.topic}."
        if (topic := self.removed.get(topic_id)) is None:
            return f"No topic in the metadata log has the directory's id, {topic_id}."
        when = time_text(topic.deleted_ms) if topic.deleted_ms is not None else ""
        deleted = f"deleted at {when}" if when else "deleted since"
        return f"{topic_id} is the id of topic {topic.topic}, which was {deleted}."

    def tables(self) -> tuple[Table, ...]:
        """Return all tables of facts, two levels deep where they are so."""
        return (
            self.features,
            self.brokers,
            self.controllers,
            self.leader,
            self.topics,
            self.configs,
            self.partitions,
            self.quotas,
            self.users,
            self.acls,
            self.tokens,
            self.producer_ids,
            self.migration,
        )

    def refresh_partitions(self, change: Change) -> Change:
        """Give a topic in a change the partitions that it has now: they come behind it."""
        topic = change.after
        if isinstance(topic, c.Topic):
            return change._replace(after=self.topics.get(topic.topic_id, topic))
        return change

    def add(self, record: DecodedValue | None, at: Moment) -> None:
        """Take up one record, None where it cannot be read.

        Those of a transaction take effect at its end.
        """
        self.last_ms = max(self.last_ms, at.time_ms)
        if record is None:
            self.complete = False
        elif record.area == "control":
            self._apply(record, at)
        elif record.problem == UNKNOWN_TYPE:
            self.unknown += 1
        elif record.data is None or record.rest:
            self.complete = False
        elif record.type in (_BEGIN, _END, _ABORT):
            pending, self._pending = self._pending or [], None
            if record.type == _BEGIN:
                self._pending = []
            elif record.type == _END:
                for held, then in pending:
                    self._apply(held, then)
        elif self._pending is not None:
            self._pending.append((record, at))
        else:
            self._apply(record, at)

    def _apply(self, record: DecodedValue, at: Moment) -> None:
        apply = _APPLY.get(record.type or "")
        if apply is not None and record.data is not None:
            apply(self, record.data, at)

    def _put(self, table: Table, key: Hashable, fact: Fact, at: Moment) -> None:
        before = table.get(key)
        table[key] = fact
        self._note_change(before, fact, at)

    def _drop(self, table: Table, key: Hashable, at: Moment) -> None:
        before = table.pop(key, None)
        if before is not None:
            self._note_change(before, None, at)

    def _note_change(self, before: Fact | None, after: Fact | None, at: Moment) -> None:
        if self._on_change is None:
            return
        same = before is not None and after is not None and content(before) == content(after)
        if same and self._tells_first and getattr(before, "set_offset", 0) is None:
            before, same = None, False
        if not same:
            self._on_change(Change(at, before, after))

    def take_over(self, before: ClusterState, at: Moment) -> None:
        """Stand in for a state whose log has lost records: this one is of a snapshot behind them.

        What both have in common keeps the times that the log told, and what was lost is told as one
        step. Who leads the controllers and who has which producer ids is in no snapshot.
        """
        self.leader = before.leader
        if not any(one.voter for one in self.controllers.values()):
            for number, known in before.controllers.items():
                if number in self.controllers:
                    mine = self.controllers[number]
                    self.controllers[number] = mine._replace(voter=known.voter)
        for key, ids in before.producer_ids.items():
            if key in self.producer_ids and ids[:1] == self.producer_ids[key][:1]:
                self.producer_ids[key] = ids
        self._on_change = before._on_change
        self._tells_first = before._tells_first
        self.last_ms = max(before.last_ms, at.time_ms)
        self.unknown += before.unknown
        self.removed = before.removed
        self.last_of_removed = before.last_of_removed
        for topic_id, topic in before.topics.items():
            if topic_id not in self.topics:
                self.removed[topic_id] = topic._replace(deleted_ms=at.time_ms)
                before._remember(topic)
        if self._on_change is not None:
            for change in changes_between(before, self, at):
                self._on_change(change)
        for table, told in zip(self.tables(), before.tables(), strict=True):
            _keep_times(table, told)

    # Brokers and controllers.

    def _register_broker(self, said: Fields, at: Moment) -> None:
        broker = c.Broker(
            said["brokerId"],
            said["brokerEpoch"],
            said["incarnationId"],
            c.endpoints_of(said["endPoints"]),
            said["rack"],
            said["fenced"],
            said.get("inControlledShutdown", False),
            tuple(said.get("logDirs", ())),
            tuple(said.get("cordonedLogDirs") or ()),
            c.levels_of(said["features"]),
            at.known_ms,
        )
        self._put(self.brokers, broker.broker_id, broker, at)

    def _change_broker(self, said: Fields, at: Moment) -> None:
        broker = self.brokers.get(said["brokerId"])
        if broker is None:
            return
        if fenced := said.get("fenced", 0):
            if fenced > 0 and broker.fenced and self._tells_first and self._on_change is not None:
                self._on_change(Change(at, broker, broker))
            broker = broker._replace(fenced=fenced > 0)
        if said.get("inControlledShutdown", 0):
            broker = broker._replace(in_controlled_shutdown=True)
        if said.get("logDirs"):
            broker = broker._replace(directories=tuple(said["logDirs"]))
        if said.get("cordonedLogDirs") is not None:
            broker = broker._replace(cordoned_directories=tuple(said["cordonedLogDirs"]))
        self._put(self.brokers, broker.broker_id, broker, at)

    def _fence_broker(self, said: Fields, at: Moment, *, fenced: bool) -> None:
        broker = self.brokers.get(said["id"])
        if broker is not None:
            self._put(self.brokers, broker.broker_id, broker._replace(fenced=fenced), at)

    def _register_controller(self, said: Fields, at: Moment) -> None:
        number = said["controllerId"]
        known = self._controller(number)
        registered = known._replace(
            endpoints=c.endpoints_of(said["endPoints"]),
            features=c.levels_of(said["features"]),
            incarnation_id=said["incarnationId"],
        )
        self._put(self.controllers, number, registered, at)

    def _controller(self, number: int) -> c.Controller:
        return self.controllers.get(number, c.Controller(number, (), {}, None, None, None))

    def _voters(self, said: Fields, at: Moment) -> None:
        voters = {one["voterId"]: one for one in said["voters"]}
        for number, known in list(self.controllers.items()):
            if number not in voters and known.voter:
                other = known._replace(voter=False, directory_id=None)
                self._put(self.controllers, number, other, at)
        for number, one in voters.items():
            known = self._controller(number)
            directory = one.get("voterDirectoryId", known.directory_id)
            voter = known._replace(voter=True, directory_id=directory)
            if not known.endpoints:
                voter = voter._replace(endpoints=c.endpoints_of(one.get("endpoints", [])))
            self._put(self.controllers, number, voter, at)

    def _leader_change(self, said: Fields, at: Moment) -> None:
        leader = c.Leader(said["leaderId"], at.epoch, at.known_ms, at.offset)
        self._put(self.leader, "", leader, at)
        if not any(known.voter and known.directory_id for known in self.controllers.values()):
            self._voters({"voters": said["voters"]}, at)  # the only place that names them

    # Topics and partitions.

    def _create_topic(self, said: Fields, at: Moment) -> None:
        topic = c.Topic(said["name"], said["topicId"], 0, at.known_ms, at.offset)
        self.ids[topic.topic] = topic.topic_id
        self._put(self.topics, topic.topic_id, topic, at)

    def _remove_topic(self, said: Fields, at: Moment) -> None:
        topic_id = said["topicId"]
        topic = self.topics.get(topic_id)
        known = topic or c.Topic("", topic_id, 0, None, None)
        if topic is not None:
            self._remember(topic)
        self.removed[topic_id] = known._replace(deleted_ms=at.time_ms, deleted_offset=at.offset)
        self._drop(self.topics, topic_id, at)
        partitions = self.partitions.get(topic_id, {})
        for number in list(partitions):
            self._drop(partitions, number, at)
        self.partitions.pop(topic_id, None)
        if topic is not None and self.ids.get(topic.topic) == topic_id:
            del self.ids[topic.topic]
            of_topic = self.configs.get(("topic", topic.topic), {})
            for key in list(of_topic):
                self._drop(of_topic, key, at)
            self.configs.pop(("topic", topic.topic), None)

    def _remember(self, topic: c.Topic) -> None:
        """Keep what a topic was like before it goes."""
        settings = self.settings("topic", topic.topic)
        replicas = {
            number: len(one.replicas)
            for number, one in self.partitions.get(topic.topic_id, {}).items()
        }
        self.last_of_removed[topic.topic_id] = LastOfTopic(settings, replicas)

    def _create_partition(self, said: Fields, at: Moment) -> None:
        topic_id, number = said["topicId"], said["partitionId"]
        topic = self.topics.get(topic_id)
        partition = c.Partition(
            None if topic is None else topic.topic,
            topic_id,
            number,
            said["leader"],
            said["leaderEpoch"],
            said["partitionEpoch"],
            tuple(said["replicas"]),
            tuple(said["isr"]),
            tuple(said.get("eligibleLeaderReplicas") or ()),
            tuple(said.get("lastKnownElr") or ()),
            tuple(said["addingReplicas"]),
            tuple(said["removingReplicas"]),
            tuple(said.get("directories", ())),
            word(c.RECOVERY_STATES, said.get("leaderRecoveryState", 0)),
            at.known_ms,
            at.offset,
            at.time_ms,
        )
        of_topic = self.partitions.setdefault(topic_id, {})
        self._put(of_topic, number, partition, at)
        if topic is not None:
            self.topics[topic_id] = topic._replace(partitions_count=len(of_topic))

    def _change_partition(self, said: Fields, at: Moment) -> None:
        self.change_partition(said, at, 1, 1, at.time_ms)

    def change_partition(
        self, said: Fields, at: Moment, count: int, leader_changes: int, placed_ms: int
    ) -> None:
        """Change a partition as one or several records say, the last of them at a moment."""
        of_topic = self.partitions.get(said["topicId"], {})
        before = of_topic.get(said["partitionId"])
        if before is None:
            self.complete = False
            return
        after = before._replace(
            partition_epoch=before.partition_epoch + count,
            changed_ms=at.known_ms,
            changed_offset=at.offset,
        )
        lists: Fields = {
            member: tuple(said[name])
            for member, name in _PARTITION_LISTS
            if said.get(name) is not None
        }
        after = after._replace(**lists)
        if said.get("replicas") is not None or said.get("directories") is not None:
            after = after._replace(placed_ms=placed_ms)
        leader = said.get("leader", _LEADER_AS_BEFORE)
        if leader != _LEADER_AS_BEFORE:
            after = after._replace(leader=leader, leader_epoch=before.leader_epoch + leader_changes)
        recovery = said.get("leaderRecoveryState", -1)
        if recovery != -1:
            after = after._replace(recovery_state=word(c.RECOVERY_STATES, recovery))
        self._put(of_topic, before.partition, after, at)

    def _clear_elr(self, said: Fields, at: Moment) -> None:
        """Forget who else might lead; without a name, of all topics."""
        name = said["topicName"]
        topic_ids = [self.ids.get(name, "")] if name else list(self.partitions)
        for topic_id in topic_ids:
            of_topic = self.partitions.get(topic_id, {})
            for number, partition in list(of_topic.items()):
                if partition.elr or partition.last_known_elr:
                    cleared = partition._replace(elr=(), last_known_elr=())
                    self._put(of_topic, number, cleared, at)

    # Settings, limits, users, rules.

    def _config(self, said: Fields, at: Moment) -> None:
        resource = word(c.RESOURCES, said["resourceType"]), said["resourceName"]
        key, value = said["name"], said["value"]
        of_resource = self.configs.setdefault(resource, {})
        if value is None:
            self._drop(of_resource, key, at)
        else:
            config = c.Config(*resource, key, value, at.known_ms, at.offset)
            self._put(of_resource, key, config, at)
        if not of_resource:
            del self.configs[resource]

    def _feature(self, said: Fields, at: Moment) -> None:
        name, level = said["name"], said["featureLevel"]
        if level:
            self._put(self.features, name, c.Feature(name, level, at.known_ms, at.offset), at)
        else:
            self._drop(self.features, name, at)

    def _quota(self, said: Fields, at: Moment) -> None:
        entity = tuple(
            sorted(
                ((one["entityType"], one["entityName"]) for one in said["entity"]),
                key=lambda one: (one[0], one[1] or ""),
            )
        )
        key = (entity, said["key"])
        if said["remove"]:
            self._drop(self.quotas, key, at)
        else:
            quota = c.Quota(entity, said["key"], said["value"], at.known_ms, at.offset)
            self._put(self.quotas, key, quota, at)

    def _user(self, said: Fields, at: Moment) -> None:
        mechanism = word(c.MECHANISMS, said["mechanism"])
        user = c.ScramUser(
            said["name"],
            mechanism,
            said["iterations"],
            said["salt"],
            said["storedKey"],
            said["serverKey"],
            at.known_ms,
            at.offset,
        )
        self._put(self.users, (user.name, mechanism), user, at)

    def _remove_user(self, said: Fields, at: Moment) -> None:
        self._drop(self.users, (said["name"], word(c.MECHANISMS, said["mechanism"])), at)

    def _acl(self, said: Fields, at: Moment) -> None:
        acl = c.Acl.of(said, at)
        key = acl._replace(set_ms=None, set_offset=None) if acl.acl_id is None else acl.acl_id
        self._put(self.acls, key, acl, at)

    def _token(self, said: Fields, at: Moment) -> None:
        token = c.DelegationToken(
            said["tokenId"],
            said["owner"],
            said["requester"],
            tuple(said["renewers"]),
            said["issueTimestamp"],
            said["expirationTimestamp"],
            said["maxTimestamp"],
            at.known_ms,
            at.offset,
        )
        self._put(self.tokens, token.token_id, token, at)

    def _next_producer_id(self, said: Fields, at: Moment) -> None:
        broker: tuple[int | None, int | None] = (said["brokerId"], said["brokerEpoch"])
        if said["brokerId"] < 0:  # snapshots do not say whose they are
            broker = (None, None)
        ids = c.ProducerIds(said["nextProducerId"], *broker, at.known_ms, at.offset)
        self._put(self.producer_ids, "", ids, at)

    def _zk_migration(self, said: Fields, at: Moment) -> None:
        state = word(_ZK_STATES, said["zkMigrationState"])
        self._put(self.migration, "", c.ZkMigration(state, at.known_ms, at.offset), at)


def _keep_times(mine: Table, told: Table) -> None:
    for key, fact in mine.items():
        known = told.get(key)
        if known is None:
            continue
        if isinstance(fact, dict):
            _keep_times(fact, known)
        elif content(fact) == content(known):
            mine[key] = known


_PARTITION_LISTS = (
    ("replicas", "replicas"),
    ("isr", "isr"),
    ("elr", "eligibleLeaderReplicas"),
    ("last_known_elr", "lastKnownElr"),
    ("adding_replicas", "addingReplicas"),
    ("removing_replicas", "removingReplicas"),
    ("directories", "directories"),
)
_APPLY: dict[str, Callable[[ClusterState, Fields, Moment], None]] = {
    "register_broker_record": ClusterState._register_broker,
    "unregister_broker_record": lambda to, said, at: to._drop(to.brokers, said["brokerId"], at),
    "broker_registration_change_record": ClusterState._change_broker,
    "fence_broker_record": partial(ClusterState._fence_broker, fenced=True),
    "unfence_broker_record": partial(ClusterState._fence_broker, fenced=False),
    "register_controller_record": ClusterState._register_controller,
    "unregister_controller_record": lambda to, said, at: to._drop(
        to.controllers, said["controllerId"], at
    ),
    "kraft_voters": ClusterState._voters,
    "kraft_version": lambda to, said, at: to._feature(
        {"name": "kraft.version", "featureLevel": said["kRaftVersion"]}, at
    ),
    "leader_change": ClusterState._leader_change,
    "topic_record": ClusterState._create_topic,
    "remove_topic_record": ClusterState._remove_topic,
    "partition_record": ClusterState._create_partition,
    "partition_change_record": ClusterState._change_partition,
    "clear_elr_record": ClusterState._clear_elr,
    "config_record": ClusterState._config,
    "feature_level_record": ClusterState._feature,
    "client_quota_record": ClusterState._quota,
    "user_scram_credential_record": ClusterState._user,
    "remove_user_scram_credential_record": ClusterState._remove_user,
    "access_control_record": ClusterState._acl,
    "access_control_entry_record": ClusterState._acl,
    "remove_access_control_entry_record": lambda to, said, at: to._drop(to.acls, said["id"], at),
    "delegation_token_record": ClusterState._token,
    "remove_delegation_token_record": lambda to, said, at: to._drop(to.tokens, said["tokenId"], at),
    "producer_ids_record": ClusterState._next_producer_id,
    "zk_migration_state_record": ClusterState._zk_migration,
}


def facts(state: ClusterState) -> Iterator[tuple[Hashable, Fact]]:
    """Yield every fact of a state, with what names it among all."""
    for number, table in enumerate(state.tables()):
        for key, held in table.items():
            if isinstance(held, dict):
                for inner, fact in held.items():
                    yield (number, key, inner), fact
            else:
                yield (number, key), held


def changes_between(before: ClusterState, after: ClusterState, at: Moment) -> Iterator[Change]:
    """Yield what is new, changed or gone from one state to another; `at` is when that was told."""
    old, new = dict(facts(before)), dict(facts(after))
    for key in [*old, *(key for key in new if key not in old)]:
        was, now = old.get(key), new.get(key)
        if was is None or now is None or content(was) != content(now):
            yield Change(at, was, now)

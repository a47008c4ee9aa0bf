"""Follow the lives of groups through their records: who joined, who left, who has which partition.

One source for what `groups --history` and `timeline` tell of them (G7). Of a classic group each
record is a whole generation; of the newer kinds members, the target of a rebalance, and what each
member has in the meantime are records of their own.

    lives = GroupLives()
    for event in lives.take("group_metadata", group, member, fields, At(ms, offset)):
        ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from kdump.messages.consumer_protocol import PROTOCOL_TYPE, assignment, subscription
from kdump.messages.table import Fields
from kdump.replay.assignors.fitting import classic_member, places_in
from kdump.replay.assignors.members import Member, Place
from kdump.replay.groups import CLASSIC, CONSUMER, SHARE, STREAMS
from kdump.tuples import NamedTuple

_CLASSIC = "group_metadata"
_FAMILIES = {"consumer": CONSUMER, "share": SHARE, "streams": STREAMS}
_GROUP, _MEMBER, _TARGET = (
    {f"{family}_group_{what}" for family in _FAMILIES}
    for what in ("metadata", "member_metadata", "target_assignment_metadata")
)
# That of a streams group has tasks, no partitions.
_TARGET_OF_MEMBER = {f"{family}_group_target_assignment_member" for family in ("consumer", "share")}
_HAS = "consumer_group_current_member_assignment"
_REGEX = "consumer_group_regular_expression"
#: Types of the records that tell of a life.
TYPES = {_CLASSIC, _HAS, _REGEX, *_GROUP, *_MEMBER, *_TARGET_OF_MEMBER, *_TARGET}


class At(NamedTuple):
    """When a record was written, and where it lies; `certain`: none before it may be gone."""

    ms: int
    offset: int
    certain: bool = True


class Who(NamedTuple):
    """A member; `topics` is None where its subscription is not of a consumer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    joined_ms: int | None = None
    assignor: str | None = None


class MemberJoin(NamedTuple):
    """A member that joined, and how many there are then."""

    who: Who
    epoch: int | None
    total: int


class MemberLeave(NamedTuple):
    """A member that left, and how many are left."""

    who: Who
    epoch: int | None
    total: int


class GroupRebalance(NamedTuple):
    """A generation, or a target assignment: what each member is to have.

    `before` is how many members there were in the generation before; `members` are as assignors
    take them. In groups of the newer kinds topics go by id, but for subscriptions.
    """

    type: str
    epoch: int
    protocol: str | None
    leader: str | None
    before: int
    assigned: Mapping[str, Collection[Place]]
    members: tuple[Member, ...]


class OwnershipSpan(NamedTuple):
    """A stretch of time in which a member had a partition, or nobody: then `who` is None.

    `from_ms` is None where it is not known since when. `by_id`: the topic goes by its id.
    """

    place: Place
    who: Who | None
    from_ms: int | None
    to_ms: int | None
    epoch: int | None
    by_id: bool


LifeEvent = MemberJoin | MemberLeave | GroupRebalance | OwnershipSpan


class _Owner(NamedTuple):
    member_id: str | None
    since_ms: int | None
    epoch: int | None
    who: Who | None
    by_id: bool

    def end_at(self, place: Place, to_ms: int | None) -> OwnershipSpan:
        return OwnershipSpan(place, self.who, self.since_ms, to_ms, self.epoch, self.by_id)


class _Life:
    def __init__(self, family: str) -> None:
        self.family = family
        self.epoch: int | None = None
        self.members: dict[str, Who] = {}
        self.owners: dict[Place, _Owner] = {}
        self.has: dict[str, frozenset[Place]] = {}
        self.targets: dict[str, tuple[Place, ...]] = {}
        self.targets_before: dict[str, tuple[Place, ...]] = {}
        self.regexes: dict[str, tuple[str, ...]] = {}
        self.count_before = 0


class GroupLives:
    """The lives of the groups of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}

    def note_loss(self) -> None:
        """Forget all: records are missing."""
        self._lives.clear()

    def take(self, kind: str, key: Fields, value: Fields | None, at: At) -> Iterator[LifeEvent]:
        """Take up a record; yield what it tells."""
        group = str(key.get("group", key.get("groupId", "")))
        if value is None and (kind == _CLASSIC or kind in _GROUP):
            yield from self._end_group(group, at)
            return
        life = self._life(group, kind)
        if kind == _CLASSIC:
            assert value is not None
            yield from _generation(life, value, at)
        elif kind in _MEMBER:
            yield from _member(life, str(key["memberId"]), value, at)
        elif kind == _REGEX:
            topics = () if value is None else tuple(value["topics"])
            life.regexes[str(key["regularExpression"])] = topics
        elif kind in _GROUP and value is not None:
            life.epoch = value["epoch"]
        elif kind in _TARGET_OF_MEMBER:
            _target(life, str(key["memberId"]), value)
        elif kind in _TARGET and value is not None:
            yield _make_rebalance(life, value["assignmentEpoch"])
        elif kind == _HAS:
            yield from _take_assignment(life, str(key["memberId"]), value, at)

    def _life(self, group: str, kind: str) -> _Life:
        found = self._lives.get(group)
        family = _FAMILIES.get(kind.partition("_")[0], CLASSIC)
        if found is None or found.family != family:
            found = self._lives[group] = _Life(family)
        return found

    def _end_group(self, group: str, at: At) -> Iterator[LifeEvent]:
        life = self._lives.pop(group, None)
        if life is not None:
            yield from _make_leaves(life, list(life.members), at)
            for place, owner in life.owners.items():
                if owner.member_id is not None:
                    yield owner.end_at(place, at.ms)

    def open(self) -> Iterator[tuple[str, OwnershipSpan]]:
        """Yield who has what at the end, and what nobody has, by group."""
        for group, life in self._lives.items():
            for place, owner in life.owners.items():
                yield group, owner.end_at(place, None)


def _make_leaves(life: _Life, names: list[str], at: At) -> Iterator[MemberLeave]:
    for name in names:
        who = life.members.pop(name)
        if at.certain:
            yield MemberLeave(who, life.epoch, len(life.members))


def _generation(life: _Life, value: Fields, at: At) -> Iterator[LifeEvent]:
    is_consumer = value["protocolType"] == PROTOCOL_TYPE
    fields = {str(one["memberId"]): one for one in value["members"]}
    is_new = life.epoch != value["generation"]
    life.epoch, before = value["generation"], len(life.members)
    yield from _make_leaves(life, [name for name in life.members if name not in fields], at)
    assigned: dict[str, tuple[Place, ...]] = {}
    for name, one in fields.items():
        if name not in life.members:
            life.members[name] = _who(name, one, is_consumer, at)
            if at.certain:
                yield MemberJoin(life.members[name], life.epoch, len(life.members))
        said = assignment(one["assignment"]) if is_consumer else None
        lists = said["data"]["assignedPartitions"] if said else ()
        assigned[name] = tuple(places_in("topic", lists))
    if is_new:
        members = tuple(
            classic_member(name, one.get("groupInstanceId"), one["subscription"])
            for name, one in (fields.items() if is_consumer else ())
        )
        protocol, leader = value["protocol"], value["leader"]
        yield GroupRebalance(CLASSIC, life.epoch, protocol, leader, before, assigned, members)
    yield from _hand_over(life, assigned, at)


def _who(name: str, fields: Fields, is_consumer: bool, at: At) -> Who:
    said = subscription(fields["subscription"]) if is_consumer else None
    return Who(
        name,
        fields.get("groupInstanceId"),
        fields["clientId"],
        fields["clientHost"],
        tuple(said["data"]["topics"]) if said else None,
        joined_ms=at.ms if at.certain else None,
    )


def _hand_over(
    life: _Life, has: Mapping[str, Collection[Place]], at: At
) -> Iterator[OwnershipSpan]:
    """Tell of the partitions whose owner is another now, and keep the new ones."""
    now = {place: name for name, places in has.items() for place in places}
    for place in sorted(now.keys() | life.owners.keys()):
        name, before = now.get(place), life.owners.get(place)
        if before is not None and before.member_id == name:
            continue
        if before is not None:
            yield before.end_at(place, at.ms)
        who = None if name is None else life.members.get(name)
        since_ms = at.ms if at.certain else None
        life.owners[place] = _Owner(name, since_ms, life.epoch, who, False)


def _member(life: _Life, name: str, value: Fields | None, at: At) -> Iterator[LifeEvent]:
    if value is None:
        yield from _make_leaves(life, [name] if name in life.members else [], at)
        return
    known = life.members.get(name)
    topics = value.get("subscribedTopicNames")
    life.members[name] = Who(
        name,
        value.get("instanceId"),
        value["clientId"],
        value["clientHost"],
        None if topics is None else tuple(topics),
        value.get("subscribedTopicRegex") or None,
        known.joined_ms if known else at.ms if at.certain else None,
        value.get("serverAssignor"),
    )
    if known is None and at.certain:
        yield MemberJoin(life.members[name], life.epoch, len(life.members))


def _target(life: _Life, name: str, value: Fields | None) -> None:
    if value is None:
        life.targets.pop(name, None)
        life.targets_before.pop(name, None)
    else:
        life.targets[name] = tuple(places_in("topicId", value["topicPartitions"]))


def _make_rebalance(life: _Life, epoch: int) -> GroupRebalance:
    named = Counter(one.assignor for one in life.members.values() if one.assignor)
    members = tuple(
        Member(
            one.member_id,
            tuple(dict.fromkeys((*(one.topics or ()), *life.regexes.get(one.regex or "", ())))),
            one.instance_id,
            owned=life.targets_before.get(one.member_id, ()),
        )
        for one in life.members.values()
    )
    before, life.count_before = life.count_before, len(members)
    life.targets_before = dict(life.targets)
    protocol = max(named, key=lambda name: named[name], default=None)
    return GroupRebalance(life.family, epoch, protocol, None, before, dict(life.targets), members)


def _take_assignment(
    life: _Life, name: str, value: Fields | None, at: At
) -> Iterator[OwnershipSpan]:
    """Take up what a member has: it keeps what it is to give up until it says that it did."""
    fields = ("assignedPartitions", "partitionsPendingRevocation")
    lists = [] if value is None else [one for field in fields for one in value.get(field) or ()]
    has, had = frozenset(places_in("topicId", lists)), life.has.pop(name, frozenset())
    if has:
        life.has[name] = has
    epoch = life.epoch if value is None else value["memberEpoch"]
    for place in sorted(has ^ had):
        before = life.owners.get(place)
        mine = before is not None and before.member_id == name
        if place in had and not mine:
            continue  # another has it since
        if before is not None and not (mine and place in has):
            yield before.end_at(place, at.ms)
        since_ms, who = at.ms if at.certain else None, life.members.get(name)
        life.owners[place] = (
            _Owner(name, since_ms, epoch, who, True)
            if place in has
            else _Owner(None, since_ms, epoch, None, True)
        )

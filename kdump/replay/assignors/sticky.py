"""The sticky assignors of clients: members keep what they had, as far as the balance allows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping

from kdump.replay.assignors.members import (
    Given,
    Member,
    Place,
    Topics,
    bucket,
    hash_order,
    in_order,
    place_hash,
    table_size,
    use_racks,
)
from kdump.replay.coordinators import java_hash
from kdump.tuples import NamedTuple

_INT32, _INT16 = struct.Struct(">i"), struct.Struct(">h")
_NO_GENERATION = -1
#: Members times partitions of a group of which the general way is still computed.
_MOST_WORK = 4_000_000


class TooMuchWork(Exception):
    """A group that is too large to be assigned again."""


class _FormerAssignment(NamedTuple):
    """What a member had in some generation; None: it does not say in which."""

    places: tuple[Place, ...]
    generation: int | None


def sticky(members: Iterable[Member], topics: Topics) -> Given:
    """Assign as `sticky` does, which asks members' user data for what they had."""
    return _Sticky(list(members), topics, _of_user_data).assign()


def cooperative(members: Iterable[Member], topics: Topics) -> Given:
    """Assign as `cooperative-sticky` does: who is to get what another still has waits for it."""
    assignor = _Sticky(list(members), topics, _of_fields)
    given = assignor.assign()
    for place, member in assignor.find_transfers(given).items():
        del given[member][given[member].index(place)]
    return given


def _of_fields(member: Member) -> _FormerAssignment:
    if member.generation is not None:
        return _FormerAssignment(member.owned, member.generation)
    if member.user_data is None:
        return _FormerAssignment(member.owned, None)
    told = len(member.user_data) >= _INT32.size
    return _FormerAssignment(
        member.owned, _INT32.unpack_from(member.user_data)[0] if told else _NO_GENERATION
    )


def _of_user_data(member: Member) -> _FormerAssignment:
    """Read topics with their partitions, and the generation, which older clients left out."""
    data = member.user_data
    if not data:
        return _FormerAssignment((), None)
    try:
        places, at = _places_of(data)
        generation = _INT32.unpack_from(data, at)[0] if at + _INT32.size <= len(data) else None
    except (struct.error, ValueError):
        return _FormerAssignment((), _NO_GENERATION)
    return _FormerAssignment(places, generation)


def _places_of(data: bytes) -> tuple[tuple[Place, ...], int]:
    places: list[Place] = []
    (left,), at = _INT32.unpack_from(data), _INT32.size
    while left > 0:
        (size,), at = _INT16.unpack_from(data, at), at + _INT16.size
        topic, at = data[at : at + size].decode(), at + size
        (count,), at = _INT32.unpack_from(data, at), at + _INT32.size
        if size < 0 or count < 0 or at + count * _INT32.size > len(data):
            raise ValueError(count)
        numbers = struct.unpack_from(f">{count}i", data, at)
        places += [(topic, number) for number in numbers]
        at += count * _INT32.size
        left -= 1
    return tuple(places), at


class _Racks:
    """Which members are near to which partitions; with no rack that matters all are."""

    def __init__(self, members: list[Member], topics: Topics) -> None:
        racks = {one.member_id: one.rack for one in members if one.rack}
        places = {
            (topic, number): found
            for topic, partitions in topics.items()
            for number, found in enumerate(partitions)
        }
        counts: dict[str, int] = {}
        for rack in racks.values():
            counts[rack] = counts.get(rack, 0) + 1
        #: How many members are near to a partition.
        self.near = {
            place: sum(counts.get(rack, 0) for rack in found)
            for place, found in (places.items() if racks else ())
        }
        used = use_racks(set(racks.values()), places.values())
        self.members: Mapping[str, str] = racks if used else {}
        self._places = places

    def is_far(self, member: str, place: Place) -> bool:
        rack = self.members.get(member)
        return rack is not None and rack not in self._places.get(place, ())

    def has(self, member: str, place: Place) -> bool:
        return member in self.members and self.members[member] in self._places[place]


class _Sticky:
    def __init__(
        self, members: list[Member], topics: Topics, had: Callable[[Member], _FormerAssignment]
    ) -> None:
        ids = hash_order((one.member_id for one in members), java_hash)
        by_id = {one.member_id: one for one in members}
        self._members = {name: by_id[name] for name in ids}
        self._topics = topics
        self._had = {name: had(one) for name, one in self._members.items()}
        self._racks = _Racks(members, topics)
        self._owned: Given = {}
        self._claimed_twice: set[Place] = set()
        self._moved: dict[Place, str] | None = None

    def assign(self) -> Given:
        first = next(iter(self._members.values()), None)
        if first is None:
            return {}
        self._settle_claims()
        wanted: set[str] = set()
        alike = True
        for one in self._members.values():
            if not wanted:
                wanted = set(one.topics)
            elif len(one.topics) != len(wanted) or not wanted.issuperset(one.topics):
                alike = False
        if alike:
            constrained = _ConstrainedAssignor(
                self._owned, self._topics, self._racks, self._claimed_twice
            )
            given, self._moved = constrained.assign(), constrained.moved
            return given
        return _General(self._owned, self._topics, self._racks, self._members, self._had).assign()

    def _settle_claims(self) -> None:
        """Give each partition to the one who had it last; of two in one generation neither had."""
        owner: dict[Place, str] = {}
        for name in self._members:
            had = self._had[name]
            generation = _NO_GENERATION if had.generation is None else had.generation
            mine = self._owned.setdefault(name, [])
            for place in had.places:
                if place[0] not in self._topics:
                    continue
                other = owner.get(place)
                if other is None:
                    mine.append(place)
                    owner[place] = name
                    continue
                # Of the other it is the generation that its subscription states, in any assignor.
                theirs = self._members[other].generation
                theirs = _NO_GENERATION if theirs is None else theirs
                if generation < theirs:
                    continue
                if place in self._owned[other]:
                    del self._owned[other][self._owned[other].index(place)]
                owner[place] = name
                if generation == theirs:
                    self._claimed_twice.add(place)
                else:
                    mine.append(place)

    def find_transfers(self, given: Given) -> dict[Place, str]:
        """Return what goes from one member to another."""
        if self._moved is not None:
            return self._moved
        added: dict[Place, str] = {}
        revoked: set[Place] = set()
        for name, places in given.items():
            owned = set(self._members[name].owned)
            added |= dict.fromkeys((place for place in places if place not in owned), name)
            revoked |= owned.difference(places)
        return {place: name for place, name in added.items() if place in revoked}


class _ConstrainedAssignor:
    """The way of a group all of whose members subscribe to the same topics."""

    def __init__(
        self, owned: Given, topics: Topics, racks: _Racks, claimed_twice: set[Place]
    ) -> None:
        self._owned, self._racks, self._claimed_twice = owned, racks, claimed_twice
        self._places = [
            (topic, number) for topic in sorted(topics, key=in_order)
            for number in range(len(topics[topic]))
        ]  # fmt: skip
        self._least, self._over_left = divmod(len(self._places), len(owned))
        self._most = self._least + (self._over_left > 0)
        self._below: list[str] = []
        self._at_least: list[str] = []
        self._revoked: dict[Place, str] = {}
        self._given: Given = {name: [] for name in owned}
        #: What goes from one member to another.
        self.moved: dict[Place, str] = {}

    def assign(self) -> Given:
        for name in self._owned:
            self._keep(name)
        taken = {place for places in self._given.values() for place in places}
        free = [place for place in self._places if place not in taken]
        self._below.sort(key=in_order)
        self._at_least.sort(key=in_order)
        if self._racks.near:
            free.sort(key=lambda place: self._racks.near.get(place, 0))
        if self._racks.members:
            free = list(self._near(free))
        self._in_turn(free)
        return self._given

    def _keep(self, name: str) -> None:
        """Let a member keep what it had, up to its share."""
        had: list[Place] = []
        for place in sorted(self._owned[name], key=lambda one: (one[1], in_order(one[0]))):
            if self._racks.is_far(name, place):
                self._revoked[place] = name
            elif place not in self._claimed_twice:
                had.append(place)
        if len(had) < self._least:
            self._given[name] += had
            self._below.append(name)
            return
        kept = self._least
        if len(had) >= self._most and self._over_left:
            kept = self._most
            self._one_over()
        elif self._over_left:
            self._at_least.append(name)
        self._given[name] += had[:kept]
        self._revoked |= dict.fromkeys(had[kept:], name)

    def _one_over(self) -> None:
        self._over_left -= 1
        if not self._over_left:
            self._at_least.clear()

    def _near(self, free: list[Place]) -> Iterator[Place]:
        """Give partitions to members near to them; yield those that are left."""
        turn = 0
        for place in free:
            name = None
            order = self._below[turn:] + self._below[:turn]
            if (name := self._first_near(order, place)) is not None:
                turn = self._below.index(name)
                count = len(self._given[name]) + 1
                if count >= self._least:
                    del self._below[self._below.index(name)]
                    if count < self._most and self._over_left:
                        self._at_least.append(name)
                else:
                    turn += 1
                turn = turn % len(self._below) if self._below else 0
            elif (name := self._first_near(self._at_least, place)) is not None:
                if len(self._given[name]) + 1 == self._most:
                    del self._at_least[self._at_least.index(name)]
                    self._one_over()
            else:
                yield place
                continue
            self._give(place, name)

    def _first_near(self, names: list[str], place: Place) -> str | None:
        return next((name for name in names if self._racks.has(name, place)), None)

    def _in_turn(self, free: list[Place]) -> None:
        turn = 0
        for place in free:
            if turn >= len(self._below):
                turn = 0
            if not self._below:
                if not self._at_least:  # a member says that it has what is not there
                    return
                self._give(place, self._at_least.pop(0))
                continue
            name = self._below[turn]
            self._give(place, name)
            if len(self._given[name]) == self._least:
                del self._below[self._below.index(name)]
                self._at_least.append(name)
            else:
                turn += 1

    def _give(self, place: Place, name: str) -> None:
        self._given[name].append(place)
        if self._revoked.get(place, name) != name or place in self._claimed_twice:
            self.moved[place] = name


class _HashSet:
    """A set of partitions that tells its first as Java's does: its table never shrinks."""

    def __init__(self) -> None:
        self.places: dict[Place, None] = {}
        self._size = table_size(0)

    def add(self, place: Place) -> None:
        self.places[place] = None
        self._size = max(self._size, table_size(len(self.places)))

    def first(self) -> Place:
        return min(self.places, key=lambda place: bucket(place_hash(place), self._size))


class _Moves:
    """Which partitions went from which member to which, so that none goes back and forth."""

    def __init__(self) -> None:
        self._pairs: dict[Place, tuple[str, str]] = {}
        self._of_topic: dict[str, dict[tuple[str, str], _HashSet]] = {}

    def note(self, place: Place, old: str, new: str) -> None:
        if (before := self._pairs.pop(place, None)) is not None:
            pairs = self._of_topic[place[0]]
            del pairs[before].places[place]
            if not pairs[before].places:
                del pairs[before]
            if before[0] == new:
                return
            old = before[0]
        self._pairs[place] = old, new
        self._of_topic.setdefault(place[0], {}).setdefault((old, new), _HashSet()).add(place)

    def in_place_of(self, place: Place, old: str, new: str) -> Place:
        """Return the partition that is moved in the place of one: one that went the other way."""
        old = self._pairs.get(place, (old, ""))[0]
        back = self._of_topic.get(place[0], {}).get((new, old))
        return place if back is None else back.first()


class _General:
    """The way of a group whose members subscribe to different topics."""

    def __init__(
        self,
        owned: Given,
        topics: Topics,
        racks: _Racks,
        members: Mapping[str, Member],
        had: Mapping[str, _FormerAssignment],
    ) -> None:
        count = sum(map(len, topics.values()))
        if count * count * len(members) > _MOST_WORK * 100:
            raise TooMuchWork
        self._topics, self._racks, self._members = topics, racks, members
        self._given = owned
        self._of_member = {
            name: [topic for topic in one.topics if topic in topics]
            for name, one in members.items()
        }
        self._of_topic = {
            topic: [name for name, wanted in self._of_member.items() if topic in wanted]
            for topic in topics
        }
        in_turn = sorted(topics, key=lambda one: (len(self._of_topic[one]), in_order(one)))
        self._places = [
            (topic, number) for topic in in_turn for number in range(len(topics[topic]))
        ]
        self._owner = {place: name for name, places in owned.items() for place in places}
        self._fixed: set[str] = set()
        self._moves = _Moves()
        self._had_before = _before(had)

    def assign(self) -> Given:
        revoked = False
        kept: set[Place] = set()
        for name, places in self._given.items():
            mine = [
                place for place in places
                if place[0] in self._members[name].topics and not self._racks.is_far(name, place)
            ]  # fmt: skip
            revoked |= len(mine) < len(places)
            kept.update(mine)
            self._given[name] = mine
        free = [place for place in self._places if place not in kept]
        starts = not any(self._given.values())
        self._give_out(free)
        movable = {topic for topic, names in self._of_topic.items() if len(names) > 1}
        self._fixed = {name for name in self._given if not self._may_change(name, movable)}
        before = {name: list(places) for name, places in self._given.items()}
        if not revoked:
            self._reassign([place for place in free if place[0] in movable])
        # Where nothing was kept both lists are one in Kafka, which makes no difference here.
        changed = self._reassign([place for place in self._places if place[0] in movable])
        if not starts and changed and self._score(self._given) >= self._score(before):
            return before
        return self._given

    def _by_count(self) -> list[str]:
        return sorted(
            (name for name in self._given if name not in self._fixed),
            key=lambda name: (len(self._given[name]), in_order(name)),
        )

    def _give_out(self, free: list[Place]) -> None:
        left = [place for place in free if not (self._racks.members and self._give(place, True))]
        for place in left:
            self._give(place, False)

    def _give(self, place: Place, near: bool) -> bool:
        for name in self._by_count():
            if place[0] in self._of_member[name] and not (near and self._racks.is_far(name, place)):
                self._given[name].append(place)
                self._owner[place] = name
                return True
        return False

    def _room(self, name: str) -> int:
        return sum(len(self._topics[topic]) for topic in self._of_member[name])

    def _may_change(self, name: str, movable: set[str]) -> bool:
        places = self._given[name]
        return len(places) < self._room(name) or any(topic in movable for topic, _ in places)

    def _score(self, given: Given) -> int:
        counts = [len(places) for name, places in given.items() if name not in self._fixed]
        return sum(abs(one - other) for at, one in enumerate(counts) for other in counts[:at])

    def _is_balanced(self) -> bool:
        names = self._by_count()
        counts = {name: len(self._given[name]) for name in names}
        if not names or counts[names[0]] >= counts[names[-1]] - 1:
            return True
        for name in names:
            if counts[name] == self._room(name):
                continue
            for topic in self._of_member[name]:
                for number in range(len(self._topics[topic])):
                    other = self._owner.get((topic, number), name)
                    if counts[name] + 1 < counts.get(other, 0):
                        return False
        return True

    def _reassign(self, places: list[Place]) -> bool:
        performed = False
        changed = True
        while changed:
            changed = False
            for place in places:
                if self._is_balanced():
                    break
                changed |= self._improve(place)
            performed |= changed
        return performed

    def _improve(self, place: Place) -> bool:
        """Move a partition if another member has two fewer, first of all one that had it before."""
        owner = self._owner[place]
        count = len(self._given[owner])
        before = self._had_before.get(place)
        if before is not None and count > len(self._given[before]) + 1:
            self._move(place, before)
            return True
        moved = False
        names = self._of_topic[place[0]]
        if self._racks.has(owner, place) if self._racks.members else False:
            near = [name for name in names if self._racks.has(name, place)]
            if any(count > len(self._given[name]) + 1 for name in near):
                self._move(place, self._next_for(place))
                return True
        if any(count > len(self._given[name]) + 1 for name in names):
            self._move(place, self._next_for(place))
            moved = True
        return moved

    def _next_for(self, place: Place) -> str:
        return next(name for name in self._by_count() if place[0] in self._of_member[name])

    def _move(self, place: Place, new: str) -> None:
        place = self._moves.in_place_of(place, self._owner[place], new)
        old = self._owner[place]
        self._moves.note(place, old, new)
        del self._given[old][self._given[old].index(place)]
        self._given[new].append(place)
        self._owner[place] = new


def _before(had: Mapping[str, _FormerAssignment]) -> dict[Place, str]:
    """Return who had what in an earlier generation than the newest."""
    newest = max(_NO_GENERATION, *(one.generation or _NO_GENERATION for one in had.values()))
    found: dict[Place, tuple[str, int]] = {}
    for name, one in had.items():
        generation = _NO_GENERATION if one.generation is None else one.generation
        if generation < newest:
            for place in one.places:
                if place not in found or generation > found[place][1]:
                    found[place] = name, generation
    return {place: name for place, (name, _) in found.items()}

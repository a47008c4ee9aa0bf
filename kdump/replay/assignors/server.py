"""The uniform and range assignors of brokers, since 4.0."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kdump.replay.assignors.members import (
    Given,
    Member,
    Place,
    Topics,
    by_instance,
    hash_order,
    uuid_hash,
    uuid_order,
)
from kdump.replay.coordinators import java_hash

_MOST_ROUNDS = 16


def range_(members: Iterable[Member], topics: Topics) -> Given:
    """Of each topic a run of partitions to each member; racks do not matter."""
    members = by_instance(members)
    given: Given = {one.member_id: [] for one in members}
    for topic, partitions in topics.items():
        mine = [one.member_id for one in members if topic in one.topics]
        at = 0
        for turn, name in enumerate(mine):
            size = len(partitions) // len(mine) + (turn < len(partitions) % len(mine))
            given[name] += [(topic, number) for number in range(at, at + size)]
            at += size
    return given


def uniform(members: Iterable[Member], topics: Topics) -> Given:
    """As many partitions to each member, who keeps what it has; topics go by id."""
    by_id = {one.member_id: one for one in members}
    members = [by_id[name] for name in hash_order(by_id, java_hash)]
    wanted = [frozenset(one.topics) & topics.keys() for one in members]
    if all(one == wanted[0] for one in wanted):
        return _homogeneous(members, topics, wanted[0]) if wanted else {}
    return _Heterogeneous(members, topics, wanted).assign()


def _homogeneous(members: list[Member], topics: Topics, wanted: frozenset[str]) -> Given:
    ids = hash_order(
        (topic for topic in members[0].topics if topic in wanted), uuid_hash, copied=True
    )
    taken = {place for one in members for place in one.owned}
    free = [
        (topic, number) for topic in ids for number in range(len(topics[topic]))
        if (topic, number) not in taken
    ]  # fmt: skip
    each, extra = divmod(sum(len(topics[topic]) for topic in wanted), len(members))
    given: Given = {}
    rooms: list[int] = []
    for turn, one in enumerate(members):
        quota = each + (extra > 0)
        kept: list[Place] = []
        for topic in hash_order((topic for topic, _ in one.owned), uuid_hash):
            numbers = [number for name, number in one.owned if name == topic]
            # The set of them is made of a list at once, so that its table may be larger.
            in_turn = hash_order(numbers, int, copied=True)
            places = [(topic, number) for number in in_turn if topic in wanted]
            room = quota - len(kept)
            kept += places[:room]
            free += places[room:]
        given[one.member_id] = kept
        # One more than the others is for those that have it already, as long as enough follow.
        waives = len(kept) < quota and extra > 0 and len(members) - turn > extra
        extra -= extra > 0 and not waives
        rooms.append(quota - len(kept) - waives)
    left = iter(free)
    for one, room in zip(members, rooms, strict=True):
        given[one.member_id] += islice(left, room)
    return given


class _Heterogeneous:
    def __init__(self, members: list[Member], topics: Topics, wanted: list[frozenset[str]]) -> None:
        self._members, self._topics, self._wanted = members, topics, wanted
        every = frozenset().union(*wanted)
        self._readers = {
            topic: [at for at, some in enumerate(wanted) if topic in some] for topic in every
        }
        self._owners = {topic: [-1] * len(topics[topic]) for topic in every}
        self._counts = [0] * len(members)

    def assign(self) -> Given:
        for at, one in enumerate(self._members):
            for topic, number in one.owned:
                if topic in self._wanted[at] and 0 <= number < len(self._owners[topic]):
                    self._owners[topic][number] = at
                    self._counts[at] += 1
        for topic in self._in_turn(topic for topic, owners in self._owners.items() if -1 in owners):
            turns = _Turns(self._readers[topic], self._counts)
            for number, owner in enumerate(self._owners[topic]):
                if owner < 0:
                    self._give(topic, number, turns.least())
        self._balance()
        return {
            one.member_id: [
                (topic, number)
                for topic, owners in self._owners.items()
                for number, owner in enumerate(owners)
                if owner == at
            ]
            for at, one in enumerate(self._members)
        }

    def _in_turn(self, topics: Iterable[str]) -> list[str]:
        def order(topic: str) -> tuple[float, int, tuple[int, int]]:
            readers = len(self._readers[topic])
            return -len(self._topics[topic]) / readers, readers, uuid_order(topic)

        return sorted(topics, key=order)

    def _give(self, topic: str, number: int, at: int) -> None:
        before = self._owners[topic][number]
        if before >= 0:
            self._counts[before] -= 1
        self._owners[topic][number] = at
        self._counts[at] += 1

    def _balance(self) -> None:
        topics = self._in_turn(topic for topic, some in self._readers.items() if len(some) > 1)
        last = -1
        for _ in range(_MOST_ROUNDS):
            for at, topic in enumerate(topics):
                if at == last:
                    return
                if self._balance_topic(topic) or last < 0:
                    last = at

    def _balance_topic(self, topic: str) -> bool:
        turns = _Turns(self._readers[topic], self._counts)
        if turns.imbalance <= 1:
            return False
        held: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic]):
            held.setdefault(owner, []).append(number)
        moved = False
        while not turns.is_balanced():
            while (loaded := turns.most()) >= 0 and not held.get(loaded):
                turns.exclude()
            if loaded < 0:
                break
            number = held[loaded].pop()
            least = turns.least()
            if turns.is_balanced():
                break
            self._give(topic, number, least)
            moved = True
        return moved


class _Turns:
    """Hands out the least and the most loaded of some members in turn, level by level.

    The counts are those of the start: what is given out meanwhile is a level of its own.
    """

    def __init__(self, members: list[int], counts: list[int]) -> None:
        self._members = sorted(members, key=lambda at: (counts[at], at))
        self._counts = counts
        least, most = counts[self._members[0]], counts[self._members[-1]]
        self.imbalance = most - least
        self._least_end, self._least_level, self._least_next = 0, least - 1, 0
        self._most_start = self._most_end = len(members)
        self._most_level, self._most_next = most + 1, len(members) - 1

    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def _count(self, at: int) -> int:
        return self._counts[self._members[at]]

    def least(self) -> int:
        if self._least_next >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._members)
                and self._count(self._least_end) == self._least_level
            ):
                self._least_end += 1
            self._least_next = 0
        self._least_next += 1
        return self._members[self._least_next - 1]

    def most(self) -> int:
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_level = self._count(self._most_start - 1)
            else:
                self._most_level -= 1
            while self._most_start > 0 and self._count(self._most_start - 1) == self._most_level:
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return -1
        self._most_next -= 1
        return self._members[self._most_next + 1]

    def exclude(self) -> None:
        at, end = self._most_next + 1, self._most_end - 1
        self._members[at], self._members[end] = self._members[end], self._members[at]
        self._most_end = end

"""The range and round-robin assignors of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle, islice

from kdump.replay.assignors.members import (
    Given,
    Member,
    Place,
    Topics,
    by_instance,
    use_racks,
)


def range_(members: Iterable[Member], topics: Topics) -> Given:
    """Of each topic a run of partitions to each member, as near to its rack as that allows."""
    members = by_instance(members)
    given: Given = {one.member_id: [] for one in members}
    ranges = [_Range(topic, racks, members, given) for topic, racks in topics.items() if racks]
    alike: dict[object, list[_Range]] = {}
    for one in ranges:
        alike.setdefault((frozenset(one.racks.items()), len(one.partition_racks)), []).append(one)
    if any(one.needs_racks for one in ranges):
        for some in alike.values():
            if len(some) > 1:
                _together(some)
            elif some[0].needs_racks:
                some[0].assign(some[0].is_near)
    for one in ranges:
        one.assign(lambda member, number: True)
    return given


def _together(ranges: list[_Range]) -> None:
    """Give partitions of one number of several topics to one member, where all are near to it."""
    left = list(ranges[0].racks)
    for number in range(len(ranges[0].partition_racks)):
        for member in left:
            if all(one.is_near(member, number) and one.most(member) > 0 for one in ranges):
                for one in ranges:
                    one.give(member, [number])
                if not any(one.most(member) > 0 for one in ranges):
                    del left[left.index(member)]
                break


class _Range:
    """What is left to assign of a topic."""

    def __init__(
        self, topic: str, racks: Iterable[frozenset[str]], members: list[Member], given: Given
    ) -> None:
        racks = list(racks)
        mine = [one for one in members if topic in one.topics]
        self.racks = {one.member_id: one.rack or None for one in mine}
        of_members = {rack for rack in self.racks.values() if rack is not None}
        self.partition_racks = racks if of_members else []
        self.needs_racks = use_racks(of_members, self.partition_racks)
        self._topic = topic
        self._given = given
        self._unassigned = dict.fromkeys(range(len(racks)))
        self._counts = dict.fromkeys(self.racks, 0)
        self._each, self._extra = divmod(len(racks), len(mine)) if mine else (0, 0)

    def is_near(self, member: str, number: int) -> bool:
        rack = self.racks[member]
        return rack is None or rack in self.partition_racks[number]

    def most(self, member: str) -> int:
        return max(0, self._each + (self._extra > 0) - self._counts[member])

    def assign(self, may_assign: Callable[[str, int], bool]) -> None:
        for member in self.racks:
            free = (number for number in self._unassigned if may_assign(member, number))
            if found := list(islice(free, self.most(member))):
                self.give(member, found)

    def give(self, member: str, numbers: list[int]) -> None:
        self._given[member] += [(self._topic, number) for number in numbers]
        self._counts[member] += len(numbers)
        self._extra -= self._counts[member] > self._each
        for number in numbers:
            del self._unassigned[number]


def round_robin(members: Iterable[Member], topics: Topics) -> Given:
    """One partition after the other to one member after the other that subscribes to its topic."""
    members = by_instance(members)
    given: Given = {one.member_id: [] for one in members}
    turns = cycle(members)
    places: list[Place] = [
        (topic, number) for topic in sorted(topics) for number in range(len(topics[topic]))
    ]
    wanted = {topic for one in members for topic in one.topics}
    for place in places:
        if place[0] in wanted:
            member = next(one for one in turns if place[0] in one.topics)
            given[member.member_id].append(place)
    return given

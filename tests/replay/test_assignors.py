"""What assignors give, against Kafka's own classes, for made groups of all shapes."""

import random

import pytest
from assignors import Case, assignors, make_group
from long_runs import SEED, how_many

from kdump.replay.assignors.fitting import CLASSIC, NEWER, classic_member
from kdump.replay.assignors.members import Member, Topics


def members_of(case: Case) -> list[Member]:
    if "newer" not in case:
        return [
            classic_member(one["id"], one["instance"], bytes.fromhex(one["subscription"]))
            for one in case["members"]
        ]
    return [
        Member(
            one["id"],
            tuple(one["topics"]),
            one["instance"],
            owned=tuple((topic, at) for topic, some in one["owned"].items() for at in some),
        )
        for one in case["members"]
    ]


def topics_of(case: Case, members: list[Member]) -> Topics:
    wanted = {topic for one in members for topic in one.topics}
    return {
        topic: [frozenset(racks) for racks in partitions]
        for topic, partitions in case["topics"].items()
        if topic in wanted
    }


@pytest.mark.parametrize("version", ["4.4.0", "4.1.1"])
@pytest.mark.parametrize("newer", [False, True])
def test_generated_groups_are_assigned_as_in_kafka(version: str, newer: bool) -> None:
    kafka = assignors(version)
    for number in range(how_many(100, 4000)):
        draw = random.Random(SEED * 1_000_000 + number)
        case = make_group(draw, newer=newer)
        members = members_of(case)
        said = kafka.give(case)
        topics = topics_of(case, members)
        for name, assignor in (NEWER if newer else CLASSIC).items():
            if isinstance(said[name], str):
                continue  # Kafka's own gives up on members that lie about what they have
            ours = {
                member: sorted(f"{topic}:{at}" for topic, at in places)
                for member, places in assignor(members, topics).items()
                if places
            }
            theirs = {member: sorted(places) for member, places in said[name].items() if places}
            assert ours == theirs, (number, name)

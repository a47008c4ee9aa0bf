"""What assignors give, against Kafka's own classes, for made groups of all shapes.

`recorded_assignments.txt` has of some groups the seed, and a digest of what each assignor gives:
those that reach what hardly another one does. To record anew: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import json
import os
import random
from hashlib import sha256
from pathlib import Path

import pytest
from assignors import Case, assignors, make_group
from each import most_cases
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


RECORDED = Path(__file__).with_name("recorded_assignments.txt")


def answers(seed: int) -> str:
    newer = bool(seed % 2)
    case = make_group(random.Random(seed), newer=newer)
    members = members_of(case)
    topics = topics_of(case, members)
    told = []
    for name, assignor in (NEWER if newer else CLASSIC).items():
        given = {one: sorted(places) for one, places in assignor(members, topics).items()}
        told.append(f"{name} {sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12]}")
    return " ".join(told)


def test_assignments_are_those_recorded() -> None:
    lines = RECORDED.read_text("utf-8").splitlines()
    recorded = {int(seed): told for seed, _, told in (line.partition("\t") for line in lines)}
    if "KDUMP_RECORD" in os.environ:
        RECORDED.write_text("".join(f"{seed}\t{answers(seed)}\n" for seed in recorded), "utf-8")
        pytest.skip("they are recorded")
    some = [*recorded.items()][: most_cases(Path(__file__))]
    assert {seed: answers(seed) for seed, _ in some} == dict(some)

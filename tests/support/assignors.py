"""Kafka's own assignors, asked what they give to made groups."""

import json
import random
from functools import cache
from typing import Any

from line_process import LineProcess
from message_classes import java_program
from message_writing import message_bytes

from kdump.messages.table import message

_SUBSCRIPTION = message("ConsumerProtocolSubscription")
Case = dict[str, Any]


class Assignors(LineProcess):
    """One Java process that assigns."""

    def give(self, case: Case) -> dict[str, dict[str, list[str]]]:
        """Say what each assignor gives to each member."""
        found: dict[str, dict[str, list[str]]] = json.loads(self.exchange(json.dumps(case)))
        return found


@cache
def assignors(version: str) -> Assignors:
    """Give the assignors of a version; skip where they are not at hand."""
    return Assignors(java_program("Assignors.java", version))


def make_group(draw: random.Random, *, newer: bool) -> Case:
    """Make topics, members, and what these had before: fresh, uneven, in conflict, out of date."""
    count = draw.choice((1, 1, 2, 3, 5, 12, 13))
    names = [*dict.fromkeys(_name(draw, newer=newer) for _ in range(count))]
    racks = [f"rack-{number}" for number in range(draw.choice((0, 0, 1, 3)))]
    topics = {
        name: [
            draw.sample(racks, draw.randrange(len(racks) + 1))
            for _ in range(draw.choice((1, 2, 3, 7, 8, 8, 20)))
        ]
        for name in names
    }
    ids = [f"client-{draw.getrandbits(16):x}" for _ in range(draw.choice((1, 2, 3, 4, 7, 15, 30)))]
    same = draw.sample(names, draw.randint(1, len(names)))
    is_even = draw.random() < 0.5
    owned = _draw_ownership(draw, ids, topics)
    is_static = draw.random() < 0.3
    generation = draw.choice((-1, 5))
    members = []
    for member in dict.fromkeys(ids):
        wanted = same if is_even else draw.sample(names, draw.randint(1, len(names)))
        if not newer and draw.random() < 0.1:
            wanted = [*wanted, "no-such-topic"]
        one: Case = {
            "id": member,
            "instance": f"i-{draw.getrandbits(16)}-{member}"
            if is_static and draw.random() < 0.7
            else None,
            "topics": wanted,
            "owned": owned.get(member, {}),
        }
        if not newer:
            mine = generation - draw.choice((0, 0, 0, 1, 2)) if generation > 0 else generation
            one["subscription"] = _subscription(draw, one, mine, racks).hex()
        members.append(one)
    return {"topics": topics, "members": members} | ({"newer": True} if newer else {})


def _name(draw: random.Random, *, newer: bool) -> str:
    if not newer:
        return f"{draw.choice(('orders', 'a', 'Zeta', 'clicks.eu'))}-{draw.randrange(100)}"
    import base64

    raw = bytearray(draw.randbytes(16))
    raw[0] &= 0x7F if draw.random() < 0.5 else 0xFF
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _draw_ownership(
    draw: random.Random, ids: list[str], topics: dict[str, Any]
) -> dict[str, dict[str, list[int]]]:
    """Say what members had: nothing, their part, or part of it with claims on the same."""
    found: dict[str, dict[str, list[int]]] = {}
    share, skew = draw.choice((0, 0.5, 1)), draw.choice((1, len(ids)))
    for topic, partitions in topics.items():
        for number in range(len(partitions)):
            if draw.random() < share:
                owner = ids[draw.randrange(skew) if skew < len(ids) else draw.randrange(len(ids))]
                found.setdefault(owner, {}).setdefault(topic, []).append(number)
    return found


def _subscription(draw: random.Random, one: Case, generation: int, racks: list[str]) -> bytes:
    version = draw.choice((0, 1, 2, 3, 3))
    lists = [{"topic": topic, "partitions": some} for topic, some in one["owned"].items()]
    if lists and draw.random() < 0.2:  # claims what another may have, too
        lists[0] = lists[0] | {"partitions": sorted({*lists[0]["partitions"], 0})}
    user_data: bytes | None = None
    if draw.random() < 0.5:
        user_data = generation.to_bytes(4, "big", signed=True)
    elif lists:
        user_data = len(lists).to_bytes(4, "big")
        for each in lists:
            name = each["topic"].encode()
            user_data += len(name).to_bytes(2, "big") + name
            user_data += len(each["partitions"]).to_bytes(4, "big")
            user_data += b"".join(number.to_bytes(4, "big") for number in each["partitions"])
        if draw.random() < 0.7:
            user_data += generation.to_bytes(4, "big", signed=True)
    fields = {
        "topics": one["topics"],
        "userData": user_data,
        "ownedPartitions": lists,
        "generationId": generation,
        "rackId": draw.choice((*racks, None)),
    }
    return version.to_bytes(2, "big") + message_bytes(_SUBSCRIPTION, version, fields)

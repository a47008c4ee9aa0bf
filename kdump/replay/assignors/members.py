"""What assignors are given and what they give, and the order in which Java's tables hand it out."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kdump.replay.coordinators import java_hash
from kdump.tuples import NamedTuple

#: A topic, by name or by id, and a partition of it.
Place = tuple[str, int]
#: Topic -> the racks of the replicas of each of its partitions.
Topics = Mapping[str, Sequence[frozenset[str]]]
#: Member -> what it gets; a member that gets nothing is there, too.
Given = dict[str, list[Place]]

_MOST_HASH = (1 << 32) - 1
_LEAST_TABLE = 16
_HALVES = struct.Struct(">qq")
_Key = TypeVar("_Key")


class Member(NamedTuple):
    """A member as it joined.

    `owned` and `generation` are what a cooperative member says that it has, `user_data` what a
    sticky one says in its own words; of the newer protocol `owned` is its target so far.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[Place, ...] = ()
    generation: int | None = None
    user_data: bytes | None = None


def by_instance(members: Iterable[Member]) -> list[Member]:
    """Sort members as assignors do: static ones first, by `group.instance.id`, else by their id."""
    return sorted(
        members,
        key=lambda one: (
            one.instance_id is None,
            in_order(one.member_id if one.instance_id is None else one.instance_id),
        ),
    )


def in_order(name: str) -> bytes:
    """Return what sorts texts as Java does."""
    return name.encode("utf-16-be", "surrogatepass")


def hash_order(
    keys: Iterable[_Key], hash_of: Callable[[_Key], int], *, copied: bool = False
) -> list[_Key]:
    """Return keys in the order of a `HashMap` into which they were put one by one, or at once."""
    found = list(dict.fromkeys(keys))
    size = table_size(len(found))
    if copied:
        while size < int(len(found) / 0.75) + 1:
            size *= 2
    return sorted(found, key=lambda key: bucket(hash_of(key), size))


def table_size(count: int) -> int:
    """Return how many buckets a `HashMap` has for so many keys."""
    size = _LEAST_TABLE
    while count > size * 3 // 4:
        size *= 2
    return size


def bucket(number: int, size: int) -> int:
    """Return the bucket of a hash."""
    number &= _MOST_HASH
    return (number ^ number >> 16) & (size - 1)


def place_hash(place: Place) -> int:
    """Return the hash of `TopicPartition`."""
    return 31 * (31 + place[1]) + java_hash(place[0])


def uuid_hash(topic_id: str) -> int:
    """Return the hash of `Uuid`."""
    high, low = uuid_order(topic_id)
    both = (high ^ low) & ((1 << 64) - 1)
    return (both >> 32) ^ (both & _MOST_HASH)


def uuid_order(topic_id: str) -> tuple[int, int]:
    """Return what sorts ids as `Uuid` does: two numbers with a sign."""
    try:
        high, low = _HALVES.unpack(base64.urlsafe_b64decode(topic_id + "=="))
    except (ValueError, struct.error):
        return 0, 0
    return high, low


def use_racks(of_members: set[str], of_partitions: Iterable[frozenset[str]]) -> bool:
    """Whether racks matter: members and replicas have some in common, and partitions differ."""
    racks = list(of_partitions)
    every = frozenset().union(*racks)
    return bool(of_members & every) and any(one != every for one in racks)

"""Say which assignors give what a group was assigned, and where another gives something else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from kdump.messages.consumer_protocol import subscription
from kdump.messages.table import Fields
from kdump.replay.assignors import eager, server, sticky
from kdump.replay.assignors.members import Given, Member, Place, Topics
from kdump.tuples import NamedTuple

Assignor = Callable[[Iterable[Member], Topics], Given]
#: By the names that clients and brokers have for them.
CLASSIC: Mapping[str, Assignor] = {
    "range": eager.range_,
    "roundrobin": eager.round_robin,
    "sticky": sticky.sticky,
    "cooperative-sticky": sticky.cooperative,
}
NEWER: Mapping[str, Assignor] = {"uniform": server.uniform, "range": server.range_}


class AssignorFit(NamedTuple):
    """Which assignors `fits` names; of the others the `nearest`, with where it differs.

    Of each difference: the place, who has it, and who would have it; None for nobody.
    """

    fits: tuple[str, ...]
    nearest: str | None
    differences: tuple[tuple[Place, str | None, str | None], ...]


def classic_member(member_id: str, instance_id: str | None, said: bytes) -> Member:
    """Read what a member of a classic group said when it joined (M5)."""
    read = subscription(said)
    data: Fields = {} if read is None else read["data"]
    generation, user_data = data.get("generationId", -1), data.get("userData")
    return Member(
        member_id,
        tuple(data.get("topics", ())),
        instance_id,
        data.get("rackId") or None,
        tuple(places_in("topic", data.get("ownedPartitions", ()))),
        generation if generation >= 0 else None,
        user_data,
    )


def places_in(name: str, lists: Iterable[Fields]) -> Iterator[Place]:
    """Yield the partitions of lists by topic, whose names or ids stand in a field."""
    for one in lists:
        for number in one["partitions"]:
            yield one[name], number


def fit_assignors(
    stored: Mapping[str, Collection[Place]],
    members: Collection[Member],
    sizes: Iterable[Topics],
    assignors: Mapping[str, Assignor],
    named: str | None,
) -> AssignorFit:
    """Compute what each assignor gives, for topics of one size or another, and hold it against.

    What differs is of the assignor that the group names, else of the one that is nearest.
    """
    owners = {place: name for name, places in stored.items() for place in places}
    found: dict[str, list[tuple[Place, str | None, str | None]]] = {}
    for topics in sizes:
        for name, assignor in assignors.items():
            try:
                given = assignor(members, topics)
            except sticky.TooMuchWork:
                continue
            theirs = {place: member for member, places in given.items() for place in places}
            differing = [
                (place, owners.get(place), theirs.get(place))
                for place in sorted(owners.keys() | theirs.keys())
                if owners.get(place) != theirs.get(place)
            ]
            if name not in found or len(differing) < len(found[name]):
                found[name] = differing
    fits = tuple(name for name, differing in found.items() if not differing)
    if not found or named in fits or (fits and named not in found):
        return AssignorFit(fits, None, ())
    nearest = named if named in found else min(found, key=lambda name: len(found[name]))
    assert nearest is not None
    return AssignorFit(fits, nearest, tuple(found[nearest]))

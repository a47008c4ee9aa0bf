"""Find a lower retention for a topic that deletes just what a plan wants gone: `kafka-configs`.

One command does it for all partitions, on all brokers and until it is taken back. So it serves only
where all of them are looked at, and where a pass by the lower limit, worked out for each of them,
deletes what was chosen and nothing else. Before brokers took requests to delete records (KIP-107)
there is no other command; then more may go than was chosen, though never an active segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdump.broker.retention import Policy, retention_pass
from kdump.findings.shell import BOOTSTRAP, ZOOKEEPER, format_command, topic_word
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.why.freeable import Freeable

_BY_TIME, _BY_SIZE = "retention.ms", "retention.bytes"
#: How long a limit has to hold back what is to stay, so that there is time to type it in.
_ROOM_MS = 30 * 60_000


class WantedSegments(NamedTuple):
    """A partition, and its segments [first, to), which are to go; none where the two are equal.

    `number` is the plan's own.
    """

    number: int
    log: Freeable
    first: int
    to: int


class LowerLimit(NamedTuple):
    """A lower limit of a topic. `undo` is None where it is not known what was set before.

    `wanted` are the partitions with what a pass then deletes. `more_from_ms` is when the limit
    begins to delete more, if nothing is written; None for a limit of bytes.
    """

    command: str
    undo: str | None
    words: str
    wanted: tuple[WantedSegments, ...]
    more_from_ms: int | None


def find_lower_limit(
    topic: str, wanted: Sequence[WantedSegments], now_ms: int
) -> LowerLimit | None:
    """Find a limit of a topic's age or size; None where there is none that is right."""
    log = wanted[0].log
    if log.has_delete_records and not _are_all(wanted):
        return None
    # Of some all goes by itself, and an empty segment stays.
    wanted = [one for one in wanted if one.first < len(one.log.sizes)]
    for name, limit in ((_BY_TIME, _age(wanted, now_ms)), (_BY_SIZE, _size(wanted))):
        if limit is None:
            continue
        policy = _with(log.policy, name, limit)
        found = tuple(one._replace(to=_count_deleted(one, policy, now_ms)) for one in wanted)
        if any(one.to == len(one.log.sizes) for one in found):
            continue
        if all(one.to == one.first for one in found):
            continue
        if log.has_delete_records and found != tuple(wanted):
            continue
        more = _more_from(found, policy, now_ms) if name == _BY_TIME else None
        if more is not None and more < now_ms + _ROOM_MS:
            continue
        return LowerLimit(
            _command(log, topic, ("--add-config", f"{name}={limit}")),
            _undo(log, topic, name),
            f"{name}={limit} of {topic}",
            found,
            more,
        )
    return None


def _are_all(wanted: Sequence[WantedSegments]) -> bool:
    """Whether a command is saved, and the cluster has no partition that is not among these."""
    known = wanted[0].log.known
    numbers = {one.log.partition for one in wanted}
    several = sum(one.to > one.first for one in wanted) > 1
    return several and known is not None and len(numbers) == known.partitions


def _age(wanted: Sequence[WantedSegments], now_ms: int) -> int | None:
    """The largest retention.ms that lets all go that is to go, if that is lower than now."""
    youngest = max(
        one.log.policy.time_of(segment, now_ms)
        for one in wanted
        for segment in one.log.log.segments[one.first : one.to]
    )
    return _if_lower(now_ms - youngest - 1, wanted[0].log.policy.retention_ms)


def _size(wanted: Sequence[WantedSegments]) -> int | None:
    """The largest retention.bytes that does, if what is to stay does not sit just below it."""
    limit = min(_count_left(one, one.to) for one in wanted if one.to > one.first)
    for one in wanted:
        following = one.log.log.segments[one.to].size_bytes
        if (limit - _count_left(one, one.to) + following) * 2 < following:
            return None
    return _if_lower(limit, wanted[0].log.policy.retention_bytes)


def _count_left(one: WantedSegments, to: int) -> int:
    """The bytes that retention.bytes counts once the segments before a number are gone."""
    return sum(segment.size_bytes for segment in one.log.log.segments[to:])


def _if_lower(limit: int, before: int) -> int | None:
    return limit if limit >= 0 and not 0 <= before <= limit else None


def _with(policy: Policy, name: str, limit: int) -> Policy:
    if name == _BY_TIME:
        return policy._replace(retention_ms=limit)
    return policy._replace(retention_bytes=limit)


def _count_deleted(one: WantedSegments, policy: Policy, now_ms: int) -> int:
    """Say how many segments a pass by a policy deletes, behind the steps before."""
    log = one.log.log
    if one.first:
        log = log._replace(log_start=max(log.find_end(one.first - 1), log.log_start))
    return len(retention_pass(log, policy, now_ms).deleted)


def _more_from(wanted: Sequence[WantedSegments], policy: Policy, now_ms: int) -> int:
    return min(
        policy.time_of(one.log.log.segments[one.to], now_ms) + policy.retention_ms + 1
        for one in wanted
    )


def _undo(log: Freeable, topic: str, name: str) -> str | None:
    if log.known is None:
        return None
    before = log.known.configs.get(name)
    change = ("--delete-config", name) if before is None else ("--add-config", f"{name}={before}")
    return _command(log, topic, change)


def _command(log: Freeable, topic: str, change: tuple[str, ...]) -> str:
    where = ("--bootstrap-server", BOOTSTRAP)
    if not log.has_delete_records:
        where = ("--zookeeper", ZOOKEEPER)  # no broker is asked that early
    entity = ("--entity-type", "topics", "--entity-name", topic_word(topic))
    return format_command(("kafka-configs.sh", *where, "--alter", *entity, *change))

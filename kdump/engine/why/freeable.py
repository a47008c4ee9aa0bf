"""What may be freed of a data directory, and what is lost with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.retention import LogFacts, Policy, is_past
from kdump.broker.versions import Version, has
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.why.fates import Fates
    from kdump.replay.topic_settings import KnownTopic


class DeletedFiles(NamedTuple):
    """Files of a partition that were deleted already and wait for their removal (`.deleted`).

    `held`: a broker runs on the data directory.
    """

    directory: str
    size_bytes: int
    held: bool


class RetiredDirectory(NamedTuple):
    """A directory that is no partition in use. `held`: a broker runs on the directory around it."""

    directory: str
    path: str
    why: str  # delete, stray or future
    size_bytes: int
    held: bool


class Freeable(NamedTuple):
    """A partition with the sizes of its segments' files; `may_lose` records, or must not.

    `directory` is the data directory. `known` is what the metadata of its cluster says of the
    topic. A pass comes every `every_ms`.
    """

    topic: str
    partition: int
    log: LogFacts
    policy: Policy
    sizes: tuple[int, ...]
    deleted: int  # segments that the next pass deletes anyway
    may_lose: bool
    every_ms: int
    has_delete_records: bool
    known: KnownTopic | None
    directory: str


class StepLoss(NamedTuple):
    """What a step deletes: bytes of files, and the offsets that are gone, None where none is."""

    size_bytes: int
    first_offset: int | None
    last_offset: int | None
    latest_ms: int | None


def freeable(
    topic: str | None,
    partition: int | None,
    judged: Fates,
    sizes: tuple[int, ...],
    known: KnownTopic | None,
    broker: Version,
    directory: str,
) -> Freeable | None:
    """Make of a judged partition what a plan goes by; None without a name."""
    if topic is None or partition is None:
        return None
    policy = judged.policy
    may_lose = policy.deletes and not (policy.compacts or policy.tiered or topic.startswith("__"))
    deleted = len(judged.next_pass.deleted)
    return Freeable(
        topic,
        partition,
        judged.log,
        policy,
        sizes,
        deleted,
        may_lose,
        judged.settings.retention_check_ms,
        has(broker, v.LOG_START),
        known,
        directory,
    )


def behind_pins(log: Freeable, now_ms: int) -> int:
    """Count the segments up to the last closed one that is past retention.ms itself."""
    if log.policy.retention_ms < 0:
        return 0
    closed = log.log.segments[: len(log.sizes) - 1]
    past = (at for at, one in enumerate(closed, 1) if is_past(one, log.policy, now_ms))
    return max(past, default=0)


def count_loss(log: Freeable, first: int, to: int) -> tuple[StepLoss, int]:
    """Say what the segments [first, to) hold; records are counted by their offsets."""
    start = max(log.log.segments[first].base_offset, log.log.log_start)
    end = log.log.find_end(to - 1)
    latest = max(one.time_ms for one in log.log.segments[first:to])
    size = sum(log.sizes[first:to])
    if end <= start:
        return StepLoss(size, None, None, None), 0
    return StepLoss(size, start, end - 1, latest), end - start

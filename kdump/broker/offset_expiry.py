"""When a group coordinator would remove a committed offset (G6)."""

from __future__ import annotations

from kdump.broker.versions import OFFSETS_EXPIRE_WITH_GROUP, OFFSETS_KEPT_A_WEEK, Version, has
from kdump.tuples import NamedTuple

_DAY_MS = 86_400_000


class KeepReason(NamedTuple):
    """What keeps a committed offset: `stated_ms`, of the record, is an end that only it had.

    `empty_since_ms`: since when a classic group with a protocol has had no member; None where that
    is not said. `has_members` and `is_subscribed`: its members, and whether to the topic.
    """

    commit_ms: int
    stated_ms: int | None
    has_members: bool
    is_subscribed: bool
    knows_topics: bool
    empty_since_ms: int | None


def retention_ms(stated: int | None, broker: Version) -> int:
    """Return how long offsets are kept: as stated, or as the version has it."""
    if stated is not None:
        return stated
    return 7 * _DAY_MS if has(broker, OFFSETS_KEPT_A_WEEK) else _DAY_MS


def expiry_ms(kept: KeepReason, keep_ms: int, broker: Version) -> int | None:
    """Return the time from which on an offset may be removed, None while the group keeps it."""
    if not has(broker, OFFSETS_EXPIRE_WITH_GROUP):
        return kept.commit_ms + keep_ms if kept.stated_ms is None else kept.stated_ms
    if kept.has_members and (kept.is_subscribed or not kept.knows_topics):
        return None
    if kept.stated_ms is not None:
        return kept.stated_ms
    since = kept.commit_ms if kept.empty_since_ms is None else kept.empty_since_ms
    return since + keep_ms

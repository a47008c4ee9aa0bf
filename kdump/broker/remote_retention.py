"""Say which remote segments of a partition the next pass of total retention deletes, and why (W13).

A pass goes through the leader epochs of the log, and of each through the remote segments in the
order of their offsets. The first segment of this log that stays ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.remote_log import (
    COPY_FINISHED,
    DELETE_STARTED,
    RemoteSegment,
    Tier,
    is_within,
    with_messages,
)
from kdump.broker.retention import BY_SIZE, BY_TIME, LOG_START
from kdump.broker.versions import Version, has
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.retention import LogFacts
    from kdump.broker.settings import Settings

#: Rules that only remote segments know.
RETRY, EPOCHS = "retry", "leader-epochs"


class RemoteHold(NamedTuple):
    """What becomes of a remote segment: the `rule` by which the next pass takes it, None: it stays.

    `due_ms` is when a pass takes one that stays by time; `is_ours`: it is of this log (W8).
    """

    rule: str | None
    due_ms: int | None
    is_ours: bool


class RemotePass:
    """The next pass: `holds` has each segment by its id."""

    def __init__(
        self, tier: Tier, log: LogFacts, settings: Settings, now_ms: int, broker: Version
    ) -> None:
        assert tier.log is not None
        self._tier = tier
        self._log = tier.log
        self._log_end = log.log_end
        self._lineage = with_messages(tier.epochs)
        self._retention_ms = settings.retention_ms
        self._now_ms = now_ms
        self._past_ms = 1 if has(broker, v.REMOTE_TIME_EXCEEDED) else 0
        self._retries = has(broker, v.REMOTE_DELETION_RETRIED)
        self._excess = self._excess_bytes(log, settings.retention_bytes)
        self.holds: Mapping[str, RemoteHold] = self._walk() if tier.problem is None else {}

    def _excess_bytes(self, log: LogFacts, most: int) -> int:
        """How much the whole log is over the limit: what is finished, and what is only local."""
        if most < 0:
            return 0
        copied_to = -1 if log.copied_to is None else log.copied_to
        local = sum(one.size_bytes for one in log.segments if one.base_offset >= copied_to)
        finished = {
            one.segment_id: one.size_bytes
            for epoch in self._lineage
            for one in self._log.in_epoch(epoch)
            if one.state == COPY_FINISHED and self._is_ours(one)
        }
        return max(local + sum(finished.values()) - most, 0)

    def _is_ours(self, segment: RemoteSegment) -> bool:
        return is_within(segment, self._log_end, self._lineage)

    def _walk(self) -> dict[str, RemoteHold]:
        found: dict[str, RemoteHold] = {}
        goes_on, latest_ms = True, -1
        for epoch in sorted(self._lineage):
            for one in self._log.in_epoch(epoch):
                if one.segment_id in found:
                    continue
                is_ours = self._is_ours(one)
                rule = self._rule(one, is_ours=is_ours) if goes_on else None
                due_ms = None
                if rule is None and is_ours:
                    goes_on = False
                    latest_ms = max(latest_ms, one.max_timestamp_ms)
                    if self._retention_ms >= 0:
                        due_ms = latest_ms + self._retention_ms + self._past_ms
                found[one.segment_id] = RemoteHold(rule, due_ms, is_ours)
        earliest = min((one.epoch for one in self._tier.epochs), default=-1)
        for segment_id, one in self._log.segments.items():
            if segment_id not in found:
                gone = all(each.epoch < earliest for each in one.leader_epochs)
                found[segment_id] = RemoteHold(EPOCHS if gone else None, None, is_ours=False)
        return found

    def _rule(self, one: RemoteSegment, *, is_ours: bool) -> str | None:
        if self._retries and one.state == DELETE_STARTED:
            return RETRY
        first = min(self._lineage)
        if one.end_offset < self._tier.log_start and one.leader_epochs[-1].epoch <= first:
            return LOG_START
        if not is_ours:
            return None
        until_ms = self._now_ms - self._retention_ms
        if self._retention_ms >= 0 and until_ms - one.max_timestamp_ms - self._past_ms >= 0:
            self._excess = max(self._excess - one.size_bytes, 0)
            return BY_TIME
        if self._excess > 0 and one.size_bytes <= self._excess:
            self._excess -= one.size_bytes
            return BY_SIZE
        return None

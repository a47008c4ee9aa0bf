"""Make rows of what a replay came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.broker.offset_expiry import Kept, expiry_ms, retention_ms
from kdump.broker.versions import Version
from kdump.findings.rows import Row
from kdump.replay.groups import CLASSIC, CONSUMER, SHARE, Change

if TYPE_CHECKING:
    from kdump.engine.coordinators.marks import Mark, Marks
    from kdump.replay.group_state import Assigned, Commit, Group, Member
    from kdump.replay.share_state import SharePartition

#: Members of a committed offset that its row has, in their order.
_OF_COMMITS = (
    "group topic partition offset leader_epoch metadata commit_ms expire_ms pending producer_id"
).split()
_NO_MARK: dict[str, int | None] = {
    "log_start": None,
    "log_end": None,
    "high_watermark": None,
    "lag": None,
}


class TopicNames:
    """Names of topics by id: as the records of the replay tell them, else as the disks do."""

    def __init__(self, told: Mapping[str, str], marks: Marks) -> None:
        self._told = told
        self._marks = marks

    def of(self, topic_id: str) -> str:
        """Return the name; the id itself where nobody says the name."""
        return self._told.get(topic_id) or self._marks.topic_name(topic_id) or topic_id


def group_row(group: Group, partition: int) -> Row:
    """Make the row of a group."""
    return Row(
        "group",
        {
            "group": group.name,
            "type": group.type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "leader": group.leader,
            "members_count": len(group.members),
            "offsets_partition": partition,
            "changed_ms": None if group.changed_ms < 0 else group.changed_ms,
        },
    )


def member_row(group: Group, member: Member, names: TopicNames) -> Row:
    """Make the row of a member."""
    assigned: Assigned = member.assignment
    if group.type in (CONSUMER, SHARE):
        assigned = {names.of(topic): partitions for topic, partitions in assigned.items()}
    return Row(
        "member",
        {
            "group": group.name,
            **member._asdict(),
            "assignment": dict(sorted(assigned.items())),
        },
    )


def commit_row(
    commit: Commit,
    group: Group | None,
    mark: Mark | None,
    *,
    stays: bool,
    keep_ms: int | None,
    broker: Version,
) -> Row:
    """Make the row of a committed offset.

    `keep_ms` is as the broker's settings state it; with `stays` it does not expire as things are.
    """
    expire = None
    if not (commit.pending or stays) and group is not None:
        expire = expiry_ms(_kept(commit, group), retention_ms(keep_ms, broker), broker)
    members: dict[str, object] = {name: getattr(commit, name) for name in _OF_COMMITS}
    return Row(
        "committed-offset",
        {**members, "expire_ms": expire, **_marked(mark, commit.offset)},
    )


def _kept(commit: Commit, group: Group) -> Kept:
    with_protocol = group.type == CLASSIC and bool(group.protocol_type)
    return Kept(
        commit.commit_ms,
        commit.expire_ms,
        bool(group.members),
        commit.topic in (group.topics or ()),
        group.topics is not None,
        group.state_ms if with_protocol and not group.members else None,
    )


def share_row(
    group: str, topic: str, partition: int, share: SharePartition, mark: Mark | None
) -> Row:
    """Make the row of where a share group stands in a partition."""
    return Row(
        "committed-offset",
        {
            **dict.fromkeys(_OF_COMMITS),
            "group": group,
            "topic": topic,
            "partition": partition,
            "offset": share.start_offset,
            "leader_epoch": share.leader_epoch,
            "commit_ms": share.write_ms,
            "pending": False,
            **_marked(mark, share.start_offset),
        },
    )


def _marked(mark: Mark | None, offset: int | None) -> dict[str, int | None]:
    if mark is None:
        return _NO_MARK
    end = mark.high_watermark
    lag = None if offset is None or end is None else end - offset
    return {**mark._asdict(), "lag": lag}


def history_row(
    change: Change,
    names: tuple[str, str, int],
    *,
    before: int | None,
    now: int | None,
    members: int | None,
    partition: int,
) -> Row:
    """Make the row of a change of a committed offset."""
    kind = "commit" if change.producer_id < 0 else "transaction"
    group, topic, number = names
    return Row(
        "offset-commit",
        {
            "at_ms": change.at_ms,
            "group": group,
            "topic": topic,
            "partition": number,
            "previous_offset": before,
            "offset": now,
            "kind": "tombstone" if change.now is None else kind,
            "producer_id": None if change.producer_id < 0 else change.producer_id,
            "members_count": members,
            "offsets_partition": partition,
            "source_offset": change.source_offset,
        },
    )

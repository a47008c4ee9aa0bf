"""Make rows of what a replay came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.broker.offset_expiry import KeepReason, expiry_ms, retention_ms
from kdump.broker.versions import Version, text_of
from kdump.replay.groups import CLASSIC, CONSUMER, SHARE, Change
from kdump.rows import groups as rows

if TYPE_CHECKING:
    from kdump.engine.coordinators.partitions import Mark, Marks
    from kdump.replay.group_state import Assigned, Commit, Group, Member
    from kdump.replay.share_state import SharePartition


class TopicNames:
    """Names of topics by id: as the records of the replay tell them, else as the disks do."""

    def __init__(self, told: Mapping[str, str], marks: Marks) -> None:
        self._told = told
        self._marks = marks

    def of(self, topic_id: str) -> str:
        """Return the name; the id itself where nobody says the name."""
        return self._told.get(topic_id) or self._marks.topic_name(topic_id) or topic_id


def group_row(group: Group, partition: int) -> rows.Group:
    """Make the row of a group."""
    return rows.Group(
        group.name,
        group.type,
        group.state,
        group.protocol_type,
        group.protocol,
        group.epoch,
        group.assignment_epoch,
        group.leader,
        len(group.members),
        partition,
        None if group.changed_ms < 0 else group.changed_ms,
    )


def member_row(group: Group, member: Member, names: TopicNames) -> rows.Member:
    """Make the row of a member."""
    assigned: Assigned = member.assignment
    if group.type in (CONSUMER, SHARE):
        assigned = {names.of(topic): partitions for topic, partitions in assigned.items()}
    member = member._replace(assignment=dict(sorted(assigned.items())))
    return rows.Member(group.name, *member)


def commit_row(
    commit: Commit,
    group: Group | None,
    mark: Mark | None,
    *,
    stays: bool,
    keep_ms: int | None,
    broker: Version,
    with_topic_id: bool,
) -> rows.CommittedOffset:
    """Make the row of a committed offset.

    `keep_ms` is as the broker's settings state it; with `stays` it does not expire as things are.
    """
    expire = None
    if not (commit.pending or stays) and group is not None:
        expire = expiry_ms(_keep_reason(commit, group), retention_ms(keep_ms, broker), broker)
    return rows.CommittedOffset(
        commit.group,
        commit.topic,
        commit.partition,
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        commit.commit_ms,
        expire,
        commit.pending,
        commit.producer_id,
        *_mark_members(mark, commit.offset),
        topic_id=commit.topic_id if with_topic_id else None,
        broker_version=text_of(broker),
    )


def _keep_reason(commit: Commit, group: Group) -> KeepReason:
    with_protocol = group.type == CLASSIC and bool(group.protocol_type)
    return KeepReason(
        commit.commit_ms,
        commit.expire_ms,
        bool(group.members),
        commit.topic in (group.topics or ()),
        group.topics is not None,
        group.state_ms if with_protocol and not group.members else None,
    )


def share_row(
    group: str, topic: str, partition: int, share: SharePartition, mark: Mark | None
) -> rows.CommittedOffset:
    """Make the row of where a share group stands in a partition."""
    return rows.CommittedOffset(
        group,
        topic,
        partition,
        share.start_offset,
        share.leader_epoch,
        None,
        share.write_ms,
        None,
        False,
        None,
        *_mark_members(mark, share.start_offset),
    )


def _mark_members(
    mark: Mark | None, offset: int | None
) -> tuple[int | None, int | None, int | None, int | None]:
    """Return log start, log end, high watermark and lag."""
    if mark is None:
        return None, None, None, None
    end = mark.high_watermark
    return *mark, None if offset is None or end is None else end - offset


def history_row(
    change: Change,
    names: tuple[str, str, int],
    *,
    before: int | None,
    now: int | None,
    members: int | None,
    partition: int,
) -> rows.OffsetCommit:
    """Make the row of a change of a committed offset."""
    kind = "commit" if change.producer_id < 0 else "transaction"
    return rows.OffsetCommit(
        change.at_ms,
        *names,
        before,
        now,
        "tombstone" if change.now is None else kind,
        None if change.producer_id < 0 else change.producer_id,
        members,
        partition,
        change.source_offset,
    )

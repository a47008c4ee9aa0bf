"""The rows of `groups`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import DurationInt, Int32, Json, Time, Word


class Group(Row, kind="group"):
    """A group, as the records of its coordinator leave it."""

    group: Annotated[str, "its id"]
    type: Annotated[Word, "Classic, Consumer, Share or Streams"]
    state: Annotated[Word, "its state, as Kafka's admin client names it"]
    protocol_type: Annotated[str, "consumer, connect and others; empty: none joined yet"]
    protocol: Annotated[str | None, "the assignor, where the records name one"]
    epoch: Annotated[Int32 | None, "its epoch; of a classic group its generation"]
    assignment_epoch: Annotated[Int32 | None, "epoch of the target assignment, null if classic"]
    leader: Annotated[str | None, "member id of the leader of a classic group"]
    members_count: Annotated[Int32, "how many members it has"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets that it is in"]
    changed_ms: Annotated[Time | None, "when its state, its members or their assignment changed"]


class Member(Row, kind="member"):
    """A member of a group."""

    group: Annotated[str, "id of the group"]
    member_id: Annotated[str, "its id"]
    instance_id: Annotated[str | None, "its group.instance.id"]
    client_id: Annotated[str, "its client.id"]
    client_host: Annotated[str, "the address it joined from"]
    rack: Annotated[str | None, "its client.rack"]
    subscription: Annotated[list[str] | None, "topics it subscribes to"]
    subscription_regex: Annotated[str | None, "pattern of topics it subscribes to"]
    assignment: Annotated[dict[str, list[int]], "its partitions by topic; tasks by subtopology"]
    tasks: Annotated[Json, "all tasks of a member of a streams group, active ones too"]
    epoch: Annotated[Int32 | None, "epoch of the member; of a classic group its generation"]
    session_timeout_ms: Annotated[DurationInt | None, "its session timeout"]


class CommittedOffset(Row, kind="committed-offset", omits=("topic_id",)):
    """A committed offset, or the start offset of a share group."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    offset: Annotated[int | None, "the offset; null: a share group has none yet"]
    leader_epoch: Annotated[Int32 | None, "leader epoch of the last record consumed"]
    metadata: Annotated[str | None, "what the client stored with it"]
    commit_ms: Annotated[Time, "when it was committed"]
    expire_ms: Annotated[Time | None, "when a broker may remove it; null: the group keeps it"]
    pending: Annotated[bool, "whether it waits for its transaction to end"]
    producer_id: Annotated[int | None, "producer of the transaction"]
    log_start: Annotated[int | None, "log start offset of the partition here"]
    log_end: Annotated[int | None, "log end offset of the partition here"]
    high_watermark: Annotated[int | None, "high watermark of the partition here"]
    lag: Annotated[int | None, "high watermark less the offset"]
    topic_id: Annotated[str | None, "id of the topic, where a salvage asks for it"] = None
    broker_version: Annotated[Word | None, "the release whose rule sets expire_ms"] = None


class EndedOffset(Row, kind="ended-offset"):
    """A committed offset that a tombstone removed, as the deletion of its topic does."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    offset: Annotated[int | None, "the offset; null: only the tombstone is left"]
    topic_id: Annotated[str | None, "id of the topic"]
    ended_ms: Annotated[Time, "when it was removed"]


class OffsetCommit(Row, kind="offset-commit"):
    """A change of a committed offset: with `--history`."""

    at_ms: Annotated[Time, "when; of a transaction the time of its marker"]
    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    previous_offset: Annotated[int | None, "the offset before; null: there was none"]
    offset: Annotated[int | None, "the offset since; null: it was removed"]
    kind: Annotated[Word, "commit, transaction or tombstone"]
    producer_id: Annotated[int | None, "producer of the transaction"]
    members_count: Annotated[Int32 | None, "how many members the group had then; null: not known"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in it"]


class MemberJoin(Row, kind="member-join"):
    """A member that joined a group: with `--history`."""

    at_ms: Annotated[Time, "when the coordinator wrote it"]
    group: Annotated[str, "id of the group"]
    member_id: Annotated[str, "its id"]
    instance_id: Annotated[str | None, "its group.instance.id"]
    client_id: Annotated[str, "its client.id"]
    client_host: Annotated[str, "the address it joined from"]
    subscription: Annotated[list[str] | None, "topics it subscribes to"]
    subscription_regex: Annotated[str | None, "pattern of topics it subscribes to"]
    epoch: Annotated[Int32 | None, "epoch of the group; of a classic group its generation"]
    members_count: Annotated[Int32, "how many members the group had then"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in it"]


class MemberLeave(Row, kind="member-leave"):
    """A member that left a group, or was removed from it: with `--history`."""

    at_ms: Annotated[Time, "when the coordinator wrote it"]
    group: Annotated[str, "id of the group"]
    member_id: Annotated[str, "its id"]
    instance_id: Annotated[str | None, "its group.instance.id"]
    client_id: Annotated[str, "its client.id"]
    client_host: Annotated[str, "the address it joined from"]
    joined_ms: Annotated[Time | None, "when it joined; null: not known"]
    epoch: Annotated[Int32 | None, "epoch of the group; of a classic group its generation"]
    members_count: Annotated[Int32, "how many members are left"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in it"]


class Difference(TypedDict):
    """A partition that another member would have."""

    topic: str
    partition: int
    member_id: str | None
    expected: str | None


class Rebalance(Row, kind="rebalance", omits=("fits", "nearest", "differences")):
    """A generation of a classic group, or a target assignment of another: with `--history`."""

    at_ms: Annotated[Time, "when the coordinator wrote it"]
    group: Annotated[str, "id of the group"]
    type: Annotated[Word, "Classic, Consumer, Share or Streams"]
    epoch: Annotated[Int32, "epoch of the target assignment; of a classic group its generation"]
    protocol: Annotated[str | None, "the assignor, where the records name one"]
    leader: Annotated[str | None, "member id of the leader of a classic group"]
    members_count: Annotated[Int32, "how many members it has"]
    members_before: Annotated[Int32, "how many members the one before had"]
    assignment: Annotated[dict[str, dict[str, list[int]]], "partitions by member and topic"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in it"]
    fits: Annotated[list[str] | None, "with `--explain`: assignors that give just this"] = None
    nearest: Annotated[str | None, "the assignor that `differences` are of"] = None
    differences: Annotated[list[Difference] | None, "who has, and who would have"] = None


class PartitionOwner(Row, kind="partition-owner"):
    """A stretch of time in which a member had a partition, or nobody: with `--history`."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    member_id: Annotated[str | None, "the member that had it; null: nobody, a gap"]
    client_id: Annotated[str | None, "its client.id"]
    client_host: Annotated[str | None, "the address it joined from"]
    from_ms: Annotated[Time | None, "since when; null: not known"]
    to_ms: Annotated[Time | None, "until when; null: to the end of the log"]
    epoch: Annotated[Int32 | None, "generation or epoch that it began with"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]

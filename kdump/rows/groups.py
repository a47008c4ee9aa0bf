"""The rows of `groups`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import DurationInt, Int32, Json, Time, Word


class Group(Row, kind="group"):
    """A group, from the records of its coordinator."""

    group: Annotated[str, "its id"]
    type: Annotated[Word, "Classic, Consumer, Share, or Streams"]
    state: Annotated[Word, "its state, as Kafka's admin client names it"]
    protocol_type: Annotated[str, "consumer, connect, and others; empty: no member joined yet"]
    protocol: Annotated[str | None, "the assignor, if the records name one"]
    epoch: Annotated[Int32 | None, "its epoch; for a classic group, its generation"]
    assignment_epoch: Annotated[Int32 | None, "epoch of the target assignment, null if classic"]
    leader: Annotated[str | None, "member id of the leader of a classic group"]
    members_count: Annotated[Int32, "number of members"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets that has its records"]
    changed_ms: Annotated[Time | None, "when its state, members, or assignment last changed"]


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
    tasks: Annotated[Json, "all tasks of a member of a streams group, including active ones"]
    epoch: Annotated[Int32 | None, "epoch of the member; for a classic group, the generation"]
    session_timeout_ms: Annotated[DurationInt | None, "its session timeout"]


class CommittedOffset(Row, kind="committed-offset", omits=("topic_id",)):
    """A committed offset, or the start offset of a share group."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int | None, "the offset; null: a share group has none yet"]
    leader_epoch: Annotated[Int32 | None, "leader epoch of the last record consumed"]
    metadata: Annotated[str | None, "metadata that the client stored with it"]
    commit_ms: Annotated[Time, "when it was committed"]
    expire_ms: Annotated[
        Time | None, "when a broker can remove it; null: not while the group is active"
    ]
    pending: Annotated[bool, "whether it waits for its transaction to end"]
    producer_id: Annotated[int | None, "producer of the transaction"]
    log_start: Annotated[int | None, "log start offset of the partition here"]
    log_end: Annotated[int | None, "log end offset of the partition here"]
    high_watermark: Annotated[int | None, "high watermark of the partition here"]
    lag: Annotated[int | None, "high watermark minus the offset"]
    topic_id: Annotated[str | None, "id of the topic, only in salvage and produce"] = None
    broker_version: Annotated[Word | None, "the release whose rule sets expire_ms"] = None


class EndedOffset(Row, kind="ended-offset"):
    """A committed offset that was removed, for example because its topic was deleted."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int | None, "the offset before; null: only the tombstone is left"]
    topic_id: Annotated[str | None, "id of the topic"]
    ended_ms: Annotated[Time, "when it was removed"]


class OffsetCommit(Row, kind="offset-commit"):
    """A change of a committed offset: with `--history`."""

    at_ms: Annotated[Time, "time of the commit; for a transaction, of its marker"]
    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    previous_offset: Annotated[int | None, "the offset before; null: there was none"]
    offset: Annotated[int | None, "the offset after; null: it was removed"]
    kind: Annotated[Word, "commit, transaction, or tombstone"]
    producer_id: Annotated[int | None, "producer of the transaction"]
    members_count: Annotated[Int32 | None, "number of members at that time; null: unknown"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in that partition"]


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
    epoch: Annotated[Int32 | None, "epoch of the group; for a classic group, its generation"]
    members_count: Annotated[Int32, "number of members at that time"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in that partition"]


class MemberLeave(Row, kind="member-leave"):
    """A member that left a group, or was removed from it: with `--history`."""

    at_ms: Annotated[Time, "when the coordinator wrote it"]
    group: Annotated[str, "id of the group"]
    member_id: Annotated[str, "its id"]
    instance_id: Annotated[str | None, "its group.instance.id"]
    client_id: Annotated[str, "its client.id"]
    client_host: Annotated[str, "the address it joined from"]
    joined_ms: Annotated[Time | None, "when it joined; null: unknown"]
    epoch: Annotated[Int32 | None, "epoch of the group; for a classic group, its generation"]
    members_count: Annotated[Int32, "number of members left"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in that partition"]


class Difference(TypedDict):
    """A partition that the assignor gives to another member."""

    topic: str
    partition: int
    member_id: str | None
    expected: str | None


class Rebalance(Row, kind="rebalance", omits=("fits", "nearest", "differences")):
    """A generation of a classic group, or a target assignment of another: with `--history`."""

    at_ms: Annotated[Time, "when the coordinator wrote it"]
    group: Annotated[str, "id of the group"]
    type: Annotated[Word, "Classic, Consumer, Share, or Streams"]
    epoch: Annotated[Int32, "epoch of the target assignment; for a classic group, its generation"]
    protocol: Annotated[str | None, "the assignor, if the records name one"]
    leader: Annotated[str | None, "member id of the leader of a classic group"]
    members_count: Annotated[Int32, "number of members"]
    members_before: Annotated[Int32, "number of members before"]
    assignment: Annotated[dict[str, dict[str, list[int]]], "partitions by member and topic"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]
    source_offset: Annotated[int, "offset of the record in that partition"]
    fits: Annotated[
        list[str] | None, "with `--explain`: assignors that produce this assignment"
    ] = None
    nearest: Annotated[str | None, "the assignor that `differences` compares with"] = None
    differences: Annotated[
        list[Difference] | None, "partitions with their member, and the member expected"
    ] = None


class PartitionOwner(Row, kind="partition-owner"):
    """A period in which one member, or none, had a partition: with `--history`."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    member_id: Annotated[str | None, "the member that had it; null: unassigned"]
    client_id: Annotated[str | None, "its client.id"]
    client_host: Annotated[str | None, "the address it joined from"]
    from_ms: Annotated[Time | None, "start of the ownership; null: unknown"]
    to_ms: Annotated[Time | None, "end of the ownership; null: still owned at the end of the log"]
    epoch: Annotated[Int32 | None, "generation or epoch in which it began"]
    offsets_partition: Annotated[Int32, "the partition of __consumer_offsets"]

"""The rows of `why`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int32, Oldest, Time, Word

_Topic = Annotated[str | None, "the topic"]
_Partition = Annotated[Int32 | None, "the partition's number"]


class PinnedBy(TypedDict):
    """A record that keeps segments; where no record has a time, that of the file alone."""

    offset: int | None
    timestamp_ms: int
    producer_id: int | None
    records_ahead: int | None


class FailsAt(TypedDict):
    """The entry at which the cleaner gives up; `position` is in the log at `path`."""

    path: str
    position: int
    why: str


class PartitionLoss(TypedDict):
    """What a step deletes of one partition."""

    partition: int
    directory: str
    frees_bytes: int
    loses_from: int | None
    loses_to: int | None


class PlanOf(TypedDict):
    """What was asked for in some data directories together, and the steps that are for it."""

    directories: list[str]
    asked_bytes: int
    planned_bytes: int
    steps: list[int]


class SegmentFate(Row, kind="segment-fate", omits=("oldest",)):
    """A segment: what ended it, what keeps it, and until when."""

    topic: _Topic
    partition: _Partition
    segment: Annotated[int, "base offset of the segment"]
    size_bytes: Annotated[Bytes, "its size, with indexes"]
    active: Annotated[bool, "whether it is the one written to"]
    largest_timestamp_ms: Annotated[Time | None, "its largest time, as the broker takes it"]
    time_source: Annotated[Word | None, "what says this time: timeindex, log, mtime, file"]
    rolled_by: Annotated[Word | None, "what ended it, with --rolls"]
    verdict: Annotated[Word, "deletable, kept, active and others"]
    rule: Annotated[Word, "the setting that decides"]
    deletable_at_ms: Annotated[Time | None, "when a broker may delete it"]
    pinned_by: Annotated[PinnedBy | None, "a record from the future that keeps it"]
    text: Annotated[str, "why, in words"]
    kept_by: Annotated[str | None, "the setting that keeps it, and where it is from"]
    reserved_index_bytes: Annotated[Bytes, "bytes reserved for indexes, which take no room"]
    dead_records: Annotated[int | None, "records that the next cleaning removes"]
    dead_bytes: Annotated[Bytes | None, "their bytes"]
    tombstones: Annotated[int | None, "tombstones in it"]
    tombstones_removable: Annotated[int | None, "those that the next cleaning removes"]
    oldest: Annotated[
        Oldest | None, "what the oldest release does that it can be, where that differs"
    ] = None


class PartitionSpace(Row, kind="partition-space"):
    """The room that a partition takes; without a topic that of the data directory around them."""

    topic: _Topic
    partition: _Partition
    log_bytes: Annotated[Bytes, "bytes of logs"]
    index_bytes: Annotated[Bytes, "bytes of indexes"]
    other_bytes: Annotated[Bytes, "bytes of other files"]
    retired_bytes: Annotated[Bytes, "bytes of files being deleted or replaced"]
    deletable_bytes: Annotated[Bytes, "bytes that the next retention pass frees"]
    reserved_index_bytes: Annotated[Bytes, "bytes reserved for indexes"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes"]
    allocated_bytes: Annotated[Bytes | None, "bytes allocated on the disk"]
    retired: Annotated[Word | None, "delete, future or stray: what the directory is named"]
    path: Annotated[str, "the directory"]


class PinnedSegments(Row, kind="pinned-segments"):
    """The segments of a partition that one record keeps."""

    topic: _Topic
    partition: _Partition
    segment: Annotated[int, "base offset of the first of them"]
    segments: Annotated[int, "how many"]
    size_bytes: Annotated[Bytes, "their size, with indexes"]
    pinned_by: Annotated[PinnedBy, "the record from the future"]
    text: Annotated[str, "why the first stays, in words"]


class TopicSpace(Row, kind="topic-space", sums_up=True):
    """The room that a topic takes; without a topic that around partitions."""

    topic: _Topic
    retired: Annotated[Word | None, "delete, future or stray: its directories that are so named"]
    size_bytes: Annotated[Bytes, "its size, without what is reserved for indexes"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of its segments by verdict"]


class Compaction(Row, kind="compaction", omits=("oldest",)):
    """What the next cleaning of a partition does, and when."""

    topic: _Topic
    partition: _Partition
    policy: Annotated[Word, "compact, or compact,delete"]
    first_dirty_offset: Annotated[int, "where the next cleaning starts"]
    first_uncleanable_offset: Annotated[int, "where it ends"]
    clean_bytes: Annotated[Bytes, "bytes before that"]
    dirty_bytes: Annotated[Bytes, "bytes between them"]
    dirty_ratio: Annotated[float, "their share"]
    min_dirty_ratio: Annotated[float, "min.cleanable.dirty.ratio"]
    cleanable: Annotated[bool, "whether it is cleaned in the next round"]
    due_ms: Annotated[Time | None, "when max.compaction.lag.ms forces it"]
    blocked_by: Annotated[Word, "what keeps more from being cleaned"]
    dead_records: Annotated[int | None, "records that it removes, with --cleaner"]
    dead_bytes: Annotated[Bytes | None, "their bytes"]
    tombstones: Annotated[int | None, "tombstones"]
    tombstones_removable: Annotated[int | None, "those that it removes"]
    at_least: Annotated[bool | None, "whether these counts are only at least"]
    fails_at: Annotated[FailsAt | None, "where the cleaner fails"]
    text: Annotated[str, "all of it in words"]
    oldest: Annotated[
        Oldest | None, "what the oldest release does that it can be, where that differs"
    ] = None


class PlanStep(Row, kind="plan-step"):
    """A step of a plan that frees room, with --free."""

    order: Annotated[int, "its number, from 1"]
    command: Annotated[str | None, "the command to type; null: wait"]
    frees_bytes: Annotated[Bytes, "bytes that it frees"]
    loses_records: Annotated[int | None, "records that are lost"]
    loses_from: Annotated[int | None, "the first of them"]
    loses_to: Annotated[int | None, "the last of them"]
    loses_to_ms: Annotated[Time | None, "time of the last"]
    topic: _Topic
    partition: _Partition
    text: Annotated[str, "what it does, in words"]
    undo: Annotated[str | None, "the command that takes it back"]
    acts_within_ms: Annotated[Duration | None, "how long until a broker acts on it"]
    partitions: Annotated[list[PartitionLoss] | None, "what each partition loses"]
    directory: Annotated[str | None, "the data directory; null: several"]


class RemoteFate(Row, kind="remote-fate"):
    """A remote segment of a tiered topic: whether total retention deletes it, and when."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    segment_id: Annotated[str, "the segment's id"]
    start_offset: Annotated[int, "its first offset"]
    end_offset: Annotated[int | None, "its last offset, by the metadata"]
    size_bytes: Annotated[Bytes | None, "size of its log, by the metadata"]
    state: Annotated[Word | None, "its state, by the metadata; null: without a record"]
    only_remote: Annotated[bool | None, "whether the local log has none of it; null: not known"]
    object_bytes: Annotated[Bytes | None, "bytes of all its objects; null: without --tier"]
    verdict: Annotated[
        Word, "deletable, kept, not-deleted-by-policy, unfinished, unreferenced, orphan, or gap"
    ]
    rule: Annotated[Word, "the setting that decides"]
    deletable_at_ms: Annotated[Time | None, "when a broker may delete it"]
    text: Annotated[str, "why, in words"]


class TierSpace(Row, kind="tier-space"):
    """The room that a partition of a tiered topic takes in remote storage."""

    topic: Annotated[str, "the topic"]
    topic_id: Annotated[str, "its id"]
    partition: Annotated[Int32, "the partition's number"]
    log_start: Annotated[int | None, "log start offset; null: the partition is not here"]
    local_start: Annotated[int | None, "where the local log starts"]
    segments: Annotated[int, "remote segments, with orphans"]
    size_bytes: Annotated[Bytes, "their logs, by the metadata"]
    only_remote_bytes: Annotated[Bytes, "of those that consumers read from remote storage alone"]
    object_bytes: Annotated[Bytes | None, "bytes of all objects; null: without --tier"]
    wasted_bytes: Annotated[Bytes, "of these, what no broker reads, less gaps"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of objects, or of logs, by verdict"]
    next_deletable_ms: Annotated[Time | None, "when the next segment may be deleted"]


class DataDirectory(Row, kind="data-directory"):
    """A data directory and its file system."""

    path: Annotated[str, "the directory"]
    broker_version: Annotated[str, "the release whose retention and cleaner are meant"]
    device: Annotated[str | None, "its device, major:minor"]
    size_bytes: Annotated[Bytes | None, "size of the file system"]
    used_bytes: Annotated[Bytes | None, "bytes used"]
    free_bytes: Annotated[Bytes | None, "bytes free"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes of Kafka's files"]
    asked_bytes: Annotated[Bytes | None, "bytes that are to be free"]
    planned_bytes: Annotated[Bytes | None, "bytes that the plan frees"]


_OF_PLANS = ("asked_bytes", "planned_bytes", "plans")


class WhySummary(Row, kind="why-summary", sums_up=True, omits=_OF_PLANS):
    """What all partitions take together."""

    now_ms: Annotated[Time, "the moment it is asked for"]
    partitions: Annotated[int, "partitions"]
    segments: Annotated[int, "segments"]
    log_bytes: Annotated[Bytes, "bytes of logs"]
    index_bytes: Annotated[Bytes, "bytes of indexes"]
    other_bytes: Annotated[Bytes, "bytes of other files"]
    retired_bytes: Annotated[Bytes, "bytes of files being deleted or replaced"]
    deletable_bytes: Annotated[Bytes, "bytes that the next retention pass frees"]
    reserved_index_bytes: Annotated[Bytes, "bytes reserved for indexes"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes"]
    allocated_bytes: Annotated[Bytes | None, "bytes allocated on the disk"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of segments by verdict"]
    segments_by_verdict: Annotated[dict[str, int], "segments by verdict"]
    next_deletable_ms: Annotated[Time | None, "when the next segment may be deleted"]
    paths_unfinished: Annotated[int, "paths that could not be finished"]
    asked_bytes: Annotated[Bytes | None, "bytes that are to be free, with --free"]
    planned_bytes: Annotated[Bytes | None, "bytes that the plans free, with --free"]
    plans: Annotated[list[PlanOf] | None, "a plan for each file system, with --free"]

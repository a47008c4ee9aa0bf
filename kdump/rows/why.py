"""The rows of `why`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int32, Oldest, Time, Word

_Topic = Annotated[str | None, "the topic"]
_Partition = Annotated[Int32 | None, "the partition number"]


class PinnedBy(TypedDict):
    """A record that keeps segments; if no record has a time, only the file's time."""

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
    """A request for space in some data directories, and the steps that free it."""

    directories: list[str]
    asked_bytes: int
    planned_bytes: int
    steps: list[int]


class SegmentFate(Row, kind="segment-fate", omits=("oldest",)):
    """A segment: why it was rolled, what keeps it, and until when."""

    topic: _Topic
    partition: _Partition
    segment: Annotated[int, "base offset of the segment"]
    size_bytes: Annotated[Bytes, "its size, including indexes"]
    active: Annotated[bool, "whether it is the active segment"]
    largest_timestamp_ms: Annotated[
        Time | None, "its largest timestamp, as the broker determines it"
    ]
    time_source: Annotated[Word | None, "source of that time: timeindex, log, mtime, or file"]
    rolled_by: Annotated[Word | None, "why it was rolled, with --rolls"]
    verdict: Annotated[Word, "deletable, kept, active, and others"]
    rule: Annotated[Word, "the setting that decides"]
    deletable_at_ms: Annotated[Time | None, "when a broker can delete it"]
    pinned_by: Annotated[PinnedBy | None, "a record with a future timestamp that keeps it"]
    text: Annotated[str, "the reason"]
    kept_by: Annotated[str | None, "the setting that keeps it, and its source"]
    reserved_index_bytes: Annotated[Bytes, "bytes preallocated for indexes, not on disk"]
    dead_records: Annotated[int | None, "records that the next compaction removes"]
    dead_bytes: Annotated[Bytes | None, "their bytes"]
    tombstones: Annotated[int | None, "tombstones in it"]
    tombstones_removable: Annotated[int | None, "tombstones that the next compaction removes"]
    oldest: Annotated[Oldest | None, "the same for the oldest possible release, if different"] = (
        None
    )


class PartitionSpace(Row, kind="partition-space"):
    """The space used by a partition; without a topic, by the data directory's other files."""

    topic: _Topic
    partition: _Partition
    log_bytes: Annotated[Bytes, "bytes of logs"]
    index_bytes: Annotated[Bytes, "bytes of indexes"]
    other_bytes: Annotated[Bytes, "bytes of other files"]
    retired_bytes: Annotated[Bytes, "bytes of files being deleted or replaced"]
    deletable_bytes: Annotated[Bytes, "bytes that the next retention pass frees"]
    reserved_index_bytes: Annotated[Bytes, "bytes preallocated for indexes"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes"]
    allocated_bytes: Annotated[Bytes | None, "bytes allocated on the disk"]
    retired: Annotated[Word | None, "delete, future, or stray: the suffix of the directory"]
    path: Annotated[str, "the directory"]


class PinnedSegments(Row, kind="pinned-segments"):
    """The segments of a partition that one record keeps."""

    topic: _Topic
    partition: _Partition
    segment: Annotated[int, "base offset of the first segment"]
    segments: Annotated[int, "number of segments"]
    size_bytes: Annotated[Bytes, "their size, including indexes"]
    pinned_by: Annotated[PinnedBy, "the record with the future timestamp"]
    text: Annotated[str, "why the first segment is kept"]


class TopicSpace(Row, kind="topic-space", sums_up=True):
    """The space used by a topic; without a topic, by files outside partitions."""

    topic: _Topic
    retired: Annotated[Word | None, "delete, future, or stray, for directories with that suffix"]
    size_bytes: Annotated[Bytes, "its size, without preallocated index space"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of its segments by verdict"]


class Compaction(Row, kind="compaction", omits=("oldest",)):
    """What the next compaction of a partition does, and when."""

    topic: _Topic
    partition: _Partition
    policy: Annotated[Word, "compact, or compact,delete"]
    first_dirty_offset: Annotated[int, "offset where the next compaction starts"]
    first_uncleanable_offset: Annotated[int, "offset where it ends"]
    clean_bytes: Annotated[Bytes, "bytes before the first dirty offset"]
    dirty_bytes: Annotated[Bytes, "bytes from there to the first uncleanable offset"]
    dirty_ratio: Annotated[float, "share of dirty bytes"]
    min_dirty_ratio: Annotated[float, "min.cleanable.dirty.ratio"]
    cleanable: Annotated[bool, "whether the cleaner compacts it in its next run"]
    due_ms: Annotated[Time | None, "when max.compaction.lag.ms requires it"]
    blocked_by: Annotated[Word, "what prevents further compaction"]
    dead_records: Annotated[int | None, "records that it removes, with --cleaner"]
    dead_bytes: Annotated[Bytes | None, "their bytes"]
    tombstones: Annotated[int | None, "tombstones"]
    tombstones_removable: Annotated[int | None, "tombstones that it removes"]
    at_least: Annotated[bool | None, "whether these counts are lower bounds"]
    fails_at: Annotated[FailsAt | None, "where the cleaner fails"]
    text: Annotated[str, "the result in words"]
    oldest: Annotated[Oldest | None, "the same for the oldest possible release, if different"] = (
        None
    )


class PlanStep(Row, kind="plan-step"):
    """A step of a plan that frees space, with --free."""

    order: Annotated[int, "its number, from 1"]
    command: Annotated[str | None, "the command to run; null: wait"]
    frees_bytes: Annotated[Bytes, "bytes that it frees"]
    loses_records: Annotated[int | None, "number of records lost"]
    loses_from: Annotated[int | None, "offset of the first"]
    loses_to: Annotated[int | None, "offset of the last"]
    loses_to_ms: Annotated[Time | None, "time of the last"]
    topic: _Topic
    partition: _Partition
    text: Annotated[str, "what the step does"]
    undo: Annotated[str | None, "the command that undoes it"]
    acts_within_ms: Annotated[Duration | None, "time until a broker acts on it"]
    partitions: Annotated[list[PartitionLoss] | None, "records that each partition loses"]
    directory: Annotated[str | None, "the data directory; null: several"]


class RemoteFate(Row, kind="remote-fate"):
    """A remote segment of a tiered topic: whether total retention deletes it, and when."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    segment_id: Annotated[str, "the segment's id"]
    start_offset: Annotated[int, "its first offset"]
    end_offset: Annotated[int | None, "its last offset according to the metadata"]
    size_bytes: Annotated[Bytes | None, "size of its log according to the metadata"]
    state: Annotated[Word | None, "its state according to the metadata; null: no record"]
    only_remote: Annotated[bool | None, "whether it is not in the local log; null: unknown"]
    object_bytes: Annotated[Bytes | None, "bytes of all its objects; null: without --tier"]
    verdict: Annotated[
        Word, "deletable, kept, not-deleted-by-policy, unfinished, unreferenced, orphan, or gap"
    ]
    rule: Annotated[Word, "the setting that decides"]
    deletable_at_ms: Annotated[Time | None, "when a broker can delete it"]
    text: Annotated[str, "the reason"]


class TierSpace(Row, kind="tier-space"):
    """The space used by a partition of a tiered topic in remote storage."""

    topic: Annotated[str, "the topic"]
    topic_id: Annotated[str, "its id"]
    partition: Annotated[Int32, "the partition number"]
    log_start: Annotated[int | None, "log start offset; null: the partition is not here"]
    local_start: Annotated[int | None, "first offset of the local log"]
    segments: Annotated[int, "remote segments, including orphans"]
    size_bytes: Annotated[Bytes, "size of their logs according to the metadata"]
    only_remote_bytes: Annotated[Bytes, "size of logs that are in remote storage only"]
    object_bytes: Annotated[Bytes | None, "bytes of all objects; null: without --tier"]
    wasted_bytes: Annotated[Bytes, "bytes of objects that no broker reads"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of objects, or of logs, by verdict"]
    next_deletable_ms: Annotated[Time | None, "when the next segment can be deleted"]


class DataDirectory(Row, kind="data-directory"):
    """A data directory and its file system."""

    path: Annotated[str, "the directory"]
    broker_version: Annotated[str, "the release whose retention and compaction rules apply"]
    device: Annotated[str | None, "its device, major:minor"]
    size_bytes: Annotated[Bytes | None, "size of the file system"]
    used_bytes: Annotated[Bytes | None, "bytes used"]
    free_bytes: Annotated[Bytes | None, "bytes free"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes of Kafka's files"]
    asked_bytes: Annotated[Bytes | None, "bytes requested to be free"]
    planned_bytes: Annotated[Bytes | None, "bytes that the plan frees"]


_OF_PLANS = ("asked_bytes", "planned_bytes", "plans")


class WhySummary(Row, kind="why-summary", sums_up=True, omits=_OF_PLANS):
    """The space used by all partitions."""

    now_ms: Annotated[Time, "the time for which retention is evaluated"]
    partitions: Annotated[int, "partitions"]
    segments: Annotated[int, "segments"]
    log_bytes: Annotated[Bytes, "bytes of logs"]
    index_bytes: Annotated[Bytes, "bytes of indexes"]
    other_bytes: Annotated[Bytes, "bytes of other files"]
    retired_bytes: Annotated[Bytes, "bytes of files being deleted or replaced"]
    deletable_bytes: Annotated[Bytes, "bytes that the next retention pass frees"]
    reserved_index_bytes: Annotated[Bytes, "bytes preallocated for indexes"]
    apparent_bytes: Annotated[Bytes, "sum of the sizes"]
    allocated_bytes: Annotated[Bytes | None, "bytes allocated on the disk"]
    bytes_by_verdict: Annotated[dict[str, int], "bytes of segments by verdict"]
    segments_by_verdict: Annotated[dict[str, int], "segments by verdict"]
    next_deletable_ms: Annotated[Time | None, "when the next segment can be deleted"]
    paths_unfinished: Annotated[int, "paths that could not be read completely"]
    asked_bytes: Annotated[Bytes | None, "bytes requested to be free, with --free"]
    planned_bytes: Annotated[Bytes | None, "bytes that the plans free, with --free"]
    plans: Annotated[list[PlanOf] | None, "a plan for each file system, with --free"]

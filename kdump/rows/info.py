"""The rows of `info`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Time, Word


class Directory(Row, kind="directory"):
    """A data directory: its owner, the release that wrote it, and its size."""

    path: Annotated[str, "the data directory"]
    broker_id: Annotated[Int32 | None, "the node that meta.properties names"]
    cluster_id: Annotated[str | None, "the cluster that meta.properties names"]
    directory_id: Annotated[str | None, "the id of the directory"]
    written_by: Annotated[str, "the releases that may have written it, for example 2.8 to 3.6"]
    locked: Annotated[bool | None, "whether a broker holds its lock; null: unknown"]
    file_system: Annotated[Word | None, "type of its file system"]
    size_bytes: Annotated[Bytes, "bytes of the logs"]
    free_bytes: Annotated[Bytes | None, "bytes free on its file system"]
    partitions: Annotated[int, "partitions that a broker would load"]
    topics: Annotated[int, "topics of these partitions"]


class TopicSummary(Row, kind="topic-summary"):
    """A topic: its partitions in these directories."""

    topic: Annotated[str, "the topic"]
    topic_id: Annotated[str | None, "its id, if the metadata log names one"]
    partitions: Annotated[int | None, "partitions in the cluster; null: unknown"]
    replicas_here: Annotated[int, "its partitions in these directories"]
    size_bytes: Annotated[Bytes, "bytes of the logs"]
    segments: Annotated[int, "segments"]
    first_ms: Annotated[Time | None, "when the oldest segment was last written: a file time"]
    last_ms: Annotated[Time | None, "when the newest segment was last written: a file time"]
    cleanup_policy: Annotated[Word | None, "its cleanup.policy, if the metadata log is here"]
    tiered: Annotated[bool | None, "whether remote.storage.enable is set; null: unknown"]
    retired: Annotated[int, "its directories that end in -delete, -future, or -stray"]


class PartitionSummary(Row, kind="partition-summary"):
    """A partition directory: its segments, and its offsets in checkpoints."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    path: Annotated[str, "its directory"]
    retired: Annotated[Word | None, "suffix of its directory, if any: delete, future, or stray"]
    size_bytes: Annotated[Bytes, "bytes of the logs"]
    segments: Annotated[int, "segments"]
    first_segment: Annotated[int | None, "base offset of the first segment"]
    last_segment: Annotated[int | None, "base offset of the last segment"]
    log_start_offset: Annotated[int | None, "checkpointed log start offset"]
    recovery_point: Annotated[int | None, "checkpointed recovery point"]
    high_watermark: Annotated[int | None, "checkpointed high watermark"]
    first_ms: Annotated[Time | None, "when the oldest segment was last written: a file time"]
    last_ms: Annotated[Time | None, "when the newest segment was last written: a file time"]


class DatingEvidence(Row, kind="dating-evidence"):
    """One fact that bounds the release that wrote a data directory."""

    path: Annotated[str, "the data directory"]
    bound: Annotated[Word, "from, until, exactly, or before (an earlier registration)"]
    release: Annotated[str, "the release"]
    text: Annotated[str, "the fact"]
    file: Annotated[str, "the file or directory that shows it"]
    at_ms: Annotated[Time | None, "when a node registered with the release for the first time"]


class Hint(Row, kind="hint"):
    """Something unusual, and the command to run next."""

    path: Annotated[str, "the data directory, or the file"]
    text: Annotated[str, "what was noticed"]
    command: Annotated[str, "the command that shows more"]

"""The rows of `sequences`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int16, Int32, Severe, Time, Word


class _Sequence(Row):
    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition number"]
    segment: Annotated[int | None, "base offset of the segment"]
    kind: Annotated[Word, "gap, first-gap, duplicate, removed, expired, or restarted"]
    severity: Annotated[Severe | None, "severity; null: it has an explanation"]
    producer_id: Annotated[int, "the producer"]
    producer_epoch: Annotated[Int16, "its epoch"]
    expected_sequence: Annotated[Int32, "the sequence number that should follow"]
    base_sequence: Annotated[Int32, "the first sequence number of the batch"]
    last_sequence: Annotated[Int32, "its last sequence number"]
    sequences_count: Annotated[int | None, "how many numbers are missing or repeated"]
    previous_offset: Annotated[int | None, "last offset of the producer's previous batch"]
    offset: Annotated[int, "first offset of the batch; in a capture, number of records before it"]
    last_offset: Annotated[int, "its last offset"]
    position: Annotated[int, "where it starts in the file"]
    size_bytes: Annotated[Bytes, "its size"]
    previous_timestamp_ms: Annotated[Time | None, "time of the previous batch"]
    timestamp_ms: Annotated[Time, "its largest time"]
    explanation: Annotated[str | None, "possible explanation"]
    path: Annotated[str, "the file"]


class SequenceGap(_Sequence, kind="sequence-gap", judged=True):
    """Missing sequence numbers of a producer."""


class SequenceDuplicate(_Sequence, kind="sequence-duplicate", judged=True):
    """Repeated sequence numbers of a producer."""


class SequenceSummary(Row, kind="sequence-summary", sums_up=True):
    """The totals: what was checked, and what was found."""

    partitions: Annotated[int, "partitions followed"]
    producers: Annotated[int, "producer ids seen"]
    epochs: Annotated[int, "producer ids with their epochs"]
    batches: Annotated[int, "batches read"]
    batches_with_sequences: Annotated[int, "batches with sequence numbers"]
    gaps: Annotated[int, "gaps without an explanation"]
    first_gaps: Annotated[int, "gaps before the first batch of a producer"]
    missing_count: Annotated[int, "sequence numbers missing in gaps"]
    duplicates: Annotated[int, "repeated batches"]
    repeated_count: Annotated[int, "repeated sequence numbers"]
    removed: Annotated[int, "gaps explained by missing offsets"]
    expired: Annotated[int, "gaps explained by a broker that forgot the producer"]
    restarted: Annotated[int, "producers that restarted at 0"]
    rows_not_listed: Annotated[int, "rows omitted by the limit per partition"]
    partitions_damaged: Annotated[int, "partitions not checked around damage"]
    partitions_of_coordinators: Annotated[
        int, "partitions of internal topics, where all numbers are 0"
    ]
    partitions_not_followed: Annotated[int, "partitions not checked completely"]
    paths_unfinished: Annotated[int, "paths that could not be read completely"]

"""The rows of `sequences`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int16, Int32, Severe, Time, Word


class _Sequence(Row):
    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition's number"]
    segment: Annotated[int | None, "base offset of the segment"]
    kind: Annotated[Word, "gap, first-gap, duplicate, removed, expired or restarted"]
    severity: Annotated[Severe | None, "how severe; null: it is explained"]
    producer_id: Annotated[int, "the producer"]
    producer_epoch: Annotated[Int16, "its epoch"]
    expected_sequence: Annotated[Int32, "the sequence number that should follow"]
    base_sequence: Annotated[Int32, "the first sequence number of the batch"]
    last_sequence: Annotated[Int32, "its last sequence number"]
    sequences_count: Annotated[int | None, "how many are missing, or come again"]
    previous_offset: Annotated[int | None, "last offset of the producer's batch before"]
    offset: Annotated[int, "first offset of the batch; in a capture, records before it"]
    last_offset: Annotated[int, "its last offset"]
    position: Annotated[int, "where it starts in the file"]
    size_bytes: Annotated[Bytes, "its size"]
    previous_timestamp_ms: Annotated[Time | None, "time of the batch before"]
    timestamp_ms: Annotated[Time, "its largest time"]
    explanation: Annotated[str | None, "what it may come from"]
    path: Annotated[str, "the file"]


class SequenceGap(_Sequence, kind="sequence-gap", judged=True):
    """Sequence numbers of a producer that are missing."""


class SequenceDuplicate(_Sequence, kind="sequence-duplicate", judged=True):
    """Sequence numbers of a producer that come again."""


class SequenceSummary(Row, kind="sequence-summary", sums_up=True):
    """What was followed, and what was found in all."""

    partitions: Annotated[int, "partitions followed"]
    producers: Annotated[int, "producer ids seen"]
    epochs: Annotated[int, "producer ids with their epochs"]
    batches: Annotated[int, "batches read"]
    batches_with_sequences: Annotated[int, "those with sequence numbers"]
    gaps: Annotated[int, "gaps that nothing explains"]
    first_gaps: Annotated[int, "those before the first batch of a producer"]
    missing_count: Annotated[int, "sequence numbers missing in gaps"]
    duplicates: Annotated[int, "batches that came again"]
    repeated_count: Annotated[int, "sequence numbers that came again"]
    removed: Annotated[int, "gaps explained by what was removed"]
    expired: Annotated[int, "gaps explained by a producer that was forgotten"]
    restarted: Annotated[int, "producers that began again"]
    rows_not_listed: Annotated[int, "rows beyond the limit of a partition"]
    partitions_damaged: Annotated[int, "partitions with damage, where the order was not followed"]
    partitions_of_coordinators: Annotated[int, "partitions that coordinators write"]
    partitions_not_followed: Annotated[int, "partitions that were not followed"]
    paths_unfinished: Annotated[int, "paths that could not be finished"]

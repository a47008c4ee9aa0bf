"""The rows of `usage`, and of its audit of where keys lie."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Numbers, Time, Word

_OF_GROUPS = (
    "topic partition time_ms producer_id codec key key_size_bytes share_of_largest segments batches"
    " plain_bytes plain_bytes_at_most size_bytes size_bytes_at_most control_batches"
    " unopened_wrappers"
)
_OF_SUMMARY = (
    "batches size_bytes unlisted_size_bytes_at_most plain_bytes unlisted_plain_bytes_at_most"
    " control_batches unopened_wrappers control_records"
)


class Usage(Row, kind="usage", omits=tuple(_OF_GROUPS.split())):
    """Bytes and records of one group."""

    by: Annotated[str, "the grouping"]
    topic: Annotated[str | None, "the topic, if by topic"]
    partition: Annotated[Int32 | None, "the partition number, if by partition"]
    time_ms: Annotated[
        Time | None, "start of the hour or day, if by hour or day; null: no timestamp"
    ]
    producer_id: Annotated[int | None, "the producer, if by producer; null: none"]
    codec: Annotated[Word | None, "the codec, if by codec"]
    key: Annotated[bytes | None, "start of the key, if by key"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key, if by key"]
    segments: Annotated[int | None, "segments"]
    batches: Annotated[int | None, "batches"]
    records_count: Annotated[int | None, "records; null: wrappers were not opened"]
    plain_bytes: Annotated[Bytes | None, "bytes of keys, values, and headers, if by key"]
    plain_bytes_at_most: Annotated[Bytes | None, "most bytes that they can be, if by key"]
    size_bytes: Annotated[Bytes | None, "bytes of the batches"]
    size_bytes_at_most: Annotated[Bytes | None, "most bytes that they can be"]
    share: Annotated[float, "share of all bytes, 0 to 1"]
    share_of_largest: Annotated[
        float | None, "bytes relative to the largest group, if by hour or day"
    ]
    first_timestamp_ms: Annotated[Time | None, "the earliest time"]
    last_timestamp_ms: Annotated[Time | None, "the latest time"]
    control_batches: Annotated[int | None, "control batches"]
    unopened_wrappers: Annotated[int | None, "wrappers that were not opened"]
    asked_: tuple[str, ...] = ()


class UsageSummary(Row, kind="usage-summary", sums_up=True, omits=tuple(_OF_SUMMARY.split())):
    """The totals of all groups."""

    by: Annotated[str, "the grouping"]
    groups: Annotated[int | None, "number of groups; null: too many to count"]
    listed: Annotated[int, "number of groups listed"]
    batches: Annotated[int | None, "batches"]
    records_count: Annotated[int | None, "records; null: wrappers were not opened"]
    size_bytes: Annotated[Bytes | None, "bytes of the batches"]
    unlisted_size_bytes_at_most: Annotated[Bytes | None, "most bytes of a group not listed"]
    plain_bytes: Annotated[Bytes | None, "bytes of keys, values, and headers, if by key"]
    unlisted_plain_bytes_at_most: Annotated[Bytes | None, "most bytes of a group not listed"]
    control_batches: Annotated[int | None, "control batches"]
    unopened_wrappers: Annotated[int | None, "wrappers that were not opened"]
    control_records: Annotated[int | None, "control records, if by key"]
    exact: Annotated[bool, "whether all sums are exact"]
    bytes_not_counted: Annotated[Bytes, "bytes on disk that could not be read because of damage"]
    paths_unfinished: Annotated[int, "paths that could not be read completely"]


class KeyPlacement(Row, kind="key-placement", sums_up=True, leads=True):
    """How well a partitioner explains the placement of a topic's keys."""

    topic: Annotated[str | None, "the topic"]
    partitioner: Annotated[Word | None, "the partitioner that fits best; null: undecided"]
    fits: Annotated[bool | None, "whether it fits"]
    is_given: Annotated[bool, "whether --partitioner selected it"]
    partitions_count: Annotated[Int32, "partitions of the topic"]
    partitions_from: Annotated[Word, "source of that number"]
    records_count: Annotated[int, "records with a key"]
    misplaced_count: Annotated[int, "records on a different partition than expected"]
    share: Annotated[float, "share of these records, 0 to 1"]
    as_if_partitions: Annotated[int | None, "number of partitions that explains their placement"]
    records_without_key: Annotated[int, "records without a key"]
    keys: Annotated[int, "different keys"]
    keys_moved: Annotated[int, "keys on several partitions"]
    moved_since_ms: Annotated[Time | None, "when the first key moved"]


class MisplacedKeys(Row, kind="misplaced-keys"):
    """Records of a producer that a partitioner would have placed on another partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    partitioner: Annotated[Word, "the partitioner"]
    producer_id: Annotated[int | None, "the producer; null: none"]
    other_producers: Annotated[bool, "whether the row sums all other producers"]
    records_count: Annotated[int, "records with a key"]
    misplaced_count: Annotated[int, "records on a different partition than expected"]
    share: Annotated[float, "share of these records, 0 to 1"]
    as_if_partitions: Annotated[int | None, "number of partitions that explains their placement"]
    first_offset: Annotated[int, "offset of the first"]
    first_timestamp_ms: Annotated[Time | None, "its time"]
    last_offset: Annotated[int, "offset of the last"]
    last_timestamp_ms: Annotated[Time | None, "its time"]


class MovedKey(Row, kind="moved-key"):
    """A key on several partitions."""

    topic: Annotated[str | None, "the topic"]
    key: Annotated[bytes | None, "start of the key"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key"]
    partitions: Annotated[Numbers, "the partition before, and the partition after"]
    partition: Annotated[Int32, "the partition after"]
    offset: Annotated[int, "the key's first offset there"]
    timestamp_ms: Annotated[Time | None, "time of that record"]
    interleaved: Annotated[bool, "whether later records are on both partitions"]

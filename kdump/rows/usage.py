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
    """Bytes and records of one group of what was asked for."""

    by: Annotated[str, "what groups are made of"]
    topic: Annotated[str | None, "the topic, if by topic"]
    partition: Annotated[Int32 | None, "the partition's number, if by partition"]
    time_ms: Annotated[Time | None, "start of the hour or day, if by that; null: no timestamp"]
    producer_id: Annotated[int | None, "the producer, if by producer; null: none"]
    codec: Annotated[Word | None, "the codec, if by codec"]
    key: Annotated[bytes | None, "start of the key, if by key"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key, if by key"]
    segments: Annotated[int | None, "segments"]
    batches: Annotated[int | None, "batches"]
    records_count: Annotated[int | None, "records; null: wrappers were not opened"]
    plain_bytes: Annotated[Bytes | None, "bytes of keys, values and headers, if by key"]
    plain_bytes_at_most: Annotated[Bytes | None, "at most so many, if by key"]
    size_bytes: Annotated[Bytes | None, "bytes of the batches"]
    size_bytes_at_most: Annotated[Bytes | None, "at most so many"]
    share: Annotated[float, "share of the bytes of all groups, 0 to 1"]
    share_of_largest: Annotated[float | None, "bytes by those of the largest, if by hour or day"]
    first_timestamp_ms: Annotated[Time | None, "the earliest time"]
    last_timestamp_ms: Annotated[Time | None, "the latest time"]
    control_batches: Annotated[int | None, "control batches"]
    unopened_wrappers: Annotated[int | None, "wrappers that were not opened"]
    asked_: tuple[str, ...] = ()


class UsageSummary(Row, kind="usage-summary", sums_up=True, omits=tuple(_OF_SUMMARY.split())):
    """What all groups are together."""

    by: Annotated[str, "what groups are made of"]
    groups: Annotated[int | None, "how many groups there are; null: too many to count"]
    listed: Annotated[int, "how many are listed"]
    batches: Annotated[int | None, "batches"]
    records_count: Annotated[int | None, "records; null: wrappers were not opened"]
    size_bytes: Annotated[Bytes | None, "bytes of the batches"]
    unlisted_size_bytes_at_most: Annotated[Bytes | None, "most of a group not listed"]
    plain_bytes: Annotated[Bytes | None, "bytes of keys, values and headers, if by key"]
    unlisted_plain_bytes_at_most: Annotated[Bytes | None, "most of a group not listed"]
    control_batches: Annotated[int | None, "control batches"]
    unopened_wrappers: Annotated[int | None, "wrappers that were not opened"]
    control_records: Annotated[int | None, "control records, if by key"]
    exact: Annotated[bool, "whether all groups could be held"]
    bytes_not_counted: Annotated[Bytes, "bytes on disk that damage hides"]
    paths_unfinished: Annotated[int, "paths that could not be finished"]


class KeyPlacement(Row, kind="key-placement", sums_up=True, leads=True):
    """How well a partitioner explains where the keys of a topic lie."""

    topic: Annotated[str | None, "the topic"]
    partitioner: Annotated[Word | None, "the partitioner that fits best; null: none can be told"]
    fits: Annotated[bool | None, "whether it fits"]
    is_given: Annotated[bool, "whether it was asked for"]
    partitions_count: Annotated[Int32, "partitions of the topic"]
    partitions_from: Annotated[Word, "what says how many there are"]
    records_count: Annotated[int, "records with a key"]
    misplaced_count: Annotated[int, "those in another partition than it says"]
    share: Annotated[float, "their share, 0 to 1"]
    as_if_partitions: Annotated[int | None, "partitions by which they were placed"]
    records_without_key: Annotated[int, "records without a key"]
    keys: Annotated[int, "different keys"]
    keys_moved: Annotated[int, "keys in several partitions"]
    moved_since_ms: Annotated[Time | None, "when the first of them moved"]


class MisplacedKeys(Row, kind="misplaced-keys"):
    """Records of a producer in a partition that a partitioner would have placed elsewhere."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    partitioner: Annotated[Word, "the partitioner"]
    producer_id: Annotated[int | None, "the producer; null: none"]
    other_producers: Annotated[bool, "whether these are all other producers together"]
    records_count: Annotated[int, "records with a key"]
    misplaced_count: Annotated[int, "those in another partition than it says"]
    share: Annotated[float, "their share, 0 to 1"]
    as_if_partitions: Annotated[int | None, "partitions by which they were placed"]
    first_offset: Annotated[int, "the first of them"]
    first_timestamp_ms: Annotated[Time | None, "its time"]
    last_offset: Annotated[int, "the last of them"]
    last_timestamp_ms: Annotated[Time | None, "its time"]


class MovedKey(Row, kind="moved-key"):
    """A key that lies in several partitions."""

    topic: Annotated[str | None, "the topic"]
    key: Annotated[bytes | None, "start of the key"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key"]
    partitions: Annotated[Numbers, "the partition before, and the one since"]
    partition: Annotated[Int32, "the one since"]
    offset: Annotated[int, "its first offset there"]
    timestamp_ms: Annotated[Time | None, "the time of that"]
    interleaved: Annotated[bool, "whether it was written to both from then on"]

"""The rows of `duplicates`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int16, Int32, Severe, Time

_COMPARED = "key key_size_bytes value value_size_bytes header header_size_bytes"


class DuplicatesSummary(Row, kind="duplicates-summary", sums_up=True, leads=True):
    """How many records are alike, in all."""

    by: Annotated[str, "what is compared: key, value, header"]
    within_ms: Annotated[Duration | None, "copies count within this time of the one before"]
    within_records: Annotated[int | None, "copies count within this many records"]
    groups: Annotated[int, "groups of records that are alike"]
    copies: Annotated[int, "records in them"]
    extra_copies: Annotated[int, "those beyond the first of each group"]
    groups_across_partitions: Annotated[int, "groups with copies in several partitions"]
    groups_of_several_producers: Annotated[int, "groups of several producers"]
    records_count: Annotated[int, "records compared"]
    records_without: Annotated[int, "records without what is compared"]
    records_without_time: Annotated[int, "records without a time, where one is needed"]
    control_records: Annotated[int, "control records, which are not compared"]
    replica_copies: Annotated[int, "copies that are replicas of one record"]
    paths_unfinished: Annotated[int, "paths that could not be finished"]


class Duplicate(Row, kind="duplicate", judged=True, omits=tuple(_COMPARED.split())):
    """One record of a group of records that are alike."""

    topic: Annotated[str | None, "the topic"]
    group: Annotated[int, "number of the group, from 1"]
    copies: Annotated[int, "how many the group has"]
    copy: Annotated[int, "number of this one in the group, from 1"]
    severity: Annotated[Severe | None, "how severe"]
    key: Annotated[bytes | None, "start of the key, if compared"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key"]
    value: Annotated[bytes | None, "start of the value, if compared"]
    value_size_bytes: Annotated[Bytes | None, "its size, always there; null: a tombstone"]
    header: Annotated[bytes | None, "start of the header's value, if compared"]
    header_size_bytes: Annotated[Bytes | None, "size of the whole value"]
    partition: Annotated[Int32, "the partition's number"]
    offset: Annotated[int, "the record's offset"]
    timestamp_ms: Annotated[Time | None, "its time"]
    after_ms: Annotated[Duration | None, "how long after the first of the group"]
    producer_id: Annotated[int | None, "its producer"]
    producer_epoch: Annotated[Int16 | None, "the producer's epoch"]
    sequence: Annotated[Int32 | None, "its sequence number"]
    asked_: tuple[str, ...] = ()

"""The rows of `duplicates`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int16, Int32, Severe, Time

_COMPARED = "key key_size_bytes value value_size_bytes header header_size_bytes"


class DuplicatesSummary(Row, kind="duplicates-summary", sums_up=True, leads=True):
    """The total number of duplicates."""

    by: Annotated[str, "what is compared: key, value, header"]
    within_ms: Annotated[Duration | None, "longest time from one copy to the next"]
    within_records: Annotated[int | None, "most records from one copy to the next"]
    groups: Annotated[int, "groups of duplicates"]
    copies: Annotated[int, "records in these groups"]
    extra_copies: Annotated[int, "records after the first of each group"]
    groups_across_partitions: Annotated[int, "groups with copies in several partitions"]
    groups_of_several_producers: Annotated[int, "groups with copies from several producers"]
    records_count: Annotated[int, "records compared"]
    records_without: Annotated[int, "records without the compared key, value, or header"]
    records_without_time: Annotated[int, "records skipped because they have no time"]
    control_records: Annotated[int, "control records, which are not compared"]
    replica_copies: Annotated[int, "replicas of the same record, counted once"]
    paths_unfinished: Annotated[int, "paths that could not be read completely"]


class Duplicate(Row, kind="duplicate", judged=True, omits=tuple(_COMPARED.split())):
    """One record of a group of duplicates."""

    topic: Annotated[str | None, "the topic"]
    group: Annotated[int, "number of the group, from 1"]
    copies: Annotated[int, "number of records in the group"]
    copy: Annotated[int, "number of the record in the group, from 1"]
    severity: Annotated[Severe | None, "severity"]
    key: Annotated[bytes | None, "start of the key, if compared"]
    key_size_bytes: Annotated[Bytes | None, "size of the whole key"]
    value: Annotated[bytes | None, "start of the value, if compared"]
    value_size_bytes: Annotated[Bytes | None, "size of the whole value; null: a tombstone"]
    header: Annotated[bytes | None, "start of the header's value, if compared"]
    header_size_bytes: Annotated[Bytes | None, "size of the whole value"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int, "the record's offset"]
    timestamp_ms: Annotated[Time | None, "its time"]
    after_ms: Annotated[Duration | None, "time since the first record of the group"]
    producer_id: Annotated[int | None, "its producer"]
    producer_epoch: Annotated[Int16 | None, "the producer's epoch"]
    sequence: Annotated[Int32 | None, "its sequence number"]
    asked_: tuple[str, ...] = ()

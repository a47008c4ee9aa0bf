"""The rows of `dump --entries`; those of records and batches are in `kdump/findings/schema.py`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Int32, Time, Word

_Topic = Annotated[Word | None, "the topic, from the directory name"]
_Partition = Annotated[Int32 | None, "the partition number, from the directory name"]
_Segment = Annotated[int, "base offset of the segment, from the file name"]
_Slot = Annotated[int, "number of the entry in the file, from 0"]


class OffsetIndexEntry(Row, kind="offset-index-entry", streamed=True):
    """An entry of an offset index."""

    topic: _Topic
    partition: _Partition
    segment: _Segment
    slot: _Slot
    offset: Annotated[int, "the offset"]
    position: Annotated[int, "where its batch starts in the log"]


class TimeIndexEntry(Row, kind="time-index-entry", streamed=True):
    """An entry of a time index."""

    topic: _Topic
    partition: _Partition
    segment: _Segment
    slot: _Slot
    timestamp_ms: Annotated[Time, "the largest time so far"]
    offset: Annotated[int, "the offset of a record with that time"]


class AbortedTransaction(Row, kind="aborted-transaction"):
    """An entry of a transaction index."""

    topic: _Topic
    partition: _Partition
    segment: _Segment
    slot: _Slot
    producer_id: Annotated[int, "its producer"]
    first_offset: Annotated[int, "its first offset"]
    last_offset: Annotated[int, "offset of its abort marker"]
    last_stable_offset: Annotated[int, "the last stable offset when it ended"]


class ProducerState(Row, kind="producer-state"):
    """A producer in a producer snapshot."""

    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "the offset of the snapshot, from the file name"]
    producer_id: Annotated[int, "its id"]
    producer_epoch: Annotated[int, "its epoch"]
    coordinator_epoch: Annotated[int, "epoch of the coordinator that wrote the last marker"]
    last_offset: Annotated[int, "offset of its last batch, -1: none"]
    last_sequence: Annotated[int, "its last sequence number, -1: none"]
    last_timestamp_ms: Annotated[Time, "time of its last batch"]
    current_txn_first_offset: Annotated[int | None, "first offset of its open transaction"]


class LeaderEpoch(Row, kind="leader-epoch"):
    """A line of a leader epoch checkpoint."""

    topic: _Topic
    partition: _Partition
    epoch: Annotated[int, "the leader epoch"]
    start_offset: Annotated[int, "its first offset"]


class CheckpointOffset(Row, kind="checkpoint-offset"):
    """A line of a checkpoint of offsets by partition."""

    file: Annotated[str, "path of the checkpoint"]
    topic: Annotated[Word, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int, "the offset"]


class Property(Row, kind="property"):
    """A property of a small file such as `meta.properties`."""

    file: Annotated[str, "path of the file"]
    name: Annotated[str, "name of the property"]
    value: Annotated[str | None, "its value"]

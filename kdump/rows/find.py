"""The rows of `find-offset` and `find-time`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Json, Oldest, Setting, Time, Word

#: A step of a lookup: `step`, `file`, `text`, and numbers that are of its kind.
FoundStep = dict[str, Json]
_ASKED = ("offsets", "scan_offset", "reset_offset", "reset_to", "oldest", "steps")
_TIERED = ("source", "available", "segment_id", "object", "object_bytes")
_Entry = dict[str, int]


class OffsetLookup(Row, kind="offset-lookup", omits=(*_ASKED[1:], *_TIERED)):
    """What a broker finds for an offset in a partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition number"]
    target: Annotated[int, "the requested offset"]
    segment: Annotated[int | None, "base offset of the segment that a fetch reads"] = None
    index_entry: Annotated[_Entry | None, "the index entry that a scan starts from"] = None
    position: Annotated[int | None, "where the batch starts in the file"] = None
    size_bytes: Annotated[Bytes | None, "size of the batch"] = None
    base_offset: Annotated[int | None, "its first offset"] = None
    last_offset: Annotated[int | None, "its last offset"] = None
    offset: Annotated[int | None, "offset of the first record that a consumer receives"] = None
    timestamp_ms: Annotated[Time | None, "its time; -1: no timestamp"] = None
    batches_scanned: Annotated[int, "batches read after the index entry"] = 0
    next_offset: Annotated[int | None, "at damage: the next offset that can be read"] = None
    served_from: Annotated[int | None, "at damage: the next offset that a broker serves"] = None
    skipped_by_seek: Annotated[int | None, "sound records that a seek there skips"] = None
    scan_offset: Annotated[int | None, "offset that a scan of the log finds, with --check"] = None
    reset_offset: Annotated[int | None, "the offset for a reset, by --none"] = None
    reset_to: Annotated[
        Word | None, "answer, latest, earliest, or skip: the source of reset_offset"
    ] = None
    settings: Annotated[list[Setting] | None, "settings used to rebuild an index"] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "for tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether --tier contains the object"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that object according to the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[Oldest | None, "the answer of the oldest possible release, if different"] = (
        None
    )
    steps: Annotated[list[FoundStep] | None, "the steps to the answer, with --explain"] = None
    asked_: tuple[str, ...] = ()


class Fetch(Row, kind="fetch", omits=("oldest", "steps", *_TIERED)):
    """The bytes that one fetch returns from a partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition number"]
    target: Annotated[int, "the requested offset"]
    max_bytes: Annotated[Bytes, "the requested number of bytes"]
    max_offset: Annotated[int | None, "the offset to stop before, with --max-offset"] = None
    path: Annotated[str | None, "the log file that the bytes are in"] = None
    segment: Annotated[int | None, "base offset of that segment"] = None
    index_entry: Annotated[_Entry | None, "the index entry that the scan starts from"] = None
    position: Annotated[int | None, "where the bytes start in the file"] = None
    end_position: Annotated[int | None, "where the bytes end in the file"] = None
    size_bytes: Annotated[Bytes | None, "number of bytes returned"] = None
    sha256: Annotated[str | None, "SHA-256 of the bytes"] = None
    entries: Annotated[int, "complete batches returned, or messages before 0.11"] = 0
    first_offset: Annotated[int | None, "base offset of the first batch; null for a wrapper"] = None
    last_offset: Annotated[int | None, "last offset of the last complete batch"] = None
    records_before: Annotated[
        int, "records in the first batch below the target, which consumers drop"
    ] = 0
    cut_bytes: Annotated[Bytes, "bytes of an incomplete batch at the end"] = 0
    cut_offset: Annotated[int | None, "base offset of that batch"] = None
    cut_size_bytes: Annotated[Bytes | None, "complete size of that batch"] = None
    needs_bytes: Annotated[
        Bytes | None, "size of the first batch, if above the requested bytes"
    ] = None
    stuck: Annotated[bool, "whether consumers are stuck: no such fetch has a complete batch"] = (
        False
    )
    bound: Annotated[int | None, "the offset from which nothing more is returned"] = None
    next_offset: Annotated[int | None, "the offset that a consumer fetches next"] = None
    aborted: Annotated[
        list[_Entry] | None, "aborted transactions that a read_committed response lists"
    ] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "for tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether --tier contains the object"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that object according to the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[Oldest | None, "the answer of the oldest possible release, if different"] = (
        None
    )
    steps: Annotated[list[FoundStep] | None, "the steps to the answer, with --explain"] = None


class TimeLookup(Row, kind="time-lookup", omits=(*_ASKED, *_TIERED)):
    """What a broker finds for a time in a partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition number"]
    target_ms: Annotated[Time, "the requested time, or a special value below 0"]
    segment: Annotated[int | None, "base offset of the segment that is searched"] = None
    time_index_entry: Annotated[_Entry | None, "the time index entry that is found"] = None
    index_entry: Annotated[_Entry | None, "the index entry that a scan starts from"] = None
    position: Annotated[int | None, "where the scan starts in the file"] = None
    offset: Annotated[int | None, "the answer"] = None
    timestamp_ms: Annotated[Time | None, "its time"] = None
    leader_epoch: Annotated[Int32 | None, "its leader epoch, if the release returns one"] = None
    batches_scanned: Annotated[int, "batches read"] = 0
    offsets: Annotated[list[int] | None, "all offsets that version 0 returns"] = None
    scan_offset: Annotated[int | None, "offset that a scan of the log finds, with --check"] = None
    reset_offset: Annotated[int | None, "the offset for a reset, by --none"] = None
    reset_to: Annotated[
        Word | None, "answer, latest, earliest, or skip: the source of reset_offset"
    ] = None
    settings: Annotated[list[Setting] | None, "settings used to rebuild an index"] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "for tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether --tier contains the object"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that object according to the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[Oldest | None, "the answer of the oldest possible release, if different"] = (
        None
    )
    steps: Annotated[list[FoundStep] | None, "the steps to the answer, with --explain"] = None
    asked_: tuple[str, ...] = ()

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
    partition: Annotated[Int32 | None, "the partition's number"]
    target: Annotated[int, "the offset asked for"]
    segment: Annotated[int | None, "base offset of the segment that a fetch reads"] = None
    index_entry: Annotated[_Entry | None, "the index entry that a scan starts from"] = None
    position: Annotated[int | None, "where the batch starts in the file"] = None
    size_bytes: Annotated[Bytes | None, "size of the batch"] = None
    base_offset: Annotated[int | None, "its first offset"] = None
    last_offset: Annotated[int | None, "its last offset"] = None
    offset: Annotated[int | None, "the first record that a consumer is given"] = None
    timestamp_ms: Annotated[Time | None, "its time; -1: -1 is stored"] = None
    batches_scanned: Annotated[int, "batches read from the index entry on"] = 0
    next_offset: Annotated[int | None, "behind damage: the first that can be read"] = None
    served_from: Annotated[int | None, "behind damage: the first that is served"] = None
    skipped_by_seek: Annotated[int | None, "sound records that a seek there passes over"] = None
    scan_offset: Annotated[int | None, "what a scan finds, with --check"] = None
    reset_offset: Annotated[int | None, "where a reset goes, with --none"] = None
    reset_to: Annotated[Word | None, "answer, latest, earliest or skip, with --none"] = None
    settings: Annotated[list[Setting] | None, "settings that an index was rebuilt by"] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "of tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether the objects were given"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that, by the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release answers that it can be, where that differs"
    ] = None
    steps: Annotated[list[FoundStep] | None, "how it was found, with --explain"] = None
    asked_: tuple[str, ...] = ()


class Fetch(Row, kind="fetch", omits=("oldest", "steps", *_TIERED)):
    """The bytes that one fetch returns from a partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition's number"]
    target: Annotated[int, "the offset asked for"]
    max_bytes: Annotated[Bytes, "how many bytes were asked for"]
    max_offset: Annotated[int | None, "the offset to stop before, with --max-offset"] = None
    path: Annotated[str | None, "the log file that the bytes are in"] = None
    segment: Annotated[int | None, "base offset of that segment"] = None
    index_entry: Annotated[_Entry | None, "the index entry that the scan starts from"] = None
    position: Annotated[int | None, "where the bytes start in the file"] = None
    end_position: Annotated[int | None, "where they end"] = None
    size_bytes: Annotated[Bytes | None, "how many bytes are returned"] = None
    sha256: Annotated[str | None, "SHA-256 of the bytes"] = None
    entries: Annotated[int, "complete batches in them, or messages before 0.11"] = 0
    first_offset: Annotated[int | None, "base offset of the first; null for a wrapper"] = None
    last_offset: Annotated[int | None, "last offset of the last complete one"] = None
    records_before: Annotated[int, "records below the target in the first, which are dropped"] = 0
    cut_bytes: Annotated[Bytes, "bytes of an entry that is cut at the end"] = 0
    cut_offset: Annotated[int | None, "offset in its first eight bytes"] = None
    cut_size_bytes: Annotated[Bytes | None, "its complete size"] = None
    needs_bytes: Annotated[Bytes | None, "size of a first entry above what was asked for"] = None
    stuck: Annotated[bool, "whether a consumer gets no complete entry, however often it asks"] = (
        False
    )
    bound: Annotated[int | None, "the offset from which on nothing is returned"] = None
    next_offset: Annotated[int | None, "the offset that a consumer fetches next"] = None
    aborted: Annotated[list[_Entry] | None, "aborted transactions named to read_committed"] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "of tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether the objects were given"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that, by the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release answers that it can be, where that differs"
    ] = None
    steps: Annotated[list[FoundStep] | None, "how it was found, with --explain"] = None


class TimeLookup(Row, kind="time-lookup", omits=(*_ASKED, *_TIERED)):
    """What a broker finds for a time in a partition."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition's number"]
    target_ms: Annotated[Time, "the time asked for, or a special one below 0"]
    segment: Annotated[int | None, "base offset of the segment that is searched"] = None
    time_index_entry: Annotated[_Entry | None, "the time index entry that is found"] = None
    index_entry: Annotated[_Entry | None, "the index entry that a scan starts from"] = None
    position: Annotated[int | None, "where the scan starts in the file"] = None
    offset: Annotated[int | None, "the answer"] = None
    timestamp_ms: Annotated[Time | None, "its time"] = None
    leader_epoch: Annotated[Int32 | None, "its leader epoch, if the release answers one"] = None
    batches_scanned: Annotated[int, "batches read"] = 0
    offsets: Annotated[list[int] | None, "all answers of version 0"] = None
    scan_offset: Annotated[int | None, "what a scan finds, with --check"] = None
    reset_offset: Annotated[int | None, "where a reset goes, with --none"] = None
    reset_to: Annotated[Word | None, "answer, latest, earliest or skip, with --none"] = None
    settings: Annotated[list[Setting] | None, "settings that an index was rebuilt by"] = None
    error: Annotated[str | None, "the error that the broker answers with"] = None
    source: Annotated[Word | None, "of tiered topics: local or remote"] = None
    available: Annotated[bool | None, "whether the objects were given"] = None
    segment_id: Annotated[str | None, "id of the remote segment"] = None
    object: Annotated[str | None, "name of its log object"] = None
    object_bytes: Annotated[Bytes | None, "size of that, by the metadata"] = None
    broker_version: Annotated[Word | None, "the release that answers"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release answers that it can be, where that differs"
    ] = None
    steps: Annotated[list[FoundStep] | None, "how it was found, with --explain"] = None
    asked_: tuple[str, ...] = ()

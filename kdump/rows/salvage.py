"""The rows of `salvage`."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int32, Severe, Time, Word

Ranges = list[list[int]]


class FromPath(TypedDict):
    """Offsets from one path; for an image, its bytes."""

    path: str
    offsets: Ranges
    bytes: NotRequired[Ranges]


class BytesAt(TypedDict):
    """The first and the last byte of something in an image."""

    path: str
    bytes: list[int]


class GroupFacts(TypedDict):
    """Hints at the partition that a group of carved batches may belong to."""

    codecs: list[str]
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    size_bytes: int
    segments: list[int]
    keys: list[str]
    proposed: list[str]
    proposed_by: str | None


class CarvedGroup(GroupFacts):
    """A group of carved batches, and the evidence for its partition."""

    group: str
    named_by: str | None
    named_at: BytesAt | None
    joined_by: list[str]
    joined_at: list[BytesAt]
    doubtful: bool


class MendedField(TypedDict):
    """A header field that was damaged."""

    name: str
    stored: int
    inferred: int


class TopicIdAt(TypedDict):
    """A topic id in an image."""

    topic_id: str
    topic: str | None
    bytes: list[int]


class Produced(TypedDict):
    """What was written to a cluster, and what was left out."""

    records_count: int
    planned_count: int
    missing_count: int
    first_offset: int | None
    last_offset: int | None
    found_count: int
    aborted_count: int
    open_count: int
    control_count: int
    keeps_times: bool


#: These have members whose name is a word of Python's.
Reencoded = TypedDict(
    "Reencoded",
    {
        "path": str,
        "position": int,
        "from": int,
        "to": int,
        "records_count": int,
        "doubtful": bool,
    },
)
Mended = TypedDict(
    "Mended",
    {
        "path": str,
        "position": int,
        "from": int,
        "to": int,
        "records_count": int,
        "fields": list[MendedField],
    },
)
Conflict = TypedDict("Conflict", {"from": int, "to": int, "paths": list[str], "chosen": str | None})


class Salvaged(Row, kind="salvaged", judged=True):
    """A partition: the records recovered, their sources, and what is lost."""

    topic: Annotated[str | None, "the topic's name in the result"]
    partition: Annotated[Int32 | None, "the partition number"]
    severity: Annotated[Severe | None, "damage if records are lost, doubtful, or in conflict"]
    records_count: Annotated[int, "records recovered"]
    batches: Annotated[int, "batches"]
    first_offset: Annotated[int | None, "the first offset"]
    last_offset: Annotated[int | None, "the last"]
    from_: Annotated[list[FromPath], "offsets, or byte ranges of an image, by source path"]
    carved: Annotated[list[CarvedGroup], "groups of batches carved from images"]
    reencoded: Annotated[list[Reencoded], "records re-encoded from torn or damaged batches"]
    mended: Annotated[list[Mended], "batches with repaired header fields"]
    lost: Annotated[list[list[int | None]], "ranges of offsets that no copy has"]
    conflicts: Annotated[list[Conflict], "ranges in which copies differ, with the copy chosen"]
    diverged: Annotated[list[FromPath], "ranges of copies with a diverged history"]
    produced: Annotated[Produced | None, "records that were produced, or would be"]
    sha256: Annotated[str | None, "hash of the result's logs"]
    broker_version: Annotated[Word | None, "the release that the result is built for"] = None


class CarvedImage(Row, kind="carved"):
    """An image, and what was found in it."""

    path: Annotated[str, "the image"]
    size_bytes: Annotated[Bytes, "its size"]
    batches: Annotated[int, "batches found"]
    batches_bytes: Annotated[Bytes, "their bytes"]
    extents: Annotated[int, "contiguous ranges of batches"]
    in_two_pieces: Annotated[int, "batches reassembled from two pieces"]
    in_more_pieces: Annotated[int, "batches reassembled from more pieces"]
    torn: Annotated[int, "headers of incomplete batches"]
    topic_ids: Annotated[list[TopicIdAt], "topic ids of partition.metadata files in it"]


class SalvageStep(Row, kind="salvage-step", sums_up=True):
    """A command to run, before or after."""

    step: Annotated[Word, "keep, create-topic, same-command, or restore-settings"]
    command: Annotated[str, "the command"]
    text: Annotated[str, "what the command does"]
    before_ms: Annotated[Duration | None, "time left to run it"]


class GroupOffset(Row, kind="group-offset"):
    """A committed offset of a group, and the outcome: with --groups."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    old_offset: Annotated[int | None, "the offset in the copies"]
    offset: Annotated[int | None, "the corresponding offset in the result"]
    previous_offset: Annotated[int | None, "the offset committed before"]
    outcome: Annotated[Word, "committed, planned, or the reason why not"]


class GroupOffsets(Row, kind="group-offsets", sums_up=True):
    """The number of group offsets applied."""

    applied_count: Annotated[int, "offsets applied"]
    not_applied_count: Annotated[int, "offsets not applied"]
    outcomes: Annotated[dict[str, int], "number of offsets by outcome"]
    as_of: Annotated[Word, "deletion, time, or now: the moment of the offsets"]
    as_of_ms: Annotated[Time | None, "that time"]


class SalvageCheck(Row, kind="salvage-check", judged=True):
    """A file of a result, checked against its manifest: with --check."""

    path: Annotated[str, "the file"]
    outcome: Annotated[Word, "same, differs, missing, or added"]
    severity: Annotated[Severe | None, "damage unless the file is the same"]
    expected: Annotated[str | None, "the value in the manifest"]
    actual: Annotated[str | None, "the actual value"]

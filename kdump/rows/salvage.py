"""The rows of `salvage`."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Duration, Int32, Severe, Time, Word

Ranges = list[list[int]]


class FromPath(TypedDict):
    """Offsets that are of one path, and of an image its bytes."""

    path: str
    offsets: Ranges
    bytes: NotRequired[Ranges]


class BytesAt(TypedDict):
    """The first and the last byte of something in an image."""

    path: str
    bytes: list[int]


class GroupFacts(TypedDict):
    """What tells a person whose a group of carved batches may be."""

    codecs: list[str]
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    size_bytes: int
    segments: list[int]
    keys: list[str]
    proposed: list[str]
    proposed_by: str | None


class CarvedGroup(GroupFacts):
    """A group of carved batches, and what says of which partition it is."""

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
    """A partition: what can be had of it, from where, and what is lost."""

    topic: Annotated[str | None, "the topic, as it will be named"]
    partition: Annotated[Int32 | None, "the partition's number"]
    severity: Annotated[Severe | None, "damage where something is lost, doubtful or undecided"]
    records_count: Annotated[int, "records that can be had"]
    batches: Annotated[int, "batches"]
    first_offset: Annotated[int | None, "the first offset"]
    last_offset: Annotated[int | None, "the last"]
    from_: Annotated[list[FromPath], "offsets, or bytes of an image, by the path they come from"]
    carved: Annotated[list[CarvedGroup], "groups carved out of images"]
    reencoded: Annotated[list[Reencoded], "what was taken from torn or damaged batches"]
    mended: Annotated[list[Mended], "batches with header fields that were inferred"]
    lost: Annotated[list[list[int | None]], "ranges of offsets that no copy has"]
    conflicts: Annotated[list[Conflict], "ranges in which copies differ, and which is taken"]
    diverged: Annotated[list[FromPath], "ranges of copies of another history"]
    produced: Annotated[Produced | None, "what was, or would be, produced"]
    sha256: Annotated[str | None, "hash of the result's logs"]
    broker_version: Annotated[Word | None, "the release that it is built for"] = None


class CarvedImage(Row, kind="carved"):
    """An image, and what was found in it."""

    path: Annotated[str, "the image"]
    size_bytes: Annotated[Bytes, "its size"]
    batches: Annotated[int, "batches found"]
    batches_bytes: Annotated[Bytes, "their bytes"]
    extents: Annotated[int, "stretches that they lie in"]
    in_two_pieces: Annotated[int, "batches put together from two pieces"]
    in_more_pieces: Annotated[int, "batches put together from more"]
    torn: Annotated[int, "headers of batches that are not whole"]
    topic_ids: Annotated[list[TopicIdAt], "topic ids of partition.metadata files in it"]


class SalvageStep(Row, kind="salvage-step", sums_up=True):
    """A command to type, before or after."""

    step: Annotated[Word, "keep, create-topic, same-command or restore-settings"]
    command: Annotated[str, "the command"]
    text: Annotated[str, "what it is for"]
    before_ms: Annotated[Duration | None, "how long there is time for it"]


class GroupOffset(Row, kind="group-offset"):
    """A committed offset of a group, and what became of it: with --groups."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    old_offset: Annotated[int | None, "the offset in the copies"]
    offset: Annotated[int | None, "the same place in the result"]
    previous_offset: Annotated[int | None, "what the group had there before"]
    outcome: Annotated[Word, "committed, planned, or why it was left out"]


class GroupOffsets(Row, kind="group-offsets", sums_up=True):
    """How many offsets of groups were applied."""

    applied_count: Annotated[int, "offsets applied"]
    not_applied_count: Annotated[int, "those that were not"]
    outcomes: Annotated[dict[str, int], "offsets by outcome"]
    as_of: Annotated[Word, "deletion, time or now: when the groups had them"]
    as_of_ms: Annotated[Time | None, "that time"]


class SalvageCheck(Row, kind="salvage-check", judged=True):
    """A file of a result, checked against its manifest: with --check."""

    path: Annotated[str, "the file"]
    outcome: Annotated[Word, "same, differs, missing or added"]
    severity: Annotated[Severe | None, "damage unless it is the same"]
    expected: Annotated[str | None, "what the manifest says"]
    actual: Annotated[str | None, "what is there"]

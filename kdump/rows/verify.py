"""The rows of `verify`, beside findings, and of its forecast."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Oldest, Time, Word

_OF_SUMMARIES = (
    "paths partitions rules at_stake any_may_lead start_order verdicts found_once_count found_once"
    " segments tails batches records_count bytes findings codes not_checked segments_checked"
    " segments_unchecked unchecked finished mode forecast"
)
_NONE: dict[str, int] = {}


class LosingPartition(TypedDict):
    """A partition that loses records in an order of starts."""

    topic: str | None
    partition: int | None
    may_lead: list[str]
    best: str
    records_lost: int


class NodesInOrder(TypedDict):
    """The order in which to start nodes; `steps` is empty if any order will do."""

    steps: list[list[str]]
    partitions_at_stake: int
    partitions_equal: int
    by_hand_count: int
    records_at_stake: int
    records_lost: int
    losing_count: int
    losing: list[LosingPartition]
    commands: list[str]


class DiskSpeed(TypedDict):
    """The measured speed of a data directory's disk, in bytes per second."""

    path: str
    low: int | None
    high: int | None
    cached: bool | None


class Forecast(TypedDict):
    """The effect of the next start on all partitions; with measured disks, a range of times."""

    outcomes: dict[str, int]
    partitions_losing: int
    records_lost: int
    segments_to_read: int
    bytes_to_read: int
    seconds: float
    bytes_per_second: int
    recovery_threads: int
    seconds_at_least: NotRequired[float | None]
    seconds_at_most: NotRequired[float | None]
    disks: NotRequired[list[DiskSpeed]]


class Remedy(TypedDict):
    """The result of a start after a file is removed."""

    remove: str
    path: str
    outcome: str
    log_end_after: int | None
    records_lost: int | None
    first_lost_offset: int | None


class StuckAt(TypedDict):
    """Damage at which consumers are stuck, and where they are served again."""

    offset: int | None
    next_offset: int | None
    served_from: int | None
    skipped_by_seek: int | None


class Summary(Row, kind="summary", sums_up=True, omits=tuple(_OF_SUMMARIES.split())):
    """The totals of what `verify` or `compare` checked and found.

    Each of them has a class of its own, which says what is never null in its rows.
    """

    paths: Annotated[int | None, "partitions checked"] = None
    partitions: Annotated[int | None, "partitions compared"] = None
    rules: Annotated[dict[str, int] | None, "partitions by election rule"] = None
    at_stake: Annotated[int | None, "partitions that may lose records"] = None
    any_may_lead: Annotated[int | None, "partitions that any replica may lead"] = None
    start_order: Annotated[NodesInOrder | None, "order in which to start the nodes"] = None
    verdicts: Annotated[dict[str, int] | None, "partitions by verdict"] = None
    found_once_count: Annotated[int | None, "number of partitions under one path only"] = None
    found_once: Annotated[list[str] | None, "their names"] = None
    segments: Annotated[int | None, "segments read"] = None
    tails: Annotated[int | None, "logs of which only the end was read"] = None
    batches: Annotated[int | None, "batches read"] = None
    records_count: Annotated[int | None, "records read"] = None
    bytes: Annotated[Bytes | None, "bytes read"] = None
    findings: Annotated[dict[str, int] | None, "number of findings by severity"] = None
    codes: Annotated[dict[str, int] | None, "number of findings by code"] = None
    not_checked: Annotated[dict[str, int] | None, "what was not checked"] = None
    segments_checked: Annotated[int | None, "segments checked, now or by runs before"] = None
    segments_unchecked: Annotated[
        int | None, "segments that should have been checked but were not"
    ] = None
    unchecked: Annotated[int | None, "segments not read completely, and batches not opened"] = None
    paths_unfinished: Annotated[int, "paths that could not be read completely"] = 0
    finished: Annotated[bool | None, "whether everything was checked"] = None
    mode: Annotated[Word | None, "default, deep, or quick"] = None
    seconds: Annotated[float, "duration of the run"] = 0.0
    kernel: Annotated[Word, "compiled or pure"] = ""
    forecast: Annotated[Forecast | None, "totals of the prediction, by predict"] = None
    asked_: tuple[str, ...] = ()


class VerifySummary(Summary):
    """The totals of `verify`."""

    paths: int = 0
    segments: int = 0
    batches: int = 0
    records_count: int = 0
    bytes: int = 0
    findings: dict[str, int] = _NONE
    codes: dict[str, int] = _NONE
    not_checked: dict[str, int] = _NONE
    segments_checked: int = 0
    segments_unchecked: int = 0
    unchecked: int = 0
    finished: bool = False


class RemoteSegmentRow(Row, kind="remote-segment"):
    """A segment in remote storage, by its metadata and its objects, with --tier."""

    topic: Annotated[str, "the topic"]
    topic_id: Annotated[str, "its id"]
    partition: Annotated[Int32, "the partition number"]
    segment_id: Annotated[str, "the segment's id"]
    start_offset: Annotated[int, "its first offset"]
    end_offset: Annotated[int | None, "its last offset according to the metadata"] = None
    state: Annotated[Word | None, "its state according to the metadata; null: no record"] = None
    size_bytes: Annotated[Bytes | None, "size of its log according to the metadata"] = None
    leader_epochs: Annotated[list[dict[str, int]] | None, "its leader epochs"] = None
    object_bytes: Annotated[Bytes | None, "size of its log object; null: missing"] = None
    local: Annotated[bool | None, "whether the local log also has it; null: unknown"] = None
    verdict: Annotated[
        Word,
        "whole, missing, orphan, truncated, overlapped, epoch-differs, "
        "unreferenced, or undecodable",
    ] = "whole"


class SummaryBy(Row, kind="summary-by", omits=("broker", "node_id", "topic", "tails")):
    """The findings on a broker or in a topic, with --summary-by."""

    by: Annotated[str, "broker, topic, or both"]
    broker: Annotated[str | None, "the data directory, or one of the node's, if by broker"] = None
    node_id: Annotated[str | None, "the node's id, if by broker"] = None
    topic: Annotated[str | None, "the topic, if by topic"] = None
    partitions: Annotated[int, "partitions checked"] = 0
    segments: Annotated[int, "segments read"] = 0
    tails: Annotated[int | None, "logs of which only the end was read"] = None
    batches: Annotated[int, "batches read"] = 0
    records_count: Annotated[int, "records read"] = 0
    bytes: Annotated[Bytes, "bytes read"] = 0
    findings: Annotated[dict[str, int], "number of findings by severity"] = _NONE
    codes: Annotated[dict[str, int], "number of findings by code"] = _NONE
    asked_: tuple[str, ...] = ()


class AppendStep(TypedDict):
    """One step of a broker that receives a record set."""

    step: str
    file: str
    text: str


class StoredEntries(TypedDict):
    """Entries that a broker would store: one batch, or consecutive messages."""

    first_offset: int | None
    last_offset: int
    entries: int
    magic: int
    codec: str
    timestamp_type: str | None
    max_timestamp_ms: int | None
    size_bytes: int


class Append(Row, kind="append", omits=("oldest", "steps")):
    """The broker's answer to a record set sent to a partition, with --append."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition number"]
    sent_bytes: Annotated[Bytes, "number of bytes sent"]
    accepted: Annotated[bool, "whether they are accepted"] = False
    error: Annotated[Word | None, "the error, by its name in the protocol"] = None
    reason: Annotated[str | None, "the reason"] = None
    duplicate: Annotated[bool, "acknowledged but not stored: the log has the batch"] = False
    valid_bytes: Annotated[Bytes | None, "bytes of complete batches; the rest is dropped"] = None
    first_offset: Annotated[int | None, "the offset of the first record stored"] = None
    last_offset: Annotated[int | None, "the offset of the last record stored"] = None
    log_append_ms: Annotated[Time | None, "the broker's time, if the topic has LogAppendTime"] = (
        None
    )
    entries: Annotated[int | None, "batches stored, or messages before 0.11"] = None
    size_bytes: Annotated[Bytes | None, "bytes stored, after recompression"] = None
    rewritten: Annotated[bool | None, "whether records are converted or recompressed"] = None
    batches: Annotated[list[StoredEntries] | None, "the batches stored; at most 1,000"] = None
    follower: Annotated[bool, "whether the answer is a follower's"] = False
    broker_version: Annotated[Word | None, "the release that answers"] = None
    frame: Annotated[int | None, "number of the request in the capture, from 0"] = None
    oldest: Annotated[Oldest | None, "the answer of the oldest possible release, if different"] = (
        None
    )
    steps: Annotated[list[AppendStep] | None, "the steps to the answer, with --explain"] = None


class WayPast(Row, kind="way-past", sums_up=True):
    """Where consumers that stop at damage are served again."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int, "the first offset served after the damage"]
    stops_at: Annotated[int | None, "where consumers stop, if known"]
    first: Annotated[bool, "whether it is the first of its partition, where a group continues"]


#: Outcomes with which no broker starts.
REFUSALS = ("refuses-to-start", "out-of-memory")


class Recovery(Row, kind="recovery", omits=("unserved",)):
    """What the next start of a broker does to a partition."""

    topic: Annotated[str | None, "the topic"] = None
    partition: Annotated[Int32 | None, "the partition number"] = None
    outcome: Annotated[Word, "clean, recover, delete-segments, refuses-to-start, and others"] = ""
    segments_read: Annotated[list[int] | None, "number of segments read"] = None
    truncate_segment: Annotated[int | None, "base offset of the truncated segment"] = None
    truncate_position: Annotated[int | None, "position of the truncation"] = None
    log_end_before: Annotated[int | None, "log end offset before"] = None
    log_end_after: Annotated[int | None, "log end offset afterwards"] = None
    first_lost_offset: Annotated[int | None, "the first offset that is lost"] = None
    records_lost: Annotated[int | None, "number of records lost"] = None
    segments_deleted: Annotated[list[int] | None, "number of segments deleted"] = None
    indexes_rebuilt: Annotated[list[int] | None, "number of segments whose indexes are rebuilt"] = (
        None
    )
    reason: Annotated[str | None, "the reason"] = None
    bytes_read: Annotated[Bytes | None, "bytes read"] = None
    path: Annotated[str | None, "the directory"] = None
    remedies: Annotated[list[Remedy] | None, "actions that lose less, with the outcome of each"] = (
        None
    )
    broker_version: Annotated[str | None, "the release that starts"] = None
    oldest: Annotated[Oldest | None, "the same for the oldest possible release, if different"] = (
        None
    )
    unserved: Annotated[
        list[StuckAt] | None, "damage at which consumers are stuck after the start"
    ] = None
    asked_: tuple[str, ...] = ()


class NodeStart(Row, kind="node-start"):
    """Whether a node starts, or what stops it."""

    outcome: Annotated[Word, "starts, refuses, unknown, or loses"]
    cause: Annotated[Word, "the cause, one word"]
    message: Annotated[str, "description of the problem"]
    path: Annotated[str | None, "the file or directory"]
    remedy: Annotated[str | None, "what to do"]
    broker_version: Annotated[str | None, "the release that starts"] = None

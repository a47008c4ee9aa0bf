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
    """In which order nodes are started; `steps` is empty where any will do."""

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
    """What a data directory's disk gives, in bytes a second: the slowest and the fastest piece."""

    path: str
    low: int | None
    high: int | None
    cached: bool | None


class Forecast(TypedDict):
    """What the next start does to all partitions. With measured disks there is a range of time."""

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
    """What a start comes to after a file is removed."""

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
    """What was looked at and found in all, by `verify` or `compare`.

    Each of them has a class of its own, which says what is never null in its rows.
    """

    paths: Annotated[int | None, "partitions looked at"] = None
    partitions: Annotated[int | None, "partitions compared"] = None
    rules: Annotated[dict[str, int] | None, "partitions by what decides who leads"] = None
    at_stake: Annotated[int | None, "partitions that lose records by who leads"] = None
    any_may_lead: Annotated[int | None, "those that any replica may lead"] = None
    start_order: Annotated[NodesInOrder | None, "in which order the nodes are to be started"] = None
    verdicts: Annotated[dict[str, int] | None, "partitions by verdict"] = None
    found_once_count: Annotated[int | None, "partitions under one path only"] = None
    found_once: Annotated[list[str] | None, "their names"] = None
    segments: Annotated[int | None, "segments read"] = None
    tails: Annotated[int | None, "logs of which only the end was read"] = None
    batches: Annotated[int | None, "batches read"] = None
    records_count: Annotated[int | None, "records in them"] = None
    bytes: Annotated[Bytes | None, "bytes read"] = None
    findings: Annotated[dict[str, int] | None, "findings by severity"] = None
    codes: Annotated[dict[str, int] | None, "findings by code"] = None
    not_checked: Annotated[dict[str, int] | None, "what was not checked"] = None
    segments_checked: Annotated[int | None, "segments checked, now or by runs before"] = None
    segments_unchecked: Annotated[int | None, "those that should have been checked, too"] = None
    unchecked: Annotated[int | None, "segments and batches not read to the end or opened"] = None
    paths_unfinished: Annotated[int, "paths that could not be finished"] = 0
    finished: Annotated[bool | None, "whether all was looked at"] = None
    mode: Annotated[Word | None, "default, deep or quick"] = None
    seconds: Annotated[float, "how long it took"] = 0.0
    kernel: Annotated[Word, "compiled or pure"] = ""
    forecast: Annotated[Forecast | None, "sums of the forecast, by predict"] = None
    asked_: tuple[str, ...] = ()


class VerifySummary(Summary):
    """The sum of `verify`."""

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
    partition: Annotated[Int32, "the partition's number"]
    segment_id: Annotated[str, "the segment's id"]
    start_offset: Annotated[int, "its first offset"]
    end_offset: Annotated[int | None, "its last offset, by the metadata"] = None
    state: Annotated[Word | None, "its state, by the metadata; null: without a record"] = None
    size_bytes: Annotated[Bytes | None, "size of its log, by the metadata"] = None
    leader_epochs: Annotated[list[dict[str, int]] | None, "its leader epochs"] = None
    object_bytes: Annotated[Bytes | None, "size of its log object; null: there is none"] = None
    local: Annotated[bool | None, "whether the local log has it, too; null: not known"] = None
    verdict: Annotated[
        Word,
        "whole, missing, orphan, truncated, overlapped, epoch-differs, "
        "unreferenced, or undecodable",
    ] = "whole"


class SummaryBy(Row, kind="summary-by", omits=("broker", "node_id", "topic", "tails")):
    """What was found on a broker or in a topic, with --summary-by."""

    by: Annotated[str, "broker, topic, or both"]
    broker: Annotated[str | None, "the data directory, or the node's, if by broker"] = None
    node_id: Annotated[str | None, "the node's id, if by broker"] = None
    topic: Annotated[str | None, "the topic, if by topic"] = None
    partitions: Annotated[int, "partitions looked at"] = 0
    segments: Annotated[int, "segments read"] = 0
    tails: Annotated[int | None, "logs of which only the end was read"] = None
    batches: Annotated[int, "batches read"] = 0
    records_count: Annotated[int, "records in them"] = 0
    bytes: Annotated[Bytes, "bytes read"] = 0
    findings: Annotated[dict[str, int], "findings by severity"] = _NONE
    codes: Annotated[dict[str, int], "findings by code"] = _NONE
    asked_: tuple[str, ...] = ()


class AppendStep(TypedDict):
    """One step of a broker that is sent a set."""

    step: str
    file: str
    text: str


class StoredEntries(TypedDict):
    """Entries that a broker would store: one batch, or messages that follow one another."""

    first_offset: int | None
    last_offset: int
    entries: int
    magic: int
    codec: str
    timestamp_type: str | None
    max_timestamp_ms: int | None
    size_bytes: int


class Append(Row, kind="append", omits=("oldest", "steps")):
    """What a broker answers to a set of batches that is sent to a partition, with --append."""

    topic: Annotated[str | None, "the topic"]
    partition: Annotated[Int32 | None, "the partition's number"]
    sent_bytes: Annotated[Bytes, "how many bytes are sent"]
    accepted: Annotated[bool, "whether they are accepted"] = False
    error: Annotated[Word | None, "the error, by its name in the protocol"] = None
    reason: Annotated[str | None, "why, in words"] = None
    duplicate: Annotated[bool, "acknowledged, but not stored: a batch that is in the log"] = False
    valid_bytes: Annotated[Bytes | None, "bytes of complete entries; the rest is dropped"] = None
    first_offset: Annotated[int | None, "the offset of the first record stored"] = None
    last_offset: Annotated[int | None, "that of the last"] = None
    log_append_ms: Annotated[Time | None, "the broker's time, if the topic has LogAppendTime"] = (
        None
    )
    entries: Annotated[int | None, "batches stored, or messages before 0.11"] = None
    size_bytes: Annotated[Bytes | None, "bytes stored, after recompression"] = None
    rewritten: Annotated[bool | None, "whether records are converted or recompressed"] = None
    batches: Annotated[list[StoredEntries] | None, "what is stored; the first 1,000"] = None
    follower: Annotated[bool, "whether a follower answers"] = False
    broker_version: Annotated[Word | None, "the release that answers"] = None
    frame: Annotated[int | None, "number of the request in the capture, from 0"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release answers that it can be, where that differs"
    ] = None
    steps: Annotated[list[AppendStep] | None, "how it is found, with --explain"] = None


class WayPast(Row, kind="way-past", sums_up=True):
    """Where consumers that stop at damage are served again."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[Int32, "the partition's number"]
    offset: Annotated[int, "the first offset served behind the damage"]
    stops_at: Annotated[int | None, "where consumers stop, as far as it is known"]
    first: Annotated[bool, "whether it is the first of its partition: a group goes on there"]


class Recovery(Row, kind="recovery", omits=("unserved",)):
    """What the next start of a broker does to a partition."""

    topic: Annotated[str | None, "the topic"] = None
    partition: Annotated[Int32 | None, "the partition's number"] = None
    outcome: Annotated[Word, "clean, recover, delete-segments, refuses-to-start and others"] = ""
    segments_read: Annotated[list[int] | None, "segments that it reads"] = None
    truncate_segment: Annotated[int | None, "the segment that it cuts"] = None
    truncate_position: Annotated[int | None, "where it cuts it"] = None
    log_end_before: Annotated[int | None, "log end offset before"] = None
    log_end_after: Annotated[int | None, "log end offset afterwards"] = None
    first_lost_offset: Annotated[int | None, "the first offset that is lost"] = None
    records_lost: Annotated[int | None, "how many records are lost"] = None
    segments_deleted: Annotated[list[int] | None, "segments that it deletes"] = None
    indexes_rebuilt: Annotated[list[int] | None, "segments whose indexes it rebuilds"] = None
    reason: Annotated[str | None, "why, in words"] = None
    bytes_read: Annotated[Bytes | None, "bytes that it reads"] = None
    path: Annotated[str | None, "the directory"] = None
    remedies: Annotated[list[Remedy] | None, "what would lose less, with both forecasts"] = None
    broker_version: Annotated[str | None, "the release that starts"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release does that it can be, where that differs"
    ] = None
    unserved: Annotated[list[StuckAt] | None, "damage at which consumers are stuck after it"] = None
    asked_: tuple[str, ...] = ()


class NodeStart(Row, kind="node-start"):
    """Whether a node starts, or what stops it."""

    outcome: Annotated[Word, "starts, refuses, unknown, or loses"]
    cause: Annotated[Word, "what stops it, in one word"]
    message: Annotated[str, "what is wrong, in words"]
    path: Annotated[str | None, "the file or directory"]
    remedy: Annotated[str | None, "what to do"]
    broker_version: Annotated[str | None, "the release that starts"] = None

"""The rows of `compare`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.verify import Summary
from kdump.rows.words import Int32, Numbers, Oldest, Severe, Word

_Topic = Annotated[str | None, "the topic"]
_Partition = Annotated[Int32 | None, "the partition number"]
_NONE: dict[str, int] = {}


class Side(TypedDict):
    """The first batch of a replica where others differ, or why there is none."""

    path: str
    present: bool
    segment: int | None
    position: int | None
    size_bytes: int | None
    base_offset: int | None
    last_offset: int | None
    crc: int | None
    crc_valid: bool | None
    leader_epoch: int | None
    code: str | None
    detail: str | None
    also: list[str]


class EpochStart(TypedDict):
    """Where a leader epoch begins."""

    leader_epoch: int
    start_offset: int


class EpochSpan(TypedDict):
    """The records of a leader epoch."""

    leader_epoch: int | None
    first_offset: int
    last_offset: int
    records_count: int


class LostSpan(EpochSpan):
    """Records that are lost with a choice of leader, and the replica that has them."""

    path: str


class ReplicaFacts(TypedDict):
    """Facts about a replica."""

    path: str
    node_id: str | None
    log_start: int
    log_end: int
    high_watermark: int | None
    segments: int
    batches: int
    records_count: int
    bytes: int
    last_epoch: int | None
    epochs: list[EpochStart]
    beyond_common: list[EpochSpan]
    sound: bool


class Choice(TypedDict):
    """A replica that may lead, and what is lost if it does."""

    path: str
    broker_version: str
    node_id: int | None
    voter: bool | None
    in_sync: bool | None
    electable: bool | None
    refused: str | None
    log_start: int
    log_end: int
    last_epoch: int | None
    records_lost: int
    lost: list[LostSpan]
    changes_lost: dict[str, int] | None


class ReplicaDifference(Row, kind="replica-difference"):
    """One difference between two replicas."""

    topic: _Topic
    partition: _Partition
    kind: Annotated[Word, "missing, truncated, behind, damaged, and others"]
    severity: Annotated[Severe, "severity"]
    offset: Annotated[int | None, "the first offset that differs"]
    last_offset: Annotated[int | None, "the last"]
    records_count: Annotated[int | None, "number of records"]
    fields_: Annotated[list[str], "fields of the batches that differ"]
    key: Annotated[bytes | None, "their key, if compaction may have removed them"]
    copy_from: Annotated[str | None, "the replica to copy them from"]
    reason: Annotated[str | None, "more about the cause"]
    left: Annotated[Side, "what the first replica has there"]
    right: Annotated[Side, "what the second replica has there"]
    message: Annotated[str, "description of the difference"]


class ReplicaComparison(Row, kind="replica-comparison", sums_up=True, judged=True):
    """The result of comparing the replicas of a partition."""

    topic: _Topic
    partition: _Partition
    verdict: Annotated[Word, "equal, behind, truncated, damaged, diverged, and others"]
    severity: Annotated[Severe | None, "severity"]
    explanation: Annotated[str, "description of what happened"]
    replicas: Annotated[list[ReplicaFacts], "facts about each replica"]
    odd: Annotated[str | None, "the replica that differs from all others"]
    first_divergent_offset: Annotated[int | None, "the first offset that differs"]
    common_epoch: Annotated[Int32 | None, "the last leader epoch that all replicas have"]
    common_end_offset: Annotated[int, "the offset up to which all replicas share one history"]
    differences: Annotated[dict[str, int], "differences by kind"]
    records_differing: Annotated[dict[str, int], "number of differing records by kind"]
    differences_shown: Annotated[int, "number of differences with a row"]
    records_count: Annotated[int, "records of the replica with the most records"]


class ReplicaElection(Row, kind="replica-election", omits=("oldest",)):
    """The replica that should lead a partition, and what each choice loses."""

    topic: _Topic
    partition: _Partition
    rule: Annotated[Word, "in-sync or raft: the rule for choosing the leader"]
    leader: Annotated[str, "path of the replica that should lead"]
    leader_node: Annotated[Int32 | str | None, "its node"]
    leader_epoch: Annotated[Int32 | None, "its last leader epoch"]
    leader_end: Annotated[int, "its log end offset"]
    assigned: Annotated[Numbers | None, "nodes that have a replica"]
    isr: Annotated[Numbers | None, "the in-sync replicas"]
    elr: Annotated[Numbers | None, "the eligible leader replicas"]
    voters_count: Annotated[int | None, "voters of the quorum"]
    voters_here: Annotated[int | None, "voters among the paths"]
    at_stake: Annotated[bool, "whether a choice of leader loses records"]
    choices: Annotated[list[Choice], "each replica, with what is lost if it leads"]
    advice: Annotated[str, "what to do"]
    commands: Annotated[list[str], "commands to run"]
    any_may_lead: Annotated[bool, "whether no choice loses records, and each replica starts"]
    records_at_stake: Annotated[int, "records lost with the worst choice"]
    records_lost_alone: Annotated[int, "most records lost if the controller chooses"]
    oldest: Annotated[
        Oldest | None, "the best leader by the rules of the oldest possible release, if different"
    ] = None


class MirrorStretch(Row, kind="mirror-stretch"):
    """Consecutive records that are mirrored in the same way: with `--mirror`."""

    topic: Annotated[str, "the topic at the source"]
    partition: Annotated[Int32, "the partition number"]
    target_topic: Annotated[str, "the topic at the target"]
    kind: Annotated[Word, "mirrored, reordered, duplicated, only-source, aborted, or only-target"]
    place: Annotated[Word | None, "start, inside, or end of the range that both have"]
    first_offset: Annotated[int | None, "first offset at the source"]
    last_offset: Annotated[int | None, "last offset at the source"]
    target_first_offset: Annotated[int | None, "first offset at the target"]
    target_last_offset: Annotated[int | None, "last offset at the target"]
    shift: Annotated[int | None, "target offset minus source offset"]
    records_count: Annotated[int, "number of records"]


class TranslatedOffset(Row, kind="translated-offset"):
    """A committed offset of the source, translated to the target: with `--mirror --groups`."""

    group: Annotated[str, "id of the group"]
    topic: Annotated[str, "the topic at the target"]
    partition: Annotated[Int32, "the partition number"]
    offset: Annotated[int | None, "the offset at the target; null: not known"]
    basis: Annotated[Word | None, "source of the offset: checkpoint, offset-sync, or records"]
    source_topic: Annotated[str, "the topic at the source"]
    source_offset: Annotated[int, "the committed offset"]
    records_offset: Annotated[int | None, "the exact offset, by comparing records"]
    sync_offset: Annotated[int | None, "the offset by MirrorMaker's nearest offset sync"]
    checkpoint_offset: Annotated[int | None, "the offset in the group's last checkpoint"]
    checkpoint_source_offset: Annotated[int | None, "the source offset in that checkpoint"]


class MirrorComparison(Row, kind="mirror-comparison", sums_up=True, judged=True):
    """The result of comparing a partition with its mirror."""

    topic: Annotated[str, "the topic at the source"]
    partition: Annotated[Int32, "the partition number"]
    target_topic: Annotated[str, "the topic at the target"]
    verdict: Annotated[Word, "mirrored, behind, missing, duplicated, reordered, and others"]
    severity: Annotated[Severe | None, "severity"]
    shift: Annotated[int | None, "target offset minus source offset at the end"]
    source_records: Annotated[int, "records at the source"]
    target_records: Annotated[int, "records at the target"]
    paired: Annotated[int, "records that both have"]
    only_source: Annotated[int, "records that only the source has"]
    only_target: Annotated[int, "records that only the target has"]
    duplicated: Annotated[int, "additional copies at the target"]
    reordered: Annotated[int, "records that are in a different order than at the source"]
    stretches_left_out: Annotated[int, "rows omitted by --limit"]
    aborted: Annotated[int, "records of aborted transactions that only the source has"] = 0


class CompareSummary(Summary):
    """The totals of `compare`."""

    verdicts: dict[str, int] = _NONE
    found_once_count: int = 0
    found_once: list[str] = []  # noqa: RUF012 - a tuple's default
    batches: int = 0
    records_count: int = 0
    bytes: int = 0


class ElectSummary(Summary):
    """The totals of `elect`."""

    partitions: int = 0
    at_stake: int = 0
    any_may_lead: int = 0

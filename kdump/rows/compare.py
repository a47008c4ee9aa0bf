"""The rows of `compare`."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.verify import Summary
from kdump.rows.words import Int32, Json, Numbers, Severe, Word

_Topic = Annotated[str | None, "the topic"]
_Partition = Annotated[Int32 | None, "the partition's number"]
_Object = dict[str, Json]
_NONE: dict[str, int] = {}


class ReplicaDifference(Row, kind="replica-difference"):
    """One difference between two replicas."""

    topic: _Topic
    partition: _Partition
    kind: Annotated[Word, "missing, truncated, behind, damaged and others"]
    severity: Annotated[Severe, "how severe"]
    offset: Annotated[int | None, "the first offset that differs"]
    last_offset: Annotated[int | None, "the last"]
    records_count: Annotated[int | None, "how many records"]
    fields_: Annotated[list[str], "members of the batches that differ"]
    key: Annotated[bytes | None, "a key, of records that a cleaner may have removed"]
    copy_from: Annotated[str | None, "the replica that has them"]
    reason: Annotated[str | None, "more about the cause"]
    left: Annotated[_Object, "what one side has there"]
    right: Annotated[_Object, "what the other has"]
    message: Annotated[str, "the difference in words"]


class ReplicaComparison(Row, kind="replica-comparison", sums_up=True, judged=True):
    """What comparing the replicas of a partition shows."""

    topic: _Topic
    partition: _Partition
    verdict: Annotated[Word, "equal, behind, truncated, damaged, diverged and others"]
    severity: Annotated[Severe | None, "how severe"]
    explanation: Annotated[str, "what happened, in words"]
    replicas: Annotated[list[_Object], "what is known of each"]
    odd: Annotated[str | None, "the one that differs from all others"]
    first_divergent_offset: Annotated[int | None, "the first offset that differs"]
    common_epoch: Annotated[Int32 | None, "the last leader epoch that all have"]
    common_end_offset: Annotated[int, "up to here all are of one history"]
    differences: Annotated[dict[str, int], "differences by kind"]
    records_differing: Annotated[dict[str, int], "records by kind of difference"]
    differences_shown: Annotated[int, "differences that have a row"]


class ReplicaElection(Row, kind="replica-election"):
    """Who should lead a partition, and what each choice loses."""

    topic: _Topic
    partition: _Partition
    rule: Annotated[Word, "in-sync or raft: what decides who leads"]
    leader: Annotated[str, "path of the replica that should lead"]
    leader_node: Annotated[Int32 | str | None, "its node"]
    leader_epoch: Annotated[Int32 | None, "its last leader epoch"]
    leader_end: Annotated[int, "its log end offset"]
    assigned: Annotated[Numbers | None, "nodes that have a replica"]
    isr: Annotated[Numbers | None, "the in-sync replicas"]
    elr: Annotated[Numbers | None, "the eligible leader replicas"]
    voters_count: Annotated[int | None, "voters of the quorum"]
    voters_here: Annotated[int | None, "those among the paths"]
    at_stake: Annotated[bool, "whether a choice loses records"]
    choices: Annotated[list[_Object], "each replica, and what is lost if it leads"]
    advice: Annotated[str, "what to do, in words"]
    commands: Annotated[list[str], "commands to type"]


class CompareSummary(Summary):
    """The sum of `compare`."""

    verdicts: dict[str, int] = _NONE
    found_once_count: int = 0
    found_once: list[str] = []  # noqa: RUF012 - a tuple's default
    batches: int = 0
    records_count: int = 0
    bytes: int = 0


class ElectSummary(Summary):
    """The sum of `elect`."""

    partitions: int = 0
    at_stake: int = 0

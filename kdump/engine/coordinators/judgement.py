"""Tell whether an open transaction hangs, and why it is open (T3, T4).

`kafka-transactions.sh find-hanging` asks the brokers which transactions are open in partitions,
and the coordinators which partitions they have still to write a marker to. What is open in a
partition and awaited by no coordinator hangs. Here the logs are asked, and `__transaction_state`.
A coordinator writes down a partition before the first record can get there, so where all of its
topic is here that needs no patience; where it is not, age has to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.moments import span_text, time_text
from kdump.replay.transactions import UNDECIDED, Partition, Transaction
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.visibility import OpenTransaction


class OpenInPartition(NamedTuple):
    """A transaction that is open in a partition; `live`: a broker runs on that directory."""

    partition: Partition
    last_stable_offset: int | None
    said: OpenTransaction
    age_ms: int | None
    live: bool

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        topic, number = self.partition
        return f"{topic}-{number}"


class JudgementContext(NamedTuple):
    """What is known around: until when, how old a transaction may become, and how much is here.

    `missing` says what is not, of the coordinators' topic; empty where it is all here.
    """

    as_of_ms: int
    allowed_ms: int
    missing: str = ""


class Verdict(NamedTuple):
    """Whether any hangs (None: that cannot be told), why, and which."""

    hanging: bool | None
    cause: str | None
    hung: tuple[OpenInPartition, ...] = ()


def judge(
    transaction: Transaction | None, opened: list[OpenInPartition], known: JudgementContext
) -> Verdict:
    """Judge what is open of one transactional id, or of a producer that no record names."""
    if transaction is not None and transaction.problem is not None and not opened:
        return Verdict(None, _unread_words(transaction))
    if not opened:
        unfinished = transaction is not None and transaction.is_unfinished
        return Verdict(False, _awaited_words(transaction, known) if unfinished else None)
    hung: list[OpenInPartition] = []
    doubts: list[str] = []
    for one in opened:
        if transaction is not None and transaction.awaits(one.said.producer_id, one.partition):
            continue
        doubt = _doubt(transaction, one, known)
        if not doubt or (one.age_ms or 0) > known.allowed_ms:
            hung.append(one)
        else:
            doubts.append(doubt)
    if hung:
        words = _hanging_words(transaction, hung, known) + "".join(map(_marker_words, hung))
        return Verdict(True, words, tuple(hung))
    if doubts:
        return Verdict(None, doubts[0])
    return Verdict(False, _awaited_words(transaction, known))


def _doubt(transaction: Transaction | None, one: OpenInPartition, known: JudgementContext) -> str:
    """Say why a transaction that nobody here awaits may still be awaited; empty: it cannot."""
    if transaction is None:
        if known.missing:
            return f"{known.missing}, so it is unknown whether its coordinator expects it to end."
    elif transaction.problem is not None:
        return _unread_words(transaction)
    elif one.said.producer_id == transaction.producer_id and one.said.producer_epoch > (
        transaction.producer_epoch or 0
    ):
        return (
            f"Its epoch in {one.name}, {one.said.producer_epoch}, is above that of the "
            "coordinator's record: the log of __transaction_state here may be behind."
        )
    elif _is_behind(transaction, one.said):
        return (
            f"Its coordinator ended it ({transaction.state}), but the log of {one.name} ends "
            "before that: the marker may be on other replicas."
        )
    if not one.live:
        return ""
    allowed = span_text(known.allowed_ms)
    return (
        "The broker is running, and a marker may follow: check again when the transaction is "
        f"{allowed} old."
    )


def _is_behind(transaction: Transaction, said: OpenTransaction) -> bool:
    """Whether a log may end before the marker of a transaction that its coordinator has ended.

    A replica that lagged, or what broke off, may lack it.
    """
    ended_ms = transaction.last_update_ms
    since_ms = said.since_ms
    if ended_ms is None or since_ms is None or said.producer_id != transaction.producer_id:
        return False
    has_ended = transaction.state in ("CompleteCommit", "CompleteAbort")
    return has_ended and since_ms <= ended_ms and said.newest_ms < ended_ms


def _unread_words(transaction: Transaction) -> str:
    return f"The coordinator's record cannot be read: {transaction.problem}."


def _hanging_words(
    transaction: Transaction | None, hung: list[OpenInPartition], known: JudgementContext
) -> str:
    if transaction is not None and transaction.problem is None:
        where = ", ".join(one.name for one in hung)
        return f"Its coordinator has no transaction in {where}: no marker will follow."
    if transaction is None and not known.missing:
        return "No coordinator knows its producer: no marker will follow."
    return f"It is older than the longest allowed transaction ({span_text(known.allowed_ms)})."


def _marker_words(one: OpenInPartition) -> str:
    at = one.said.marker_offset
    if at is None:
        return ""
    return f" The transaction index of {one.name} has an ABORT marker for it, at offset {at:,}."


def _awaited_words(transaction: Transaction | None, known: JudgementContext) -> str:
    """Say what will end a transaction that its coordinator knows of."""
    assert transaction is not None
    if transaction.state not in UNDECIDED:
        decided = "abort" if transaction.state == "PrepareAbort" else "commit"
        return f"Its outcome is decided ({decided}): the coordinator is writing the markers."
    if transaction.state != "Ongoing" or None in (transaction.start_ms, transaction.timeout_ms):
        return "Its coordinator will abort it."
    end_ms = (transaction.start_ms or 0) + (transaction.timeout_ms or 0)
    when = time_text(end_ms)
    if known.as_of_ms > end_ms:
        return f"It timed out at {when}: the coordinator aborts it as soon as the coordinator runs."
    return f"Its producer should end it; otherwise its coordinator aborts it at {when}."

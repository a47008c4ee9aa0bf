"""Replay partitions of `__transaction_state`, and find the transactional id of a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.coordinators.judgement import Known, Opened, judge
from kdump.engine.coordinators.marks import Marks
from kdump.engine.coordinators.partitions import (
    Records,
    compacted_behind,
    items_of,
    unexplained,
)
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.replay.transactions import TOPIC, Partition, Transaction, TransactionsLog
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import OFFSET_MAX
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.broker.open_transactions import OpenTransaction
    from kdump.engine.coordinators.partitions import Item

    Reported = Finding | KdumpError


class StateReplayed(NamedTuple):
    """What came of one partition; `lost`: records of it cannot be read."""

    transactions: tuple[Transaction, ...]
    newest_ms: int
    lost: bool
    reported: tuple[Reported, ...]


def replay_state(
    item: Item,
    pace: Callable[[int], None],
    *,
    wanted: Callable[[str], bool],
    only: str | None = None,
    at_ms: int | None = None,
    decompress_limit: int = DEFAULT_LIMIT,
) -> StateReplayed:
    """Replay one partition to its end, or up to a time."""
    log = TransactionsLog(at_ms, only)
    records = Records(item, pace, decompress_limit, log.lost)
    reported = records.into(log.take)
    transactions = log.transactions(wanted)
    if at_ms is not None:
        reported += compacted_behind(item, log)
    if log.unknown:
        reported.append(unexplained(item, log.unknown))
    lost = bool(records.lost or log.unknown) or any(isinstance(one, KdumpError) for one in reported)
    return StateReplayed(tuple(transactions), log.newest_ms, lost, tuple(reported))


def by_producer(transactions: Iterable[Transaction]) -> dict[int, Transaction]:
    """Find transactions by producer id: the present one before one that an id had before."""
    found: dict[int, Transaction] = {}
    previous: dict[int, Transaction] = {}
    for one in transactions:
        if one.producer_id is not None:
            found[one.producer_id] = one
        if one.previous_producer_id is not None:
            previous[one.previous_producer_id] = one
    return previous | found


def missing_of(items: list[Item], marks: Marks) -> str:
    """Say what of the topic is not here; nothing where it is all here, as far as that is known."""
    if not items:
        return f"No partition of {TOPIC} is here"
    here = {item.partition for item in items}
    count = marks.partitions_count(TOPIC) or max(here) + 1
    lacks = next((number for number in range(count) if number not in here), None)
    return "" if lacks is None else f"Partition {lacks} of {TOPIC} is not here"


class Coordinators:
    """Judges open transactions by what the coordinators say under some paths, read when first
    asked. Goes to workers, which read it again.
    """

    def __init__(self, paths: Iterable[str] = (), server_properties: str | None = None) -> None:
        self._paths = tuple(paths)
        self._server_properties = server_properties
        self._said: tuple[dict[int, Transaction], Known] | None = None

    def __call__(self, place: Partition, opened: OpenTransaction, live: bool) -> tuple[bool, str]:
        """Say whether a transaction hangs whatever its age, and name its transactional id."""
        if self._said is None:
            self._said = self._read()
        transactions, known = self._said
        transaction = transactions.get(opened.producer_id)
        verdict = judge(transaction, [Opened(place, None, opened, None, live)], known)
        hangs = verdict.hanging is True
        if transaction is None:
            return hangs, f" {verdict.cause}" if hangs else ""
        state = "" if transaction.state is None else f" ({transaction.state})"
        name = transaction.transactional_id
        return hangs, f" Its transactional id is {name}{state}. {verdict.cause}"

    def _read(self) -> tuple[dict[int, Transaction], Known]:
        found = resolve(self._paths, Selection(topic="__*"), self._server_properties, listed=False)
        targets = [one for one in found if isinstance(one, Target)]
        chosen = items_of(targets, TOPIC, retired=False)
        items = [one for one in chosen if not isinstance(one, Finding)]
        missing = missing_of(items, Marks(targets))
        transactions: list[Transaction] = []
        newest_ms = -1
        for item in items:
            replayed = replay_state(item, lambda _: None, wanted=lambda _: True)
            transactions += replayed.transactions
            newest_ms = max(newest_ms, replayed.newest_ms)
            if replayed.lost:
                missing = missing or unread_of(item)
        return by_producer(transactions), Known(newest_ms, OFFSET_MAX, missing)


def unread_of(item: Item) -> str:
    """Say that part of a partition cannot be read."""
    return f"Part of {TOPIC}-{item.partition} cannot be read"

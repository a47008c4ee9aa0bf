"""Replay partitions of `__transaction_state`, and find the transactional id of a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.coordinators.partitions import Item, Records, compacted_behind, unexplained
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.replay.transactions import TOPIC, Transaction, TransactionsLog
from kdump.storage.file_records import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.engine.coordinators.marks import Marks

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


def unread_of(item: Item) -> str:
    """Say that part of a partition cannot be read."""
    return f"Part of {TOPIC}-{item.partition} cannot be read"

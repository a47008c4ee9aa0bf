"""Replay partitions of `__transaction_state`, and find the transactional id of a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.coordinators.partitions import (
    Records,
    cleaned_to,
    compacted,
    items_of,
    unexplained,
)
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk
from kdump.replay.transactions import TOPIC, Transaction, TransactionsLog
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.engine.coordinators.partitions import Item

    Told = Finding | KdumpError


class StateReplayed(NamedTuple):
    """What came of one partition; `lost`: records of it cannot be read."""

    transactions: tuple[Transaction, ...]
    newest_ms: int
    lost: bool
    told: tuple[Told, ...]


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
    told: list[Told] = []
    for one in records.items():
        if isinstance(one, RecordChunk):
            log.take(one)
        else:
            told.append(one)
    transactions = log.transactions(wanted)
    if at_ms is not None and log.hole_end:
        end = max(log.hole_end, cleaned_to(item))
        if log.end_offset < end:
            told.append(compacted(item, end))
    if log.unknown:
        told.append(unexplained(item, log.unknown))
    lost = bool(records.lost or log.unknown) or any(isinstance(one, KdumpError) for one in told)
    return StateReplayed(tuple(transactions), log.newest_ms, lost, tuple(told))


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


class TransactionalIds:
    """Finds the transactional id of a producer; what is under some paths is read when first asked.

    Goes to workers, which read it again.
    """

    def __init__(self, partitions: Iterable[str] = ()) -> None:
        self._partitions = tuple(partitions)
        self._found: dict[int, Transaction] | None = None

    def of(self, producer_id: int) -> Transaction | None:
        """Return what the coordinator knows of a producer; None where nobody here does."""
        if self._found is None:
            self._found = by_producer(
                one for item in self._items() for one in _replayed(item).transactions
            )
        return self._found.get(producer_id)

    def _items(self) -> list[Item]:
        targets = [one for one in resolve(self._partitions, Selection()) if isinstance(one, Target)]
        found = items_of(targets, TOPIC, retired=False)
        return [one for one in found if not isinstance(one, Finding)]


def _replayed(item: Item) -> StateReplayed:
    return replay_state(item, lambda _: None, wanted=lambda _: True)

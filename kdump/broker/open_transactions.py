"""List the transactions that are open in a partition, by a broker's producer state (L7, R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.visibility import View, aborted_transactions, last_stable_offset
from kdump.storage.names import OFFSET_MAX

if TYPE_CHECKING:
    from kdump.broker.producer_state import ProducerStates
    from kdump.storage.targets import Target


class OpenTransaction(NamedTuple):
    """A transaction without a marker, in one partition.

    `since_ms` is the time of its first batch, as its producer has it; `records_count` None: its
    first batches are gone, and only a snapshot knows of them. `newest_ms` is the newest time that
    markers and records outside of transactions have, -1 for none: the log goes at least so far.
    `marker_offset` is where its ABORT marker was, by the transaction index; it cannot be read.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    since_ms: int | None
    records_count: int | None
    newest_ms: int
    marker_offset: int | None = None


class OpenHere(NamedTuple):
    """The open transactions of a partition, by first offset, and the last stable offset.

    `newest_marker_ms` is the time of the last marker that was read, a broker's clock; `newest_ms`
    that of records, producers' clocks; both -1 where there is none. `unread`: part of the log
    cannot be read. `overflowed`: so many are open that none is named.
    """

    transactions: tuple[OpenTransaction, ...]
    last_stable_offset: int | None
    newest_marker_ms: int
    newest_ms: int
    unread: bool
    overflowed: bool


def open_transactions(target: Target, limit: int, until_ms: int | None = None) -> OpenHere:
    """Replay a whole partition's producers, from its newest snapshot on, or up to a time."""
    assert target.log is not None
    view = View(target, committed=False, limit=limit)
    unread: set[str] = set()
    stable, states = last_stable_offset(
        target.log,
        view.log_start,
        view.end if until_ms is None else None,
        limit,
        counted=True,
        until_ms=until_ms,
        unread=unread,
    )
    aborted: dict[tuple[int, int], int] = {}
    if states.open and until_ms is None:
        aborted = {
            (entry.producer_id, entry.first_offset): entry.last_offset
            for entry in aborted_transactions(target.log)
        }
    return OpenHere(
        tuple(
            open_transaction_of(states, one)._replace(marker_offset=aborted.get((one, first)))
            for one, first in states.open.items()
        ),
        stable,
        states.newest_marker_ms,
        states.newest_ms,
        bool(unread),
        states.overflowed,
    )


def open_transaction_of(states: ProducerStates, producer_id: int) -> OpenTransaction:
    """Return the open transaction of a producer."""
    producer = states.producers[producer_id]
    is_counted = producer.joined_from != OFFSET_MAX
    return OpenTransaction(
        producer_id,
        producer.producer_epoch,
        states.open[producer_id],
        None if producer.since_ms < 0 else producer.since_ms,
        producer.records_count if is_counted else None,
        max(states.newest_ms, states.newest_marker_ms),
    )

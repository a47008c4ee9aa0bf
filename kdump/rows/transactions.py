"""The rows of `transactions`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import DurationInt, Int16, Int32, Time, Word


class PlaceOf(TypedDict):
    """A partition that a transaction writes to."""

    topic: str
    partition: int


class OpenIn(PlaceOf):
    """A partition with an open transaction: its first offset, size, and age."""

    first_offset: int
    last_stable_offset: int | None
    records_count: int | None
    age_ms: int | None


class Transaction(Row, kind="transaction"):
    """A transactional id, or a producer without one that has an open transaction."""

    transactional_id: Annotated[str | None, "the transactional.id; null: unknown"]
    producer_id: Annotated[int | None, "its producer id"]
    producer_epoch: Annotated[Int16 | None, "its producer epoch"]
    previous_producer_id: Annotated[int | None, "the previous producer id"]
    next_producer_id: Annotated[int | None, "the next producer id"]
    timeout_ms: Annotated[DurationInt | None, "its transaction.timeout.ms"]
    state: Annotated[Word | None, "state of the coordinator's record"]
    start_ms: Annotated[Time | None, "when its transaction began"]
    last_update_ms: Annotated[Time | None, "when the record was written"]
    client_transaction_version: Annotated[Int16 | None, "transaction.version of the client"]
    state_partition: Annotated[
        Int32 | None, "the partition of __transaction_state that has its record"
    ]
    partitions: Annotated[list[PlaceOf], "the partitions that the coordinator's record names"]
    open_in: Annotated[list[OpenIn], "partitions in whose logs it is open"]
    hanging: Annotated[bool | None, "whether no marker will follow; null: unknown"]
    cause: Annotated[str | None, "why it is hanging, or why that is unknown"]
    abort_command: Annotated[str | None, "the command that ends it on a running cluster"]

"""Classify sequence numbers that do not follow their producer's last one (R7, R10).

A broker takes the next number, or in a new epoch 0; all else it refuses, unless it has forgotten
the producer. That happens when the producer was idle for producer.id.expiration.ms, and before 2.5
also when its batches were gone from the log; such clients began at 0 again. What the cleaner or
DeleteRecords removed shows as offsets that are missing together with the numbers. So a gap is one
only where the numbers jump and the offsets do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.kernels.members import MAX_SEQUENCE

if TYPE_CHECKING:
    from kdump.broker.producer_events import Unjoined
    from kdump.kernels.columns import RecordBatches

GAP, DUPLICATE = "gap", "duplicate"
#: Innocent: offsets are missing too; the broker may have forgotten the producer; began at 0 again.
REMOVED, EXPIRED, RESTARTED = "removed", "expired", "restarted"
KINDS = (GAP, DUPLICATE, REMOVED, EXPIRED, RESTARTED)

#: Coordinators write with sequence 0 each time, also for the producers whose offsets they commit.
COORDINATED = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def judge(event: Unjoined, batches: RecordBatches, expiration_ms: int) -> str:
    """Name what happened: one of KINDS."""
    before, row = event.previous, event.row
    newest = batches.max_timestamp(row)
    if event.known_first or _is_last_again(event, batches):
        return DUPLICATE
    if not event.base_sequence:
        return RESTARTED
    if abs(newest - before.last_timestamp_ms) >= expiration_ms:
        return EXPIRED
    if is_behind(event):
        return DUPLICATE  # also where offsets are missing: nothing begins anew but at 0
    return GAP if event.joined else REMOVED


def ahead(event: Unjoined) -> int:
    """How many numbers lie between the expected one and the batch's first; they wrap to 0."""
    return (event.base_sequence - event.expected) & MAX_SEQUENCE


def is_behind(event: Unjoined) -> bool:
    """Whether the batch begins with a number that the producer used before."""
    return ahead(event) > MAX_SEQUENCE // 2


def is_repeat(event: Unjoined, batches: RecordBatches, expiration_ms: int) -> bool:
    """Whether all of the batch was there before."""
    row = event.row
    delta = batches.last_offset(row) - batches.base_offset(row)
    used = (event.expected - event.base_sequence) & MAX_SEQUENCE
    return delta < used and judge(event, batches, expiration_ms) == DUPLICATE


def repeated(event: Unjoined, batches: RecordBatches) -> int:
    """How many of the batch's numbers were used before."""
    row = event.row
    span = batches.last_offset(row) - batches.base_offset(row) + 1
    return min(span, (event.expected - event.base_sequence) & MAX_SEQUENCE)


def _is_last_again(event: Unjoined, batches: RecordBatches) -> bool:
    before, row = event.previous, event.row
    span = batches.last_offset(row) - batches.base_offset(row)
    return (
        event.base_sequence == (before.last_sequence - before.offset_delta) & MAX_SEQUENCE
        and span == before.offset_delta
        and batches.max_timestamp(row) == before.last_timestamp_ms
    )

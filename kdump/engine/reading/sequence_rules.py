"""Classify sequence numbers that do not follow their producer's last one (R7, R10).

A broker takes the next number, or in a new epoch 0; all else it refuses, unless it does not know
the producer. It has forgotten one that was idle for producer.id.expiration.ms, and before 2.5 also
one whose batches were gone from the log; such clients began at 0 again. And it does not know one
that is new to the partition: where the log is whole from offset 0 on, the numbers before the first
were lost on their way (KAFKA-15591). What the cleaner or DeleteRecords removed shows as offsets
that are missing together with the numbers. So a gap is one only where the numbers jump and the
offsets do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.kernels.members import MAX_SEQUENCE

if TYPE_CHECKING:
    from kdump.broker.producer_events import SequenceBreak
    from kdump.kernels.columns import RecordBatches

GAP, DUPLICATE = "gap", "duplicate"
#: Innocent: offsets are missing too; the broker may have forgotten the producer; began at 0 again.
REMOVED, EXPIRED, RESTARTED = "removed", "expired", "restarted"
KINDS = (GAP, DUPLICATE, REMOVED, EXPIRED, RESTARTED)

#: Coordinators write with sequence 0 each time, also for the producers whose offsets they commit.
COORDINATED = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def judge(event: SequenceBreak, batches: RecordBatches, expiration_ms: int) -> str:
    """Name what happened: one of KINDS."""
    before, row = event.previous, event.row
    newest = batches.max_timestamp(row)
    if event.is_first:
        is_known = before.last_timestamp_ms >= 0
        is_idle = is_known and abs(newest - before.last_timestamp_ms) >= expiration_ms
        return EXPIRED if is_idle else GAP
    if event.known_first or _is_last_again(event, batches):
        return DUPLICATE
    if not event.base_sequence:
        return RESTARTED
    if abs(newest - before.last_timestamp_ms) >= expiration_ms:
        return EXPIRED
    if is_behind(event):
        return DUPLICATE  # also where offsets are missing: nothing begins anew but at 0
    return GAP if event.joined else REMOVED


def first_words(event: SequenceBreak) -> str:
    """Explain an epoch that does not begin at 0, and name what may be innocent."""
    number, count = (
        event.base_sequence,
        "no lower number was stored",
    )
    if event.previous.last_timestamp_ms < 0:
        return (
            f"the log is complete from offset 0, but this producer starts at sequence number "
            f"{number:,}: {count}. Possible cause: two requests to a new partition arrived in "
            "reverse order, and the broker rejected the one sent first (KAFKA-15591). Harmless if "
            "the topic was recreated while the producer ran, or if the log was truncated to "
            "nothing."
        )
    return (
        f"its new epoch starts at sequence number {number:,} instead of 0: {count}. Harmless if "
        "the broker had forgotten the producer (producer.id.expiration.ms, a broker start without "
        "its snapshot)."
    )


def sent_words(event: SequenceBreak, batches: RecordBatches, kind: str) -> str:
    """Explain what does not join in what a producer sent, as a capture has it."""
    if kind == DUPLICATE:
        return (
            f"{count_old(event, batches):,} numbers sent again: a retry, which the broker ignores "
            "if it stored the first attempt."
        )
    if kind == RESTARTED:
        return "started at 0 again in the same epoch."
    return f"{ahead(event):,} numbers before it are not in the capture, or were never sent."


def ahead(event: SequenceBreak) -> int:
    """How many numbers lie between the expected one and the batch's first; they wrap to 0."""
    return (event.base_sequence - event.expected) & MAX_SEQUENCE


def is_behind(event: SequenceBreak) -> bool:
    """Whether the batch begins with a number that the producer used before."""
    return ahead(event) > MAX_SEQUENCE // 2


def is_repeat(event: SequenceBreak, batches: RecordBatches, expiration_ms: int) -> bool:
    """Whether all of the batch was there before."""
    row = event.row
    delta = batches.last_offset(row) - batches.base_offset(row)
    used = (event.expected - event.base_sequence) & MAX_SEQUENCE
    return delta < used and judge(event, batches, expiration_ms) == DUPLICATE


def count_old(event: SequenceBreak, batches: RecordBatches) -> int:
    """How many of the batch's numbers were used before."""
    row = event.row
    span = batches.last_offset(row) - batches.base_offset(row) + 1
    return min(span, (event.expected - event.base_sequence) & MAX_SEQUENCE)


def _is_last_again(event: SequenceBreak, batches: RecordBatches) -> bool:
    before, row = event.previous, event.row
    span = batches.last_offset(row) - batches.base_offset(row)
    return (
        event.base_sequence == (before.last_sequence - before.offset_delta) & MAX_SEQUENCE
        and span == before.offset_delta
        and batches.max_timestamp(row) == before.last_timestamp_ms
    )

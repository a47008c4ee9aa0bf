"""Transactions still open at the log end, and the control batches that end them (F29, L7)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kdump.engine.checks import Check, Reported, Suspect, Touches
from kdump.engine.control_batch import read_control
from kdump.engine.damage import at_place
from kdump.kernels import columns as c
from kdump.record import control

if TYPE_CHECKING:
    from kdump.engine.producer_state import Producer, ProducerStates
    from kdump.engine.scan import SegmentScan
    from kdump.record.frames import Run

# transaction.max.timeout.ms, by default, and as long again for a coordinator to write its markers.
HANGING_MS = 2 * 900_000
_TOLD = 100


class ControlBatches(Check):
    """Each control batch holds one record, of a known type, whose key and value can be read."""

    reads_snapshots = True

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Reported]:
        """Look at the control batches of a run; most runs have none."""
        if not run.batches.flags & c.CONTROL:
            return
        for row, flags in enumerate(run.batches.column(c.B_FLAGS)):
            if flags & c.CONTROL and (found := _control(segment, run, row)) is not None:
                yield found


def _control(segment: SegmentScan, run: Run, row: int) -> Suspect | None:
    batches = run.batches
    marker = read_control(run, row)
    producer_id = batches.value(c.B_PRODUCER_ID, row)
    replayed = producer_id >= 0
    expected: object = None
    actual: object = marker.problem or marker.kind
    if marker.problem:
        code = "control-record"
        message = _PROBLEMS[marker.problem]
        if replayed:
            message += " A broker that recovers the segment cuts it off here."
    elif marker.kind is None:
        return None
    elif marker.kind not in control.TYPE_NAMES:
        code = "control-type-unknown"
        message = f"A control record has type {marker.kind}, which no broker knows."
        if replayed:
            message += " It has a producer id: a broker that replays it fails to load the log."
    elif marker.ends_transaction and batches.value(c.B_RECORDS_COUNT, row) != 1:
        code = "control-count"
        expected, actual = 1, batches.value(c.B_RECORDS_COUNT, row)
        message = f"A transaction marker's batch holds {actual} records; only the first counts."
    else:
        return None
    position, size = batches.value(c.B_POSITION, row), batches.value(c.B_SIZE, row)
    told = at_place(
        code,
        segment.place,
        position=position,
        size_bytes=size,
        offset=batches.value(c.B_BASE_OFFSET, row),
        expected=expected,
        actual=actual,
        message=message,
    )
    return Suspect(told, Touches(segment.place.segment, position, position + size))


_PROBLEMS = {
    "record": "The first record of a control batch cannot be decoded.",
    "key": "The key of a control record is too short, or its version is below 0.",
    "value": "The value of a transaction marker is too short, or its version is below 0.",
}


def open_transactions(
    newest: SegmentScan, states: ProducerStates, directory: str
) -> Iterator[Reported]:
    """Tell of each transaction without a marker, by how long it has been open.

    Its age is told by the log, not by the clock: a copy of a directory may be years old. Markers
    carry a broker's time; where none follows, what producers wrote has to do.
    """
    place = newest.place
    stable = states.last_stable_offset(newest.last_offset + 1)
    for producer_id, first in islice(states.open.items(), _TOLD):
        producer = states.producers[producer_id]
        age = _age(producer, states)
        message = (
            f"Producer {producer_id}, epoch {producer.producer_epoch}, has a transaction open "
            f"since offset {first:,} (timestamp {producer.since_ms}), with "
            f"{producer.records_count:,} records; the log goes on for {_span(age)} behind it."
        )
        if first == stable:
            message += (
                f" read_committed readers stop at offset {first:,}. To look at it: kdump dump "
                f"--batches --producer-id {producer_id} --from-offset {first} {directory}"
            )
        more = len(states.open) - _TOLD
        if first == stable and more > 0:
            message += f" {more:,} more transactions are open."
        hanging = age > HANGING_MS
        told = at_place(
            "transaction-hanging" if hanging else "transaction-open",
            place,
            offset=first,
            actual=producer.since_ms,
            message=message,
        )
        if newest.gaps and newest.gaps[-1].to_end and not hanging:
            # The marker may have been in what broke off.
            tail = newest.gaps[-1]
            yield Suspect(told, Touches(newest.base_offset, tail.position, tail.position + 1))
        else:
            yield told


def _age(producer: Producer, states: ProducerStates) -> int:
    """How long the log goes on behind a transaction's first batch, in milliseconds."""
    if producer.stamped_ms >= 0:
        return states.newest_marker_ms - producer.stamped_ms
    return states.newest_ms - producer.since_ms if producer.since_ms >= 0 else 0


def _span(duration_ms: int) -> str:
    seconds = max(duration_ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"

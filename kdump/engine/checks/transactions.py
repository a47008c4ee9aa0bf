"""Check control batches, among them the markers that end transactions (F29)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.control_batch import read_control
from kdump.engine.reading.check import Check, Conditional, Reported, RestsOn
from kdump.engine.reading.damage import BatchAt
from kdump.kernels import columns as c
from kdump.record import control

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.record.frames import Run


class ControlBatches(Check):
    """Each control batch holds one record, of a known type, whose key and value can be read."""

    reads_snapshots = True

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Reported]:
        """Look at the control batches of a run; most runs have none."""
        if not run.batches.flags & c.CONTROL:
            return
        for row, flags in enumerate(run.batches.row_flags):
            if flags & c.CONTROL and (found := _control(segment, run, row)) is not None:
                yield found


def _control(segment: SegmentScan, run: Run, row: int) -> Conditional | None:
    batches = run.batches
    marker = read_control(run, row)
    producer_id = batches.producer_id(row)
    replayed = producer_id >= 0
    expected: object = None
    actual: object = marker.problem or marker.kind
    if marker.problem:
        code = "control-record"
        message = _PROBLEMS[marker.problem]
        if replayed:
            message += _TRUNCATES if marker.problem != "short" else _STOPS_SINCE_41
    elif marker.kind is None:
        return None
    elif marker.kind not in control.TYPE_NAMES:
        code = "control-type-unknown"
        message = f"A control record has type {marker.kind}, which no broker knows."
        if replayed:
            message += " It has a producer id, so a broker that replays it fails to load the log."
    elif marker.ends_transaction and batches.records_count(row) != 1:
        code = "control-count"
        expected, actual = 1, batches.records_count(row)
        message = f"The batch of a transaction marker has {actual} records."
    else:
        return None
    batch, offset = BatchAt(segment.place, batches, row), batches.base_offset(row)
    reported = batch.finding(code, offset=offset, expected=expected, actual=actual, message=message)
    touches = RestsOn(segment.place.segment, batches.position(row), batches.end_position(row))
    return Conditional(reported, touches)


_TRUNCATES = (
    " Log recovery keeps this batch and truncates everything after it; without recovery, the load "
    "fails."
)
_STOPS_SINCE_41 = (
    " Kafka 4.1 and later fail to load the log. Earlier versions also fail if they load the "
    "segment without recovering it; recovery keeps this batch and truncates everything after it."
)
_PROBLEMS = {
    "record": "The first record of a control batch cannot be decoded.",
    "key": "The key of a control record is too short, or its version is below 0.",
    "value": "The version of a transaction marker is below 0.",
    "short": "The value of a transaction marker is too short.",
}

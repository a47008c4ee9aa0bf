"""Read a control batch as a broker that replays the log does (F29)."""

from __future__ import annotations

from kdump.kernels import reasons
from kdump.record import control
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.record.layout import BATCH_OVERHEAD_V2, CODEC_MASK, TIMESTAMP_TYPE_BIT
from kdump.tuples import NamedTuple

# The record that every broker writes into a marker batch: length 16, no attributes, deltas 0, a
# key of 4 bytes (version 0, type), a value of 6 (version, coordinatorEpoch), no headers.
_MARKER_SIZE = BATCH_OVERHEAD_V2 + 17
_MARKER_VALUE_SIZE = 6
_MARKER_HEAD = b"\x20\x00\x00\x00\x08\x00\x00\x00"


class Control(NamedTuple):
    """The first record of a control batch.

    `kind` is its type number, None in an empty batch and where the key cannot hold one. `problem`
    is what a broker would raise over, empty if nothing: "record", "key", "value" (its version), or
    "short" (the value). Of a record `reason` says what is wrong, one of the kernels'.
    """

    kind: int | None
    coordinator_epoch: int = -1
    timestamp_ms: int = -1
    problem: str = ""
    reason: int = reasons.END

    @property
    def ends_transaction(self) -> bool:
        """Whether it is a whole ABORT or COMMIT marker."""
        return self.kind in (control.ABORT, control.COMMIT) and not self.problem


def read_control(run: Run, row: int) -> Control:
    """Read the first record of a control batch (F29)."""
    batches = run.batches
    at = batches.position(row) - run.base + BATCH_OVERHEAD_V2
    data = run.data
    attributes = batches.attributes(row)
    if (
        batches.size_bytes(row) == _MARKER_SIZE
        and batches.records_count(row) == 1
        and data.startswith(_MARKER_HEAD, at)
        and not attributes & CODEC_MASK
        and data[at + 8] < 2
        and data[at + 9] == 12
        and data[at + 10] < 0x80
        and not data[at + 16]
    ):
        append_time = attributes & TIMESTAMP_TYPE_BIT
        timestamp = batches.max_timestamp(row) if append_time else batches.base_timestamp(row)
        epoch = int.from_bytes(data[at + 12 : at + 16], "big", signed=True)
        return Control(data[at + 8], epoch, timestamp)
    return _read_control(run, row)


def _read_control(run: Run, row: int) -> Control:
    count = run.batches.records_count(row)
    if not count:
        return Control(None)
    reason = reasons.END
    for piece in read_batch(run.data, run.base, run.batches, row, limit=1 << 20, max_records=1):
        records, reason = piece.records, piece.reason
        if not records.count:
            break
        if reason not in (reasons.END, reasons.FULL) and count == 1:
            break  # bytes behind the only record: brokers raise over them (F25)
        kind = control.control_type(records.key(piece.data, 0))
        timestamp = records.timestamp(0)
        if kind is None:
            return Control(None, -1, timestamp, "key")
        if kind not in (control.ABORT, control.COMMIT):
            return Control(kind, -1, timestamp)
        value = records.payload(piece.data, 0) or b""
        if len(value) > 1 and value[0] & 0x80:
            return Control(kind, -1, timestamp, "value")
        if len(value) < _MARKER_VALUE_SIZE:
            return Control(kind, -1, timestamp, "short")
        return Control(kind, int.from_bytes(value[2:6], "big", signed=True), timestamp)
    return Control(None, problem="record", reason=reason)

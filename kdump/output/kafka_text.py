"""The text of kafka-dump-log 4.1.1, line for line, so that scripts which parse it go on working."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.kafka_dump import FileStart, Reports
from kdump.engine.kafka_indexes import EmptyIndex, ToolComplaint, ToolDeath
from kdump.engine.kafka_log import InvalidTail, ToolChunk
from kdump.engine.rows import BatchRow, RecordChunk, RecordRow, Row
from kdump.kernels import columns as c
from kdump.output.escape import visible
from kdump.output.java_text import camel_case, jackson, java_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.output.sink import Item

#: How the tool names the values of control records, and whether it puts a colon behind.
_CONTROL_WORDS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


class KafkaText:
    """Writes the tool's standard output to `write`, and the lines it sends to standard error.

    On a terminal control characters are spelled out, line ends inside a payload too; elsewhere
    bytes go out as the tool prints them.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        complain: Callable[[str], object],
        *,
        terminal: bool,
    ) -> None:
        self._write = write
        self._complain = complain
        self._text = _shown if terminal else java_text

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, ToolChunk):
            self._lines(self._chunk(item))
        elif isinstance(item, Row):
            self._lines((row_text(item),))
        elif isinstance(item, FileStart):
            self._lines((f"Dumping {item.path}", *filter(None, (item.heading,))))
        elif isinstance(item, InvalidTail):
            name = item.path.rpartition("/")[2]
            self._lines((f"Found {item.size_bytes} invalid bytes at the end of {name}",))
        elif isinstance(item, EmptyIndex):
            self._lines((f"{item.path} is empty.",))
        elif isinstance(item, ToolDeath):
            self._complain(f"kdump: {item.path}: {item.reason}; kafka-dump-log dies here")
        elif isinstance(item, ToolComplaint):
            self._complain(item.text)
        elif isinstance(item, Reports):
            for line in report_lines(item):
                self._complain(line)

    def settle(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        """Nothing is held back: the reports are an item of their own."""

    def _lines(self, lines: Iterator[str] | tuple[str, ...]) -> None:
        text = "\n".join(lines)
        if text:
            self._write(text.encode("utf-8", "surrogateescape") + b"\n")

    def _chunk(self, chunk: ToolChunk) -> Iterator[str]:
        """Yield the lines of some entries, each followed by its records."""
        records = self._records(chunk.records) if chunk.records is not None else iter(())
        if chunk.batches is None:
            for _, line in records:
                yield line
            return
        position, line = next(records, (-1, ""))
        for batch in chunk.batches.iter_batches():
            yield batch_text(batch)
            while position == batch.position:
                yield line
                position, line = next(records, (-1, ""))

    def _records(self, chunk: RecordChunk) -> Iterator[tuple[int, str]]:
        """Yield the position of each record's batch, and its line."""
        crcs = _legacy_crcs(chunk)
        rows = range(chunk.records.count) if chunk.rows is None else chunk.rows
        for row, record in zip(rows, chunk.iter_records(), strict=True):
            if record.leader_epoch is None:
                yield record.position, self._legacy_line(record, crcs[row])
            else:
                yield record.position, self._line(record)

    def _line(self, record: RecordRow) -> str:
        text = self._text
        names = ",".join([text(key) for key, _ in record.headers])
        line = f"{_start(record)} sequence: {record.sequence} headerKeys: [{names}]"
        if record.control is not None:
            return f"{line} {control_text(record.control)}"
        return line + self._content(record)

    def _legacy_line(self, record: RecordRow, crc: tuple[int, bool]) -> str:
        valid = "true" if crc[1] else "false"
        # The brace is the tool's own.
        return f"{_start(record)} isValid: {valid} crc: {crc[0]}}}{self._content(record)}"

    def _content(self, record: RecordRow) -> str:
        key = "" if record.key is None else f" key: {self._text(record.key)}"
        return key if record.value is None else f"{key} payload: {self._text(record.value)}"


def _shown(data: bytes) -> str:
    return visible(java_text(data))


def _start(record: RecordRow) -> str:
    timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return (
        f"| offset: {record.offset} {record.timestamp_type or 'NoTimestampType'}: {timestamp} "
        f"keySize: {-1 if record.key is None else len(record.key)} "
        f"valueSize: {-1 if record.value is None else len(record.value)}"
    )


def _legacy_crcs(chunk: RecordChunk) -> list[tuple[int, bool]]:
    """Return the stored checksum of each v0 or v1 message and whether it is right."""
    batches, records = chunk.batches, chunk.records
    if all(layout == 2 for layout in batches.column(c.B_LAYOUT)):
        return []
    data = memoryview(chunk.data)
    crcs = []
    for row, position, flags in zip(
        records.column(c.R_BATCH),
        records.column(c.R_POSITION),
        records.column(c.R_FLAGS),
        strict=True,
    ):
        batch_flags = batches.value(c.B_FLAGS, row)
        bad = flags & c.INNER_CRC_BAD if batch_flags & c.WRAPPER else batch_flags & c.CRC_BAD
        crcs.append((int.from_bytes(data[position + 12 : position + 16], "big"), not bad))
    return crcs


def control_text(control: dict[str, object]) -> str:
    """Write what a control record says."""
    kind = control["type"]
    if "malformed" in control:
        return f"controlType: {kind}"
    if kind in ("ABORT", "COMMIT"):
        return f"endTxnMarker: {kind} coordinatorEpoch: {control['coordinator_epoch']}"
    if kind not in _CONTROL_WORDS:
        return f"controlType: UNKNOWN({control.get('type_id', -1)})"
    members: dict[str, object] = {"version": control["value_version"]}
    members |= {
        name: value
        for name, value in control.items()
        if name not in ("type", "version", "value_version")
    }
    return f"{_CONTROL_WORDS[str(kind)]} {jackson(camel_case(members))}"


def batch_text(batch: BatchRow) -> str:
    """Write the line of one log entry."""
    if batch.leader_epoch is None:
        line = f"offset: {batch.last_offset}"
    else:
        horizon = batch.delete_horizon_ms
        line = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} "
            f"count: {batch.records_count} baseSequence: {batch.base_sequence} "
            f"lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
            f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
            f"isTransactional: {_bool(batch.transactional)} isControl: {_bool(batch.control)} "
            f"deleteHorizonMs: {_optional(horizon)}"
        )
    timestamp = -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms
    return (
        f"{line} position: {batch.position} {batch.timestamp_type or 'NoTimestampType'}: "
        f"{timestamp} size: {batch.size_bytes} magic: {batch.magic} "
        f"compresscodec: {batch.codec} crc: {batch.crc} isvalid: {_bool(batch.crc_valid)}"
    )


def row_text(row: Row) -> str:
    """Write the line of one index entry or producer."""
    fields = row.fields
    if row.row == "offset-index-entry":
        return f"offset: {fields['offset']} position: {fields['position']}"
    if row.row == "time-index-entry":
        return f"timestamp: {fields['timestamp_ms']} offset: {fields['offset']}"
    if row.row == "aborted-transaction":
        return (
            f"version: {fields['version']} producerId: {fields['producer_id']} "
            f"firstOffset: {fields['first_offset']} lastOffset: {fields['last_offset']} "
            f"lastStableOffset: {fields['last_stable_offset']}"
        )
    return _producer_text(fields)


def _producer_text(fields: dict[str, object]) -> str:
    first = fields["current_txn_first_offset"]
    last_sequence, delta = fields["last_sequence"], fields["offset_delta"]
    assert isinstance(first, int)
    assert isinstance(last_sequence, int)
    assert isinstance(delta, int)
    line = (
        f"producerId: {fields['producer_id']} producerEpoch: {fields['producer_epoch']} "
        f"coordinatorEpoch: {fields['coordinator_epoch']} "
        f"currentTxnFirstOffset: {_optional(None if first < 0 else first)} "
        f"lastTimestamp: {fields['last_timestamp_ms']} "
    )
    last_offset = fields["last_offset"]
    if isinstance(last_offset, int) and last_offset < 0:
        return line
    first_sequence = last_sequence - delta
    if first_sequence < 0:  # sequence numbers wrap at 2^31-1
        first_sequence += 1 << 31
    return (
        f"{line}firstSequence: {first_sequence} lastSequence: {last_sequence} "
        f"lastOffset: {last_offset} offsetDelta: {delta} "
        f"timestamp: {fields['last_timestamp_ms']}"
    )


def report_lines(reports: Reports) -> Iterator[str]:
    """Yield the lines printed to standard error at the end of a run, in the tool's order."""
    for path, found in reports.mismatches:
        if found.index:
            yield f"Mismatches in :{path}"
            for offset, last_offset in reversed(found.index):
                yield f"  Index offset: {offset}, log offset: {last_offset}"
    for path, found in reports.mismatches:
        if found.timestamp:
            yield f"Found timestamp mismatch in :{path}"
            for stored, seen in found.timestamp:
                yield f"  Index timestamp: {stored}, log timestamp: {seen}"
    for path, found in reports.mismatches:
        if found.order:
            yield f"Found out of order timestamp in :{path}"
            for stored, previous in found.order:
                yield f"  Index timestamp: {stored}, Previously indexed timestamp: {previous}"
    for _, found in reports.mismatches:
        if found.not_found:
            yield "The following indexed offsets are not found in the log."
            for offset, last_offset in found.not_found:
                yield f"Indexed offset: {offset}, found log offset: {last_offset}"
    for path, pairs in reports.gaps:
        yield f"Non-consecutive offsets in {path}"
        for offset, following in reversed(pairs):
            yield f"  {offset} is followed by {following}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"

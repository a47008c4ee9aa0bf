"""Write the text of kafka-dump-log 4.1.1, line for line, for scripts that parse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.kafka_text.dump import FileStart, Reports
from kdump.engine.kafka_text.indexes import EmptyIndex, ToolComplaint, ToolDeath
from kdump.engine.kafka_text.log import BrokenMessage, InvalidTail, ToolChunk
from kdump.findings.rows import RecordChunk, RecordRow, Row
from kdump.kernels import columns as c
from kdump.output.escape import name_text, visible
from kdump.output.java_text import camel_case, jackson, java_text
from kdump.output.kafka_rows import batch_text, broken_text, report_lines, row_text
from kdump.output.large_records import cut_text, is_large, name_pieces, write_pieces
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.output.items import Item

    #: A line without its end; that of a large record comes in pieces.
    Line = str | Iterator[str]

#: How the tool names the values of control records, and whether it puts a colon behind.
_CONTROL_WORDS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


_NO_LINE: tuple[int, Line] = -1, ""


class KafkaText(Sink):
    """Writes the tool's standard output to `write`, and the lines it sends to standard error.

    On a terminal control characters are spelled out, line ends inside a payload too; elsewhere
    bytes of records go out as the tool prints them. Names of files are spelled out everywhere: in
    a pipe a line end in one would be a line that the tool never wrote.
    """

    def __init__(
        self, write: Callable[[bytes], object], complain: Callable[[str], object], *, terminal: bool
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
            self._lines((f"Dumping {name_text(item.path)}", *filter(None, (item.heading,))))
        elif isinstance(item, BrokenMessage):
            batches = item.batches.iter_batches()
            self._lines(broken_text(batch, item.key_size, item.value_size) for batch in batches)
        elif isinstance(item, InvalidTail):
            name = name_text(item.path.rpartition("/")[2])
            self._lines((f"Found {item.size_bytes} invalid bytes at the end of {name}",))
        elif isinstance(item, EmptyIndex):
            self._lines((f"{name_text(item.path)} is empty.",))
        elif isinstance(item, ToolDeath):
            self._complain(
                f"kdump: {name_text(item.path)}: {item.reason}; kafka-dump-log dies here"
            )
        elif isinstance(item, ToolComplaint):
            self._complain(item.text)
        elif isinstance(item, Reports):
            for line in report_lines(item):
                self._complain(line)

    def _lines(self, lines: Iterable[Line]) -> None:
        write_pieces(self._write, _with_ends(lines))

    def _chunk(self, chunk: ToolChunk) -> Iterator[Line]:
        """Yield the lines of some entries, each followed by its records."""
        records = self._records(chunk.records) if chunk.records is not None else iter(())
        if chunk.batches is None:
            for _, line in records:
                yield line
            return
        position, line = next(records, _NO_LINE)
        for batch in chunk.batches.iter_batches():
            yield batch_text(batch)
            while position == batch.position:
                yield line
                position, line = next(records, _NO_LINE)

    def _records(self, chunk: RecordChunk) -> Iterator[tuple[int, Line]]:
        """Yield the position of each record's batch, and its line."""
        crcs = _legacy_crcs(chunk)
        rows = range(chunk.records.count) if chunk.rows is None else chunk.rows
        for row, record in zip(rows, chunk.iter_records(), strict=True):
            if record.leader_epoch is None:
                yield record.position, self._legacy_line(record, crcs[row])
            else:
                yield record.position, self._line(record)

    def _line(self, record: RecordRow) -> Line:
        if is_large(record):
            return self._large(record, None)
        text = self._text
        names = ",".join([text(key) for key, _ in record.headers])
        line = f"{_start(record)} sequence: {record.sequence} headerKeys: [{names}]"
        if record.control is not None:
            return f"{line} {control_text(record.control)}"
        return line + self._content(record)

    def _legacy_line(self, record: RecordRow, crc: tuple[int, bool]) -> Line:
        if is_large(record):
            return self._large(record, crc)
        return f"{_start(record)} {_legacy_sum(crc)}{self._content(record)}"

    def _content(self, record: RecordRow) -> str:
        key = "" if record.key is None else f" key: {self._text(record.key)}"
        return key if record.value is None else f"{key} payload: {self._text(record.value)}"

    def _large(self, record: RecordRow, crc: tuple[int, bool] | None) -> Iterator[str]:
        """Yield a line in pieces; `crc` is that of a v0 or v1 message."""
        yield _start(record)
        if crc is not None:
            yield f" {_legacy_sum(crc)}"
        else:
            yield f" sequence: {record.sequence} headerKeys: ["
            yield from name_pieces(record.headers, self._text)
            yield "]"
            if record.control is not None:
                yield f" {control_text(record.control)}"
                return
        for word, data in ((" key: ", record.key), (" payload: ", record.value)):
            if data is not None:
                yield word
                yield from map(self._text, cut_text(data))


def _with_ends(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from line
        yield "\n"


def _legacy_sum(crc: tuple[int, bool]) -> str:
    # The brace is the tool's own.
    return f"isValid: {'true' if crc[1] else 'false'} crc: {crc[0]}}}"


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
    of = records.batches
    if not records.count or not any(map(batches.is_legacy, range(of[0], of[-1] + 1))):
        return []
    data = memoryview(chunk.data)
    crcs = []
    for row, position, flags in zip(of, records.positions, records.row_flags, strict=True):
        batch_flags = batches.flags_of(row)
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

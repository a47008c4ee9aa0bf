"""Write the text of kafka-dump-log 4.1.1, line for line, for scripts that parse it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.kafka_text.dump import FileStart, Reports
from kdump.engine.kafka_text.indexes import EmptyIndex, Entry, ToolComplaint, ToolDeath
from kdump.engine.kafka_text.log import BrokenMessage, InvalidTail, ToolChunk
from kdump.output.escape import name_text
from kdump.output.sink import Sink
from kdump.output.text_forms import kafka_form
from kdump.storage.index import OffsetPosition
from kdump.storage.time_index import TimestampOffset
from kdump.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kdump.engine.kafka_text.pairs import Pairs
    from kdump.findings.rows import BatchRow
    from kdump.output.sink import Item
    from kdump.storage.producer_snapshot import ProducerState


def broken_text(batch: BatchRow, key_size: int, value_size: int) -> str:
    """Write what the tool prints of a message before it dies of its value's size."""
    timestamp = -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms
    return (
        f"| offset: {batch.last_offset} {batch.timestamp_type or 'NoTimestampType'}: {timestamp} "
        f"keySize: {key_size} valueSize: {value_size} "
        f"isValid: {_bool(batch.crc_valid)} crc: {batch.crc}}}"
    )


def entry_text(entry: Entry) -> str:
    """Write the line of one index entry or producer."""
    if isinstance(entry, OffsetPosition):
        return f"offset: {entry.offset} position: {entry.position}"
    if isinstance(entry, TimestampOffset):
        return f"timestamp: {entry.timestamp_ms} offset: {entry.offset}"
    if isinstance(entry, AbortedTransaction):
        return (
            f"version: {entry.version} producerId: {entry.producer_id} "
            f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
            f"lastStableOffset: {entry.last_stable_offset}"
        )
    return _producer_text(entry)


def _producer_text(state: ProducerState) -> str:
    first = state.current_txn_first_offset
    line = (
        f"producerId: {state.producer_id} producerEpoch: {state.producer_epoch} "
        f"coordinatorEpoch: {state.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(None if first < 0 else first)} "
        f"lastTimestamp: {state.last_timestamp_ms} "
    )
    if state.last_offset < 0:
        return line
    first_sequence = state.last_sequence - state.offset_delta
    if first_sequence < 0:  # sequence numbers wrap at 2^31-1
        first_sequence += 1 << 31
    return (
        f"{line}firstSequence: {first_sequence} lastSequence: {state.last_sequence} "
        f"lastOffset: {state.last_offset} offsetDelta: {state.offset_delta} "
        f"timestamp: {state.last_timestamp_ms}"
    )


def report_lines(reports: Reports) -> Iterator[str]:
    """Yield the lines printed to standard error at the end of a run, in the tool's order."""
    for member, heading, line in _REPORTS:
        for path, found in reports.mismatches:
            if pairs := getattr(found, member):
                yield heading.format(name_text(path))
                yield from _pair_lines(line, pairs, is_newest_first=member == "index")
    for path, pairs in reports.gaps:
        yield f"Non-consecutive offsets in {name_text(path)}"
        yield from _pair_lines("  {} is followed by {}", pairs, is_newest_first=True)


#: Mismatches of a file, the line above them, and the line of each.
_REPORTS = (
    ("index", "Mismatches in :{}", "  Index offset: {}, log offset: {}"),
    ("timestamp", "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}"),
    (
        "order",
        "Found out of order timestamp in :{}",
        "  Index timestamp: {}, Previously indexed timestamp: {}",
    ),
    (
        "not_found",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: {}, found log offset: {}",
    ),
)


def _pair_lines(line: str, pairs: Pairs, *, is_newest_first: bool) -> Iterator[str]:
    for pair in reversed(pairs) if is_newest_first else pairs:
        yield line.format(*pair)
    yield from _left_out_lines(pairs)


def _left_out_lines(pairs: Pairs) -> Iterator[str]:
    """The one line that is not the tool's own; it would have run out of memory."""
    if pairs.left_out:
        yield f"  and {pairs.left_out:,} more, too many for memory; raise --decompress-limit"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def jackson(value: object) -> str:
    """Write JSON without spaces and with upper-case escapes, as Jackson does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\u00[0-9a-f]{2}", lambda match: "\\u" + match.group()[2:].upper(), text)


def camel_case(value: object) -> object:
    """Turn the names of members from snake_case to camelCase, all the way down."""
    if isinstance(value, Mapping):
        return {_camel(name): camel_case(member) for name, member in value.items()}
    if isinstance(value, list):
        return [camel_case(member) for member in value]
    return value


def _camel(name: str) -> str:
    if name.startswith("kraft_"):  # Kafka spells it kRaftVersion
        name = f"k_raft_{name[6:]}"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


#: How the tool names the values of control records, and whether it puts a colon behind.
_CONTROL_WORDS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


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
        self._shown = terminal

    def write(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, ToolChunk):
            self._chunk(item)
        elif isinstance(item, Entry):
            self._lines((entry_text(item),))
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
                f"kdump: {name_text(item.path)}: {item.reason}; kafka-dump-log fails here"
            )
        elif isinstance(item, ToolComplaint):
            self._complain(item.text)
        elif isinstance(item, Reports):
            for line in report_lines(item):
                self._complain(line)

    def _lines(self, lines: Iterable[str]) -> None:
        text = "".join([f"{line}\n" for line in lines])
        self._write(text.encode("utf-8", "surrogateescape"))

    def _chunk(self, chunk: ToolChunk) -> None:
        """Write some entries, each followed by its records."""
        batches, records = chunk
        if records is None:
            assert batches is not None
            form = kafka_form(shown=self._shown)
            kernels.format_batches(self._write, batches.batches, batches.rows, form)
            return
        controls = records.controls
        said = None
        if controls is not None:
            said = [b"" if each is None else control_text(each).encode() for each in controls]
        form = kafka_form(shown=self._shown)
        kernels.format_records(
            self._write,
            records.data,
            records.batches,
            records.records,
            records.rows,
            form,
            said,
            None if batches is None else batches.rows,
        )


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

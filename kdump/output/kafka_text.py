"""Write the text of kafka-dump-log 4.1.1, line for line, for scripts that parse it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.kafka_text.dump import FileStart, Reports
from kdump.engine.kafka_text.indexes import EmptyIndex, Entry, ToolComplaint, ToolDeath
from kdump.engine.kafka_text.log import BrokenMessage, InvalidTail, ToolChunk
from kdump.output.escape import name_text
from kdump.output.kafka_rows import broken_text, entry_text, report_lines
from kdump.output.sink import Sink
from kdump.output.text_forms import kafka_form

if TYPE_CHECKING:
    from kdump.output.sink import Item


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
                f"kdump: {name_text(item.path)}: {item.reason}; kafka-dump-log dies here"
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

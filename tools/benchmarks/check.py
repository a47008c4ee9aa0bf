"""Count what a reader printed, so that a fast wrong answer is not taken for a fast one.

    python tools/benchmarks/check.py KIND FILE

Runs as a process of its own: the memory of the process that measures is charged to the ones it
starts.
"""

import base64
import json
import re
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

DUMPED_RECORD = re.compile(rb"\| offset: \d+ .*?(?: key: (\S*))? payload: (.*)$", re.DOTALL)
DUMPED_MESSAGE = re.compile(rb"^(?:baseOffset|offset): \d+ .*? isvalid: (\w+)")


class ScanResult:
    """What was found: counts, and checksums of all keys and of all values in order."""

    def __init__(self) -> None:
        self.batches = self.records = self.bad = self.keys_crc = self.values_crc = 0

    def record(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record."""
        self.records += 1
        self.keys_crc = zlib.crc32(key or b"", self.keys_crc)
        self.values_crc = zlib.crc32(value or b"", self.values_crc)

    def json_line(self, line: bytes) -> None:
        """Take one row of JSON Lines, whichever it is."""
        row = json.loads(line)
        if row["row"] == "record":
            self.record(plain_bytes(row["key"]), plain_bytes(row["value"]))
        elif row["row"] == "batch":
            self.batches += 1
            self.records += 1 if row["records_count"] is None else row["records_count"]
            self.bad += not row["crc_valid"]
        elif row["row"] == "summary":
            self.batches += row["batches"]
            self.records += row["records_count"]
            self.bad += row["findings"]["damage"]
        elif row["row"] != "finding":  # the summary counts findings by severity
            self.bad += 1


def plain_bytes(value: dict[str, str] | str | None) -> bytes | None:
    """Undo `--bytes auto`."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def json_lines(lines: Iterable[bytes]) -> ScanResult:
    """Read `--format jsonl`."""
    found = ScanResult()
    for line in lines:
        found.json_line(line)
    return found


def dump_log(lines: Iterable[bytes]) -> ScanResult:
    """Read the output of kafka-dump-log, with or without --print-data-log."""
    found = ScanResult()
    for line in lines:
        record = DUMPED_RECORD.match(line)
        if record is not None:
            found.record(record[1], record[2].rstrip(b"\n"))
        message = record or DUMPED_MESSAGE.match(line)
        if message is not None and not line.startswith(b"|"):
            found.batches += 1
            found.bad += message[1] != b"true"
    return found


def arrow(path: Path) -> ScanResult:
    """Read an Arrow IPC file or stream."""
    import pyarrow as pa

    found = ScanResult()
    with pa.memory_map(str(path)) as source:
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
        for piece in table.select(["key", "value"]).to_batches(max_chunksize=10_000):
            columns = [column.cast(pa.binary()).to_pylist() for column in piece.columns]
            for key, value in zip(*columns, strict=True):
                found.record(key, value)
    return found


def main() -> None:
    """Print what was found in one file as JSON."""
    kind, path = sys.argv[1], Path(sys.argv[2])
    if kind == "arrow":
        found = arrow(path)
    else:
        with path.open("rb") as lines:
            if kind == "lines":
                found = ScanResult()
                found.records = sum(1 for _ in lines)
            else:
                found = json_lines(lines) if kind.startswith("jsonl") else dump_log(lines)
    print(json.dumps(vars(found)))


if __name__ == "__main__":
    main()

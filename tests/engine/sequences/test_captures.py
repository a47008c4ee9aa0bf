"""Sequence numbers in the produce requests of a capture."""

import struct
from pathlib import Path

import builders
from each import each

from kdump.engine.sequences.run import SequenceOptions, sequences
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.names import FRAMES

TIME = 1_700_000_000_000


def produce_request(
    sequence: int, *, count: int = 2, producer: int = 7, epoch: int = 0, topic: bytes = b"orders"
) -> bytes:
    """Write a produce request, with its length in front."""
    batch = builders.batch(
        [builders.record(at, at) for at in range(count)],
        base_timestamp=TIME,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    header = struct.pack(">hhih", 0, 3, sequence, 1) + b"c"
    body = struct.pack(">hhii", -1, -1, 1000, 1) + struct.pack(">h", len(topic)) + topic
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(header) + len(body)) + header + body


def run_sequences(
    path: Path, data: bytes, **options: bool
) -> tuple[list[tuple[object, ...]], Row, list[str]]:
    file = path / FRAMES
    file.write_bytes(data)
    items = list(sequences([str(file)], SequenceOptions(**options)))
    rows = [item for item in items if isinstance(item, Row)]
    found = [item.code for item in items if isinstance(item, Finding)]
    told = [
        (row.fields["kind"], row.fields["base_sequence"], row.fields["sequences_count"])
        for row in rows[:-1]
    ]
    return told, rows[-1], found


@each(
    ("numbers", "expected"),
    [
        ((40, 42, 44), []),
        ((40, 42, 50), [("gap", 50, 6)]),
        ((40, 42, 42, 44), [("duplicate", 42, 2)]),
        ((40, 0, 2), []),
    ],
)
def test_sequence_gaps_in_captures_are_reported(
    tmp_path: Path, numbers: tuple[int, ...], expected: list[tuple[object, ...]]
) -> None:
    """What was sent before the capture began is not missed; other producers do not disturb."""
    data = b"".join(
        produce_request(one) + produce_request(one, producer=8, topic=b"other") for one in numbers
    )
    rows, summary, found = run_sequences(tmp_path, data)
    assert rows == [one for one in expected for _ in range(2)]
    assert found == []
    assert (summary["partitions"], summary["batches"]) == (2, 2 * len(numbers))


def test_missing_bytes_suppress_sequence_findings(tmp_path: Path) -> None:
    rows, summary, found = run_sequences(
        tmp_path, produce_request(4) + bytes([127]) * 8 + produce_request(40)
    )
    assert (rows, found) == ([], ["frame-length"])
    damaged = bytearray(produce_request(6))
    damaged[-1] ^= 1
    rows, summary, found = run_sequences(
        tmp_path, produce_request(4) + damaged + produce_request(40) + produce_request(45)
    )
    assert (rows, found) == ([("gap", 45, 3)], [])
    assert summary["partitions_damaged"] == 1


def test_row_gives_the_position_in_the_capture(tmp_path: Path) -> None:
    first = produce_request(4)
    file = tmp_path / FRAMES
    file.write_bytes(first + produce_request(4))
    row, _ = sequences([str(file)], SequenceOptions())
    assert isinstance(row, Row)
    assert row["position"] == len(first) + first.index(b"orders") + 6 + 12
    assert (row["offset"], row["previous_offset"], row["path"]) == (2, 1, str(file))
    assert "a retry" in row["explanation"]

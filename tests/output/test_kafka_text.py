"""Lines of kafka-dump-log 4.1.1. Whole files are compared in tests/broker."""

from pathlib import Path

import builders
import damage
import pytest
from each import each

from kdump.engine.kafka_text.dump import kafka_dump
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.output.kafka_text import KafkaText, control_text

NAME = "00000000000000000000"


def printed(
    path: Path, mode: str = "records", *, terminal: bool = False, **asked: object
) -> tuple[list[str], list[str], list[object]]:
    out: list[bytes] = []
    err: list[str] = []
    rest: list[object] = []
    sink = KafkaText(out.append, err.append, terminal=terminal)
    options = DumpOptions(mode=mode, **asked)  # type: ignore[arg-type]
    for item in kafka_dump([str(path)], options):
        if isinstance(item, (Finding, KdumpError)):
            rest.append(item)
        else:
            sink.write(item)
    return b"".join(out).decode().splitlines(), err, rest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    return directory / f"{NAME}.log"


def test_records_of_all_versions(log: Path) -> None:
    log.write_bytes(
        builders.message(0, None, b"zero", magic=0)
        + builders.message(1, b"k", None, magic=1, attributes=8)
        + builders.batch(
            [builders.record(0, 0, b"k", b"v", [(b"a", b"1"), (b"b", None)])], base_offset=2
        )
        + builders.marker(1, base_offset=3, producer_id=5, coordinator_epoch=7)
    )
    lines, err, rest = printed(log)
    assert lines[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    crcs = [line.split("crc: ")[1].split()[0] for line in lines[2::2]]
    batch = "baseSequence: -1 lastSequence: -1 producerId: {} producerEpoch: {} "
    batch += "partitionLeaderEpoch: 0 isTransactional: {} isControl: {} "
    batch += "deleteHorizonMs: OptionalLong.empty"
    plain, control = batch.format(-1, -1, "false", "false"), batch.format(5, 0, "true", "true")
    zero, one, two, three = (f"compresscodec: none crc: {crc} isvalid: true" for crc in crcs)
    wanted = [
        f"offset: 0 position: 0 NoTimestampType: -1 size: 30 magic: 0 {zero}",
        (
            "| offset: 0 NoTimestampType: -1 keySize: -1 valueSize: 4 "
            f"isValid: true crc: {crcs[0]}}} payload: zero"
        ),
        f"offset: 1 position: 30 LogAppendTime: 1400000000000 size: 35 magic: 1 {one}",
        (
            "| offset: 1 LogAppendTime: 1400000000000 keySize: 1 valueSize: -1 "
            f"isValid: true crc: {crcs[1]}}} key: k"
        ),
        (
            f"baseOffset: 2 lastOffset: 2 count: 1 {plain} position: 65 "
            f"CreateTime: 1700000000000 size: 77 magic: 2 {two}"
        ),
        (
            "| offset: 2 CreateTime: 1700000000000 keySize: 1 valueSize: 1 sequence: -1 "
            "headerKeys: [a,b] key: k payload: v"
        ),
        (
            f"baseOffset: 3 lastOffset: 3 count: 1 {control} position: 142 "
            f"CreateTime: 1700000000000 size: 78 magic: 2 {three}"
        ),
        (
            "| offset: 3 CreateTime: 1700000000000 keySize: 4 valueSize: 6 sequence: -1 "
            "headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 7"
        ),
    ]
    assert lines[2:] == wanted
    assert (err, rest) == ([], [])


def test_wrong_checksum_is_printed_and_reported(log: Path) -> None:
    log.write_bytes(builders.message(0, b"k", b"v", crc=1))
    lines, _, rest = printed(log)
    assert "crc: 1 isvalid: false" in lines[2]
    assert lines[3].endswith("isValid: false crc: 1} key: k payload: v")
    assert [found.code for found in rest] == ["crc-mismatch"]  # type: ignore[attr-defined]


def test_value_beyond_its_message_is_reported(log: Path) -> None:
    body = builders.sized32(b"k") + (999).to_bytes(4, "big") + b"v"
    log.write_bytes(builders.message(0, body=body) + builders.message(1))
    lines, _, rest = printed(log)
    assert "keySize: 1 valueSize: 999 isValid: true" in lines[3]
    assert lines[5].endswith("key: key payload: value")
    assert [found.code for found in rest] == ["records-undecodable"]  # type: ignore[attr-defined]


def test_torn_tail_is_counted(log: Path) -> None:
    log.write_bytes(builders.batch() + builders.batch(base_offset=1)[:30])
    lines, _, rest = printed(log, "batches")
    assert lines[-1] == f"Found 30 invalid bytes at the end of {NAME}.log"
    assert len(lines) == 4
    assert rest == []


def test_walk_continues_where_the_tool_dies(log: Path) -> None:
    data = builders.batch() + builders.batch(base_offset=1) + builders.batch(base_offset=2)
    size = len(builders.batch())
    log.write_bytes(damage.zero(data, size + 8, 4))
    lines, _, rest = printed(log, "batches")
    assert [line.split()[1] for line in lines[2:]] == ["0", "2"]
    assert [(found.code, found.position) for found in rest] == [  # type: ignore[attr-defined]
        ("batch-length", size)
    ]


def test_gaps_are_listed_in_reverse(log: Path) -> None:
    log.write_bytes(b"".join(builders.batch(base_offset=n) for n in (0, 1, 5, 6, 9)))
    _, err, _ = printed(log)
    assert err == [
        f"Non-consecutive offsets in {log}",
        "  6 is followed by 9",
        "  1 is followed by 5",
    ]


def test_index_is_compared_with_the_log(log: Path) -> None:
    data = b"".join(builders.batch(base_offset=n) for n in range(3))
    size = len(data) // 3
    log.write_bytes(data)
    index = log.with_suffix(".index")
    slots = [(0, 0), (1, size), (2, size)]
    index.write_bytes(b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in slots))
    lines, err, _ = printed(index, "entries")
    assert lines[1:] == [f"offset: {a} position: {b}" for a, b in slots]
    assert err == [f"Mismatches in :{index}", "  Index offset: 2, log offset: 1"]


def test_position_after_the_log_end_kills_only_the_tool(log: Path) -> None:
    log.write_bytes(builders.batch())
    index = log.with_suffix(".index")
    index.write_bytes(bytes(8) + (1).to_bytes(4, "big") + (9999).to_bytes(4, "big"))
    lines, err, _ = printed(index, "entries")
    assert lines[1:] == ["offset: 0 position: 0"]
    assert len(err) == 1
    assert "kafka-dump-log fails here" in err[0]


def test_time_index_is_searched(log: Path) -> None:
    log.write_bytes(b"".join(builders.batch(base_offset=n, base_timestamp=n + 5) for n in range(3)))
    log.with_suffix(".index").write_bytes(b"")
    index = log.with_suffix(".timeindex")
    slots = [(5, 0), (6, 1), (9, 2), (8, 3)]
    index.write_bytes(b"".join(a.to_bytes(8, "big") + b.to_bytes(4, "big") for a, b in slots))
    lines, err, _ = printed(index, "entries")
    assert lines[1:] == [f"timestamp: {a} offset: {b}" for a, b in slots]
    assert err == [
        f"Found timestamp mismatch in :{index}",
        "  Index timestamp: 9, log timestamp: 7",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 3, found log offset: -1",
    ]


def test_filters_and_limit(log: Path) -> None:
    records = [builders.record(n, 0, b"k%d" % n) for n in range(4)]
    log.write_bytes(
        builders.batch(records) + builders.batch(records, base_offset=4, last_offset_delta=3)
    )
    offsets = [
        [int(line.split()[2]) for line in printed(log, **asked)[0] if line[0] == "|"]
        for asked in (
            {"from_offset": 2, "to_offset": 6},
            {"key": b"k1"},
            {"limit": 5},
        )
    ]
    assert offsets == [[2, 3, 4, 5], [1, 5], [0, 1, 2, 3, 4]]
    assert len(printed(log, "batches", limit=1)[0]) == 3


def test_terminal_gets_no_control_characters(log: Path) -> None:
    log.write_bytes(builders.batch([builders.record(0, 0, b"\x1b[2J", b"a\nb")]))
    assert printed(log, terminal=True)[0][-1].endswith("key: \\x1b[2J payload: a\\nb")


def test_files_of_0_7_are_refused(log: Path) -> None:
    path = log.with_suffix(".kafka")
    path.touch()
    _, _, rest = printed(path)
    assert [error.status for error in rest] == [2]  # type: ignore[attr-defined]


def test_unknown_file_is_skipped_with_a_message(log: Path) -> None:
    path = log.with_name(f"{NAME}.log.deleted")
    path.touch()
    assert printed(path)[:2] == ([f"Dumping {path}"], [f"Ignoring unknown file {path}"])


@each(
    ("control", "text"),
    [
        ({"type": "ABORT", "coordinator_epoch": 1}, "endTxnMarker: ABORT coordinatorEpoch: 1"),
        ({"type": "UNKNOWN", "type_id": 9}, "controlType: UNKNOWN(9)"),
        (
            {"type": "SNAPSHOT_HEADER", "value_version": 0, "last_contained_log_timestamp": 5},
            'SnapshotHeader {"version":0,"lastContainedLogTimestamp":5}',
        ),
        (
            {"type": "LEADER_CHANGE", "value_version": 0, "leader_id": 1, "voters": []},
            'LeaderChange: {"version":0,"leaderId":1,"voters":[]}',
        ),
        (
            {"type": "KRAFT_VERSION", "value_version": 0, "kraft_version": 1},
            'KRaftVersion {"version":0,"kRaftVersion":1}',
        ),
    ],
)
def test_control_records(control: dict[str, object], text: str) -> None:
    assert control_text({"version": 0, **control}) == text


def test_message_under_the_magic_of_a_batch_is_read_as_one(log: Path) -> None:
    log.write_bytes(builders.message(0, b"k" * 60, b"v", magic=2))
    lines, _, rest = printed(log)
    assert lines[2].startswith("baseOffset: 0 lastOffset: ")
    assert "isvalid: false" in lines[2]
    assert [found.code for found in rest] == [  # type: ignore[attr-defined]
        "batch-too-small", "records-undecodable",
    ]  # fmt: skip

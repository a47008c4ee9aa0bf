"""Records, logs and snapshots of cluster metadata, made by hand."""

import struct
from collections.abc import Sequence
from pathlib import Path

import builders
import partitions
from builders import control_record, unsigned_varint

HOUR = 3_600_000
LONG_AGO = 1_700_000_000_000
NOW = LONG_AGO + HOUR
NODE = 1


def frame_record(type_id: int, version: int, body: bytes) -> bytes:
    return unsigned_varint(1) + unsigned_varint(type_id) + unsigned_varint(version) + body


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def text(value: str) -> bytes:
    return unsigned_varint(len(value) + 1) + value.encode()


def array(elements: Sequence[bytes]) -> bytes:
    return unsigned_varint(len(elements) + 1) + b"".join(elements)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def tag_fields(*fields: tuple[int, bytes]) -> bytes:
    out = unsigned_varint(len(fields))
    for tag, body in fields:
        out += unsigned_varint(tag) + unsigned_varint(len(body)) + body
    return out


def ids(*brokers: int) -> bytes:
    return array([int32(broker) for broker in brokers])


def topic(name: str, number: int) -> bytes:
    return frame_record(2, 0, text(name) + uuid(number) + tag_fields())


def remove_topic(number: int) -> bytes:
    return frame_record(9, 0, uuid(number) + tag_fields())


def partition(
    number: int,
    topic_number: int,
    replicas: Sequence[int] = (NODE,),
    directories: Sequence[int] = (),
) -> bytes:
    body = int32(number) + uuid(topic_number) + ids(*replicas) + ids(*replicas) + ids() + ids()
    body += int32(replicas[0]) + int32(0) + int32(0)
    body += array([uuid(directory) for directory in directories])
    return frame_record(3, 1, body + tag_fields())


def change(number: int, topic_number: int, *fields: tuple[int, bytes]) -> bytes:
    return frame_record(5, 1, int32(number) + uuid(topic_number) + tag_fields(*fields))


def register(broker: int, directories: Sequence[int], level: int | None = None) -> bytes:
    """A registration; `level` is the highest metadata.version of the broker."""
    levels = (
        [] if level is None else [text("metadata.version") + struct.pack(">hh", 1, level) + b"\0"]
    )
    body = int32(broker) + b"\0" + uuid(1) + bytes(8) + array([]) + array(levels)
    body += text("rack") + b"\0\0"
    return frame_record(
        0, 3, body + tag_fields((0, array([uuid(number) for number in directories])))
    )


def config(kind: int, name: str, key: str, value: str | None) -> bytes:
    """A setting; `kind` 2 is of a topic, 4 of a broker."""
    said = unsigned_varint(0) if value is None else text(value)
    return frame_record(4, 0, bytes([kind]) + text(name) + text(key) + said + tag_fields())


NO_OP = frame_record(20, 0, tag_fields())


def log_of(records: Sequence[bytes], time_ms: int = LONG_AGO, base_offset: int = 0) -> bytes:
    body = [builders.record(n, 0, None, value) for n, value in enumerate(records)]
    return builders.batch(body, base_offset=base_offset, base_timestamp=time_ms)


def snapshot_of(records: Sequence[bytes], *, header: bool = True, footer: bool = True) -> bytes:
    ends = [
        builders.batch([control_record(kind, bytes(20))], attributes=builders.CONTROL)
        for kind in (3, 4)
    ]
    out = ends[0] if header else b""
    out += log_of(records, base_offset=1)
    offset = struct.pack(">q", len(records) + 1)
    return out + (offset + ends[1][8:] if footer else b"")


def write_log(path: Path, records: Sequence[bytes], now_ms: int = NOW) -> None:
    """Write the metadata log of a node, which was last written to at a time."""
    path.mkdir(exist_ok=True)
    log = log_of(records) + log_of([NO_OP], now_ms, len(records))
    times = builders.time_index([(now_ms, len(records))])
    partitions.write_segment(path, 0, log, times=times)
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (path / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":0,"data_version":0}')

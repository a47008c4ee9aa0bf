"""Time lookups that meet an entry which does not decode to its end, judged by Kafka 4.1.1."""

import random
import struct
from contextlib import closing
from pathlib import Path

import builders
import pytest
from each import each
from long_runs import LONG
from oracle import Oracle, oracle
from partitions import view_of

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.kernels.members import codec_name

pytestmark = pytest.mark.oracle

T0 = 1_700_000_000_000
CODECS = [codec_name(number) for number in range(5)]


def make_entry(judge: Oracle, directory: Path, codec: str, magic: int) -> Path:
    """Write three records, one a second, in one entry, with a wrapper where magic is below 2."""
    append = {"op": "append", "magic": magic, "codec": codec, "epoch": 0}
    records = [{"key": "k", "value": f"v{at}" * 9, "ts": T0 + 1000 * at} for at in range(3)]
    operations = [{**append, "records": records}]
    if codec == "none" and magic < 2:
        operations = [{**append, "records": [one]} for one in records]
    directory.parent.mkdir(parents=True, exist_ok=True)
    judge.ask("make", dir=directory, recipe={"dir": "t-0", "engine": "segment", "ops": operations})
    return next(directory.glob("*.log"))


def declare_count(data: bytes, count: int) -> bytes:
    return builders.with_right_crc(data[:57] + struct.pack(">i", count) + data[61:])


def lengthen(data: bytes, tail: bytes) -> bytes:
    size = struct.pack(">i", len(data) + len(tail) - 12)
    return builders.with_right_crc(data[:8] + size + data[12:] + tail)


def with_checksum(data: bytes) -> bytes:
    """Give a message of magic 0 or 1 the checksum that its bytes call for, a batch its own."""
    if data[16] == 2:
        return builders.with_right_crc(data)
    return data[:12] + struct.pack(">I", builders.crc32(data[16:])) + data[16:]


def same(judge: Oracle, directory: Path, target: int) -> str | None:
    answer = judge.ask("find_time", dir=directory, timestamp=target)["unified"]
    with closing(view_of(directory, broker=(4, 1))) as view:
        try:
            ours: object = tuple(list_offsets(view, target)[:2])
        except BrokerError:
            ours = "error"
    given = answer.get("answer")
    if given and given["offset"] >= answer["logEndOffset"]:
        given = None  # left to the broker's next layer
    theirs: object = (given["offset"], given["timestamp"]) if given else (-1, -1)
    if "error" in answer:
        theirs = "error"
    return None if ours == theirs else f"{target - T0}: {ours}, broker {theirs} {answer}"


TARGETS = (T0 - 1, T0, T0 + 1, T0 + 1000, T0 + 1500, T0 + 2000, T0 + 2001, -3)[:: 1 if LONG else 2]


@each("codec", CODECS)
@each("count", [-1, 0, 2, 4])
def test_wrong_record_count_matches_the_broker(tmp_path: Path, codec: str, count: int) -> None:
    judge = oracle()
    log = make_entry(judge, tmp_path / "t-0", codec, 2)
    log.write_bytes(declare_count(log.read_bytes(), count))
    failures = list(filter(None, (same(judge, tmp_path / "t-0", at) for at in TARGETS)))
    assert not failures, "\n".join(failures)


@each("codec", CODECS)
@each("tail", [b"\0", b"\x1f\x8b", b"\x1f\x8b\x08\x08" + bytes(6) + b"n", bytes(20), b"\xff" * 7])
def test_bytes_after_the_records(tmp_path: Path, codec: str, tail: bytes) -> None:
    judge = oracle()
    log = make_entry(judge, tmp_path / "t-0", codec, 2)
    log.write_bytes(lengthen(log.read_bytes(), tail))
    failures = list(filter(None, (same(judge, tmp_path / "t-0", at) for at in TARGETS)))
    assert not failures, "\n".join(failures)


@each("magic", [0, 1, 2])
@each("codec", CODECS)
def test_broken_stream_with_a_valid_checksum_matches_the_broker(
    tmp_path: Path, codec: str, magic: int
) -> None:
    if codec == "zstd" and magic < 2:
        pytest.skip("zstd is of magic 2")
    judge = oracle()
    log = make_entry(judge, tmp_path / "t-0", codec, magic)
    sound = log.read_bytes()
    rng = random.Random(f"{codec} {magic}")
    first = 61 if magic == 2 else 26 + 8 * magic
    failures = []
    for number in range(40 if LONG else 10):
        data = bytearray(sound)
        back = rng.randrange(1, 9) if number % 5 < 2 else rng.randrange(1, len(data) - first + 1)
        size = struct.unpack_from(">i", data, 8)[0] + 12
        at = size - back if back <= size - first else first
        data[at] ^= 1 << rng.randrange(8)
        log.write_bytes(with_checksum(bytes(data[:size])) + data[size:])
        found = filter(None, (same(judge, tmp_path / "t-0", target) for target in TARGETS))
        failures += [f"{number} at {at} of {size}: {one}" for one in found]
    assert not failures, "\n".join(failures)

"""What the cleaner makes of random logs, sound and damaged, is what was recorded.

`recorded_cleanings.txt` has of each log its seed, and what is said of it. The seeds are those that
reach what hardly another one does, and a few more; that cleaners do the same is what
`tests/broker/test_cleaner_oracle.py` asks. To record anew: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import os
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import builders as b
import pytest
from directories import write_checkpoint
from each import most_cases
from produced_sets import PACKERS
from producer_codecs import xerial

from kdump.broker.settings import TopicConfig, read_topic_config
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.findings.finding import Finding
from kdump.rows.why import Compaction
from kdump.storage.targets import Selection

RECORDED = Path(__file__).with_name("recorded_cleanings.txt")
START_MS, HOUR_MS = 1_700_000_000_000, 3_600_000
VERSIONS = ((0, 8, 2), (0, 10, 2, 2), (1, 0, 2), (2, 0, 1), (2, 4, 1), (3, 6, 2), (4, 1, 1))
Make = Callable[[random.Random, int], bytes]


def draw_key(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.02 else b"k%d" % rng.randrange(rng.choice((3, 12)))


def draw_value(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.3 else rng.randbytes(rng.randrange(30))


def draw_batch(rng: random.Random, offset: int) -> bytes:
    count = rng.choice((0, 1, 2, 3, 8)) if rng.random() < 0.3 else rng.choice((1, 2, 8))
    records = [b.record(at, 0, draw_key(rng), draw_value(rng)) for at in range(count)]
    fields: dict[str, int] = {"base_timestamp": START_MS + rng.randrange(50) * HOUR_MS}
    if not count:
        fields["last_offset_delta"] = rng.randrange(4)
    if rng.random() < 0.5:
        fields |= {"producer_id": rng.choice((1, 2)), "producer_epoch": 0, "base_sequence": offset}
    codec = rng.choice((0, 0, 0, 2, 3))  # of which all releases write the same bytes
    attributes = codec | (b.TRANSACTIONAL if fields.get("producer_id", 0) == 2 else 0)
    attributes |= 0x40 if rng.random() < 0.1 else 0  # with a delete horizon
    if rng.random() < 0.03:
        attributes |= 7
    payload = PACKERS[codec](b"".join(records))
    if rng.random() < 0.04 and payload:
        payload = payload[: rng.randrange(len(payload))]
    return b.batch(records, base_offset=offset, attributes=attributes, payload=payload, **fields)


def draw_marker(rng: random.Random, offset: int) -> bytes:
    records = [b.control_record(rng.randrange(2), bytes(6))]
    if rng.random() < 0.1:
        records = rng.choice(([], [b.record(0, key=b"\0")], [b.record(0, key=None)[:-1] + b"\x09"]))
    return b.batch(
        records, base_offset=offset, attributes=b.TRANSACTIONAL | b.CONTROL, producer_id=2,
        producer_epoch=0, base_timestamp=START_MS, last_offset_delta=0,
    )  # fmt: skip


def draw_message(rng: random.Random, offset: int) -> bytes:
    magic = rng.randrange(2)
    if rng.random() < 0.5:
        return b.message(offset, draw_key(rng), draw_value(rng), magic=magic)
    count = rng.randrange(1, 5)
    inner = [
        b.message(at if magic else offset + at, draw_key(rng), draw_value(rng), magic=magic)
        for at in range(count)
    ]
    return b.wrapper(inner, offset + count - 1, magic=magic, codec=2, compress=xerial)


def damage(rng: random.Random, log: bytes) -> bytes:
    at = rng.randrange(len(log))
    kind = rng.randrange(5)
    if kind == 0:
        return log[:at] + bytes([log[at] ^ 1 << rng.randrange(8)]) + log[at + 1 :]
    if kind == 1:
        return log[:at]
    if kind == 2:
        return log + rng.choice((bytes(50), bytes(11) + b"\x03" + bytes(40)))
    return log[:16] + rng.choice((b"\x05", b"\xff", b"\0")) + log[17:]


def write(rng: random.Random, directory: Path) -> int:
    """Write a log of a few segments; return its end."""
    directory.mkdir()
    offset, makes = 0, rng.choice(([draw_batch, draw_batch, draw_marker], [draw_message]))
    aborted = b""
    for _ in range(rng.choice((1, 2, 4))):
        base, log = offset, b""
        for _ in range(rng.randrange(1, 7)):
            make: Make = rng.choice(makes)
            one = make(rng, offset)
            log += one
            last = int.from_bytes(one[23:27], "big") if one[16] == 2 else None
            end = int.from_bytes(one[:8], "big") if last is None else offset + max(last, 0)
            if make is draw_marker and rng.random() < 0.6:
                first = max(offset - 9, 0)
                aborted += struct.pack(">hqqqq", 0, 2, first, offset, offset + 1)
            offset = end + 1 + rng.choice((0, 0, 0, 3))
        if rng.random() < 0.25:
            log = damage(rng, log)
        path = directory / f"{base:020}.log"
        path.write_bytes(log)
        os.utime(path, (START_MS / 1000 + base * 9_000,) * 2)
        if aborted and rng.random() < 0.7:
            path.with_suffix(".txnindex").write_bytes(aborted)
            aborted = b""
    return offset


def draw_configs(rng: random.Random) -> list[TopicConfig]:
    configs = {
        "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
        "min.cleanable.dirty.ratio": rng.choice(("0", "0.5", "0.95")),
        "delete.retention.ms": rng.choice(("0", "86400000")),
        "min.compaction.lag.ms": rng.choice(("0", "0", "0", "90000000")),
    }
    if rng.random() < 0.3:
        configs["max.compaction.lag.ms"] = "90000001"
    return [read_topic_config(f"{name}={value}") for name, value in configs.items()]


def answers(seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "t-0")
        end = write(rng, directory)
        if rng.random() < 0.5:
            offset = rng.choice((0, end // 2, end, end + 5))
            write_checkpoint(Path(folder, "cleaner-offset-checkpoint"), [("t", 0, offset)])
        if rng.random() < 0.2:
            write_checkpoint(Path(folder, "log-start-offset-checkpoint"), [("t", 0, end // 3)])
        if rng.random() < 0.3:
            mark = rng.choice((end // 2, end - 1, end))
            write_checkpoint(Path(folder, "replication-offset-checkpoint"), [("t", 0, mark)])
        properties = Path(folder, "server.properties")
        properties.write_text(
            f"log.dirs={folder}\nlog.cleaner.threads=1\n"
            f"log.cleaner.dedupe.buffer.size={rng.choice((1 << 27, 1 << 27, 24 * 9))}\n"
            f"log.cleaner.enable={rng.choice(('true', 'true', 'true', 'false'))}\n"
        )
        options = WhyOptions(
            now_ms=START_MS + rng.choice((1, 60, 2000)) * HOUR_MS,
            cleaner=True,
            configs=tuple(draw_configs(rng)),
            server_properties=str(properties),
            broker_version=rng.choice(VERSIONS),
            decompress_limit=rng.choice((1 << 26, 1 << 26, 60)),
            selection=Selection(topic="t"),
        )
        told = []
        for item in why([str(directory)], options):
            if isinstance(item, Compaction):
                told.append(" ".join(str(value) for value in item.fields.values()))
            elif isinstance(item, Finding) and item.code == "cleaned-key-twice":
                told.append(f"{item.code}: {item.message}")
        return " | ".join(told).replace(folder, "").replace("\n", " ")


def read_recorded() -> dict[int, str]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return {int(seed): told for seed, _, told in (line.partition("\t") for line in lines)}


def test_cleanings_are_those_recorded() -> None:
    recorded = read_recorded()
    if "KDUMP_RECORD" in os.environ:
        lines = (f"{seed}\t{answers(seed)}\n" for seed in recorded)
        RECORDED.write_text("".join(lines), "utf-8")
        pytest.skip("they are recorded")
    some = [*recorded.items()][: most_cases(Path(__file__))]
    assert {seed: answers(seed) for seed, _ in some} == dict(some)

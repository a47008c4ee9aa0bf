"""Captures and frames with random damage: no exception, no more frames than bytes, bounded time.

`recorded_captures.txt` has of some damaged captures the seed, and a digest of what is read of them:
those that reach what hardly another one does. To record anew: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

from __future__ import annotations

import gzip
import os
import random
import struct
import tempfile
import time
from functools import cache
from hashlib import sha256
from pathlib import Path

import captures
import pytest
from each import most_cases
from long_runs import SEED, how_many

from kdump.engine.frames.run import frame_items
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, RecordChunk
from kdump.kernels.columns import BYTES_HEX
from kdump.output.jsonl import JsonLines
from kdump.storage.names import Kind

_CLIENTS = Path(__file__).parents[2] / "captures/clients.pcap.gz"
_SECONDS = 10.0
_WORDS = tuple(struct.pack(">i", one) for one in (-1, 0, 1, 1 << 30, (1 << 31) - 1, -(1 << 31)))


def read(path: Path, kind: Kind, data: bytes, rng: random.Random) -> None:
    path.write_bytes(data)
    mode = rng.choice(("records", "records", "batches", "hex"))
    began = time.process_time()
    seen = 0
    for item in frame_items(str(path), kind, DumpOptions(mode=mode, decompress_limit=1 << 20)):
        if isinstance(item, Exception):
            assert kind is Kind.CAPTURE
            assert "is not a capture" in str(item)
            return
        if isinstance(item, Finding):
            assert item.message
            assert item.position is None or 0 <= item.position <= len(data)
        elif isinstance(item, RecordChunk):
            for row in item.iter_records():
                assert 0 <= row.position <= len(data)
        elif isinstance(item, BatchChunk):
            list(item.iter_batches())
        seen += 1
    assert seen <= len(data)
    assert time.process_time() - began < _SECONDS


def damage(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20, 200))):
        at = rng.randrange(len(made))
        match rng.randrange(6):
            case 0:
                made[at] ^= 1 << rng.randrange(8)
            case 1:
                made[at : at + 4] = rng.choice(_WORDS)
            case 2:
                made[at : at + 4] = rng.choice(_WORDS)[::-1]
            case 3:
                del made[at : at + rng.choice((1, 4, 100))]
            case 4:
                made[at:at] = rng.randbytes(rng.choice((1, 4, 100)))
            case _:
                other = rng.randrange(len(made))
                made[at:at] = made[other : other + rng.randrange(500)]
        if not made:
            made = bytearray(b"\0")
    return bytes(made[: rng.randrange(len(made) + 1)] if rng.random() < 0.1 else made)


@pytest.mark.fuzz
def test_damage_anywhere_is_survived(tmp_path: Path) -> None:
    whole = gzip.decompress(_CLIENTS.read_bytes())
    held = captures.messages_in(whole)
    streams = [
        b"".join(len(one).to_bytes(4, "big") + one for at, _, one in held if at == connection)
        for connection in sorted({at for at, _, _ in held})
    ]
    sent = [(at, way, len(one).to_bytes(4, "big") + one) for at, way, one in held]
    for number in range(how_many(25, 20_000)):
        rng = random.Random(f"{SEED}/{number}")
        match rng.randrange(4):
            case 0:
                data = damage(rng, rng.choice(streams))
                read(tmp_path / "one", Kind.FRAMES, data, rng)
                continue
            case 1:
                data = damage(rng, whole[: rng.randrange(500, len(whole))])
            case 2:  # damage in what was sent, in packets that are sound
                some = rng.sample(range(len(sent)), rng.randrange(1, 40))
                broken = [
                    (at, way, damage(rng, part) if rng.random() < 0.3 else part)
                    for at, way, part in (sent[one] for one in sorted(some))
                ]
                made = captures.packets(
                    broken, size=rng.choice((1, 40, 500)), opened=rng.random() < 0.7
                )
                if rng.random() < 0.5:
                    made = captures.swap_packets(made, rng, within=rng.choice((3, 50)))
                data = captures.capture(made)
            case _:  # headers that lie
                made = captures.packets(rng.sample(sent, 10), opened=rng.random() < 0.7)
                link = rng.choice((captures.ETHERNET, captures.NULL, captures.RAW, captures.SLL2))
                frames = [
                    (
                        rng.randrange(1 << 40),
                        bytearray(captures.frame_of(one, link, ipv6=rng.random() < 0.3)),
                    )
                    for one in made
                ]
                for _, frame in frames:
                    if rng.random() < 0.5:
                        frame[rng.randrange(min(len(frame), 80))] = rng.randrange(256)
                pack = captures.pcapng if rng.random() < 0.5 else captures.pcap
                data = pack(((at % (1 << 32) * 1000, bytes(frame)) for at, frame in frames), link)
        read(tmp_path / "one", Kind.CAPTURE, data, rng)


RECORDED = Path(__file__).with_name("recorded_captures.txt")


@cache
def connections() -> list[list[captures.Message]]:
    """Give the messages of each connection, each with its length."""
    found: dict[int, list[captures.Message]] = {}
    for number, way, frame in captures.messages_in(gzip.decompress(_CLIENTS.read_bytes())):
        one = (number, way, len(frame).to_bytes(4, "big") + frame)
        found.setdefault(number, []).append(one)
    return [*found.values()]


def answers(seed: int) -> str:
    rng = random.Random(seed)
    held = [one for some in rng.choices(connections(), k=rng.choice((1, 2))) for one in some[:40]]
    if rng.random() < 0.5:
        at = rng.randrange(len(held))
        number, way, data = held[at]
        held[at] = (number, way, damage(rng, data))
    if rng.random() < 0.15:
        number, way, data = held[0]
        held[0] = (number, way, rng.choice((b"" + data, b"GET / HTTP/1.1" + data)))
    made = captures.packets(held, size=rng.choice((10, 100, 1400)), opened=rng.random() < 0.8)
    if rng.random() < 0.3:
        at = rng.randrange(len(made))
        made[at:at] = captures.packets(held[:3])
    if rng.random() < 0.4:
        at = rng.randrange(len(made))
        made[at] = made[at]._replace(flags=captures.ACK | rng.choice((1, 4)))  # FIN, RST
    if rng.random() < 0.3:
        made = captures.swap_packets(made, rng)
    made = [one for one in made if rng.random() > rng.choice((0, 0, 0.01, 0.1))]
    link = rng.choice((captures.ETHERNET, captures.RAW))
    data = captures.capture(made, link, ipv6=rng.random() < 0.3) if made else b""
    if rng.random() < 0.1:
        data = damage(rng, data or b"x")
    text = bytearray()
    sink = JsonLines(text.extend, BYTES_HEX)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture")
        path.write_bytes(data)
        limit = rng.choice((1 << 20, 1 << 20, 300))
        mode = rng.choice(("records", "batches"))
        said = []
        for item in frame_items(
            str(path), Kind.CAPTURE, DumpOptions(mode=mode, decompress_limit=limit)
        ):
            if isinstance(item, Finding):
                said.append(f"{item.code} {item.position} {item.message}")
            elif isinstance(item, Exception):
                said.append(str(item))
            else:
                sink.write(item)
        sink.finish()
    told = "".join((text.decode(), *said)).replace(folder, "")
    return sha256(told.encode()).hexdigest()[:16]


def test_damaged_captures_are_read_as_recorded() -> None:
    lines = RECORDED.read_text("utf-8").splitlines()
    recorded = {int(seed): told for seed, _, told in (line.partition("\t") for line in lines)}
    if "KDUMP_RECORD" in os.environ:
        RECORDED.write_text("".join(f"{seed}\t{answers(seed)}\n" for seed in recorded), "utf-8")
        pytest.skip("they are recorded")
    some = [*recorded.items()][: most_cases(Path(__file__))]
    assert {seed: answers(seed) for seed, _ in some} == dict(some)

"""Fetches of real brokers, bytes and aborted transactions, from local and from remote segments.

KDUMP_FUZZ=long asks two brokers for many more. Needs `broker/` of KDUMP_SHARED.
"""

import hashlib
import json
import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import NamedTuple

import pytest
from broker_box import Broker, Json
from long_runs import LONG, SEED

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset
from kdump.findings.rows import Row

pytestmark = pytest.mark.broker

VERSIONS = ("4.1.1", "4.4.0", "2.8.2") if LONG else ("4.4.0",)
T0 = 1_700_000_000_000
ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    yield found
    found.run("kill")


class FetchedBytes(NamedTuple):
    """What a fetch returns: bytes, and aborted transactions by producer and first offset."""

    size: int
    sha256: str | None
    aborted: list[tuple[int, ...]]


class Client:
    """Sends fetch requests of version 4 for one partition."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def fetch(self, topic: str, offset: int, size: int, isolation: int) -> FetchedBytes:
        name = topic.encode()
        body = struct.pack(">hhihiiiib", 1, 4, 1, -1, -1, 5000, 1, 1 << 26, isolation)
        body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, offset, size)
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        answer = self._read(struct.unpack(">i", self._read(4))[0])
        at = 4 + 4 + 4 + 2 + len(name) + 4
        _, error, _, _, count = struct.unpack_from(">ihqqi", answer, at)
        assert error == 0
        at += 26
        aborted = [struct.unpack_from(">qq", answer, at + 16 * n) for n in range(max(count, 0))]
        at += 16 * len(aborted)
        records = answer[at + 4 : at + 4 + max(struct.unpack_from(">i", answer, at)[0], 0)]
        digest = hashlib.sha256(records).hexdigest() if records else None
        return FetchedBytes(len(records), digest, sorted(aborted))

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece
            data += piece
        return data


def fill(broker: Broker, topic: str, rng: random.Random, *, tiered: bool) -> int:
    """Write a topic with transactions between plain records; return where it ends."""
    configs = {"index.interval.bytes": str(rng.choice((512, 4096)))}
    if tiered:
        configs |= {"remote.storage.enable": "true", "local.retention.bytes": "14000"}
    operations: list[Json] = [
        {"op": "create_topic", "topic": topic, "segmentBytes": 12_000, "configs": configs}
    ]
    for number in range(12):
        operations.append({
            "op": "produce", "topic": topic, "count": rng.randrange(1, 200), "seed": number,
            "batch": rng.choice((1, 7, 40)), "codec": rng.choice(("none", "lz4", "gzip")),
            "timestamps": [T0 + number * 1000, 1],
        })  # fmt: skip
        for name in "abc"[: rng.randrange(4)]:
            end = rng.choice(("abort", "abort", "commit", "open"))
            count = rng.randrange(1, 9)
            one = {"op": "txn", "topic": topic, "txn": topic + name, "count": count, "end": end}
            operations += [one]
    operations.append({"op": "produce", "topic": topic, "count": 30})
    operations += [{"op": "txn", "topic": topic, "txn": topic + "a", "count": 2, "end": "open"}]
    answers = broker.ask(*operations)
    assert all(answer["ok"] for answer in answers), answers
    asked = {"op": "list_offsets", "topic": topic, "at": ["latest"]}
    return int(broker.ask(asked)[0]["offsets"][0]["offset"])


def settle(broker: Broker, topics: list[str]) -> None:
    """Wait until nothing is moved to the tier any more."""
    asks = [
        {"op": "list_offsets", "topic": topic, "at": ["earliest-local", "latest-tiered"]}
        for topic in topics
    ]
    before: object = None
    for _ in range(40):
        now = [answer["offsets"] for answer in broker.ask(*asks)]
        if now == before:
            return
        before = now
        sleep(4)


def test_bytes_and_aborted_transactions_match_the_broker(broker: Broker, tmp_path: Path) -> None:
    tier = None if broker.version == "2.8.2" else str(tmp_path / "remote")
    more = [] if tier is None else ["--tier", tier]
    done = broker.run("start", "--version", broker.version, "--owner", str(os.getpid()), *more)
    assert done.returncode == 0, done.stderr
    rng = random.Random(SEED)
    topics = {"plain": False} | ({"tiered": True} if tier else {})
    ends = {topic: fill(broker, topic, rng, tiered=is_on) for topic, is_on in topics.items()}
    if tier is not None:
        settle(broker, ["tiered"])
    with closing(Client(json.loads(done.stdout)["port"])) as client:
        sources, named = compare_fetches(client, broker, tier, ends, rng)
    assert named > 20
    assert tier is None or sources >= {"local", "remote"}


def compare_fetches(
    client: Client, broker: Broker, tier: str | None, ends: dict[str, int], rng: random.Random
) -> tuple[set[object], int]:
    """Compare fetches; give where their bytes were, and how many transactions were named."""
    data, sources, named = broker.directory, set[object](), 0
    for topic, end in ends.items():
        for _ in range(600 if LONG else 60):
            offset = rng.choice((rng.randrange(end), rng.randrange(end + 1), end))
            size = rng.choice((1, 100, 1000, 5000, 12_000, 1 << 20))
            isolation = rng.randrange(2)
            options = FindOptions(
                tier=tier,
                max_bytes=size,
                isolation=ISOLATIONS[isolation],
                as_is=True,  # it is running
                broker_version=tuple(map(int, broker.version.split(".")[:2])),
            )
            # The high watermark is written to disk every 5 s, and transactions run out of time.
            for _attempt in range(3):
                theirs = client.fetch(topic, offset, size, isolation)
                row, ours = run_fetch(data / f"{topic}-0", offset, options)
                if ours == theirs:
                    break
                sleep(6)
            assert ours == theirs, (topic, offset, size, isolation)
            named += len(theirs.aborted)
            sources.add(row.fields.get("source"))
    return sources, named


def run_fetch(partition: Path, offset: int, options: FindOptions) -> tuple[Row, FetchedBytes]:
    """Ask kdump for a fetch."""
    items = list(find_offset([str(partition)], offset, options))
    row = next(item for item in items if isinstance(item, Row) and item.row == "fetch")
    assert row["error"] is None
    aborted = [(one["producer_id"], one["first_offset"]) for one in row["aborted"] or ()]
    return row, FetchedBytes(row["size_bytes"], row["sha256"], sorted(aborted))

"""A real broker on what `reindex --write` left: it takes the indexes as they are, and answers.

Indexes are deleted and corrupted under a stopped broker and rebuilt; at its start it must log no
rebuild, serve every record and answer ListOffsets as before. Needs `broker/` of KDUMP_SHARED.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import broker_box
import pytest
from broker_box import Json
from long_runs import LONG
from reindexing import items_of, rows_of

from kdump.errors import RefusedError

pytestmark = pytest.mark.broker

VERSIONS = ("4.1.1", "2.8.2", "0.10.2.2") if LONG else ("4.1.1",)
START_MS = 1_700_000_000_000
INTERVAL = 512


class Broker(broker_box.Broker):
    """A broker all of whose answers must be good."""

    def ask(self, *operations: Json) -> list[Json]:
        answers = super().ask(*operations)
        assert all(answer["ok"] for answer in answers), answers
        return answers

    def stop(self) -> None:
        assert self.run("stop").returncode == 0

    def logged(self, pattern: str) -> int:
        return int(self.run("log", "--count", "--grep", pattern).stdout)


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    found.start()
    yield found
    found.run("kill")


def fill(broker: Broker) -> None:
    configs = {"index.interval.bytes": str(INTERVAL)}
    operations: list[Json] = [
        {"op": "create_topic", "topic": "orders", "segmentBytes": 20_000, "configs": configs}
    ]
    for part in range(6):
        codec = ("none", "gzip", "lz4")[part % 3]
        at = START_MS + 100_000 * (5 - part if part % 2 else part)
        produce = {"op": "produce", "topic": "orders", "count": 200, "batch": 7, "codec": codec}
        operations.append({**produce, "timestamps": [at, 100], "seed": part})
        if broker.version != "0.10.2.2":
            txn: Json = {"op": "txn", "topic": "orders", "txn": "a", "count": 30}
            txn["timestamps"] = [at + 20_000, 100]
            operations.append({**txn, "end": "abort" if part % 2 else "commit"})
    broker.ask(*operations)


def answers(broker: Broker) -> list[Json]:
    found = broker.ask(*questions(broker))
    for answer in found[0]["offsets"]:
        if answer["at"] == "latest":
            answer.pop("leaderEpoch", None)  # which every start raises
    return found


def questions(broker: Broker) -> list[Json]:
    times: list[Any] = ["earliest", "latest"]
    times += [START_MS + step for step in range(-100, 620_000, 20_000)]
    asked: list[Json] = [
        {"op": "list_offsets", "topic": "orders", "at": times},
        {"op": "consume", "topic": "orders"},
    ]
    if broker.version != "0.10.2.2":
        asked.append({"op": "consume", "topic": "orders", "isolation": "read_committed"})
    return asked


def spoil(path: Path, rng: random.Random) -> None:
    """Delete an index, or break it in one of the ways that go unnoticed at a start."""
    data = bytearray(path.read_bytes())
    kind = rng.choice(("delete", "zeros", "empty", "piece", "shift", "noise"))
    if kind == "delete" or not data:
        path.unlink()
        return
    if kind == "zeros":
        data = bytearray(len(data))
    elif kind == "empty":
        data.clear()
    elif kind == "piece":
        data += b"abc"
    elif kind == "shift":
        data[-1] ^= 1
    else:
        data = bytearray(rng.randbytes(len(data)))
    path.write_bytes(data)


def indexes(partition: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(partition.iterdir())
        if path.suffix in (".index", ".timeindex", ".txnindex")
    }


def test_broker_accepts_rebuilt_indexes(broker: Broker) -> None:
    fill(broker)
    before = answers(broker)
    partition = broker.directory / "orders-0"
    version = tuple(map(int, broker.version.split(".")))
    options = {"write": True, "index_interval_bytes": INTERVAL, "broker_version": version}

    # While it runs nothing is written.
    refused = items_of(partition, every=True, **options)
    assert [type(item) for item in refused] == [RefusedError]
    assert "a broker is running here" in str(refused[0])

    broker.stop()
    rng = random.Random(7)
    spoiled = [path for path in sorted(partition.glob("*index")) if rng.random() < 0.8]
    for path in spoiled:
        spoil(path, rng)
    rows = rows_of(partition, **options)
    assert {row["action"] for row in rows} <= {"keep", "rebuilt", "created"}
    assert sum(row["action"] != "keep" for row in rows) >= len(spoiled) // 2
    written = indexes(partition)
    assert {row["action"] for row in rows_of(partition, **options)} == {"keep"}

    broker.start()
    assert broker.logged("orders-0.*rebuilding index") == 0
    assert answers(broker) == before
    broker.stop()
    after = indexes(partition)
    newest = max(written)[:20]
    assert {name: data for name, data in after.items() if not name.startswith(newest)} == {
        name: data for name, data in written.items() if not name.startswith(newest)
    }

"""`compare --mirror` on what a real MirrorMaker 2 made between two real brokers."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker
from long_runs import LONG
from maven_brokers import mirror_maker_path

from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare

VERSION = "4.1.1"
MOST_SECONDS = 1800  # two brokers and a worker of Connect, on any machine
PROPERTIES = """
clusters = east, west
east.bootstrap.servers = localhost:{east}
west.bootstrap.servers = localhost:{west}
east->west.enabled = true
west->east.enabled = false
east->west.topics = orders, pay
east->west.groups = g, h
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
plugin.discovery = service_load
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 2
offset.lag.max = 10
"""

pytestmark = pytest.mark.skipif(not LONG, reason="minutes of real brokers: KDUMP_FUZZ=long")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    both = Broker(tmp_path / "east", VERSION), Broker(tmp_path / "west", VERSION)
    try:
        for broker in both:
            broker.start()
        yield both
    finally:
        for broker in both:
            broker.run("stop")


def port(broker: Broker) -> int:
    import json

    return int(json.loads(broker.run("status").stdout)["port"])


def commit(group: str, *offsets: tuple[str, int, int]) -> dict[str, Any]:
    places = [
        {"topic": topic, "partition": number, "offset": offset, "metadata": ""}
        for topic, number, offset in offsets
    ]
    return {"op": "commit_offsets", "group": group, "offsets": places}


def produce(topic: str, partition: int, count: int, seed: int) -> dict[str, Any]:
    return {"op": "produce", "topic": topic, "partition": partition, "count": count, "seed": seed}


def end_of(broker: Broker, topic: str, partition: int) -> int:
    asked = {"op": "list_offsets", "topic": topic, "partition": partition, "at": ["latest"]}
    (answer,) = broker.ask(asked)
    return int(answer["offsets"][0]["offset"]) if answer.get("ok") else -1


def wait_for(what: Any) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(2)


def test_a_mirror_is_as_mirror_maker_made_it(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    east, west = brokers
    transaction = {"op": "txn", "topic": "pay", "txn": "t1", "end": "commit"}
    east.ask(
        {"op": "create_topic", "topic": "orders", "partitions": 2},
        {"op": "create_topic", "topic": "pay"},
        produce("orders", 0, 300, 1),
        produce("orders", 1, 120, 5),
        {"op": "delete_records", "topic": "orders", "partition": 0, "before": 57},
        transaction | {"count": 40},
        transaction | {"count": 10, "end": "abort"},
        transaction | {"count": 40},
        commit("g", ("orders", 0, 100), ("orders", 1, 120), ("pay", 0, 60)),
        commit("h", ("orders", 0, 300), ("pay", 0, 92)),
    )
    settings = tmp_path / "mirror.properties"
    settings.write_text(PROPERTIES.format(east=port(east), west=port(west)))
    words = ["java", "-Xmx512m", "-cp", mirror_maker_path(VERSION)]
    words += ["org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with (tmp_path / "mirror.log").open("wb") as log:
        maker = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        wait_for(lambda: end_of(west, "east.orders", 0) >= 243)
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= 5)
        east.ask(produce("orders", 0, 50, 9), commit("g", ("orders", 0, 320)))
        wait_for(lambda: end_of(west, "east.orders", 0) >= 293)
        before = end_of(west, "east.checkpoints.internal", 0)
        east.ask(commit("g", ("orders", 0, 350)), commit("h", ("orders", 1, 119)))
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= before + 2)
    finally:
        maker.terminate()
        maker.wait(120)
    for broker in brokers:
        broker.run("stop")
    options = CompareOptions(mirror=True, groups=True, shown=100)
    rows: list[Any] = list(compare([str(east.directory), str(west.directory)], options))
    stretches = {(one.topic, one.partition): [] for one in rows if one.row == "mirror-stretch"}
    for one in rows:
        if one.row == "mirror-stretch":
            of = stretches[one.topic, one.partition]
            of.append((one.kind, one.first_offset, one.last_offset, one.shift))
    assert stretches == {
        ("orders", 0): [("mirrored", 57, 349, -57)],
        ("orders", 1): [("mirrored", 0, 119, 0)],
        ("pay", 0): [("mirrored", 0, 39, 0), ("mirrored", 41, 50, -1), ("mirrored", 52, 91, -2)],
    }
    offsets = [one for one in rows if one.row == "translated-offset"]
    assert len(offsets) == 6
    for one in offsets:
        assert one.basis == "checkpoint", one
        assert one.offset == one.checkpoint_offset
        assert one.checkpoint_source_offset == one.source_offset
        assert one.offset <= one.sync_offset <= one.records_offset

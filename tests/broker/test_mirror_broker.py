"""`compare --mirror` on what a real MirrorMaker 2 made between two real brokers."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
east->west.topics = {topics}
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


@contextmanager
def mirror_maker(
    folder: Path, brokers: tuple[Broker, Broker], topics: str, more: str = ""
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run MirrorMaker; at the end it is asked to stop, which commits how far it came."""
    east, west = map(port, brokers)
    settings = folder / "mirror.properties"
    settings.write_text(PROPERTIES.format(east=east, west=west, topics=topics) + more)
    words = ["java", "-Xmx512m", "-cp", mirror_maker_path(VERSION)]
    words += ["org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with (folder / "mirror.log").open("ab") as log:
        maker = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield maker
    finally:
        maker.terminate()
        maker.wait(120)


def test_mirror_of_mirror_maker_is_sound(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
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
    with mirror_maker(tmp_path, brokers, "orders, pay"):
        wait_for(lambda: end_of(west, "east.orders", 0) >= 243)
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= 5)
        east.ask(produce("orders", 0, 50, 9), commit("g", ("orders", 0, 320)))
        wait_for(lambda: end_of(west, "east.orders", 0) >= 293)
        before = end_of(west, "east.checkpoints.internal", 0)
        east.ask(commit("g", ("orders", 0, 350)), commit("h", ("orders", 1, 119)))
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= before + 2)
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


GAPS = """
east->west.consumer.isolation.level = read_committed
west.offset.flush.interval.ms = 3600000
"""
PARTITIONS = (("orders", 0), ("orders", 1), ("pay", 0), ("users", 0))
#: Offsets and values at the source, and at the target.
Sides = tuple[list[tuple[int, str]], list[tuple[int, str]]]


def values_of(broker: Broker, topic: str, partition: int) -> list[tuple[int, str]]:
    """Offsets and values of the records that a consumer gets, in order."""
    asked = {"op": "consume", "topic": topic, "partition": partition, "records": 1 << 20}
    (answer,) = broker.ask(asked | {"isolation": "read_committed"})
    return [(one["offset"], one["value"]) for one in answer["records"]]


def start_of(broker: Broker, topic: str, partition: int) -> int:
    asked = {"op": "list_offsets", "topic": topic, "partition": partition, "at": ["earliest"]}
    (answer,) = broker.ask(asked)
    return int(answer["offsets"][0]["offset"])


def count_mirrored(here: list[tuple[int, str]], there: list[tuple[int, str]]) -> Counter[Any]:
    """Count the records that each side has, by what is to be said of them; values are unique."""
    first: dict[str, int] = {}
    counts: Counter[Any] = Counter()
    source = {value: offset for offset, value in here}
    for offset, value in there:
        if value not in source:
            counts["only-target"] += 1
        elif value in first:
            counts["duplicated"] += 1
        else:
            first[value] = offset
    counts["mirrored"] = len(first)
    counts["only-source"] = len(here) - len(first)
    return counts


def test_gaps_and_copies_in_a_mirror_are_reported(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """A compacted source, aborted transactions, retention, a worker that is killed and goes on."""
    east, west = brokers
    for broker in brokers:
        broker.run("stop")
    east.start(log_cleaner_backoff_ms=500, log_retention_check_interval_ms=1000)
    west.start()
    users = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    many = {"keySize": 2, "batch": 7}
    transaction = {"op": "txn", "topic": "pay", "txn": "t1", "end": "commit"}
    aborted = transaction | {"count": 7, "end": "abort"}
    east.ask(
        {"op": "create_topic", "topic": "orders", "partitions": 2, "segmentBytes": 20_000},
        {"op": "create_topic", "topic": "pay"},
        {"op": "create_topic", "topic": "users", "segmentBytes": 12_000, "configs": users},
        produce("orders", 0, 900, 1),
        produce("orders", 1, 300, 2),
        produce("users", 0, 600, 3) | many,
        *(transaction | {"count": 30, "seed": 4}, aborted, aborted | {"seed": 6}),
        *(transaction | {"count": 30, "seed": 7}, aborted | {"seed": 8}),
        {"op": "alter_topic", "topic": "orders", "configs": {"retention.bytes": "60000"}},
    )
    wait_for(lambda: start_of(east, "orders", 0) > 0)
    wait_for(lambda: len(values_of(east, "users", 0)) < 400)
    start = start_of(east, "orders", 0)
    one_third = start + (900 - start) // 3
    east.ask(
        commit(
            "g", ("orders", 0, one_third), ("orders", 1, 150), ("pay", 0, 45), ("users", 0, 500)
        ),
        commit("h", ("orders", 0, 900), ("pay", 0, 77), ("users", 0, 100)),
    )

    def is_there(topic: str, partition: int) -> bool:
        """Whether the last record of the source is the last of the target."""
        here, there = values_of(east, topic, partition), values_of(west, f"east.{topic}", partition)
        return bool(there) and here[-1][1] == there[-1][1]

    def all_there() -> bool:
        try:
            return all(is_there(*one) for one in PARTITIONS)
        except KeyError:
            return False  # a topic is not there yet

    topics = ", ".join(sorted({topic for topic, _ in PARTITIONS}))
    with mirror_maker(tmp_path, brokers, topics, GAPS):
        wait_for(all_there)
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= 5)
    # Killed before it commits how far it came: what follows is sent twice.
    east.ask(
        produce("orders", 1, 60, 11),
        produce("users", 0, 40, 12) | many,
        *(aborted | {"seed": 13}, transaction | {"count": 20, "seed": 14}),
    )
    with mirror_maker(tmp_path, brokers, topics, GAPS) as maker:
        wait_for(all_there)
        maker.kill()
        maker.wait()
    # Deleted before it is mirrored.
    east.ask(produce("orders", 0, 200, 15), produce("orders", 1, 30, 16))
    east.ask({"op": "delete_records", "topic": "orders", "partition": 0, "before": 1000})
    with mirror_maker(tmp_path, brokers, topics, GAPS):
        wait_for(all_there)
        before = end_of(west, "east.checkpoints.internal", 0)
        east.ask(
            commit("g", ("orders", 0, 1080), ("orders", 1, 370), ("pay", 0, 95)),
            commit("h", ("orders", 1, 340), ("users", 0, 640)),
        )
        wait_for(lambda: end_of(west, "east.checkpoints.internal", 0) >= before + 3)
    expected = {
        one: (values_of(east, *one), values_of(west, f"east.{one[0]}", one[1]))
        for one in PARTITIONS
    }
    for broker in brokers:
        broker.run("stop")
    options = CompareOptions(mirror=True, groups=True, shown=10_000)
    rows: list[Any] = list(compare([str(east.directory), str(west.directory)], options))
    check_rows(rows, expected)


def check_rows(rows: list[Any], expected: dict[tuple[str, int], Sides]) -> None:
    for one in rows:
        if one.row == "mirror-stretch" and one.shift is not None:
            here, there = map(dict, expected[one.topic, one.partition])
            offsets = [at for at in here if one.first_offset <= at <= one.last_offset]
            assert [here[at] for at in offsets] == [there[at + one.shift] for at in offsets]
            assert one.records_count == len(offsets)
    comparisons = {(one.topic, one.partition): one for one in rows if hasattr(one, "verdict")}
    assert set(comparisons) == set(PARTITIONS)
    for place, one in comparisons.items():
        counts = count_mirrored(*expected[place])
        assert counts == Counter(
            mirrored=one.paired, duplicated=one.duplicated,
            **{"only-source": one.only_source, "only-target": one.only_target},
        ), place  # fmt: skip
        assert one.severity != "damage"
        assert one.aborted == (28 if one.topic == "pay" else 0)
    assert comparisons["orders", 0].verdict == "start-differs"
    assert comparisons["orders", 0].only_target > 500
    copies = {place: one.duplicated for place, one in comparisons.items() if one.duplicated}
    assert copies == {("orders", 1): 60, ("pay", 0): 20, ("users", 0): 40}
    shifts = [one.shift for one in rows if one.row == "mirror-stretch" and one.topic == "pay"]
    assert shifts == [0, None, -17, None, -34, -14]
    offsets = [one for one in rows if one.row == "translated-offset"]
    assert len(offsets) == 8
    for one in offsets:
        assert one.basis == "checkpoint", one
        assert one.offset == one.checkpoint_offset
        assert one.checkpoint_source_offset == one.source_offset

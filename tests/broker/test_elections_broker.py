"""Who should lead, held against what three real nodes left, and against whom they elect.

Directories of a running cluster are frozen at random moments between kills, elections and writes,
and its newest segments cut back. What a choice loses is counted here record by record.
"""

import json
import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG, SEED
from three_nodes import NODES, ThreeNodes, cut_back

from kdump.engine.compare.elect import elect
from kdump.engine.compare.plan import CompareOptions
from kdump.findings.rows import Row
from kdump.kernels import crc32c
from kdump.storage.targets import Selection

pytestmark = [
    pytest.mark.broker,
    pytest.mark.fuzz,
    pytest.mark.skipif(not LONG, reason="long profile: three nodes for minutes"),
]
VERSION = os.environ.get("KDUMP_BROKER", "4.4.0")
CASES = int(os.environ.get("KDUMP_CASES", "200"))
ELECTIONS = int(os.environ.get("KDUMP_ELECTIONS", "60"))
METADATA = "__cluster_metadata-0"
Entry = tuple[int, int]  # leader epoch, offset


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Let a cluster live, and freeze it so many times."""
    root, draw = tmp_path_factory.mktemp("cases"), random.Random(SEED)
    cluster = ThreeNodes(tmp_path_factory.mktemp("live"), VERSION)
    found: list[Path] = []
    try:
        cluster.format()
        for node in NODES:
            cluster.start(node)
        assert cluster.leader() is not None
        life = Life(cluster, draw)
        while len(found) < CASES:
            life.go_on()
            if draw.random() < 0.7:
                to = root / f"case{len(found)}"
                cluster.frozen(to)
                found.append(to)
                for path in sorted(to.glob("n?/*-[0-9]")):
                    if draw.random() < 0.8:
                        cut_back(path, draw)
    finally:
        cluster.close()
    yield found
    shutil.rmtree(root)


class Life:
    """What happens in a cluster: topics come and go, records are written, nodes are killed."""

    def __init__(self, cluster: ThreeNodes, draw: random.Random) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self._cluster, self._draw = cluster, draw
        self._admin = AdminClient(client)
        self._producer = Producer(client | {"acks": 1, "message.timeout.ms": 5000})
        self._topics: list[str] = []
        self._made = 0
        while len(self._admin.list_topics(timeout=10).brokers) < len(NODES):
            time.sleep(0.5)
        for _ in range(3):
            self._create().result(30)

    def go_on(self) -> None:
        draw, running = self._draw, tuple(self._cluster.running)
        for _ in range(draw.randint(1, 6)):
            self._operation()
        self._producer.poll(0)
        time.sleep(draw.random() * 0.5)
        if draw.random() < 0.3:
            down = [node for node in NODES if node not in running]
            if down and draw.random() < 0.6:
                self._cluster.start(draw.choice(down))
            elif len(running) > 1:
                self._cluster.kill(draw.choice(running))
            time.sleep(draw.random() * 3)

    def _create(self) -> Any:
        from confluent_kafka.admin import NewTopic

        name = f"t{self._made}"
        self._made += 1
        self._topics.append(name)
        config = {"unclean.leader.election.enable": "true"}
        topic = NewTopic(name, self._draw.randint(1, 3), 3, config=config)
        return self._admin.create_topics([topic])[name]

    def _operation(self) -> None:
        draw, what = self._draw, self._draw.random()
        if what < 0.3 or not self._topics:
            self._create()
        elif what < 0.35 and len(self._topics) > 3:
            self._admin.delete_topics([self._topics.pop(0)])
        else:
            topic = draw.choice(self._topics)
            for _ in range(draw.randint(1, 40)):
                self._producer.produce(topic, draw.randbytes(draw.randint(1, 200)))


def entries(directory: Path) -> set[Entry]:
    """Read what a recovery leaves: whole batches with a good checksum, up to the first that is not.

    Neither topics nor metadata logs here were compacted: a batch has all of its offsets.
    """
    found: set[Entry] = set()
    for log in sorted(directory.glob("*.log")):
        data, at = log.read_bytes(), 0
        while at + 61 <= len(data):
            base, length, epoch = struct.unpack_from(">qii", data, at)
            end = at + 12 + length
            if length < 49 or end > len(data):
                return found
            stored, last = struct.unpack_from(">I2xi", data, at + 17)
            if crc32c(data, at + 21, end) != stored:
                return found
            found |= {(epoch, offset) for offset in range(base, base + last + 1)}
            at = end
        if at != len(data):
            return found
    return found


def elections(case: Path, topic: str, nodes: tuple[int, ...] = NODES) -> list[dict[str, Any]]:
    options = CompareOptions(selection=Selection(topic=topic), elect=True)
    rows = list(elect([str(case / f"n{node}") for node in nodes], options))
    assert all(isinstance(row, Row) for row in rows), rows
    return [json.loads(json.dumps(row.fields)) for row in rows[:-1]]  # type: ignore[union-attr]


def reach(log: set[Entry]) -> tuple[int, int]:
    return (max(epoch for epoch, _ in log), max(at for _, at in log) + 1) if log else (0, 0)


@pytest.mark.parametrize("topic", ["__cluster_metadata", "t*"])
def test_records_lost_by_each_choice(cases: list[Path], topic: str) -> None:
    checked = stake = 0
    for case in cases:
        for fields in elections(case, topic):
            name = f"{fields['topic']}-{fields['partition']}"
            logs = {one["node_id"]: entries(Path(one["path"])) for one in fields["choices"]}
            place = case.name, name
            for one in fields["choices"]:
                mine, end = logs[one["node_id"]], reach(logs[one["node_id"]])
                assert (one["last_epoch"] or 0, one["log_end"]) == end, (place, one)
                lost = set().union(*logs.values()) - mine
                assert one["records_lost"] == len(lost), (place, one)
            best = logs[fields["leader_node"]]
            assert reach(best) == max(map(reach, logs.values())), place
            # What the choice loses was never committed: a later leader did not have it.
            assert all(epoch < reach(best)[0] for epoch, _ in set().union(*logs.values()) - best)
            checked += 1
            stake += fields["at_stake"]
    print(f"{topic}: {checked} partitions, at stake in {stake}")
    assert stake > len(cases) // 3


def test_elected_leaders_match_the_controllers(cases: list[Path], tmp_path: Path) -> None:
    draw, elected = random.Random(SEED), 0
    for case in draw.sample(cases, min(ELECTIONS, len(cases))):
        nodes = tuple(sorted(draw.sample(NODES, draw.choice((2, 2, 3)))))
        (fields,) = elections(case, "__cluster_metadata", nodes)
        able = [one["node_id"] for one in fields["choices"] if one["electable"]]
        before = {node: entries(case / f"n{node}" / METADATA) for node in nodes}
        cluster = ThreeNodes(tmp_path / case.name, VERSION)
        try:
            cluster.directory.mkdir()
            for node in nodes:
                shutil.copytree(case / f"n{node}", cluster.data(node))
                cluster.start(node, "controller")
            leader = cluster.leader()
        finally:
            cluster.close()
        assert leader in able, (case.name, nodes, leader, able)
        if len(nodes) == 2:  # both votes are needed: no shorter log can win
            assert reach(before[leader]) == reach(before[fields["leader_node"]])
        # Nothing of what the leader had is gone.
        assert before[leader] <= entries(cluster.data(leader) / METADATA)
        shutil.rmtree(cluster.directory)
        elected += 1
    print(f"{elected} elections of controllers as said")


def test_records_lost_by_an_election(cases: list[Path], tmp_path: Path) -> None:
    """Brokers come up one by one; whoever leads, what is gone when all are up is as foretold."""
    from confluent_kafka.admin import AdminClient

    draw = random.Random(SEED)
    checked = lossy = 0
    for case in draw.sample(cases, min(ELECTIONS // 3, len(cases))):
        first = draw.choice(NODES)
        (quorum,) = elections(case, "__cluster_metadata")
        found, cluster = tmp_path / "as-found", ThreeNodes(tmp_path / case.name, VERSION)
        try:
            cluster.directory.mkdir()
            for node in NODES:
                shutil.copytree(case / f"n{node}", cluster.data(node))
                if case / f"n{node}" != Path(quorum["leader"]).parent:
                    shutil.rmtree(cluster.data(node) / METADATA)
                    shutil.copytree(quorum["leader"], cluster.data(node) / METADATA)
            shutil.copytree(cluster.directory, found)
            for node in NODES:
                cluster.start(node, "controller,broker" if node == first else "controller")
            assert cluster.leader() is not None
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            leaders = wait_until_settled(admin)
            for node in NODES:
                if node != first:
                    cluster.kill(node)
                    cluster.start(node)
            wait_until_settled(admin, in_sync=True)
            cluster.frozen(tmp_path / "after")
        finally:
            cluster.close()
        for fields in elections(found, "t*"):
            leader = leaders.get((fields["topic"], fields["partition"]))
            choices = {one["node_id"]: one for one in fields["choices"]}
            if leader not in choices:  # nobody, or one who had not made a directory yet
                continue
            name = f"{fields['topic']}-{fields['partition']}"
            everything = set().union(*(entries(Path(one["path"])) for one in choices.values()))
            for node in choices:
                kept = entries(tmp_path / "after" / f"n{node}" / name)
                place = case.name, name, node, leader
                assert len(everything - kept) == choices[leader]["records_lost"], place
            checked += 1
            lossy += bool(choices[leader]["records_lost"])
        for directory in (found, tmp_path / "after", cluster.directory):
            shutil.rmtree(directory)
    print(f"{checked} partitions led by whoever came up first, {lossy} with losses as said")
    assert lossy


@pytest.mark.parametrize(("dynamic", "left"), [(False, 1), (False, 2), (False, 3), (True, 2)])
def test_lost_quorum_is_restored(tmp_path: Path, dynamic: bool, left: int) -> None:
    """Two of three disks are gone: what is said to be typed makes the third one lead."""
    from confluent_kafka.admin import AdminClient

    cluster = ThreeNodes(tmp_path, VERSION, dynamic=dynamic)
    try:
        cluster.format()
        for node in NODES:
            cluster.start(node)
        assert cluster.leader() is not None
        life = Life(cluster, random.Random(SEED))
        for _ in range(3):
            life.go_on()
        cluster.kill()
        gone = [node for node in NODES if node != left]
        for node in gone:
            shutil.rmtree(cluster.data(node))
        before = entries(cluster.data(left) / METADATA)
        (fields,) = elections(tmp_path, "__cluster_metadata", (left,))
        assert fields["advice"].startswith("Of 3 voters 1 is here")
        assert len(fields["commands"]) == (4 if dynamic else 3)
        anew = gone[0]
        for command in fields["commands"]:
            if command.startswith("kafka-storage.sh format "):
                assert command.endswith(f"controller-{anew}.properties")
                cluster.storage_tool(anew, *command.partition(" --config ")[0].split()[2:])
            else:
                where = {f"METADATA_LOG_DIR_{anew}": str(cluster.data(anew))}
                subprocess.run(command, shell=True, check=True, env=os.environ | where)
        for node in (left, anew):
            cluster.start(node)
        assert cluster.leader() in (left, anew)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        assert {("t0", 0), ("t1", 0), ("t2", 0)} <= wait_until_settled(admin).keys()
        assert before <= entries(cluster.data(anew) / METADATA)
    finally:
        cluster.close()


def wait_until_settled(
    admin: Any, seconds: float = 60, *, in_sync: bool = False
) -> dict[tuple[str, int], int]:
    """Wait until leaders change no more, and all replicas are in sync; give the leaders."""
    before, since, until = {}, time.monotonic(), time.monotonic() + seconds
    behind = in_sync
    while time.monotonic() < until and (behind or time.monotonic() - since < 6):
        time.sleep(0.5)
        try:
            topics = admin.list_topics(timeout=5).topics
        except Exception:
            continue
        partitions = {
            (name, number): one
            for name, topic in topics.items()
            for number, one in topic.partitions.items()
        }
        leaders = {place: one.leader for place, one in partitions.items()}
        behind = in_sync and any(len(one.isrs) < len(NODES) for one in partitions.values())
        if leaders != before:
            before, since = leaders, time.monotonic()
    return before

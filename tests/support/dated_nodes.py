"""Data directories that brokers of ten releases leave, in forty shapes, for `info` to date.

As a program, `python tests/support/dated_nodes.py DIR` makes them all and says how each is dated.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import maven_brokers
from broker_box import Json, program
from node_starts import box
from patience import PATIENCE_SECONDS

_UP = re.compile(r"Kafka Server started|\[?(?:KafkaServer id=|Kafka Server )\d+\]?,? started")
_CLUSTER = "kdumpkdumpkdumpkdumpkA"
_COMMON = """
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=2000000
"""
_ZK = """
broker.id=0
listeners=PLAINTEXT://127.0.0.1:{port}
zookeeper.connect=127.0.0.1:{other}
"""
_KRAFT = """
node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{other}
"""


class Shape(NamedTuple):
    """What a directory went through: releases one after the other, the last of which is true.

    `used`: internal (topics, groups, transactions), few (a topic), or none. `feature`: the level of
    metadata.version that the last release is told to finalize.
    """

    releases: tuple[str, ...]
    used: str = "internal"
    killed: bool = False
    kraft: bool = False
    feature: int | None = None

    @property
    def name(self) -> str:
        words = ["to".join(self.releases), "kraft" if self.kraft else "zk", self.used]
        words += ["killed"] if self.killed else []
        words += [f"level{self.feature}"] if self.feature else []
        return "-".join(words)


_OLD = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.4.1", "2.6.3")
SHAPES = [
    *(Shape((one,)) for one in _OLD),
    *(Shape((one,), killed=True) for one in _OLD),
    *(Shape((one,), "few" if number % 2 else "none") for number, one in enumerate(_OLD)),
    *(Shape(pair) for pair in pairwise(_OLD)),
    Shape(("0.10.2.2",), "few"),
    *(Shape((one,)) for one in ("3.0.2", "3.3.2", "3.6.2", "3.9.1")),
    Shape(("3.0.2",), killed=True),
    Shape(("2.6.3", "3.3.2")),
    *(Shape((one,), kraft=True) for one in ("3.0.2", "3.3.2", "3.6.2", "3.9.1")),
    *(Shape((one,), "few", killed=True, kraft=True) for one in ("3.3.2", "3.6.2", "3.9.1")),
    Shape(("3.3.2", "3.6.2"), kraft=True),
    Shape(("3.3.2", "3.6.2"), kraft=True, feature=11),
    Shape(("3.6.2", "3.9.1"), kraft=True, feature=19),
]


class Node:
    """One broker on one directory, of any release that Maven has."""

    def __init__(self, directory: Path, *, kraft: bool) -> None:
        self.data, self._kraft = directory / "data", kraft
        self._run = directory / "run"
        self._run.mkdir(parents=True)
        self.data.mkdir()
        (self.port, one), (self._other, two) = (box().take_port(None, ()) for _ in range(2))
        self._locks = one, two
        text = (_KRAFT if kraft else _ZK) + _COMMON
        settings = text.format(data=self.data, port=self.port, other=self._other)
        (self._run / "server.properties").write_text(settings)

    @contextmanager
    def running(self, release: str, end: signal.Signals) -> Iterator[None]:
        """Run a release on the directory, and end it by a signal."""
        jvm = {"broker.ttl": 600, "broker.owner": os.getpid(), "kafka.logs.dir": self._run,
               "org.slf4j.simpleLogger.logFile": "System.out",
               "broker.zk.port": self._other, "broker.zk.dir": self._run / "zookeeper",
               "broker.cluster": _CLUSTER, "zookeeper.snapshot.trust.empty": "true",
               "log4j.configuration": f"file:{program().parent}/log4j.properties"}  # fmt: skip
        path = maven_brokers.class_path(release, zookeeper=not self._kraft)
        java = ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *box().OPENS,
                *(f"-D{name}={value}" for name, value in jvm.items()), "-cp", path]  # fmt: skip
        settings = str(self._run / "server.properties")
        if self._kraft and not (self.data / "meta.properties").exists():
            words = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", settings]
            subprocess.run([*java, *words], check=True, capture_output=True)
        said = self._run / f"{release}.log"
        with said.open("w") as log:
            process = subprocess.Popen(
                [*java, "Boot", settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self._run, start_new_session=True,
            )  # fmt: skip
        try:
            until = time.monotonic() + 180
            while not _UP.search(said.read_text("utf-8", "replace")):
                assert process.poll() is None, said.read_text()[-3000:]
                assert time.monotonic() < until, said.read_text()[-3000:]
                time.sleep(0.2)
            yield
        finally:
            process.send_signal(end)
            process.wait(120)

    def ask(self, *operations: Json) -> None:
        """Let a client do operations; all must succeed."""
        place = f"127.0.0.1:{self.port}"
        done = subprocess.run(
            [str(program()), "client", "--bootstrap", place, "--version", "2.8.2",
             *(json.dumps({"timeout": PATIENCE_SECONDS} | one) for one in operations)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(operations), done.stderr
        assert all(one["ok"] for one in answers), answers

    def raise_level(self, level: int) -> None:
        """Finalize a level of metadata.version, as in the last step of a rolling upgrade."""
        words = ["kafka.admin.FeatureCommand", "--bootstrap-server", f"127.0.0.1:{self.port}",
                 "upgrade", "--feature", f"metadata.version={level}"]  # fmt: skip
        path = maven_brokers.class_path("3.3.2")
        done = subprocess.run(["java", "-cp", path, *words], capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr

    def release(self) -> None:
        """Give the ports back."""
        for lock in self._locks:
            lock.close()


def make(shape: Shape, directory: Path) -> Path:
    """Make a directory; return its data directory."""
    node = Node(directory, kraft=shape.kraft)
    try:
        for number, release in enumerate(shape.releases):
            is_last = number == len(shape.releases) - 1
            end = signal.SIGKILL if is_last and shape.killed else signal.SIGTERM
            with node.running(release, end):
                if number == 0:
                    node.ask(*_operations(shape))
                if is_last and shape.feature is not None:
                    node.raise_level(shape.feature)
    finally:
        node.release()
    return node.data


def _operations(shape: Shape) -> list[Json]:
    if shape.used == "none":
        return []
    found: list[Json] = [
        {"op": "create_topic", "topic": "orders", "timeout": 90},
        {"op": "produce", "topic": "orders", "count": 500, "timeout": 90},
    ]
    if shape.used == "internal":
        offsets = [{"topic": "orders", "partition": 0, "offset": 7, "metadata": ""}]
        found.append({"op": "commit_offsets", "group": "g", "offsets": offsets, "timeout": 90})
        if not shape.releases[0].startswith("0.10"):
            found.append({"op": "txn", "topic": "orders", "txn": "a", "count": 5, "end": "commit",
                          "timeout": 90})  # fmt: skip
    return found


if __name__ == "__main__":
    from kdump.replay.directory_releases import date_directories

    for one in SHAPES:
        if (Path(sys.argv[1]) / one.name).exists():
            continue
        data = str(make(one, Path(sys.argv[1]) / one.name))
        print(one.name, "→", date_directories([data])[data].text, flush=True)

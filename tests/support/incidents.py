"""Incidents on three real brokers whose clocks differ, jump, and are shifted by a library.

A script drawn by a seed does what goes wrong in clusters, step by step, and writes down what it did
and when. Nothing in the directories says how the clocks were shifted: files get the times that the
clock of their node had when they were written.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from node_starts import box, class_path

NODES = (1, 2, 3)
HERE = Path(__file__).parent
_SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters={voters}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
log.dirs={directory}
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
num.network.threads=2
num.io.threads=3
background.threads=3
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=3000
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
controller.quorum.fetch.timeout.ms=5000
controller.quorum.election.timeout.ms=1500
replica.lag.time.max.ms=8000
log.retention.ms=-1
log.retention.check.interval.ms=2000
log.initial.task.delay.ms=1000
log.cleaner.dedupe.buffer.size=4000000
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=900000
log.index.size.max.bytes=16384
log.flush.offset.checkpoint.interval.ms=2000
log.flush.start.offset.checkpoint.interval.ms=2000
replica.high.watermark.checkpoint.interval.ms=3000
transaction.max.timeout.ms=3600000
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
"""


class Step(NamedTuple):
    """What was done, from when to when; `shows` are the events that it should leave."""

    kind: str
    subject: str
    from_ms: int
    to_ms: int
    shows: tuple[tuple[str, str], ...]
    node: int | None = None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Clock:
    """The clock of a node: by how much it is ahead, and since when."""

    def __init__(self, path: Path, ahead_ms: int) -> None:
        self._path = path
        self.since: list[tuple[int, int]] = []
        self.set(ahead_ms)

    def set(self, ahead_ms: int) -> None:
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(ahead_ms.to_bytes(8, "little", signed=True))
        self.since.append((now_ms() if self.since else 0, ahead_ms))

    def ahead(self, true_ms: int) -> int:
        return [ahead for since, ahead in self.since if since <= true_ms][-1]


class Cluster:
    """Three nodes, each broker and controller, in a directory."""

    def __init__(self, directory: Path, version: str, ahead_ms: tuple[int, ...]) -> None:
        self.directory = directory
        self.version = version
        self.path = class_path(version)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        taken = [box().take_port(None, ()) for _ in range(6)]
        self._locks = [lock for _, lock in taken]
        self._ports = [port for port, _ in taken]
        self.clocks = {
            node: Clock(directory / f"clock-{node}", ahead)
            for node, ahead in zip(NODES, ahead_ms, strict=True)
        }
        self._shim = directory / "shifted_clock.so"
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", "-o", self._shim, HERE / "shifted_clock.c", "-ldl"],
            check=True,
        )
        voters = ",".join(f"{node}@127.0.0.1:{self._ports[node + 2]}" for node in NODES)
        for node in NODES:
            text = _SETTINGS.format(
                node=node, voters=voters, directory=self.data(node),
                broker=self._ports[node - 1], controller=self._ports[node + 2],
            )  # fmt: skip
            self._settings(node).write_text(text)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports[:3])

    def data(self, node: int) -> Path:
        return self.directory / f"node-{node}"

    def _settings(self, node: int) -> Path:
        return self.directory / f"node-{node}.properties"

    def java(self, *words: str, node: int | None = None) -> list[str]:
        logger = "-Dorg.slf4j.simpleLogger."
        return [
            "java", "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            f"{logger}logFile=System.out", f"{logger}showDateTime=true",
            f"-Dkafka.logs.dir={self.directory}", "-cp", self.path, *words,
            *([] if node is None else [str(self._settings(node))]),
        ]  # fmt: skip

    def _environment(self, node: int) -> dict[str, str]:
        clock = str(self.directory / f"clock-{node}")
        return {**os.environ, "LD_PRELOAD": str(self._shim), "CLOCK_AHEAD": clock}

    def format(self, node: int) -> None:
        command = self.java(
            "kafka.tools.StorageTool", "format", "-t", "incidentOfThreeNodesAA", "-c"
        )
        subprocess.run(
            [*command, str(self._settings(node))], env=self._environment(node), check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self, node: int) -> None:
        with (self.directory / f"node-{node}.log").open("ab") as log:
            self.running[node] = subprocess.Popen(
                self.java("kafka.Kafka", node=node), env=self._environment(node), stdout=log,
                stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def end(self, node: int, how: signal.Signals) -> None:
        process = self.running.pop(node)
        process.send_signal(how)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        for node in tuple(self.running):
            self.end(node, signal.SIGKILL)
        for lock in self._locks:
            lock.close()

    def shift_files(self) -> None:
        """Give files the times that the clocks of their nodes had, to the nanosecond."""
        for node in NODES:
            for path in sorted(self.data(node).rglob("*"), reverse=True):
                modified = path.stat().st_mtime_ns
                modified += self.clocks[node].ahead(modified // 1_000_000) * 1_000_000
                os.utime(path, ns=(modified, modified))


class Incident:
    """A script of steps, drawn by a seed."""

    def __init__(self, directory: Path, seed: int, version: str, ahead: tuple[int, ...]) -> None:
        from confluent_kafka.admin import AdminClient

        directory.mkdir(parents=True)
        self.draw = random.Random(seed)
        self.cluster = Cluster(directory, version, ahead)
        self.steps: list[Step] = []
        self.consumers: dict[tuple[str, str], Any] = {}
        self.producers: dict[str, Any] = {}
        self.admin: Any = AdminClient(self._client("admin"))
        self.topics: dict[str, int] = {}
        self.skews = (0, self.draw.randrange(-9000, 9000), self.draw.choice((-7, 40)) * 86_400_000)
        self.replicas = {"ledger": [1, 2]}

    def _client(self, name: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap, "client.id": name, "log_level": 0,
            "topic.metadata.refresh.interval.ms": 2000, "logger": _SILENT, **more,
        }  # fmt: skip

    def step(
        self, kind: str, subject: str, do: Callable[[], object], *shows: tuple[str, str],
        node: int | None = None,
    ) -> None:  # fmt: skip
        """Do something; what fails is left out of the story."""
        from_ms = now_ms()
        try:
            do()
        except Exception as error:
            print(f"  {kind} {subject}: {type(error).__name__}: {str(error)[:150]}", flush=True)
            return
        self.steps.append(Step(kind, subject, from_ms, now_ms(), shows, node))
        time.sleep(self.draw.choice((0.15, 0.3, 0.6)))

    # What can be done.

    def begin(self) -> None:
        for node in NODES:
            self.cluster.format(node)
        for node in NODES:
            shows = ("start-clean", str(node))
            self.step("start", str(node), lambda n=node: self.cluster.start(n), shows, node=node)
        self.wait(set(NODES))
        small = "internal.segment.bytes" if self.cluster.version >= "4.1" else "segment.bytes"
        compact = {"cleanup.policy": "compact", small: "9000", "min.cleanable.dirty.ratio": "0.01",
                   "segment.ms": "20000"}  # fmt: skip
        self.create("orders", 3, {small: "30000"})
        self.create("clicks", 2, {"message.timestamp.type": "LogAppendTime", "segment.ms": "9000"})
        self.create("stock", 1, compact)
        self.create("audit", 1, {small: "8000", "file.delete.delay.ms": "1000"})
        self.create("ledger", 1, {}, [[1, 2]])
        self.create("payments", 2, {})
        self.create("temp", 1, {})

    def wait(self, alive: set[int], seconds: float = 90) -> None:
        """Wait until these brokers are registered and a controller answers."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                cluster = self.admin.list_topics(timeout=5)
            except Exception:
                continue
            if set(cluster.brokers) == alive:
                time.sleep(1.5)
                return
            time.sleep(0.5)
        raise TimeoutError(f"brokers {alive} do not answer")

    def create(
        self, topic: str, partitions: int, config: dict[str, str],
        assignment: list[list[int]] | None = None,
    ) -> None:  # fmt: skip
        from confluent_kafka.admin import NewTopic

        more: dict[str, Any] = (
            {"replication_factor": 3} if assignment is None else {"replica_assignment": assignment}
        )
        new = NewTopic(topic, partitions, config=config, **more)
        self.step(
            "topic-create", topic, lambda: self.admin.create_topics([new])[topic].result(40),
            ("topic-create", topic), *((("config", topic),) if config else ()),
        )  # fmt: skip
        self.topics[topic] = partitions

    def produce(self, topic: str | None = None, count: int | None = None) -> None:
        from confluent_kafka import Producer

        topic = topic or self.draw.choice([*self.topics])
        count = count or self.draw.randrange(5, 200)
        skew = self.draw.choice(self.skews)
        producer = Producer(self._client("plain", **{"linger.ms": 1, "message.timeout.ms": 20000}))
        for number in range(count):
            key = b"k%d" % self.draw.randrange(7)
            producer.produce(
                topic, key=key, value=self.draw.randbytes(self.draw.randrange(20, 90)).hex(),
                timestamp=now_ms() + skew, partition=self.draw.randrange(self.topics[topic]),
            )  # fmt: skip
            if number % 40 == 39:
                producer.flush(20)
        producer.flush(20)

    def config(self) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        topic = self.draw.choice(["orders", "payments", "temp"])
        resource = ConfigResource("TOPIC", topic)
        value = str(self.draw.randrange(10**9, 10**10))
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        self.step(
            "config", topic,
            lambda: self.admin.incremental_alter_configs([resource])[resource].result(40),
            ("config", topic),
        )  # fmt: skip

    def acl(self) -> None:
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            ResourcePatternType,
            ResourceType,
        )

        user = f"User:u{self.draw.randrange(1000)}"
        acl = AclBinding(
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, user, "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        self.step("acl", user, lambda: self.admin.create_acls([acl])[acl].result(40), ("acl", user))

    def ask(self, *words: str) -> None:
        """Ask by the Java client."""
        source = str(HERE / "ClusterAdmin.java")
        command = self.cluster.java(source, self.cluster.bootstrap, *words)
        subprocess.run(
            command, check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def quota(self) -> None:
        client = f"client-{self.draw.randrange(100)}"
        rate = str(self.draw.randrange(10**6, 10**7))
        self.step("quota", client, lambda: self.ask("quota", client, rate), ("quota", client))

    def reassign(self) -> None:
        old = self.replicas["ledger"]
        new = [node for node in NODES if node not in old] + [self.draw.choice(old)]
        self.step(
            "reassign", "ledger-0",
            lambda: self.ask("reassign", "ledger", "0", ",".join(map(str, new))),
            ("reassign", "ledger-0"),
        )  # fmt: skip
        self.replicas["ledger"] = new

    def recreate(self) -> None:
        topic = "temp"
        self.step(
            "topic-delete", topic, lambda: self.admin.delete_topics([topic])[topic].result(40),
            ("topic-delete", topic),
        )  # fmt: skip
        time.sleep(1)
        self.create(topic, self.draw.randrange(1, 3), {})

    def delete_records(self) -> None:
        from confluent_kafka import TopicPartition

        partition = TopicPartition("orders", self.draw.randrange(3), self.draw.randrange(3, 12))
        self.step(
            "delete-records", f"orders-{partition.partition}",
            lambda: self.admin.delete_records([partition])[partition].result(40),
        )  # fmt: skip

    def retain(self) -> None:
        """Let retention take the oldest segments of a topic."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        self.produce("audit", 200)
        for value, change in (("1000", AlterConfigOpType.SET), (None, AlterConfigOpType.DELETE)):
            resource = ConfigResource("TOPIC", "audit")
            entry = ConfigEntry("retention.ms", value, incremental_operation=change)
            resource.add_incremental_config(entry)
            self.step(
                "config", "audit",
                lambda r=resource: self.admin.incremental_alter_configs([r])[r].result(40),
                ("config", "audit"),
            )  # fmt: skip
            time.sleep(4)

    def compact(self) -> None:
        self.produce("stock", 500)
        time.sleep(3)

    # Groups.

    def _poll(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for consumer in [*self.consumers.values()]:
                consumer.poll(0.05)

    def join(self) -> None:
        from confluent_kafka import Consumer

        group = self.draw.choice(["billing", "dashboard"])
        member = f"m{self.draw.randrange(1000)}"
        more: dict[str, Any] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
        if group == "dashboard" and self.cluster.version >= "4":
            more = {"group.protocol": "consumer"}
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}

        def do() -> None:
            consumer = Consumer(self._client(member, **settings, **more))
            consumer.subscribe(["orders"])
            self.consumers[group, member] = consumer
            until = time.monotonic() + 15
            while time.monotonic() < until and not consumer.assignment():
                self._poll(0.2)
            self._poll(1)
            if not consumer.assignment():
                raise TimeoutError("no assignment")

        self.step("member-join", group, do, ("rebalance|member", group))

    def leave(self) -> None:
        if not self.consumers:
            return
        of = self.draw.choice([*self.consumers])

        def do() -> None:
            self.consumers.pop(of).close()
            self._poll(2)

        self.step("member-leave", of[0], do, ("rebalance|member|group-empty", of[0]))

    def commit(self) -> None:
        from confluent_kafka import TopicPartition

        group = self.draw.choice(["loader", "exporter"])
        partition = TopicPartition("orders", self.draw.randrange(3), self.draw.randrange(60))
        self._offsets(group, partition)

    def _offsets(self, group: str, partition: Any) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = ConsumerGroupTopicPartitions(group, [partition])
        self.step(
            "commit", group,
            lambda: self.admin.alter_consumer_group_offsets([asked])[group].result(40),
            ("commit|commit-back", group),
        )  # fmt: skip

    def remove_group(self) -> None:
        group = self.draw.choice(["loader", "exporter"])
        self.step(
            "group-delete", group,
            lambda: self.admin.delete_consumer_groups([group])[group].result(40),
        )  # fmt: skip

    # Transactions.

    def transaction(self, end: str | None = None) -> None:
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        name = self.draw.choice(["settle", "refund", "transfer"])
        end = end or self.draw.choice(["commit", "commit", "abort", "fence", "expire"])
        timeout = 6000 if end == "expire" else 900_000
        settings = {"transactional.id": name, "transaction.timeout.ms": timeout}
        shows = {"commit": "transaction-commit", "open": "transaction-begin"}
        ends = shows.get(end, "transaction-abort")
        offsets = self.draw.random() < 0.3

        def do() -> None:
            producer = Producer(self._client(name, **settings))
            producer.init_transactions(40)
            producer.begin_transaction()
            for partition in self.draw.sample((0, 1), self.draw.randrange(1, 3)):
                producer.produce("payments", b"x" * 30, partition=partition)
            if self.draw.random() < 0.5:
                producer.produce("clicks", b"y", partition=0)
            producer.flush(20)
            if offsets and end != "expire":
                reader = Consumer(self._client("reader", **{"group.id": "reader"}))
                where = [TopicPartition("orders", 0, self.draw.randrange(50))]
                producer.send_offsets_to_transaction(where, reader.consumer_group_metadata(), 20)
                reader.close()
            if end == "commit":
                producer.commit_transaction(40)
            elif end == "abort":
                producer.abort_transaction(40)
            elif end == "expire":
                time.sleep(10)
            elif end == "fence":
                Producer(self._client(name, **settings)).init_transactions(40)
                try:
                    producer.commit_transaction(10)
                except KafkaException as error:
                    if "fenced" not in str(error).lower():
                        raise
            self.producers[name] = producer

        self.step(f"transaction-{end}", name, do, (ends, name))
        time.sleep(0.5)

    # Nodes and clocks.

    def stop(self, node: int) -> None:
        alive = {*self.cluster.running} - {node}
        self.step(
            "stop", str(node), lambda: self.cluster.end(node, signal.SIGTERM),
            ("stop", str(node)), node=node,
        )  # fmt: skip
        self.wait(alive)

    def kill(self, node: int) -> None:
        alive = {*self.cluster.running} - {node}

        def do() -> None:
            self.cluster.end(node, signal.SIGKILL)
            self.wait(alive)
            time.sleep(7)

        self.step("kill", str(node), do, ("stop", str(node)), node=node)

    def start(self, node: int) -> None:
        # One that is let go at once, since it leads nothing, leaves the trace of one that was lost.
        word = "start-unclean" if self.was_killed(node) else "start-clean|start-unclean"

        def do() -> None:
            self.cluster.start(node)
            self.wait({*self.cluster.running})

        self.step("start", str(node), do, (word, str(node)), node=node)
        time.sleep(3)

    def was_killed(self, node: int) -> bool:
        ends = [one.kind for one in self.steps if one.node == node and one.kind in ("stop", "kill")]
        return bool(ends) and ends[-1] == "kill"

    def down_and_up(self, how: str = "") -> None:
        node = self.draw.choice(NODES)
        (self.kill if (how or self.draw.choice(("kill", "stop"))) == "kill" else self.stop)(node)
        for _ in range(self.draw.randrange(1, 4)):
            self.some()
        self.start(node)

    def unclean(self) -> None:
        """Lose the replica that has all, and elect one that lacks some."""
        from confluent_kafka import ElectionType, TopicPartition

        first, second = self.replicas["ledger"][:2]
        self.kill(second)
        self.produce("ledger", 20)
        alive = {*self.cluster.running} - {first}
        quorum = len(alive) >= 2
        if quorum:
            self.kill(first)
        else:
            self.step("kill", str(first), lambda: self.cluster.end(first, signal.SIGKILL),
                      ("stop", str(first)), node=first)  # fmt: skip
        self.start(second)
        time.sleep(6)
        of = TopicPartition("ledger", 0)
        self.step(
            "elect-unclean", "ledger",
            lambda: self.admin.elect_leaders(ElectionType.UNCLEAN, [of]).result(40),
            ("leader", "ledger-0"),
        )  # fmt: skip
        self.produce("ledger", 5)
        self.start(first)

    def failover(self) -> None:
        """Stop the node that leads the metadata quorum, as its clients see it."""
        node = self.admin.describe_cluster().result(20).controller.id
        self.kill(node)
        self.start(node)

    def elect(self) -> None:
        from confluent_kafka import ElectionType, TopicPartition

        of = [TopicPartition("orders", partition) for partition in range(3)]
        self.step(
            "elect-preferred", "orders",
            lambda: self.admin.elect_leaders(ElectionType.PREFERRED, of).result(40),
        )  # fmt: skip

    def jump(self, node: int, ahead_ms: int) -> None:
        clock = self.cluster.clocks[node]
        self.step("clock", str(node), lambda: clock.set(ahead_ms), node=node)
        time.sleep(1)

    def some(self) -> None:
        """Do one of the small things."""
        self.draw.choice(
            (self.produce, self.produce, self.config, self.acl, self.commit, self.commit, self.join,
             self.leave, self.transaction, self.transaction, self.transaction, self.delete_records,
             self.elect)
        )()  # fmt: skip

    def end(self) -> None:
        """Take the cluster down, and write down what happened."""
        for consumer in self.consumers.values():
            consumer.close()
        self.produce("clicks", 10)
        time.sleep(3)
        order = self.draw.sample(NODES, 3)
        self.stop(order[0])
        if self.draw.random() < 0.5:
            self.stop(order[1])
        self.cluster.close()
        self.cluster.shift_files()
        story = {
            "version": self.cluster.version,
            "clocks": {node: clock.since for node, clock in self.cluster.clocks.items()},
            "steps": [step._asdict() for step in self.steps],
        }
        (self.cluster.directory / "story.json").write_text(json.dumps(story, indent=1))


class _Silent:
    """Takes what the clients log."""

    def log(self, *_: object, **__: object) -> None:
        pass

    def isEnabledFor(self, _: int) -> bool:
        return False


_SILENT = _Silent()
_S, _MIN, _H, _DAY = 1000, 60_000, 3_600_000, 86_400_000
#: Release, how far the clocks are ahead, what happens besides, and the clocks that jump: node, ms.
PLANS: tuple[
    tuple[str, tuple[int, int, int], tuple[str, ...], tuple[tuple[int, int], ...]], ...
] = (
    ("4.4.0", (0, -3 * _MIN, 2 * _H), ("failover", "recreate", "unclean", "reassign"), ()),
    ("4.4.0", (5 * _DAY, 250, -350), ("unclean", "retain", "down_and_up", "quota"), ()),
    ("4.1.1", (-20 * _S, 0, 40 * _S), ("compact", "failover", "down_and_up", "reassign"), ()),
    ("3.9.1", (90 * _MIN, -4 * _H, 7), ("recreate", "retain", "unclean", "down_and_up"), ()),
    ("4.4.0", (-3 * _S, 3 * _S, -700), ("failover", "failover", "compact", "reassign"), ()),
    ("3.7.2", (-8 * _DAY, -8 * _DAY + 900, 0), ("down_and_up", "recreate", "reassign"), ()),
    ("4.4.0", (1, -2, 3), ("unclean", "remove_group", "down_and_up", "retain", "quota"), ()),
    ("4.4.0", (0, 0, 10 * _MIN), ("down_and_up", "failover", "reassign"), ((2, 30 * _MIN),)),
    ("4.1.1", (_MIN, -_MIN, 0), ("recreate", "down_and_up", "retain"), ((3, -45 * _MIN),)),
    ("4.4.0", (-_H, 20 * _S, 0), ("failover", "compact"), ((1, 2 * _H), (1, -_H))),
)


def make(directory: Path, number: int) -> None:
    """Live through an incident; afterwards `directory` has the nodes' directories and the story."""
    version, ahead, happens, jumps = PLANS[number]
    incident = Incident(directory, number, version, ahead)
    try:
        incident.begin()
        for topic in ("orders", "clicks", "audit", "payments", "ledger"):
            incident.produce(topic, 60)
        for end in ("commit", "abort", "commit"):
            incident.transaction(end)
        coming = list(jumps)
        todo = incident.draw.sample(happens, len(happens))
        for number in range(len(jumps)):
            todo.insert(2 * number + 1, "jump")
        for word in todo:
            for _ in range(incident.draw.randrange(4, 8)):
                incident.some()
            if word == "jump":
                incident.jump(*coming.pop(0))
                for end in ("commit", "abort", "commit", "abort", "commit"):
                    incident.transaction(end)
                incident.produce("clicks", 30)
            else:
                getattr(incident, word)()
        incident.transaction("open")
        incident.end()
    finally:
        incident.cluster.close()

"""A topic is deleted by mistake on a running broker, and brought back by what kdump prints.

First hard links, then the topic again with its settings, then its records and the offsets of its
groups: every command is one that a run printed, typed into a shell, all within the minute that a
broker leaves. One broker of a release sees all its incidents, each with a topic of its own. In some
kdump is killed while it produces; of every second topic on 2.8.2 the files of ZooKeeper tell what
it was like. KDUMP_FUZZ=long does it ten times on each of two releases (KDUMP_INCIDENTS says
otherwise), and goes on once after the broker has deleted the directories. Needs `broker/` of
KDUMP_SHARED and the extra `produce`.
"""

import json
import os
import random
import resource
import shlex
import subprocess
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker, Json, program
from kafka_tools import tools_on_path
from long_runs import LONG
from patience import PATIENCE_SECONDS

pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'kdump[produce]'")
pytestmark = pytest.mark.broker

INCIDENTS = int(os.environ.get("KDUMP_INCIDENTS", "10" if LONG else "1"))
PARTITIONS = 3
GROUPS = ("billing", "a group, with 'quotes'", "audit")
DAY_MS = 86_400_000


class Site:
    """A running broker, a client that stays connected, and a shell with Kafka's tools."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self.broker = Broker(folder / "it's data", version)
        self.environment = {
            **tools_on_path(folder / "bin", version),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.broker.start()
        port = json.loads(self.broker.run("status").stdout)["port"]
        self.address = f"127.0.0.1:{port}"
        command = [str(program()), "client", "--dir", str(self.broker.directory)]
        self._client = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *operations: Json) -> list[Json]:
        """Let the client do operations."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        answers = []
        for one in operations:
            self._client.stdin.write(json.dumps({"timeout": 120, **one}) + "\n")
            self._client.stdin.flush()
            answers.append(json.loads(self._client.stdout.readline()))
        assert all(answer["ok"] for answer in answers), answers
        return answers

    def close(self) -> None:
        self._client.communicate()
        self.broker.run("kill")


class Incident:
    """A topic of many kinds of batches, which somebody deletes."""

    def __init__(self, site: Site, seed: int) -> None:
        self.rng = random.Random(f"{site.version} {seed}")
        self.site, self.seed = site, seed
        self.topic = f"orders-{seed}"
        self.settings = {
            "retention.ms": str(self.rng.choice((-1, 7 * DAY_MS, 30 * DAY_MS))),
            "min.insync.replicas": "1",
            "max.message.bytes": "2000000",
        }
        if self.rng.random() < 0.5:
            self.settings["retention.bytes"] = "50000000"
        self.fill()
        self.expected, self.offsets = self.found()
        assert [len(offsets) for offsets in self.offsets.values()] == [PARTITIONS] * len(GROUPS)

    def fill(self) -> None:
        rng = self.rng
        operations: list[Json] = [
            {"op": "create_topic", "topic": self.topic, "partitions": PARTITIONS,
             "segmentBytes": 200_000, "configs": self.settings},
            {"op": "create_topic", "topic": f"kept-{self.seed}"},
        ]  # fmt: skip
        began = int(time.time() * 1000) - rng.choice((1000, DAY_MS, 20 * DAY_MS))
        for partition in range(PARTITIONS):
            for number in range(rng.randrange(1, 5)):
                common = {"topic": self.topic, "partition": partition}
                operations.append({
                    "op": "produce", **common, "count": rng.randrange(100, 2000),
                    "batch": rng.choice((5, 50, 400)), "valueSize": [0, 300], "seed": number,
                    "codec": rng.choice(("none", "gzip", "lz4")), "headers": rng.choice((0, 2)),
                    "timestamps": [began, rng.choice((0, 1))],
                })  # fmt: skip
                end = rng.choice(("abort", "commit"))
                operations.append({"op": "txn", **common, "txn": "a", "count": 20, "end": end})
        operations += [
            {"op": "commit_offsets", "group": group, "offsets": [
                {"topic": self.topic, "partition": partition, "offset": rng.randrange(0, 120)}
                for partition in range(PARTITIONS)] + [
                {"topic": f"kept-{self.seed}", "partition": 0, "offset": 0}]}
            for group in GROUPS
        ]  # fmt: skip
        self.site.ask(*operations)

    def found(self) -> tuple[list[list[Any]], dict[str, dict[int, int]]]:
        """Ask for the records of each partition, and the offsets of each group in the topic."""
        asked: list[Json] = [
            {"op": "consume", "topic": self.topic, "partition": partition, "from": 0,
             "records": 1_000_000, "isolation": "read_committed"}
            for partition in range(PARTITIONS)
        ]  # fmt: skip
        *consumed, groups = self.site.ask(*asked, {"op": "describe_groups", "groups": list(GROUPS)})
        offsets = {
            one["group"]: {
                at["partition"]: at["offset"] for at in one["offsets"] if at["topic"] == self.topic
            }
            for one in groups["groups"]
        }
        return [answer["records"] for answer in consumed], offsets

    def typed(self, command: str) -> tuple[int, list[Json], str]:
        """Type a command; give its status, the rows that it wrote and what else it said."""
        done = subprocess.run(
            ["bash", "-c", command], env=self.site.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"row"')]
        return done.returncode, list(map(json.loads, lines)), done.stdout + done.stderr

    @property
    def is_known(self) -> bool:
        """Whether anything among the paths tells the settings of the topic."""
        return self.site.version == "4.4.0" or self.seed % 2 == 1

    def command(self) -> str:
        words = ["kdump", "produce", "--bootstrap-server", self.site.address, "--apply-groups"]
        words += ["--topic", self.topic, str(self.site.broker.directory)]
        if self.site.version == "2.8.2" and self.is_known:
            words.append(f"{self.site.broker.directory}.broker/zookeeper")
        return shlex.join(words)

    def renamed(self) -> list[Path]:
        return list(self.site.broker.directory.glob(f"{self.topic}-*-delete"))

    def killed(self, command: str) -> None:
        """Kill a command once it has begun to send."""
        slow = command.replace("kdump produce", "exec kdump produce --rate 200KiB", 1)
        state = Path(shlex.split(command)[3])
        none = subprocess.DEVNULL
        with subprocess.Popen(
            ["bash", "-c", slow], env=self.site.environment, stdout=none, stderr=none
        ) as running:
            until = time.monotonic() + PATIENCE_SECONDS
            while running.poll() is None:
                if state.exists() and '"start"' in state.read_text():
                    break
                assert time.monotonic() < until
                time.sleep(0.02)
            running.kill()

    def assert_back(self) -> None:
        found, offsets = self.found()
        for partition, expected in enumerate(self.expected):
            assert list(map(bare, found[partition])) == list(map(bare, expected)), partition
            assert [one["offset"] for one in found[partition]] == list(range(len(expected)))
        translated = {
            group: {
                partition: bisect_left([one["offset"] for one in self.expected[partition]], offset)
                for partition, offset in committed.items()
            }
            for group, committed in self.offsets.items()
        }
        assert offsets == translated

    def assert_settings(self) -> None:
        from confluent_kafka.admin import AdminClient, ConfigResource

        asked = ConfigResource("TOPIC", self.topic)
        admin = AdminClient({"bootstrap.servers": self.site.address})
        found = admin.describe_configs([asked])[asked].result()
        for name, value in self.settings.items():
            assert found[name].value == value, name


def bare(record: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in record.items() if name not in ("offset", "leaderEpoch")}


@pytest.fixture(scope="module", params=["4.4.0", "2.8.2"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> (
    Iterator[Site]
):  # fmt: skip
    found = Site(tmp_path_factory.mktemp("site"), request.param)
    yield found
    found.close()


def children_seconds() -> float:
    """Processor seconds of the processes that have ended: kdump's and those of Kafka's tools."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("seed", range(INCIDENTS))
def test_deleted_topic_is_restored(site: Site, seed: int) -> None:
    incident = Incident(site, seed)
    site.ask({"op": "delete_topic", "topic": incident.topic})
    began = children_seconds()
    until = time.monotonic() + PATIENCE_SECONDS
    while len(incident.renamed()) < PARTITIONS:
        assert time.monotonic() < until
        time.sleep(0.05)
    status, rows, told = incident.typed(incident.command())
    assert status == 5, told
    steps = [row["step"] for row in rows]
    assert steps == ["keep", "create-topic", "same-command"], told
    for row in rows[:-1]:
        status, _, told = incident.typed(row["command"])
        assert status == 0, told
    if is_killed := seed % 3 == 1:
        incident.killed(rows[-1]["command"])
    same = rows[-1]["command"]
    status, rows, told = incident.typed(same)
    assert status == 0, told
    took = children_seconds() - began
    produced = [row["produced"] for row in rows if row["row"] == "salvaged"]
    assert [one["missing_count"] for one in produced] == [0] * PARTITIONS
    (summary,) = (row for row in rows if row["row"] == "group-offsets")
    assert (summary["applied_count"], summary["not_applied_count"]) == (9, 0), summary
    assert summary["as_of"] == "deletion"
    incident.assert_back()
    for row in rows:
        if row["row"] == "salvage-step":
            status, _, told = incident.typed(row["command"])
            assert status == 0, told
    if incident.is_known:
        incident.assert_settings()
    assert took < 20
    print(f"{site.version}: {took:.1f} s of the processor{', killed' if is_killed else ''}")
    if LONG and seed == INCIDENTS - 1:  # the broker has deleted its names for the files by then
        until = time.monotonic() + PATIENCE_SECONDS
        while incident.renamed():
            assert time.monotonic() < until
            time.sleep(0.5)
    status, rows, told = incident.typed(same)
    assert status == 0, told
    incident.assert_back()

"""A topic is deleted by mistake on a running broker, and brought back by what kdump prints.

First hard links, then the topic again with its settings, then its records and the offsets of its
groups: every command is one that a run printed, typed into a shell, all within the minute that a
broker leaves. KDUMP_FUZZ=long does it ten times on each of two releases (KDUMP_INCIDENTS says
otherwise). Needs `broker/` of KDUMP_SHARED and the extra `produce`.
"""

import json
import os
import random
import shlex
import subprocess
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker, Json
from kafka_tools import tools_on_path

pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'kdump[produce]'")
pytestmark = pytest.mark.broker

_LONG = os.environ.get("KDUMP_FUZZ") == "long"
INCIDENTS = int(os.environ.get("KDUMP_INCIDENTS", "10" if _LONG else "1"))
TOPIC, PARTITIONS = "orders", 3
GROUPS = ("billing", "a group, with 'quotes'", "audit")
DAY_MS = 86_400_000


class Incident:
    """A broker with a topic of many kinds of batches, which somebody deletes."""

    def __init__(self, folder: Path, version: str, seed: int) -> None:
        self.rng = random.Random(f"{version} {seed}")
        self.version = version
        self.broker = Broker(folder / "it's data", version)
        self.environment = {
            **tools_on_path(folder / "bin", version),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.broker.start()
        self.settings = {
            "retention.ms": str(self.rng.choice((-1, 7 * DAY_MS, 30 * DAY_MS))),
            "min.insync.replicas": "1",
            "max.message.bytes": "2000000",
        }
        if self.rng.random() < 0.5:
            self.settings["retention.bytes"] = "50000000"
        self.fill()
        self.expected = self.records()
        self.offsets = self.committed()
        assert set(self.offsets) == set(GROUPS)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{json.loads(self.broker.run('status').stdout)['port']}"

    def ask(self, *operations: Json) -> list[Json]:
        answers = self.broker.ask(*operations)
        assert all(answer["ok"] for answer in answers), answers
        return answers

    def fill(self) -> None:
        rng = self.rng
        operations: list[Json] = [
            {"op": "create_topic", "topic": TOPIC, "partitions": PARTITIONS,
             "segmentBytes": 200_000, "configs": self.settings},
            {"op": "create_topic", "topic": "kept"},
        ]  # fmt: skip
        began = int(time.time() * 1000) - rng.choice((1000, DAY_MS, 20 * DAY_MS))
        for partition in range(PARTITIONS):
            for number in range(rng.randrange(1, 5)):
                common = {"topic": TOPIC, "partition": partition}
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
                {"topic": TOPIC, "partition": partition, "offset": rng.randrange(0, 120)}
                for partition in range(PARTITIONS)] + [
                {"topic": "kept", "partition": 0, "offset": 0}]}
            for group in GROUPS
        ]  # fmt: skip
        self.ask(*operations)

    def records(self) -> list[list[Any]]:
        asked = [
            {"op": "consume", "topic": TOPIC, "partition": partition, "from": 0,
             "records": 1_000_000, "isolation": "read_committed"}
            for partition in range(PARTITIONS)
        ]  # fmt: skip
        return [answer["records"] for answer in self.ask(*asked)]

    def committed(self) -> dict[str, dict[int, int]]:
        (answer,) = self.ask({"op": "describe_groups", "groups": list(GROUPS)})
        found = {
            one["group"]: {
                at["partition"]: at["offset"] for at in one["offsets"] if at["topic"] == TOPIC
            }
            for one in answer["groups"]
        }
        return {group: offsets for group, offsets in found.items() if offsets}

    def typed(self, command: str) -> tuple[int, list[Json], str]:
        """Type a command; give its status, the rows that it wrote and what else it said."""
        done = subprocess.run(
            ["bash", "-c", command], env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"row"')]
        return done.returncode, list(map(json.loads, lines)), done.stdout + done.stderr

    def command(self) -> str:
        words = ("kdump", "salvage", "--produce", self.address, "--apply-groups")
        return shlex.join((*words, "--topic", TOPIC, str(self.broker.directory)))

    def assert_back(self) -> None:
        found = self.records()
        for partition, expected in enumerate(self.expected):
            assert list(map(bare, found[partition])) == list(map(bare, expected)), partition
            assert [one["offset"] for one in found[partition]] == list(range(len(expected)))
        translated = {
            group: {
                partition: bisect_left([one["offset"] for one in self.expected[partition]], offset)
                for partition, offset in offsets.items()
            }
            for group, offsets in self.offsets.items()
        }
        assert self.committed() == translated

    def assert_settings(self) -> None:
        from confluent_kafka.admin import AdminClient, ConfigResource

        asked = ConfigResource("TOPIC", TOPIC)
        admin = AdminClient({"bootstrap.servers": self.address})
        found = admin.describe_configs([asked])[asked].result()
        for name, value in self.settings.items():
            assert found[name].value == value, name


def bare(record: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in record.items() if name not in ("offset", "leaderEpoch")}


@pytest.mark.parametrize("seed", range(INCIDENTS))
@pytest.mark.parametrize("version", ["4.4.0", "2.8.2"])
def test_a_deleted_topic_comes_back(version: str, seed: int, tmp_path: Path) -> None:
    incident = Incident(tmp_path, version, seed)
    try:
        bring_back(incident)
    finally:
        incident.broker.run("kill")


def bring_back(incident: Incident) -> None:
    incident.ask({"op": "delete_topic", "topic": TOPIC})
    began = time.monotonic()
    until = began + 30
    while not list(incident.broker.directory.glob("*-delete")):
        assert time.monotonic() < until
        time.sleep(0.05)
    status, rows, told = incident.typed(incident.command())
    assert status == 5, told
    steps = [row["step"] for row in rows]
    assert steps == ["keep", "create-topic", "same-command"], told
    for row in rows[:-1]:
        status, _, told = incident.typed(row["command"])
        assert status == 0, told
    status, rows, told = incident.typed(rows[-1]["command"])
    assert status == 0, told
    took = time.monotonic() - began
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
    if incident.version == "4.4.0":  # of 2.8.2 ZooKeeper alone knew them
        incident.assert_settings()
    assert took < 60
    print(f"{incident.version}: {took:.1f} s")
    status, rows, told = incident.typed(incident.command() + " --dry-run")
    assert status == 0, told

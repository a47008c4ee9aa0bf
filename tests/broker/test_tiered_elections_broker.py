"""Unclean elections on tiered topics: three real nodes, and kdump's answers beside the new leaders.

What the old leader alone had was copied to remote storage, and is of no log any more.
KDUMP_FUZZ=long. Needs `broker/` of KDUMP_SHARED.
"""

import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from broker_box import Json, program
from long_runs import LONG, SEED
from three_nodes import NODES, ThreeNodes
from tiered_live import T0, Ask, compare

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.findings.finding import Finding
from kdump.rows.verify import RemoteSegmentRow
from kdump.rows.why import RemoteFate

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not LONG, reason="minutes of three real nodes: KDUMP_FUZZ=long"),
]
VERSION = os.environ.get("KDUMP_BROKER", "4.4.0")
TOPICS = [f"split{number}" for number in range(6)]


def ask_of(cluster: ThreeNodes) -> Ask:
    def ask(*operations: Json) -> list[Json]:
        lines = [json.dumps(one | {"timeout": 120}) for one in operations]
        words = [
            program(),
            "client",
            "--bootstrap",
            cluster.bootstrap,
            "--version",
            VERSION,
            *lines,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(operations), done.stderr
        assert all(one["ok"] for one in answers), answers
        return answers

    return ask


def write_operations(topics: list[str], rng: random.Random) -> list[Json]:
    """Give operations that append some segments to each topic."""
    found: list[Json] = []
    for topic in topics:
        for number in range(2):
            found.append({
                "op": "produce", "topic": topic, "count": rng.randrange(40, 300), "acks": "1",
                "seed": rng.randrange(1000), "batch": rng.choice((5, 40)), "valueSize": [20, 200],
                "timestamps": [T0 + rng.randrange(0, 600_000), rng.choice((0, 100))],
            })  # fmt: skip
            end = ("abort", "commit")[number]
            found.append({"op": "txn", "topic": topic, "txn": topic, "count": 9, "end": end})
    return found


def wait_for_leader(cluster: ThreeNodes, node: int) -> None:
    """Wait until a node leads all topics."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(120):
        found = admin.list_topics(timeout=30).topics
        leaders = {found[topic].partitions[0].leader for topic in TOPICS if topic in found}
        if leaders == {node}:
            return
        time.sleep(1)
    raise AssertionError(leaders)


def test_answers_after_unclean_elections_match_the_broker(tmp_path: Path) -> None:
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    tier, rng = tmp_path / "remote", random.Random(SEED)
    tier.mkdir()
    cluster = ThreeNodes(tmp_path, VERSION, tier=tier)
    ask = ask_of(cluster)
    asked = 0
    try:
        cluster.format()
        for node in NODES:
            cluster.start(node)
        assert cluster.leader(120) is not None
        configs = {"remote.storage.enable": "true", "local.retention.bytes": "9000",
                   "internal.segment.bytes": "12000", "min.insync.replicas": "1",
                   "unclean.leader.election.enable": "true", "retention.ms": "-1"}  # fmt: skip
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        while len(admin.list_topics(timeout=60).brokers) < len(NODES):
            time.sleep(1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        new = [NewTopic(one, 1, replica_assignment=[[1, 2]], config=configs) for one in TOPICS]
        for made in admin.create_topics(new, operation_timeout=120).values():
            made.result(120)
        ask(*write_operations(TOPICS, rng))
        asked += compare(ask, TOPICS, str(cluster.data(1)), str(tier))
        cluster.kill(2)
        time.sleep(8)
        ask(*write_operations(TOPICS, rng))  # node 2 has none of this
        asked += compare(ask, TOPICS, str(cluster.data(1)), str(tier))
        cluster.kill(1)
        cluster.start(2)
        wait_for_leader(cluster, 2)
        asked += compare(ask, TOPICS, str(cluster.data(2)), str(tier))
        ask(*write_operations(TOPICS[::2], rng))
        asked += compare(ask, TOPICS, str(cluster.data(2)), str(tier))
        options = WhyOptions(int(time.time() * 1000), tier=str(tier))
        rows = [one for one in why([str(cluster.data(2))], options) if isinstance(one, RemoteFate)]
        verdicts = Counter(one.verdict for one in rows)
        assert verdicts["unreferenced"] >= len(TOPICS)
        assert not verdicts["deletable"]
        left = {one.segment_id for one in rows if one.verdict == "unreferenced"}
        checked = list(verify([str(cluster.data(2))], VerifyOptions(tier=str(tier))))
        assert left == {
            one.segment_id for one in checked
            if isinstance(one, RemoteSegmentRow) and one.verdict != "whole"
        }  # fmt: skip
        assert not [one for one in checked if isinstance(one, Finding) and "remote" in one.code]
        cluster.start(1)
        time.sleep(30)
        places = [TopicPartition(one, 0) for one in TOPICS]
        admin.elect_leaders(ElectionType.PREFERRED, places).result(60)
        wait_for_leader(cluster, 1)
        ask(*write_operations(TOPICS[::3], rng))
        asked += compare(ask, TOPICS, str(cluster.data(1)), str(tier))
    finally:
        cluster.close()
    assert asked > 5 * 30 * len(TOPICS)

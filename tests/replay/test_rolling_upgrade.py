"""Three real nodes that are upgraded one after the other: each directory is of its own release.

KDUMP_FUZZ=long; needs Maven, Java 17, and `broker/` of KDUMP_SHARED.
"""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import maven_brokers
import pytest
from commands import run
from long_runs import LONG
from three_nodes import NODES, ThreeNodes

from kdump.broker.versions import read_version
from kdump.replay.directory_releases import date_directories

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not LONG, reason="minutes of three real nodes: KDUMP_FUZZ=long"),
]
OLD, NEW, LEVEL = "3.9.1", "4.1.1", 27


def rows(*words: str) -> list[dict[str, object]]:
    lines = run(*words, "--format", "jsonl").stdout.splitlines()
    return [json.loads(line) for line in lines]


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def check(copies: Path, truth: dict[int, str]) -> None:
    """Hold what kdump says of each directory against the release that wrote it last."""
    paths = {node: str(copies / f"n{node}") for node in NODES}
    dated = date_directories(paths.values())
    for node, release in truth.items():
        found, own = dated[paths[node]], read_version(minor(release))
        assert (found.first, found.last) == (own, own), (node, release, found.text)
        alone = date_directories([paths[node]])[paths[node]]
        assert (alone.first, alone.last) == (own, own), (node, release, alone.text)
    said = {one["path"]: one["written_by"] for one in rows("info", *paths.values())
            if one["row"] == "directory"}  # fmt: skip
    assert said == {paths[node]: minor(release) for node, release in truth.items()}
    for one in rows("verify", "--predict", *paths.values()):
        if one["row"] in ("recovery", "node-start"):
            node = next(node for node in NODES if str(one["path"]).startswith(paths[node]))
            assert one["broker_version"] == minor(truth[node]), one


def until(done: Callable[[], bool]) -> None:
    for _ in range(90):
        if done():
            return
        time.sleep(1)
    raise AssertionError


def test_each_node_has_its_release(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    cluster = ThreeNodes(tmp_path, OLD)
    truth = dict.fromkeys(NODES, OLD)
    stages = 0

    def stage() -> None:
        nonlocal stages
        until(lambda: all("Kafka Server started" in cluster.log(one).read_text() for one in NODES))
        time.sleep(5)  # followers of the metadata log have the registration, too
        stages += 1
        cluster.frozen(tmp_path / f"stage{stages}")
        check(tmp_path / f"stage{stages}", truth)

    try:
        cluster.format()
        for node in NODES:
            cluster.start(node)
        assert cluster.leader(120) is not None
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        until(lambda: len(admin.list_topics(timeout=60).brokers) == len(NODES))
        for made in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            made.result(60)
        stage()
        for node in NODES:
            cluster.kill(node)
            cluster.versions[node] = truth[node] = NEW
            cluster.start(node)
            stage()
        words = ["kafka.admin.FeatureCommand", "--bootstrap-server", cluster.bootstrap,
                 "upgrade", "--feature", f"metadata.version={LEVEL}"]  # fmt: skip
        path = maven_brokers.class_path("3.3.2")
        subprocess.run(["java", "-cp", path, *words], capture_output=True, check=True)
        stage()
    finally:
        cluster.close()
    assert stages == 5

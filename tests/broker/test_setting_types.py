"""What a release says of settings, against what Kafka's own classes of 14 releases said of them.

`settings_said.jsonl` has some 700 answers: of each the release, whether it is a KRaft node's, what
was set beside sound settings, and the sentence. `tests/support/SettingDefinitions.java` asks.
"""

import json
from pathlib import Path

import pytest

from kdump.broker.node_settings import NodeSettings, settings_refused
from kdump.broker.setting_types import values_refused
from kdump.broker.versions import read_version

SAID = [
    json.loads(line)
    for line in Path(__file__).with_name("settings_said.jsonl").read_text("utf-8").splitlines()
]
ZOOKEEPER = {"zookeeper.connect": "localhost:1", "broker.id": "1", "log.dirs": "/tmp/x"}
KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INNER:PLAINTEXT,"
    "SSL:SSL",
    "log.dirs": "/tmp/x",
}


@pytest.mark.parametrize("release", sorted({one["release"] for one in SAID}))
def test_sentences_are_those_of_the_release(release: str) -> None:
    asked = [one for one in SAID if one["release"] == release]
    assert sum(bool(one["said"]) for one in asked) >= 20
    for one in asked:
        values = (KRAFT if one["kraft"] else ZOOKEEPER) | one["set"]
        node = NodeSettings("f", values, one["kraft"], ("/tmp/x",))
        found = next((fact.message for fact in settings_refused(node, read_version(release))), "")
        assert found == one["said"], one["set"]


def test_between_two_releases_both_have_to_refuse() -> None:
    zstd = {"compression.type": "brotli", "log.segment.bytes": "100000"}
    # 4.0 asks for a mebibyte, 3.9 for 14 bytes; between them there is none, and 4.0 counts.
    assert [name for name, _ in values_refused(zstd, (3, 9, 5))] == ["compression.type"]
    names = [name for name, _ in values_refused(zstd, (4, 0))]
    assert sorted(names) == ["compression.type", "log.segment.bytes"]
    # Older than all that are known: the oldest of them; newer: the newest.
    assert list(values_refused({"num.partitions": "0"}, (0, 8, 2)))
    assert list(values_refused({"num.partitions": "0"}, (5, 0)))
    assert not list(values_refused({"num.partitions": "7", "colour": "red"}, (4, 4)))

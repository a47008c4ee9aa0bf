"""What a release says of settings, against what Kafka's own classes of 14 releases said of them.

`settings_said.jsonl` has some 700 answers: of each the release, whether it is a KRaft node's, what
was set beside sound settings, and the sentence. `tools/SettingDefinitions.java` asks.
"""

import json
from pathlib import Path

import pytest
from each import each

from kdump.broker.node_settings import UNKNOWN, NodeSettings, check_settings
from kdump.broker.setting_types import check_values
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


@each("release", sorted({one["release"] for one in SAID}))
def test_messages_match_the_release(release: str) -> None:
    asked = [one for one in SAID if one["release"] == release]
    assert sum(bool(one["said"]) for one in asked) >= 20
    for one in asked:
        values = (KRAFT if one["kraft"] else ZOOKEEPER) | one["set"]
        node = NodeSettings("f", values, one["kraft"], ("/tmp/x",))
        found = next((fact.message for fact in check_settings(node, read_version(release))), "")
        assert found == one["said"], one["set"]


def test_value_is_refused_if_both_neighboring_releases_refuse_it() -> None:
    values = {"log.cleaner.min.compaction.lag.ms": "-1", "num.partitions": "0"}
    # 3.0 takes any lag, 3.3 none below 0: when that came is not known.
    assert [name for name, _ in check_values(values, (3, 0))] == ["num.partitions"]
    assert [name for name, _ in check_values(values, (3, 2))] == ["num.partitions"]
    assert len(list(check_values(values, (3, 3)))) == 2
    # Older than all that are known: the oldest of them; newer: the newest.
    assert len(list(check_values(values, (0, 8, 2)))) == 1
    assert len(list(check_values(values, (5, 0)))) == 2
    assert not list(check_values({"num.partitions": "7", "colour": "red"}, (4, 4)))


@pytest.mark.parametrize(
    ("listeners", "names", "refused"),
    [  # as 4.1.1 answers without a map of protocols
        ("PLAINTEXT://:9092,CONTROLLER://:9093", "CONTROLLER", False),
        ("plaintext://:9092,controller://:9093", "controller", True),
        ("SSL://:9092,CONTROLLER://:9093", "CONTROLLER", True),
    ],
)
def test_controllers_without_a_map_of_protocols(listeners: str, names: str, refused: bool) -> None:
    values = {name: text for name, text in KRAFT.items() if "security" not in name}
    values |= {"listeners": listeners, "controller.listener.names": names}
    found = list(check_settings(NodeSettings("f", values, True, ("/tmp/x",)), (4, 1, 1)))
    message = (
        f"Error creating broker listeners from '{listeners}': No security protocol defined for "
        "listener CONTROLLER"
    )
    assert [fact.message for fact in found] == ([message] if refused else [])


def test_values_of_config_providers_are_unknown() -> None:
    values = ZOOKEEPER | {"num.partitions": "${file:/etc/kafka:partitions}"}
    node = NodeSettings("f", values, False, ("/tmp/x",))
    assert [fact.outcome for fact in check_settings(node, (2, 8))] == [UNKNOWN]


@each(
    ("release", "setting", "value"),
    [  # as the KafkaConfig of the release answers
        ("4.4.0", "group.share.session.timeout.ms", "1"),
        ("4.4.0", "cordoned.log.dirs", "/elsewhere"),
        ("4.1.1", "group.streams.num.standby.replicas", "7"),
        ("3.9.1", "compression.gzip.level", "0"),
        ("3.7.2", "eligible.leader.replicas.enable", ""),
        ("3.3.2", "early.start.listeners", "abc"),
        ("3.3.2", "queued.max.request.bytes", "1"),
    ],
)
def test_rules_from_kafka_code_are_checked(release: str, setting: str, value: str) -> None:
    node = NodeSettings("f", KRAFT | {setting: value}, True, ("/tmp/x",))
    assert any(fact.outcome == "refuses" for fact in check_settings(node, read_version(release)))
    assert not list(check_settings(node._replace(values=KRAFT), read_version(release)))


_NO_PROTOCOL = (
    "Error creating broker listeners from 'PLAINTEXT://:9092': No security protocol defined for "
    "listener PLAINTEXT"
)
_NEEDED = (
    "requirement failed: controller.listener.names must contain at least one value appearing in "
    "the 'listeners' configuration when running the KRaft controller role"
)
_EMPTY = "requirement failed: controller.listener.names must be empty when not running in KRaft"
_ONLY = "requirement failed: The listeners config must only contain KRaft controller listeners"
_UNROUTABLE = "requirement failed: advertised.listeners cannot use the nonroutable meta-address"
_UNREAD = "Error creating broker listeners from '{}': Unable to parse PLAINTEXT://a to a broker"


@each(
    ("release", "changed", "refused"),
    [  # as the KafkaConfig of the release answers
        ("2.4.1", {"listener.security.protocol.map": ""}, _NO_PROTOCOL),
        ("3.9.1", {"listener.security.protocol.map": ""}, _NO_PROTOCOL),
        ("2.4.1", {"host.name": "a,b"}, _UNREAD.format("PLAINTEXT://a,b:9092")),
        ("2.4.1", {"host.name": "a,b", "listeners": "PLAINTEXT://:1"}, ""),
        ("2.4.1", {"advertised.host.name": "a,b"}, _UNREAD.format("PLAINTEXT://a,b:9092")),
        ("2.8.2", {"advertised.host.name": "a,b", "port": "7"},
         _UNREAD.format("PLAINTEXT://a,b:7")),
        ("2.8.2", {"advertised.host.name": "0.0.0.0"}, _UNROUTABLE),
        ("3.0.2", {"host.name": "a,b", "advertised.host.name": "a,b"}, ""),
        ("3.0.2", {"controller.listener.names": "CONTROLLER"}, ""),
        ("3.1.2", {"controller.listener.names": "CONTROLLER"}, _EMPTY),
        ("2.8.2", KRAFT | {"controller.listener.names": ""}, ""),
        ("3.0.2", KRAFT | {"controller.listener.names": ""}, _NEEDED),
        ("4.1.1", KRAFT | {"controller.listener.names": ","}, _NEEDED),
        ("3.0.2", KRAFT | {"process.roles": "controller"}, ""),
        ("3.1.2", KRAFT | {"process.roles": "controller"}, _ONLY),
        ("3.0.2", KRAFT | {"process.roles": "controller",
                           "advertised.listeners": "PLAINTEXT://0.0.0.0:3"},
         _UNROUTABLE),
        # not the class but the node: it ends right after it says that it has started
        ("4.1.1", KRAFT | {"process.roles": ""}, "A node without a role logs that it has started"),
    ],
)  # fmt: skip
def test_inconsistent_listeners_are_refused(
    release: str, changed: dict[str, str], refused: str
) -> None:
    kraft = "process.roles" in changed
    node = NodeSettings("f", changed if kraft else ZOOKEEPER | changed, kraft, ("/tmp/x",))
    found = [fact.message for fact in check_settings(node, read_version(release))]
    assert found[0].startswith(refused) if refused else not found


def test_foreign_classes_have_an_unknown_result() -> None:
    values = ZOOKEEPER | {"client.quota.callback.class": "com.example.Quota"}
    node = NodeSettings("f", values, False, ("/tmp/x",))
    assert [fact[:2] for fact in check_settings(node, (2, 4, 1))] == [(UNKNOWN, "class")]

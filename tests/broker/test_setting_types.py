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


_FAILED = "requirement failed: "
_OVERRIDES = "max.connections.per.ip.overrides"
_MAP = "listener.security.protocol.map"


def refusals(release: str, values: dict[str, str]) -> list[str]:
    node = NodeSettings("f", values, "process.roles" in values, ("/tmp/x",))
    return [fact.message for fact in check_settings(node, read_version(release))]


@each(
    ("release", "changed", "words"),
    [
        ("2.0.1", {"offsets.topic.compression.codec": "4"}, "4 is an unknown compression codec"),
        ("2.1.1", {"offsets.topic.compression.codec": "4"}, ""),
        (
            "3.9.1",
            {"remote.log.manager.copier.thread.pool.size": "0"},
            "Invalid value 0 for configuration remote.log.manager.copier.thread.pool.size: Value",
        ),
        (
            "4.1.1",
            KRAFT | {"group.coordinator.rebalance.protocols": "consumer"},
            "Disabling the 'classic' protocol is not supported.",
        ),
        (
            "4.1.1",
            KRAFT | {"group.share.assignors": ""},
            "group.share.assignors must contain exactly one assignor, but found 0",
        ),
        (
            "2.4.1",
            {"principal.builder.class": ""},
            "Invalid value  for configuration principal.builder.class: Class  could not be found.",
        ),
        ("3.3.2", {"node.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        (
            "2.4.1",
            {"connections.max.idle.ms": "100"},
            f"{_FAILED}connection.failed.authentication.delay.ms=100 should always be less than",
        ),
        ("2.4.1", {"connections.max.idle.ms": "101"}, ""),
        (
            "2.4.1",
            {"max.connections.per.ip": "0"},
            f"{_FAILED}max.connections.per.ip can be set to zero only if {_OVERRIDES} property",
        ),
        ("2.4.1", {"max.connections.per.ip": "0", _OVERRIDES: "a:1"}, ""),
        (
            "2.4.1",
            {_OVERRIDES: "a:1, here"},
            f"Error parsing configuration property '{_OVERRIDES}': begin 0, end -1, length 4",
        ),
        (
            "2.4.1",
            {"control.plane.listener.name": "plaintext"},
            "Listener with PLAINTEXT defined in control.plane.listener.name not found in",
        ),
        ("0.10.2.2", {"log.dirs": " , "}, "requirement failed"),
        ("2.4.1", {"log.dirs": ","}, f"{_FAILED[:-2]}: At least one log directory must be defined"),
        (
            "2.4.1",
            {"offsets.commit.required.acks": "4"},
            f"{_FAILED}offsets.commit.required.acks must be greater or equal -1 and less or equal",
        ),
        ("2.4.1", {"offsets.commit.required.acks": "3"}, ""),
        (
            "2.4.1",
            {_MAP: "PLAINTEXT"},
            f"Error parsing configuration property '{_MAP}': begin 0, end -1, length 9",
        ),
        (
            "2.4.1",
            {_MAP: "PLAINTEXT: TLS"},
            f"Invalid security protocol `TLS` defined in {_MAP}",
        ),
        ("3.9.1", {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://[::1]:1"}, ""),
        (
            "3.9.1",
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://here:1"},
            f"{_FAILED}If you have two listeners",
        ),
        (
            "3.3.2",
            KRAFT
            | {
                "process.roles": "controller",
                "listeners": "CONTROLLER://:9093",
                "advertised.listeners": "CONTROLLER://a:9093",
            },
            f"{_FAILED}The advertised.listeners config must be empty when process.roles=controller",
        ),
        (
            "3.3.2",
            KRAFT | {"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://a:2"},
            f"{_FAILED}The advertised.listeners config must not contain KRaft controller listeners",
        ),
        (
            "3.3.2",
            KRAFT
            | {
                "process.roles": "broker",
                "controller.quorum.voters": "2@a:9093",
                "controller.listener.names": "",
                "listeners": "PLAINTEXT://:9092",
            },
            f"{_FAILED}controller.listener.names must contain at least one value when running",
        ),
        (
            "3.3.2",
            KRAFT | {"inter.broker.protocol.version": "new"},
            "Invalid value new for configuration inter.broker.protocol.version: no valid version",
        ),
        (
            "3.9.1",
            {"zookeeper.metadata.migration.enable": "True"},
            "`zookeeper.metadata.migration.enable` needs `controller.quorum.voters` to be set",
        ),
        (
            "3.3.2",
            KRAFT | {"process.roles": "broker,controller,broker"},
            "Duplicate role names found in `process.roles`: ArrayBuffer(broker, controller,",
        ),
        (
            "3.9.1",
            KRAFT | {"broker.id": "2"},
            "You must set `node.id` to the same value as `broker.id`.",
        ),
        (
            "4.4.0",
            KRAFT | {"broker.id": "2"},
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated",
        ),
        ("3.3.2", KRAFT | {"node.id": "-1"}, "Missing configuration `node.id` which is required"),
        (
            "4.1.1",
            KRAFT | {"controller.quorum.voters": " "},
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the",
        ),
        (
            "4.1.1",
            KRAFT | {"controller.quorum.voters": "1@"},
            "Invalid configuration value for controller.quorum.voters. Each entry should be in",
        ),
        (
            "4.1.1",
            KRAFT | {"controller.quorum.voters": "one@a:9093"},
            "Failed to parse voter ID as an integer from one",
        ),
        (
            "4.1.1",
            KRAFT | {"controller.quorum.bootstrap.servers": "here"},
            "Failed to parse host name from here for the configuration controller.quorum.bootstrap",
        ),
        (
            "4.1.1",
            KRAFT | {"controller.quorum.bootstrap.servers": "here:65536"},
            "port out of range:65536",
        ),
        ("4.1.1", KRAFT | {"controller.quorum.bootstrap.servers": "here:65535"}, ""),
    ],
)
def test_settings_are_refused_in_the_words_of_kafka(
    release: str, changed: dict[str, str], words: str
) -> None:
    found = refusals(release, changed if "process.roles" in changed else ZOOKEEPER | changed)
    assert found[0].startswith(words) if words else not found


def test_unknown_protocol_is_refused_once() -> None:
    (found,) = refusals("2.4.1", ZOOKEEPER | {"inter.broker.protocol.version": "new"})
    assert found.endswith("Version `new` is not a valid version")


@each(
    ("release", "values", "words"),
    [
        (
            "4.4.0",
            KRAFT | {"process.roles": ""},
            "Configuration 'process.roles' must not be empty. Valid values include: [broker, ",
        ),
        (
            "4.4.0",
            KRAFT | {"log.dirs": ""},
            "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value",
        ),
        (
            "4.4.0",
            KRAFT | {"config.providers": "a,,b"},
            "Configuration 'config.providers' values must not be empty.",
        ),
        (
            "3.9.1",
            ZOOKEEPER | {"remote.log.storage.manager.impl.prefix": " "},
            "Invalid value  for configuration remote.log.storage.manager.impl.prefix: String must",
        ),
        ("2.4.1", ZOOKEEPER | {"config.providers": ""}, ""),
    ],
)
def test_empty_values_are_refused(release: str, values: dict[str, str], words: str) -> None:
    found = refusals(release, values)
    assert found[0].startswith(words) if words else not found

"""The topics of Kafka Connect: what keys and values say, and no secret in them."""

import json
from typing import Any

import pytest
from each import each

from kdump.values import connect
from kdump.values.decoder import decoder_of

SECRET = "hunter-2"
CONFIG = {
    "properties": {
        "connector.class": "X",
        "database.password": SECRET,
        "api.Token": SECRET,
        "connection.url": f"jdbc:x://u:{SECRET}@h/d",
        "other.url": f"x://h?Password={SECRET}",
        "sasl.jaas.config": SECRET,
        "ssl.key.credential": None,
        "nested": [{"secret": SECRET}],
    }
}


def shown(key: bytes, value: bytes, *, secrets: bool = False) -> tuple[Any, Any]:
    decoder = decoder_of("connect-configs")
    assert decoder is not None
    named = decoder.read_key(key)
    return decoder.as_json(named, secrets), decoder.as_json(
        decoder.read_value(named, value), secrets
    )


@each(
    ("key", "type_", "data"),
    [
        (b"connector-a-b", "connector", {"connector": "a-b"}),
        (b"task-a-b-12", "task", {"connector": "a-b", "task": 12}),
        (b"commit-a", "commit", {"connector": "a"}),
        (b"target-state-a", "target_state", {"connector": "a"}),
        (b"tasks-fencing-a", "tasks_fencing", {"connector": "a"}),
        (b"restart-connector-a", "restart", {"connector": "a"}),
        (b"status-connector-a", "connector_status", {"connector": "a"}),
        (b"status-task-a-0", "task_status", {"connector": "a", "task": 0}),
        (b"status-topic-t:connector-a", "topic_status", {"topic": "t", "connector": "a"}),
        (b"logger-cluster-org.x", "logger", {"name": "org.x"}),
        (b"session-key", "session_key", {}),
        (
            b'["a",{"file":"x"}]',
            "connector_offset",
            {"connector": "a", "source_partition": {"file": "x"}},
        ),
    ],
)
def test_keys(key: bytes, type_: str, data: dict[str, Any]) -> None:
    of_key, of_value = shown(key, b'{"x":1}')
    assert of_key == {"type": type_, "data": data}
    assert of_value == {"type": type_, "data": {"x": 1}}


@each(
    "key",
    [b"", b"other", b"\xff", b"[", b"[1,2]", b'["a"]', b"[" * 100_000, b"task-a", b"task-a-x",
     b"task-a-" + b"9" * 100],
)  # fmt: skip
def test_other_keys_are_kept(key: bytes) -> None:
    assert shown(key, b'{"x":1}') == (key, b'{"x":1}')


@each("value", [b"", b"{", b"[1]", b"7", b"[" * 100_000, b"\xff"])
def test_other_values_are_kept(value: bytes) -> None:
    assert shown(b"connector-a", value)[1] == value


def test_secrets_are_masked_in_objects_and_in_bytes() -> None:
    value = json.dumps(CONFIG).encode()
    _, masked = shown(b"connector-a", value)
    assert SECRET not in json.dumps(masked)
    assert masked["data"]["properties"]["connector.class"] == "X"
    assert shown(b"connector-a", value, secrets=True)[1]["data"] == CONFIG
    hidden = connect.redact(value)
    assert hidden is not None
    assert len(hidden) == len(value)
    assert SECRET.encode() not in hidden
    assert b'"connector.class": "X"' in hidden
    assert connect.redact(b'{"properties":{"a":"b"}}') is None


def test_secret_names_are_recognized_in_any_spelling() -> None:
    value = b'{"properties":{"p\\u0061ssword" : "%s\\"x"}}' % SECRET.encode()
    hidden = connect.redact(value)
    assert hidden is not None
    assert SECRET.encode() not in hidden
    assert len(hidden) == len(value)


def test_session_key_of_workers_is_masked() -> None:
    value = b'{"key":"%s","algorithm":"HmacSHA256"}' % SECRET.encode()
    assert SECRET not in json.dumps(shown(b"session-key", value)[1])
    hidden = connect.redact(value)
    assert hidden is not None
    assert SECRET.encode() not in hidden


@pytest.mark.parametrize("topic", ["connect-configs", "docker_connect_offsets", "_connect-status"])
def test_topics(topic: str) -> None:
    assert decoder_of(topic) is not None
    assert decoder_of("orders") is None

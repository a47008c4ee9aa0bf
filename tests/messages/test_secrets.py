"""Secrets in records of the metadata log are masked; all else is shown."""

import json
from typing import Any

import pytest
from corpus import corpus, files
from each import each
from internal_topics import as_json, raw_records
from message_writing import message_bytes

from kdump.messages.records import DecodedValue, decode
from kdump.messages.secrets import HARMLESS, MASK, is_sensitive, mask
from kdump.messages.table import UNKNOWN_TAGS, message

#: What KafkaConfig of 4.4 has of type password, whether it may be changed or not.
PASSWORDS = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "password.encoder.secret",  # until 3.9
    "password.encoder.old.secret",
)


def record(name: str, fields: dict[str, Any], more: bytes = b"") -> bytes:
    known = message(name)
    assert known.id is not None
    return bytes([1, known.id, 0]) + message_bytes(known, 0, fields) + more


def shown(data: bytes) -> DecodedValue:
    value = decode("__cluster_metadata", None, data)[1]
    assert value is not None
    return mask(value)


SCRAM = {
    "name": "alice",
    "mechanism": 1,
    "salt": b"hush salt",
    "storedKey": b"hush stored",
    "serverKey": b"hush server",
    "iterations": 4096,
}


def test_scram_credentials_are_masked() -> None:
    assert shown(record("UserScramCredentialRecord", SCRAM)).data == {
        "name": "alice",
        "mechanism": 1,
        "salt": MASK,
        "storedKey": MASK,
        "serverKey": MASK,
        "iterations": 4096,
    }


@each("name", PASSWORDS)
def test_password_settings_are_masked(name: str) -> None:
    for prefix in ("", "listener.name.internal.", "listener.name.internal.scram-sha-512."):
        assert is_sensitive(4, prefix + name)
        assert is_sensitive(2, prefix + name)
        config = {"resourceType": 4, "resourceName": "1", "name": prefix + name, "value": "hush"}
        assert shown(record("ConfigRecord", config)).data == config | {"value": MASK}
    assert name not in HARMLESS


@each(
    ("resource_type", "name", "sensitive"),
    [
        (4, "log.retention.ms", False),
        (4, "listener.name.internal.ssl.keystore.location", False),
        (4, "no.such.setting", True),
        (4, "rsm.config.bucket", True),
        (4, "", True),
        (2, "retention.ms", False),
        (2, "vendor.secret", True),
        (2, "vendor.API.Token", True),
        (16, "metrics", False),
        (32, "consumer.session.timeout.ms", False),
    ],
)
def test_secret_settings_are_masked(resource_type: int, name: str, sensitive: bool) -> None:
    """A broker takes for sensitive what it does not know."""
    assert is_sensitive(resource_type, name) is sensitive
    config = {"resourceType": resource_type, "resourceName": "", "name": name, "value": "v"}
    data = shown(record("ConfigRecord", config)).data
    assert data == config | {"value": MASK if sensitive else "v"}


def test_removed_setting_stays_null() -> None:
    config = {"resourceType": 4, "resourceName": "", "name": "sasl.jaas.config", "value": None}
    assert shown(record("ConfigRecord", config)).data == config


def test_tokens_are_replaced_by_their_ids() -> None:
    """The hash that proves one is not in the record."""
    data = shown(record("DelegationTokenRecord", {"owner": "User:a", "tokenId": "id"})).data
    assert data is not None
    assert data["tokenId"] == "id"


@pytest.mark.parametrize(
    "name", ["UserScramCredentialRecord", "ConfigRecord", "DelegationTokenRecord"]
)
def test_unread_part_of_secret_records(name: str) -> None:
    known = message(name)
    assert known.id is not None
    sound = record(name, SCRAM | {"value": "hush value", "name": "sasl.jaas.config"})
    tags = {UNKNOWN_TAGS: [{"tag": 77, "bytes": b"hush"}]}
    for data in (
        sound + b"hush",
        sound[:-2],
        bytes([1, known.id, 9]) + b"hush",
        bytes([0, known.id, 0]) + b"hush",
        record(name, tags),
    ):
        told = shown(data)
        assert "hush" not in str(told)
        assert "hush" not in str(as_json(told.data))
        assert MASK in str(told)


def test_other_records_are_unchanged() -> None:
    for topic, key, data in (
        ("__cluster_metadata", None, record("TopicRecord", {"name": "t"}, b"rest")),
        ("__cluster_metadata", None, bytes([1, 99, 0]) + b"what"),
        ("__consumer_offsets", b"\0\x0b\0\1g", b"\0\0later"),  # type 11, of another enumeration
        ("__consumer_offsets", None, b"\0\0later"),
    ):
        value = decode(topic, key, data)[1]
        assert value is not None
        assert mask(value) == value


def test_real_metadata_logs_show_no_secret() -> None:
    secrets: set[str] = set()
    told = ""
    for name in ("newest/data/killed", "newest/data/formatted"):
        for path in files(corpus(name), "__cluster_metadata-0/0*"):
            for one in raw_records(path) if path.suffix in (".log", ".checkpoint") else ():
                value = None if one.control else one.decoded("__cluster_metadata")[1]
                if value is None:
                    continue
                assert value.data is not None
                if value.type == "user_scram_credential_record":
                    secrets |= {as_json(value.data[part]) for part in SCRAM if "Key" in part}
                    secrets.add(as_json(value.data["salt"]))
                told += json.dumps(as_json(mask(value).data))
    assert len(secrets) > 12
    assert not [secret for secret in {*secrets, "correct-horse"} if secret in told]
    assert '"name": "no.such.instance", "value": "(redacted)"' in told
    assert '"name": "retention.ms", "value": "604800001"' in told

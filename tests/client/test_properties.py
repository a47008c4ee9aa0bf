"""Client properties as Kafka's tools take them, and what librdkafka is given for them."""

from pathlib import Path

import pytest
from each import each

from kdump.engine.salvage.options import read_client_properties
from kdump.errors import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def settings(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return read_client_properties(str(path))


@each(
    ("text", "expected"),
    [
        ("security.protocol=SSL", {"security.protocol": "SSL"}),
        (
            f'sasl.jaas.config={SCRAM} required \\\n  username="ann" \\\n  password="a;b =\\\\"c";',
            {"sasl.username": "ann", "sasl.password": 'a;b ="c'},
        ),
        (
            f"sasl.jaas.config={PLAIN} required password=secret username=bob ;",
            {"sasl.username": "bob", "sasl.password": "secret"},
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.location=/ca.pem",
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            "ssl.keystore.location=/me.pem\nssl.keystore.type=PEM\nssl.key.password=x",
            {
                "ssl.certificate.location": "/me.pem",
                "ssl.key.location": "/me.pem",
                "ssl.key.password": "x",
            },
        ),
        (
            "ssl.endpoint.identification.algorithm=",
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        ("acks=all\nenable.idempotence=true\n# more\n", {}),
    ],
)
def test_settings_are_translated(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    assert settings(tmp_path, text) == expected
    confluent_kafka = pytest.importorskip("confluent_kafka")
    if not any(name.endswith("location") for name in expected):
        confluent_kafka.Producer({**expected, "bootstrap.servers": ""})  # it knows the names


@each(
    ("text", "told"),
    [
        ("ssl.truststore.location=/ca.jks", "type JKS"),
        ("ssl.keystore.location=/me.p12\nssl.keystore.type=PKCS12", "type PKCS12"),
        ("acks=1", "acks cannot be 1"),
        ("sasl.login.callback.handler.class=my.Handler", "is not supported"),
        ("ssl.truststore.password=x", "is not supported"),
        (f'sasl.jaas.config={PLAIN} required username="bob";', "sasl.jaas.config"),
        ("sasl.jaas.config=com.sun.Krb5LoginModule required;", "sasl.jaas.config"),
    ],
)
def test_untranslatable_settings_are_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings(tmp_path, text)


def test_java_key_store_is_reported_with_a_remedy(tmp_path: Path) -> None:
    for kind in ("truststore", "keystore"):
        with pytest.raises(UsageError) as caught:
            settings(tmp_path, f"ssl.{kind}.location=/x\nssl.{kind}.type=pkcs12")
        assert str(caught.value) == (
            f"{tmp_path / 'client.properties'}: ssl.{kind}.location is a store of type pkcs12, "
            "which only Java can read: convert it to PEM (keytool -exportcert -rfc) and set "
            f"ssl.{kind}.type=PEM"
        )
    for told in ("acks=ALL", "acks=-1", "enable.idempotence=TRUE", "ssl.keystore.type=JKS"):
        assert settings(tmp_path, told) == {}
    for text, name in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        assert settings(tmp_path, f"{text}=PEM") == {name: "PEM"}

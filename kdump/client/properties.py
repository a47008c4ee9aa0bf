"""Translate the client properties of Kafka's own tools to the names that librdkafka has.

What has no translation is refused: a setting that is passed over in silence could be the one that
keeps a password off the wire.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kdump.errors import UsageError

_SAME = frozenset(
    "security.protocol sasl.mechanism sasl.kerberos.service.name ssl.key.password client.id"
    " client.rack compression.type linger.ms batch.size request.timeout.ms metadata.max.age.ms"
    " reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms ssl.cipher.suites"
    " socket.connection.setup.timeout.ms client.dns.lookup".split()
)
#: Files of PEM may be anywhere, so that the type is asked for; text in the file itself is PEM.
_STORES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
_TEXTS = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
#: What kdump sets itself, with the values that say the same.
_OURS = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
_LOGIN = re.compile(
    r"\s*\S*\.(?:Plain|Scram)LoginModule\s+required"
    r"((?:\s+\w+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;\"]+))*)\s*;\s*\Z"
)
_LOGIN_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))")


def librdkafka_settings(path: str, given: Mapping[str, str]) -> dict[str, str]:
    """Translate properties; `path` is the file's, for what is refused."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name in _SAME:
            found[name] = value
        elif name in _STORES:
            kind = given.get(name.replace("location", "type"), "JKS")
            if kind.upper() != "PEM":
                raise UsageError(
                    f"{path}: {name} is a store of type {kind}, which only Java can read: convert "
                    f"it to PEM (keytool -exportcert -rfc) and set "
                    f"{name.replace('location', 'type')}=PEM"
                )
            found |= dict.fromkeys(_STORES[name], value)
        elif name in _TEXTS:
            found[_TEXTS[name]] = value
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value or "none"
        elif name == "sasl.jaas.config":
            found |= _login(path, value)
        elif name in _OURS:
            if value.lower() not in _OURS[name]:
                raise UsageError(
                    f"{path}: {name} cannot be {value}: records could be lost or duplicated"
                )
        elif name.replace("type", "location") not in _STORES:
            raise UsageError(f"{path}: {name} is not supported by this client: remove it")
    return found


def _login(path: str, text: str) -> dict[str, str]:
    """Read user and password of a login by PLAIN or SCRAM."""
    matched = _LOGIN.match(text)
    options = {}
    if matched is not None:
        for option in _LOGIN_OPTION.finditer(matched[1]):
            quoted = option[2]
            options[option[1]] = option[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if set(options) != {"username", "password"}:
        raise UsageError(
            f"{path}: sasl.jaas.config is not of the form org.apache.kafka.common.security.scram."
            'ScramLoginModule required username="U" password="P"; (or plain.PlainLoginModule)'
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}

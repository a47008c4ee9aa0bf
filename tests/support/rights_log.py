"""A metadata log with users, rights, quotas, tokens, and a partition that moves."""

from pathlib import Path
from typing import Any

import metadata_log as log
from message_writing import message_bytes

from kdump.messages.table import message

_TOKEN = {
    "owner": "User:ann",
    "requester": "User:ann",
    "renewers": ["User:bob"],
    "issueTimestamp": log.LONG_AGO,
    "maxTimestamp": log.LONG_AGO + 24 * log.HOUR,
    "expirationTimestamp": log.LONG_AGO + log.HOUR,
    "tokenId": "token-1",
}
_ACL = {
    "resourceType": 2,
    "resourceName": "orders",
    "patternType": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permissionType": 3,
}
_USER = {"name": "ann", "mechanism": 1, "salt": b"salt", "storedKey": b"k1", "serverKey": b"k2"}


def record(kind: str, /, **fields: Any) -> bytes:
    known = message(kind)
    version = max(known.versions)
    return log.frame_record(known.id or 0, version, message_bytes(known, version, fields))


def acl(number: int, **changed: Any) -> bytes:
    id_ = f"AAAAAAAAAAAAAAAAAA{number:02}AA"
    return record("AccessControlEntryRecord", **_ACL | {"id": id_} | changed)


def quota(key: str, value: float, **entity: str | None) -> bytes:
    named = [
        {"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in entity.items()
    ]
    return record("ClientQuotaRecord", entity=named, key=key, value=value, remove=value < 0)


def write_rights(directory: Path) -> None:
    """Write a data directory of a controller."""
    (directory / "__cluster_metadata-0").mkdir(parents=True)
    (directory / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    )
    log.write_log(
        directory / "__cluster_metadata-0",
        [
            record("FeatureLevelRecord", name="metadata.version", featureLevel=25),
            log.register(1, [7]),
            log.register(2, [8]),
            log.topic("orders", 5),
            log.partition(0, 5, (1, 2)),
            record("UserScramCredentialRecord", **_USER | {"iterations": 4096}),
            record("UserScramCredentialRecord", **_USER | {"mechanism": 2, "iterations": 8192}),
            record("UserScramCredentialRecord", **_USER | {"name": "bob", "iterations": 4096}),
            record("RemoveUserScramCredentialRecord", name="bob", mechanism=1),
            acl(10, patternType=3),
            acl(11, resourceType=3, resourceName="billing", permissionType=2, host="10.0.0.7"),
            acl(12, patternType=4, principal="User:carl"),
            acl(13, resourceType=5, resourceName="txn", operation=8),
            record("RemoveAccessControlEntryRecord", id="AAAAAAAAAAAAAAAAAA12AA"),
            quota("producer_byte_rate", 1024.5, user="ann", client_id=None),
            quota("connection_creation_rate", 5, ip="10.0.0.7"),
            quota("consumer_byte_rate", 7, user="bob"),
            quota("consumer_byte_rate", -1, user="bob"),
            record("DelegationTokenRecord", **_TOKEN),
            record("DelegationTokenRecord", **_TOKEN | {"tokenId": "token-2"}),
            record("RemoveDelegationTokenRecord", tokenId="token-2"),
            log.config(2, "orders", "retention.ms", "1000"),
            log.change(0, 5, (2, log.ids(1, 2, 3)), (3, log.ids(1)), (4, log.ids(3))),
        ],
    )

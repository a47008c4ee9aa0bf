"""Make rows of facts and of changes, with secrets masked."""

from __future__ import annotations

from base64 import b64encode
from math import isfinite
from typing import Any

from kdump.findings.rows import Row
from kdump.kernels.text_form import time_text
from kdump.messages.secrets import MASK, is_sensitive
from kdump.replay import cluster_facts as c
from kdump.rows import cluster as rows

_RESOURCE_NUMBERS = {word: number for number, word in c.RESOURCES.items()}
_ROWS: dict[type, Any] = {
    c.Broker: rows.Broker,
    c.Controller: rows.Controller,
    c.Topic: rows.Topic,
    c.Partition: rows.Partition,
    c.Config: rows.Config,
    c.Feature: rows.Feature,
    c.Quota: rows.Quota,
    c.ScramUser: rows.ScramUser,
    c.Acl: rows.Acl,
    c.DelegationToken: rows.DelegationToken,
    c.ProducerIds: rows.ProducerIds,
    c.ZkMigration: rows.ZkMigration,
}
#: Members of facts that rows do not have, or only those of the kinds that are named.
_NOT_SHOWN = ("placed_ms",)
_SECRETS = ("salt", "stored_key", "server_key")


def row_of(fact: c.Fact, *, secrets: bool = False, **more: Any) -> Row:
    """Make the row of a fact; `secrets`: show what is masked otherwise."""
    made: Row = _ROWS[type(fact)](**visible_members(fact, fact._asdict(), secrets=secrets), **more)
    return made


def visible_members(fact: c.Fact, members: c.Fields, *, secrets: bool) -> c.Fields:
    """Return members of a fact as they may be shown."""
    members = {name: value for name, value in members.items() if name not in _NOT_SHOWN}
    if isinstance(fact, c.Config):
        sensitive = is_secret(fact)
        if sensitive and not secrets:
            members["value"] = MASK
        at = list(members).index("value") + 1
        members = dict([*list(members.items())[:at], ("sensitive", sensitive)]) | members
    elif isinstance(fact, c.ScramUser):
        for name in _SECRETS:
            value = members.pop(name)
            if secrets:
                members[name] = b64encode(value).decode()
    elif isinstance(fact, c.Quota):
        members["entity"] = dict(fact.entity)
        if not isfinite(fact.value):
            members["value"] = str(fact.value)  # no number of JSON
    return members


def is_secret(config: c.Config) -> bool:
    """Whether the value of a setting is to be masked."""
    kind = config.resource_type
    number = _RESOURCE_NUMBERS.get(kind)
    return is_sensitive(int(kind) if number is None else number, config.key)


def change_row(change: c.Change, *, secrets: bool) -> Row:
    """Make the row of a change; of what stays only the members that differ are in it."""
    fact = change.fact
    before, after = (
        None if one is None else visible_members(one, c.content(one), secrets=secrets)
        for one in (change.before, change.after)
    )
    what = "changed"
    if before is None:
        what = "created"
    elif after is None:
        what = "deleted"
    else:
        differing = [name for name in after if before.get(name) != after[name]]
        before, after = ({name: one.get(name) for name in differing} for one in (before, after))
    return rows.Change(
        change.at.time_ms,
        change.at.offset,
        change.at.epoch,
        f"{c.kind_of(fact)}-{what}",
        c.subject_of(fact),
        before,
        after,
        _text(fact, what, before, after),
    )


def _text(fact: c.Fact, what: str, before: c.Fields | None, after: c.Fields | None) -> str:
    """Say in words what a change did."""
    if before is not None and after is not None:
        steps = [
            f"{_name_text(name)} {_member_text(name, before[name])} to "
            f"{_member_text(name, after[name])}"
            for name in after
            if name not in _UNSAID
        ]
        if steps:
            return "; ".join(steps)
        return "another credential" if isinstance(fact, c.ScramUser) else "only its epoch"
    told = before if after is None else after
    assert told is not None
    if isinstance(fact, c.Config):
        return ("was " if after is None else "set to ") + value_text(told["value"])
    if isinstance(fact, c.Partition):
        return f"{what}; leader {told['leader']}, replicas {value_text(told['replicas'])}"
    telling = [name for name in _TELLING.get(c.kind_of(fact), ()) if told.get(name)]
    words = [f"{_name_text(name)} {_member_text(name, told[name])}" for name in telling]
    return "; ".join([what, *words])


#: What follows from the rest of a change; the row has it.
_UNSAID = ("partition_epoch", "leader_epoch", "last_known_elr")
#: Directory ids that name none.
_NO_DIRECTORY = {"A" * 22: "migrating", "A" * 21 + "Q": "unassigned", "A" * 21 + "g": "lost"}
_WORDS = {"isr": "ISR", "elr": "ELR", "last_known_elr": "last known ELR"}
_TELLING = {
    "topic": ("topic_id", "partitions_count"),
    "broker": ("epoch", "fenced"),
    "leader": ("leader_id", "epoch"),
    "feature": ("feature_level",),
    "quota": ("value",),
    "scram-user": ("iterations",),
    "acl": ("permission", "host", "pattern_type"),
    "delegation-token": ("owner", "expires_ms"),
    "producer-ids": ("next_producer_id",),
    "zk-migration": ("state",),
}


def _name_text(name: str) -> str:
    return _WORDS.get(name, name.removesuffix("_ms").replace("_", " "))


def _member_text(name: str, value: Any) -> str:
    is_time = name.endswith("_ms") and isinstance(value, int)
    return time_text(value) if is_time and value >= 0 else value_text(value)


def value_text(value: Any) -> str:
    """Write a value of a member in a sentence."""
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value)) if value else "none"
    if isinstance(value, dict):
        return " ".join(f"{name}={value_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "" or value == -1:
        return "none"
    return _NO_DIRECTORY.get(str(value), str(value))

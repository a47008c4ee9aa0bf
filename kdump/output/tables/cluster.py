"""The tables of `cluster`: columns for each kind of row, and the lines below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.findings.escape import json_text
from kdump.output.amounts import count_text, time_cell
from kdump.output.column_widths import Column, folding_column, number, short
from kdump.output.escape import visible
from kdump.output.row_tables import Summaries, Tables
from kdump.rows.cluster import (
    Acl,
    Broker,
    Change,
    ClusterSummary,
    Config,
    Controller,
    DelegationToken,
    Feature,
    Partition,
    ProducerIds,
    Quota,
    ScramUser,
    Topic,
    ZkMigration,
    Znode,
)
from kdump.rows.row import Row

_ABSENT = "-"


def _text(value: Any) -> str:
    """Write a value for a person, what is not there as a dash."""
    if value is None or value == "" or value == [] or value == () or value == {}:
        return _ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(one)}" for name, one in value.items())
    return str(value)


def _member(member: str) -> Callable[[Row], str]:
    return lambda row: _text(row[member])


def _words(name: str, member: str | None = None, least: int = 8, rank: int = 0) -> Column[Any]:
    return folding_column(name, _member(member or name), least, rank)


def _short(name: str, member: str | None = None, rank: int = 0) -> Column[Any]:
    return short(name, _member(member or name), rank)


def _time(name: str, member: str, rank: int = 0) -> Column[Any]:
    def cell(row: Row) -> str:
        text = time_cell(row[member])
        return f"{text[:-5]}Z" if text.endswith("Z") else text

    return Column(name, cell, rank=rank)


def _listeners(row: Broker | Controller) -> str:
    told = (f"{one['name']}://{one['host']}:{one['port']}" for one in row.endpoints or ())
    return " ".join(told) or _ABSENT


def _levels(row: Broker) -> str:
    levels = (f"{name} {low}-{high}" for name, (low, high) in (row.features or {}).items())
    return ", ".join(levels) or _ABSENT


def _entity(row: Quota) -> str:
    parts = [f"{kind} {name or '(default)'}" for kind, name in row.entity.items()]
    return ", ".join(parts)


def _broker_state(row: Broker) -> str:
    if row.fenced is None:
        return _ABSENT
    state = "fenced" if row.fenced else "running"
    return f"{state}, stopping" if row.in_controlled_shutdown else state


def _controller_role(row: Controller) -> str:
    if row.leader:
        return "leader"
    if row.voter is None:
        return "?"
    return "voter" if row.voter else "no voter"


def _reassignment_text(row: Partition) -> str:
    adding, removing = row.adding_replicas, row.removing_replicas
    parts = [f"+{_text(adding)}"] if adding else []
    return " ".join([*parts, *([f"-{_text(removing)}"] if removing else [])]) or _ABSENT


def _resource(row: Config | Acl) -> str:
    return f"{row.resource_type} {row.resource or '(default)'}"


def _node_name(row: Znode) -> str:
    """Write a path as a branch of the tree."""
    indent = "  " * (int(row.depth) - 1)
    return f"{indent}/{str(row.path).rpartition('/')[2]}"


def _json(row: Znode) -> str:
    return "" if row.value is None else json_text(row.value)


def _change(row: Change) -> str:
    what = str(row.what).rpartition("-")[0]
    return what.replace("-", " ")


TABLES: Tables = {
    Broker: (
        number("broker", "broker_id"),
        Column("state", _broker_state),
        folding_column("listeners", _listeners, 20),
        _short("rack", rank=1),
        number("epoch", rank=2),
        _time("registered", "registered_ms", rank=3),
        _words("directories", least=22, rank=4),
        _words("cordoned", "cordoned_directories", 8, rank=5),
    ),
    Controller: (
        number("controller", "controller_id"),
        Column("role", _controller_role),
        folding_column("listeners", _listeners, 20),
        number("epoch", "leader_epoch", rank=1),
        _short("directory", "directory_id", rank=2),
        folding_column("features", _levels, 20, rank=3)._replace(shares=True),
    ),
    Topic: (
        _words("topic", least=12),
        _short("topic id", "topic_id", rank=1),
        number("partitions", "partitions_count"),
        _time("created", "created_ms", rank=2),
        number("by offset", "created_offset", rank=3),
        _time("deleted", "deleted_ms")._replace(shares=True),
        number("by offset", "deleted_offset", rank=1)._replace(shares=True),
    ),
    Partition: (
        _words("topic", least=12),
        number("partition"),
        number("leader"),
        number("epoch", "leader_epoch"),
        _words("replicas", least=5),
        _words("isr", least=5),
        _words("elr", least=4, rank=4),
        Column("moving", _reassignment_text, rank=3),
        number("offset", "changed_offset", rank=2),
        _time("changed", "changed_ms", rank=1),
    ),
    Config: (
        folding_column("of", _resource, 12),
        _words("key", least=16),
        _words("value", least=12),
        _time("set", "set_ms", rank=1),
        number("by offset", "set_offset", rank=2),
    ),
    Feature: (
        _words("feature", "name", 12),
        number("level", "feature_level"),
        _time("set", "set_ms"),
        number("by offset", "set_offset", rank=1),
    ),
    ZkMigration: (_short("ZooKeeper migration", "state"), _time("set", "set_ms")),
    Quota: (
        folding_column("of", _entity, 16),
        _words("key", least=12),
        number("value"),
        _time("set", "set_ms", rank=1),
        number("by offset", "set_offset", rank=2),
    ),
    ScramUser: (
        _words("user", "name", 12),
        _short("mechanism"),
        number("iterations"),
        _time("set", "set_ms", rank=1),
        number("by offset", "set_offset", rank=2),
    ),
    DelegationToken: (
        _words("token", "token_id", 12),
        _words("owner", least=8),
        _words("renewers", least=8, rank=2),
        _time("issued", "issued_ms", rank=1),
        _time("expires", "expires_ms"),
    ),
    Acl: (
        _words("principal", least=12),
        _short("permission"),
        _short("operation"),
        _short("resource type", "resource_type"),
        _words("resource", least=8),
        _short("pattern", "pattern_type", rank=1),
        _short("host", rank=2),
        _time("set", "set_ms", rank=3),
    ),
    ProducerIds: (
        number("next id", "next_producer_id"),
        number("broker", "broker_id"),
        _time("set", "set_ms"),
        number("by offset", "set_offset", rank=1),
    ),
    Change: (
        _time("time", "at_ms", rank=1),
        number("offset", "metadata_offset"),
        number("epoch", rank=3),
        folding_column("what", _change, 9, rank=2),
        _words("subject", least=12),
        _words("change", "text", 24),
    ),
    Znode: (folding_column("path", _node_name, 24), folding_column("value", _json, 24)),
}


#: What stands above each table: the word of `--what`, if there is one.
TITLES = {
    Broker: "brokers",
    Controller: "controllers",
    Topic: "topics",
    Partition: "partitions",
    Config: "configs",
    Feature: "features",
    Quota: "quotas",
    ScramUser: "users",
    DelegationToken: "delegation tokens",
    Acl: "acls",
    ProducerIds: "producer-ids",
}


def _summary(row: ClusterSummary) -> list[str]:
    """Say in lines as of when the state is, and what may be missing."""
    if row.text is not None:
        return [row.text]
    if row.source == "format":
        return ["As formatted: no controller has written to the metadata log yet."]
    counts = (
        f"{count_text(row.brokers_count, 'broker')}, {count_text(row.topics_count, 'topic')}, "
        f"{count_text(row.partitions_count, 'partition')}"
    )
    if row.as_of_offset is not None and row.as_of_offset < 0:
        return ["The metadata log begins later: nothing is known of that time."]
    when = time_cell(row.as_of_ms)
    lines = [f"As of offset {row.as_of_offset:,} of the metadata log, {when}: {counts}"]
    if row.deleted_topics_count:
        lines.append(f"{count_text(row.deleted_topics_count, 'topic')} deleted earlier")
    if row.log_start_offset:
        start = row.log_start_offset
        lines.append(f"The log begins at offset {start:,}: the times of older facts are unknown")
    if row.in_transaction:
        lines.append("A metadata transaction is open: its records have no effect yet")
    if row.unknown_records:
        unknown = count_text(row.unknown_records, "record")
        lines.append(f"{unknown} of unknown types were skipped")
    if not row.complete:
        lines.append("Records are missing: the output may be outdated. See the findings")
    if row.other_copies:
        many = len(row.other_copies)
        path = visible(row.path)
        lines.append(f"Of {many + 1} copies of the log, this one is the longest: {path}")
    return lines


SUMMARIES: Summaries = {ClusterSummary: _summary}

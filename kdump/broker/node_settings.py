"""The settings of a node that its start hangs on, and what of them a broker refuses (N1, N2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain

from kdump.broker import versions as v
from kdump.broker.setting_relations import Refusal, check_relations
from kdump.broker.setting_rules import check_rules, list_unknown_classes
from kdump.broker.setting_types import check_values
from kdump.broker.versions import (
    Version,
    has,
    is_newer,
    newest_protocol,
    protocol_version,
    read_broker_version,
    read_version,
    text_of,
)
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.directory_facts import meta_of
from kdump.storage.properties import java_properties
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

_LIMIT = 1 << 20
_INT = 1 << 31
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"


class Fact(NamedTuple):
    """One thing that a start meets: `outcome` is starts, refuses or unknown.

    `message` is the broker's own sentence where it stops for this or logs it, else kdump's.
    """

    outcome: str
    cause: str
    message: str
    path: str | None
    remedy: str | None = None


STARTS, REFUSES, UNKNOWN = "starts", "refuses", "unknown"


class NodeSettings(NamedTuple):
    """A node's settings; `values` is None where nobody named a file, and little is known."""

    path: str | None
    values: Mapping[str, str] | None
    kraft: bool
    log_dirs: tuple[str, ...]
    elsewhere: bool = False  # the directories are not those that the settings name: a copy
    dirs_named: int = 0  # so many directories the settings name then

    @property
    def node_id(self) -> int | None:
        """The id that the settings give; below 0 or None: they leave it to the directories."""
        if self.values is None:
            return None
        names = ("node.id", "broker.id") if self.kraft else ("broker.id",)
        return next((_number(self.values[name]) for name in names if name in self.values), None)

    @property
    def metadata_dir(self) -> str | None:
        """Where the metadata log lies; None where that is not known, or there is none."""
        if not self.kraft:
            return None
        if self.values is not None and not self.elsewhere:
            return self.values.get("metadata.log.dir") or next(iter(self.log_dirs), None)
        return next(filter(has_metadata, self.log_dirs), next(iter(self.log_dirs), None))

    @property
    def voters(self) -> set[int]:
        """The ids of a static quorum; empty where the quorum is dynamic, or not known."""
        given = (self.values or {}).get("controller.quorum.voters", "")
        found = (_number(part.partition("@")[0].strip()) for part in given.split(","))
        return {number for number in found if number is not None}


def has_metadata(directory: str) -> bool:
    """Whether a data directory has a metadata log."""
    return os.path.isdir(os.path.join(directory, names.METADATA_LOG))


def is_krafts(directory: str) -> bool:
    """Whether a data directory shows that its node keeps metadata by itself."""
    return has_metadata(directory) or meta_of(directory).get("version") == "1"


def read_node(
    server_properties: str | None, directories: tuple[str, ...], broker: Version
) -> NodeSettings:
    """Read a node's settings, or tell from its directories what it is.

    Where none of the directories is among those that the settings name, they are a copy of them.
    """
    if server_properties is None:
        kraft = has(broker, v.KRAFT) and (
            has(broker, v.KRAFT_ONLY) or any(map(is_krafts, directories))
        )
        return NodeSettings(None, None, kraft, tuple(sorted(directories)))
    text = read_whole(server_properties, _LIMIT).decode("latin-1")
    # No path has a zero in it, and asking the system for one that does raises.
    values = {name: value.strip().replace("\0", "") for name, value in java_properties(text)}
    kraft = has(broker, v.KRAFT_ONLY) or (
        has(broker, v.KRAFT) and bool(values.get("process.roles"))
    )
    named = values.get("log.dirs") or values.get("log.dir") or _DEFAULT_LOG_DIR
    dirs = tuple(part.strip() for part in named.split(",") if part.strip())
    own = {os.path.realpath(each) for each in (*dirs, values.get("metadata.log.dir")) if each}
    if directories and own.isdisjoint(map(os.path.realpath, directories)):
        return NodeSettings(server_properties, values, kraft, directories, True, len(dirs))
    return NodeSettings(server_properties, values, kraft, dirs)


def check_settings(node: NodeSettings, broker: Version) -> Iterator[Fact]:
    """Say what of the settings a broker refuses before it looks at a directory (N1, N2)."""
    values = node.values
    if values is None or not has(broker, v.COUNTED_OFFSETS):  # 0.7 had other names
        return
    if any("${" in value for value in values.values()):
        message = "The values that config.providers substitute for ${...} are unknown."
        yield Fact(UNKNOWN, "settings", message, node.path)
        return
    kraft = has(broker, v.KRAFT) and node.kraft
    of_kind = _kraft(values, broker) if kraft else _protocol(values, broker)
    # What does not go together is asked where each value is sound, and there once for each cause.
    found = [*_values(values, broker), *_find_missing(values, broker, kraft=kraft)] or list(
        chain(
            check_relations(values, broker, _first_of_each_cause(of_kind), kraft=kraft),
            _by_code(values, broker, kraft=kraft),
        )
    )
    for message in list_unknown_classes(values, broker):
        remedy = "Make sure that its jar is on the broker's class path (libs, CLASSPATH)."
        yield Fact(UNKNOWN, "class", message, node.path, remedy)
    for cause, message, remedy in dict.fromkeys(found):
        yield Fact(REFUSES, cause, message, node.path, remedy)


def _by_code(values: Mapping[str, str], broker: Version, *, kraft: bool) -> Iterator[Refusal]:
    """What else is refused once all that was looked at before is sound."""
    for message in check_rules(values, broker, kraft=kraft):
        yield "settings", message, "Change the setting that the message names."
    for name in ("inter.broker.protocol.version", "log.message.format.version"):
        said = values.get(name)
        if said is None or not kraft or has(broker, v.KRAFT_ONLY):
            continue  # without KRaft the broker's own words say it: `_protocol`
        try:
            known = not is_newer(read_broker_version(said), broker)
        except ValueError:
            known = False
        if not known:
            message = f"Invalid value {said} for configuration {name}: no valid version"
            yield "protocol", message, f"Set {name} to a version up to the broker's own."
    migrates = values.get("zookeeper.metadata.migration.enable", "").strip().lower() == "true"
    needed = "zookeeper.connect" if kraft else "controller.quorum.voters"
    if migrates and needed not in values and not has(broker, v.KRAFT_ONLY):
        message = f"`zookeeper.metadata.migration.enable` needs `{needed}` to be set as well."
        yield "settings", message, f"Set {needed}, or disable the migration."
    if not kraft and has(broker, v.KRAFT) and not has(broker, v.KRAFT_ONLY):
        yield from _first_of_each_cause(_quorum_addresses(values))


def _first_of_each_cause(refusals: Iterator[Refusal]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for refusal in refusals:
        if refusal[0] not in seen:
            seen.add(refusal[0])
            yield refusal


def _values(values: Mapping[str, str], broker: Version) -> Iterator[Refusal]:
    """What is refused of single values as they are read."""
    for name, message in check_values(values, broker):
        if name == "node.id" and "Not a number" in message and has(broker, v.KRAFT_ONLY):
            # The two are synonyms; a broker reads node.id where broker.id is not set (N1).
            message = message.replace("node.id", "broker.id")
        cause = "node-id" if name == "node.id" and "at least" in message else "settings"
        yield cause, message, f"Set {name} to a valid value, or remove it to use the default."


def _find_missing(values: Mapping[str, str], broker: Version, *, kraft: bool) -> Iterator[Refusal]:
    """What has no default and is not there; node.id may be given as broker.id."""
    required = ["zookeeper.connect"]
    if kraft:
        required = ["process.roles", "node.id"]
        if has(broker, v.CONTROLLER_LISTENERS_REQUIRED):
            required.append("controller.listener.names")
    for name in required:
        if name in values or (name == "node.id" and "broker.id" in values):
            continue
        quoted = f"`{name}`" if not kraft and has(broker, v.KRAFT) else f'"{name}"'
        cause = "node-id" if name == "node.id" else "settings"
        message = f"Missing required configuration {quoted} which has no default value."
        yield cause, message, _SET[name]


def _kraft(values: Mapping[str, str], broker: Version) -> Iterator[Refusal]:
    roles = [role.strip() for role in values.get("process.roles", "").split(",") if role.strip()]
    voters = values.get("controller.quorum.voters", "")
    node_id = values.get("node.id", values.get("broker.id"))
    if not roles and not has(broker, v.LISTS_CHECKED):
        message = (
            "A node without a role logs that it has started, and exits immediately with status 0."
        )
        yield "settings", message, _SET["process.roles"]
    if len(set(roles)) < len(roles) and not has(broker, v.LISTS_CHECKED):
        message = f"Duplicate role names found in `process.roles`: ArrayBuffer({', '.join(roles)})"
        yield "settings", message, _SET["process.roles"]
    if "broker.id" in values and values["broker.id"] != node_id:
        message = (
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, "
            "please use `node.id` instead."
            if has(broker, v.SETTINGS_REWORDED)
            else "You must set `node.id` to the same value as `broker.id`."
        )
        yield "node-id", message, "Remove broker.id; only node.id is used."
    if not has(broker, v.KRAFT_ONLY) and (_number(node_id or "-1") or 0) < 0:
        message = (
            "Missing configuration `node.id` which is required when `process.roles` is defined "
            "(i.e. when running in KRaft mode)."
        )
        yield "node-id", message, _SET["node.id"]
    yield from _voters(values, roles, voters, node_id, broker)
    of_controllers = values.get("controller.listener.names", "").replace(",", " ").split()
    needs = "controller" in roles and has(broker, v.ROLES_CHECKED)
    if needs and not of_controllers:
        message = (
            "requirement failed: controller.listener.names must contain at least one value "
            "appearing in the 'listeners' configuration when running the KRaft controller role"
        )
        yield "settings", message, _SET["controller.listener.names"]


_SET = {
    "process.roles": "Set process.roles to broker, controller, or both.",
    "node.id": "Set node.id to the number in meta.properties.",
    "zookeeper.connect": "Set zookeeper.connect to the cluster's ZooKeeper.",
    "controller.listener.names": (
        "Set controller.listener.names to the name of the controllers' listener."
    ),
}


def _voters(
    values: Mapping[str, str],
    roles: list[str],
    voters: str,
    node_id: str | None,
    broker: Version,
) -> Iterator[Refusal]:
    yield from _quorum_addresses(values)
    ids = [entry.strip().partition("@")[0] for entry in voters.split(",") if entry.strip()]
    servers = values.get("controller.quorum.bootstrap.servers", "")
    if not ids and not servers:
        message = (
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the "
            "set of bootstrap controllers or controller.quorum.voters must contain a parseable "
            "set of controllers."
        )
        yield "voters", message, _VOTERS
    shown = f"node id {node_id}"
    if ids and "controller" in roles and node_id not in ids:
        message = (
            f"requirement failed: If process.roles contains the 'controller' role, the {shown} "
            f"must be included in the set of voters controller.quorum.voters=Set({', '.join(ids)})"
        )
        yield "voters", message, _VOTERS
    elif set(roles) == {"broker"} and node_id in ids and has(broker, v.ROLES_CHECKED):
        message = (
            f"requirement failed: If process.roles contains just the 'broker' role, the {shown} "
            "must not be included in the set of voters "
            f"controller.quorum.voters=Set({', '.join(ids)})"
        )
        yield "voters", message, _VOTERS


def _quorum_addresses(values: Mapping[str, str]) -> Iterator[Refusal]:
    """What is refused of each address of the quorum as it is read."""
    voters = values.get("controller.quorum.voters", "")
    for entry in filter(None, (each.strip() for each in voters.split(","))):
        number, at, address = entry.partition("@")
        if at and not address:
            message = (
                "Invalid configuration value for controller.quorum.voters. Each entry should be in "
                "the form `{id}@{host}:{port}`."
            )
            yield "voters", message, _VOTERS
        if not at or java_int(number, _INT) is None:
            message = f"Failed to parse voter ID as an integer from {number}"
            yield "voters", message, _VOTERS
        elif not re.fullmatch(r".*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+", address):
            message = (
                f"Failed to parse host name from entry {entry} for the configuration "
                "controller.quorum.voters. Each entry should be in the form `{id}@{host}:{port}`."
            )
            yield "voters", message, _VOTERS
    servers = values.get("controller.quorum.bootstrap.servers", "")
    for entry in filter(None, (each.strip() for each in servers.split(","))):
        match = re.fullmatch(r".*?\[?[0-9a-zA-Z\-%._:]*\]?:([0-9]+)", entry)
        message = (
            f"Failed to parse host name from {entry} for the configuration "
            'controller.quorum.bootstrap.servers. Each entry should be in the form "{host}:{port}"'
        )
        if match is not None:
            message = "" if int(match[1]) < 1 << 16 else f"port out of range:{match[1]}"
        if message:
            yield "voters", message, _VOTERS


_VOTERS = (
    "Set controller.quorum.voters to the value of the other controllers (ID@HOST:PORT for each); "
    "a node with a different quorum starts a separate history of the cluster."
)


def _protocol(values: Mapping[str, str], broker: Version) -> Iterator[Refusal]:
    """What contradicts between the version of the protocol and that of messages (N2)."""
    known = {}
    for name in ("inter.broker.protocol.version", "log.message.format.version"):
        said = values.get(name)
        if said is None:
            continue
        version = known[name] = protocol_version(said)
        if version is None or is_newer(version, broker):
            quoted = said if has(broker, v.VERSIONS_UNQUOTED) else f"`{said}`"
            message = f"Version {quoted} is not a valid version"
            if has(broker, v.PROTOCOL_VALIDATED):
                message = f"Invalid value {said} for configuration {name}: {message}"
            yield "protocol", message, f"Set {name} to a version up to the broker's own."
    protocol = known.get("inter.broker.protocol.version")
    form = known.get("log.message.format.version")
    shown = values.get("log.message.format.version")
    if shown is None:
        shown = newest_protocol(broker)
        form = None if shown is None else read_version(shown)
    if protocol is None or form is None:
        return
    if has(broker, v.PROTOCOL_REWORDED):
        needed = next((change.since for change in (v.RECORD_BATCHES, v.MESSAGE_TIMESTAMPS)
                       if has(form, change) and not has(protocol, change)), None)  # fmt: skip
        if needed is None:
            return
        message = (
            f"requirement failed: log.message.format.version {shown} can only be used when "
            f"inter.broker.protocol.version is set to version {text_of((*needed, 0))} or higher"
        )
    elif form <= protocol:
        return
    else:
        message = (
            f"requirement failed: log.message.format.version {shown} cannot be used when "
            f"inter.broker.protocol.version is set to {values['inter.broker.protocol.version']}"
        )
    yield (
        "protocol",
        message,
        (
            "Lower log.message.format.version, or raise inter.broker.protocol.version once every "
            "broker runs that version: neither can be undone for records written in the meantime."
        ),
    )


def _number(text: str) -> int | None:
    return java_int(text, _INT)

"""The settings of a node that its start hangs on, and what of them a broker refuses (N1, N2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kdump.broker import versions as v
from kdump.broker.versions import Version, has, is_newer, protocol_version, short_name
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.properties import java_properties
from kdump.storage.source import whole

_LIMIT = 1 << 20
_INT = 1 << 31
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"
_ROLES = ("broker", "controller")


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
        return next(filter(holds_metadata, self.log_dirs), next(iter(self.log_dirs), None))

    @property
    def voters(self) -> set[int]:
        """The ids of a static quorum; empty where the quorum is dynamic, or not known."""
        given = (self.values or {}).get("controller.quorum.voters", "")
        found = (_number(part.partition("@")[0].strip()) for part in given.split(","))
        return {number for number in found if number is not None}


def holds_metadata(directory: str) -> bool:
    """Whether a data directory has a metadata log."""
    return os.path.isdir(os.path.join(directory, f"{names.CLUSTER_METADATA_TOPIC}-0"))


def read_node(
    server_properties: str | None, directories: tuple[str, ...], broker: Version
) -> NodeSettings:
    """Read a node's settings, or tell from its directories what it is.

    Where none of the directories is among those that the settings name, they are a copy of them.
    """
    if server_properties is None:
        kraft = has(broker, v.KRAFT) and (
            has(broker, v.KRAFT_ONLY) or any(map(holds_metadata, directories))
        )
        return NodeSettings(None, None, kraft, tuple(sorted(directories)))
    text = whole(server_properties, _LIMIT).decode("latin-1")
    # No path has a zero in it, and asking the system for one that does raises.
    values = {name: value.strip().replace("\0", "") for name, value in java_properties(text)}
    kraft = has(broker, v.KRAFT_ONLY) or (
        has(broker, v.KRAFT) and bool(values.get("process.roles"))
    )
    named = values.get("log.dirs") or values.get("log.dir") or _DEFAULT_LOG_DIR
    dirs = tuple(part.strip() for part in named.split(",") if part.strip())
    own = {os.path.realpath(each) for each in (*dirs, values.get("metadata.log.dir", ""))}
    if directories and own.isdisjoint(map(os.path.realpath, directories)):
        return NodeSettings(server_properties, values, kraft, directories, True, len(dirs))
    return NodeSettings(server_properties, values, kraft, dirs)


def settings_refused(node: NodeSettings, broker: Version) -> Iterator[Fact]:
    """Say what of the settings a broker refuses before it looks at a directory (N1, N2)."""
    values = node.values
    if values is None:
        return
    if has(broker, v.KRAFT) and node.kraft:
        found = next(_kraft(values, broker), None)
    else:
        found = next(_protocol(values, broker), None)
    found = next(_numbers(values, broker), None) or found
    if found is not None:
        cause, message, remedy = found
        yield Fact(REFUSES, cause, message, node.path, remedy)


_Refusal = tuple[str, str, str]
_INTS = (
    "num.network.threads", "num.io.threads", "log.segment.bytes", "num.partitions",
    "num.recovery.threads.per.data.dir", "log.index.size.max.bytes", "log.index.interval.bytes",
)  # fmt: skip


def _numbers(values: Mapping[str, str], broker: Version) -> Iterator[_Refusal]:
    names = ("node.id", "broker.id", *_INTS) if has(broker, v.KRAFT) else ("broker.id", *_INTS)
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        number = java_int(value, _INT)
        # The two are synonyms; a broker reads node.id where broker.id is not set (N1).
        shown = "broker.id" if name == "node.id" else name
        start = f"Invalid value {value} for configuration"
        if number is None:
            yield "settings", f"{start} {shown}: Not a number of type INT", f"Give {name} a number."
        elif name == "node.id" and number < 0 and has(broker, v.KRAFT_ONLY):
            yield "node-id", f"{start} node.id: Value must be at least 0", "Set node.id."
        elif name == "log.segment.bytes":
            least = (1 << 20) if has(broker, v.SEGMENTS_OF_A_MEBIBYTE) else 14
            if number < least:
                message = f"{start} {name}: Value must be at least {least}"
                yield "settings", message, f"Set {name} to {least} or more."


def _kraft(values: Mapping[str, str], broker: Version) -> Iterator[_Refusal]:
    missing = 'Missing required configuration "{}" which has no default value.'
    roles = [role.strip() for role in values.get("process.roles", "").split(",") if role.strip()]
    voters = values.get("controller.quorum.voters", "")
    node_id = values.get("node.id", values.get("broker.id"))
    for name, value in (("process.roles", values.get("process.roles")), ("node.id", node_id)):
        if value is None:
            yield "settings" if name != "node.id" else "node-id", missing.format(name), _SET[name]
    for role in roles:
        if role not in _ROLES:
            message = (
                f"Invalid value {role} for configuration process.roles: String must be one of: "
                "broker, controller"
            )
            yield "settings", message, _SET["process.roles"]
    if len(set(roles)) < len(roles) and not has(broker, v.LOG_DIRS_NOT_EMPTY):
        message = f"Duplicate role names found in `process.roles`: ArrayBuffer({', '.join(roles)})"
        yield "settings", message, _SET["process.roles"]
    names = values.get("controller.listener.names")
    asked_at_once = has(broker, v.CONTROLLER_LISTENERS_REQUIRED)
    if names is None and asked_at_once:
        yield "settings", missing.format("controller.listener.names"), _SET["listeners"]
    if values.get("log.dirs") == "":
        message = (
            "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value"
            if has(broker, v.LOG_DIRS_NOT_EMPTY)
            else "requirement failed: At least one log directory must be defined via log.dirs or "
            "log.dir."
        )
        yield "settings", message, "Set log.dirs to the node's data directories."
    if "broker.id" in values and values["broker.id"] != node_id:
        message = (
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, "
            "please use `node.id` instead."
            if has(broker, v.LOG_DIRS_NOT_EMPTY)
            else "You must set `node.id` to the same value as `broker.id`."
        )
        yield "node-id", message, "Remove broker.id; node.id is what counts."
    yield from _voters(values, roles, voters, node_id)
    if names is None and "controller" in roles:
        message = (
            "requirement failed: controller.listener.names must contain at least one value "
            "appearing in the 'listeners' configuration when running the KRaft controller role"
        )
        yield "settings", message, _SET["listeners"]


_SET = {
    "process.roles": "Set process.roles to broker, controller, or both.",
    "node.id": "Set node.id to the number in meta.properties.",
    "listeners": "Set controller.listener.names to the name of the controllers' listener.",
}


def _voters(
    values: Mapping[str, str], roles: list[str], voters: str, node_id: str | None
) -> Iterator[_Refusal]:
    ids = []
    for entry in filter(None, (each.strip() for each in voters.split(","))):
        number, at, address = entry.partition("@")
        if not at or java_int(number, _INT) is None:
            message = f"Failed to parse voter ID as an integer from {number}"
            yield "voters", message, _VOTERS
        elif not re.fullmatch(r".*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+", address):
            message = (
                f"Failed to parse host name from entry {entry} for the configuration "
                "controller.quorum.voters. Each entry should be in the form `{id}@{host}:{port}`."
            )
            yield "voters", message, _VOTERS
        ids.append(number)
    if not ids and not values.get("controller.quorum.bootstrap.servers"):
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
    elif ids and set(roles) == {"broker"} and node_id in ids:
        message = (
            f"requirement failed: If process.roles contains just the 'broker' role, the {shown} "
            "must not be included in the set of voters "
            f"controller.quorum.voters=Set({', '.join(ids)})"
        )
        yield "voters", message, _VOTERS


_VOTERS = (
    "Set controller.quorum.voters as the other controllers have it, ID@HOST:PORT for each; a node "
    "that is given a quorum of its own begins another history of the cluster."
)


def _protocol(values: Mapping[str, str], broker: Version) -> Iterator[_Refusal]:
    """What contradicts between the version of the protocol and that of messages (N2)."""
    known = {}
    for name in ("inter.broker.protocol.version", "log.message.format.version"):
        said = values.get(name)
        if said is None:
            continue
        version = known[name] = protocol_version(said)
        if version is None or is_newer(version, broker):
            message = f"Version `{said}` is not a valid version"
            if has(broker, v.PROTOCOL_VALIDATED):
                message = f"Invalid value {said} for configuration {name}: {message}"
            yield "protocol", message, f"Set {name} to a version up to the broker's own."
    protocol, form = (known.get(name) for name in
                      ("inter.broker.protocol.version", "log.message.format.version"))  # fmt: skip
    if protocol is None or form is None or form <= protocol:
        return
    shown_form, shown_protocol = values["log.message.format.version"], short_name(form)
    message = (
        f"requirement failed: log.message.format.version {shown_form} can only be used when "
        f"inter.broker.protocol.version is set to version {shown_protocol} or higher"
        if has(broker, v.PROTOCOL_REWORDED)
        else f"requirement failed: log.message.format.version {shown_form} cannot be used when "
        f"inter.broker.protocol.version is set to {values['inter.broker.protocol.version']}"
    )
    yield (
        "protocol",
        message,
        (
            "Lower log.message.format.version, or raise inter.broker.protocol.version once every "
            "broker runs that version: neither can be taken back for what is written meanwhile."
        ),
    )


def _number(text: str) -> int | None:
    return java_int(text, _INT)

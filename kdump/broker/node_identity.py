"""Whose the data directories of a node are, as a start reads `meta.properties` (N3 to N6)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from kdump.broker.node_directories import User
from kdump.broker.node_settings import REFUSES, STARTS, Fact, NodeSettings
from kdump.broker.versions import (
    CLUSTER_ID_KEPT,
    DIRECTORY_FAILURES,
    META_ENSEMBLE,
    META_OPENED_AS_PATH,
    META_PROPERTIES,
    META_VERSION_IMPLIED,
    Version,
    has,
)
from kdump.errors import PathError
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.properties import SIZE_LIMIT, java_properties
from kdump.storage.source import whole

_INT = 1 << 31
_RESERVED_IDS = 100
_MALFORMED = re.compile(r"^[ \t\f]*[^#!\s].*?(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", re.MULTILINE)
_DIRECTORY_ID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?\Z")
_MOVED = (
    "If you moved your data, make sure your configured {0} matches. If you intend to create a new "
    "{1}, you should remove all data in your data directories{2}."
)
_RESTORE = (
    "Write the file again with the ids of this node: from a sibling directory, from a backup, or "
    "by hand (version, node.id, cluster.id); nothing is lost by that. Do not format a directory "
    "that holds the only copy of records."
)


class Meta(NamedTuple):
    """What a data directory's file says; `absent`, or `broken` with why, or its values."""

    directory: str
    absent: bool = False
    broken: str = ""
    is_io: bool = False
    denied: bool = False  # to the broker's user
    values: dict[str, str] | None = None

    @property
    def path(self) -> str:
        return os.path.join(self.directory, names.META_PROPERTIES)

    def get(self, name: str) -> str | None:
        return (self.values or {}).get(name)


def read_metas(node: NodeSettings, broker: Version, user: User | None = None) -> list[Meta]:
    """Read the file of each data directory, in the order of the settings."""
    dirs = dict.fromkeys((*node.log_dirs, *filter(None, [node.metadata_dir])))
    deletes_first = has(broker, META_OPENED_AS_PATH) and not has(broker, META_ENSEMBLE)
    return [_read(directory, user, deletes_first) for directory in dirs]


def _read(directory: str, user: User | None, deletes_first: bool) -> Meta:
    path = os.path.join(directory, names.META_PROPERTIES)
    if user is not None and os.path.isdir(directory):
        if not user.may(directory, "x"):
            ending = ".tmp" if deletes_first else ""
            return Meta(directory, broken=path + ending, is_io=True, denied=True)
        if os.path.lexists(path) and not user.may(path, "r"):
            return Meta(directory, broken=path, is_io=True, denied=True)
    if not os.path.lexists(path):
        if os.path.lexists(directory) and not os.path.isdir(directory):
            return Meta(directory, broken=f"{path}: Not a directory", is_io=True)
        return Meta(directory, absent=True)
    if os.path.isdir(path):
        return Meta(directory, broken="Is a directory", is_io=True)
    try:
        text = whole(path, SIZE_LIMIT).decode("latin-1")
    except PathError as error:
        return Meta(directory, broken=str(error), is_io=True)
    if _MALFORMED.search(text):
        return Meta(directory, broken="Malformed \\uxxxx encoding.")
    return Meta(directory, values=dict(java_properties(text)))


def identity_facts(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    """Say what a start makes of the files; it stops at the first that refuses."""
    if not has(broker, META_PROPERTIES):
        return
    if node.kraft and has(broker, META_ENSEMBLE):
        yield from _ensemble(node, metas)
    elif has(broker, META_VERSION_IMPLIED):
        yield from _raw(node, metas, broker)
    else:
        yield from _checkpoint(node, metas, broker)


# From 3.7 on: all of them together, sorted by path.


def _ensemble(node: NodeSettings, metas: list[Meta]) -> Iterator[Fact]:
    metas = sorted((_parsed(meta) for meta in metas), key=lambda meta: meta.directory)
    sound = [meta for meta in metas if meta.values is not None]
    broken = [meta for meta in metas if meta.broken]
    if not sound:
        first = next(iter(broken), metas[0])
        why = f" ({first.path}: {first.broken})" if first.broken else ""
        yield Fact(
            REFUSES,
            _unread_cause(first) if broken else "meta-missing",
            "No readable meta.properties files found.",
            first.path,
            f"{_RESTORE}{why}",
        )
        return
    refused = _agree(node, sound)
    if refused is not None:
        yield refused
        return
    for meta in broken:
        if meta.directory == node.metadata_dir:
            message = (
                f"Encountered I/O error in metadata log directory {meta.directory}. "
                "Cannot continue."
            )
            remedy = f"{_RESTORE} ({meta.broken})"
            yield Fact(REFUSES, _unread_cause(meta), message, meta.path, remedy)
            return
    yield from _misplaced(node, sound)
    for meta in metas:
        if meta.absent:
            yield _not_formatted(meta)
            return
    for meta in sound:
        for name, what, cause in (
            ("node.id", "node ID", "node-id"), ("cluster.id", "cluster ID", "cluster-id")
        ):  # fmt: skip
            if _own(meta, name) is None:
                message = f"Error: {what} not found in {meta.directory}"
                empty = not any(meta.values or ())
                yield Fact(REFUSES, "meta-empty" if empty else cause, message, meta.path, _RESTORE)
                return
    for meta in broken:
        yield _offline(meta)


def _not_formatted(meta: Meta) -> Fact:
    message = (
        f"No `meta.properties` found in {meta.directory} (have you run `kafka-storage.sh` to "
        "format the directory?)"
    )
    remedy = (
        "If its disk is not mounted, mount it. If it is a new, empty directory, kafka-storage.sh "
        "format --ignore-formatted with this cluster's id; its replicas are copied again from "
        "other brokers. Or take it out of log.dirs, which leaves its replicas out."
    )
    return Fact(REFUSES, "meta-missing", message, meta.path, remedy)


def _offline(meta: Meta) -> Fact:
    return Fact(
        STARTS,
        "directory-offline",
        meta.broken,
        meta.path,
        f"The node starts without this directory: its replicas are offline. {_RESTORE}",
    )


def _parsed(meta: Meta) -> Meta:
    """Mark a file as broken that the reader of 3.7 and newer cannot take."""
    if meta.values is None:
        return meta
    why = _unreadable(meta.values)
    return Meta(meta.directory, broken=why) if why else meta


def _unreadable(values: dict[str, str]) -> str:
    said = values.get("version", "0")
    version = java_int(said.strip(), _INT)
    if version is None:
        return f"Invalid meta.properties version string '{said}'"
    if version not in (0, 1):
        return f"Unknown meta.properties version number {version}"
    name = "node.id" if version else "broker.id"
    if version or name in values:
        if name not in values:
            return f"Failed to find {name}"
        if java_int(values[name], _INT) is None:
            return f"Unable to read {name} as a base-10 number."
    identity = values.get("directory.id")
    if identity is not None and _DIRECTORY_ID.match(identity) is None:
        return "Unable to read directory.id as a Uuid"
    if version and "cluster.id" not in values:
        return "cluster.id was not found."
    return ""


def _own(meta: Meta, name: str) -> str | None:
    """Give an id; version 0 has a broker's in place of a node's."""
    if name == "node.id" and java_int((meta.get("version") or "0").strip()) == 0:
        name = "broker.id"
    return meta.get(name)


def _agree(node: NodeSettings, sound: list[Meta]) -> Fact | None:
    """Hold them against the settings and each other, in the broker's order."""
    cluster, number = None, node.node_id
    seen: dict[int, str] = {}
    for meta in sound:
        own = _own(meta, "node.id")
        stored = None if own is None else java_int(own, _INT)
        said = meta.get("cluster.id")
        cluster = said if cluster is None else cluster
        if said not in (None, cluster):
            message = f"Invalid cluster.id in: {meta.path}. Expected {cluster}, but read {said}"
            return Fact(REFUSES, "cluster-id", message, meta.path, _OTHERS)
        number = stored if number is None else number
        if stored not in (None, number):
            message = (
                f"Stored node id {stored} doesn't match previous node id {number} in {meta.path}. "
                + _MOVED.format("node id", "node", "")
            )
            return Fact(REFUSES, "node-id", message, meta.path, _OWN_ID)
        identity = meta.get("directory.id")
        if identity is None:
            continue
        bits = int.from_bytes(base64.urlsafe_b64decode(identity[:22] + "=="), "big")
        shown = base64.urlsafe_b64encode(bits.to_bytes(16, "big")).decode().rstrip("=")
        if bits < _RESERVED_IDS:
            message = f"Invalid reserved directory ID {shown} found in {meta.directory}"
            return Fact(REFUSES, "directory-id", message, meta.path, _NEW_ID)
        if bits in seen:
            message = (
                f"Duplicate directory ID Optional[{shown}] found. It was the ID of {seen[bits]}, "
                f"but also of {meta.directory}"
            )
            return Fact(REFUSES, "directory-id", message, meta.path, _NEW_ID)
        seen[bits] = meta.directory
    return None


_OTHERS = (
    "Find out whose directory this is; if it was mounted here by mistake, mount the right one. "
    "Only if its records are this cluster's, write that cluster.id into the file: topics that the "
    "cluster does not know are set aside as strays."
)
_OWN_ID = (
    "Give the node the id that its directories have (node.id, or broker.id), which loses nothing. "
    "Do not change the file instead: records would be served under another node's name, and the "
    "cluster sets aside what it does not place there."
)
_NEW_ID = (
    "Remove the line directory.id from one of the files: the start draws a new one, and the "
    "cluster learns by it where the replicas lie."
)


def _misplaced(node: NodeSettings, sound: list[Meta]) -> Iterator[Fact]:
    for meta in sound:
        found = os.path.join(meta.directory, f"{names.CLUSTER_METADATA_TOPIC}-0")
        if meta.directory != node.metadata_dir and os.path.lexists(found):
            message = (
                f"Found unexpected metadata location in data directory `{found}` (the configured "
                f"metadata directory is {node.metadata_dir})."
            )
            remedy = (
                "Set metadata.log.dir to where the metadata log is. Where both have one, keep the "
                "longer of the later epoch and move the other away: it loses nothing that the "
                "quorum has committed."
            )
            yield Fact(REFUSES, "metadata-misplaced", message, found, remedy)
            return


# From 2.8 to 3.6: files are compared as they are.


def _raw(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    online = [meta for meta in metas if not (meta.broken and meta.is_io)]
    for meta in online:
        if meta.broken:
            yield Fact(REFUSES, "meta-malformed", meta.broken, meta.path, _RESTORE)
            return
        if meta.absent and node.kraft:
            yield _not_formatted(meta)
            return
    offline = [meta for meta in metas if meta.broken]
    if len(offline) == len(metas) and not node.kraft:
        yield _offline(offline[0])._replace(outcome=REFUSES, cause=_unread_cause(offline[0]))
        return
    if node.kraft and any(meta.directory == node.metadata_dir for meta in offline):
        message = (
            "Cannot start server since `meta.properties` could not be loaded from "
            f"{node.metadata_dir}"
        )
        yield Fact(REFUSES, "meta-malformed", message, offline[0].path, _RESTORE)
        return
    found = [meta for meta in online if meta.values is not None]
    if len({tuple(sorted((meta.values or {}).items())) for meta in found}) > 1:
        yield _inconsistent(found)
        return
    if found:
        yield from _raw_values(node, found[0], broker)
    yield from map(_offline, offline)


def _inconsistent(found: list[Meta]) -> Fact:
    message = (
        "BrokerMetadata is not consistent across log.dirs. This could happen if multiple brokers "
        "shared a log directory (log.dirs) or partial data was manually copied from another "
        "broker. Found:"
    )
    remedy = (
        "Compare the files; if one directory is another broker's, mount the right one, else copy "
        "the right file over the other."
    )
    return Fact(REFUSES, _differing(found), message, found[-1].path, remedy)


def _differing(found: list[Meta]) -> str:
    for name, cause in (("broker.id", "node-id"), ("cluster.id", "cluster-id")):
        if len({meta.get(name) for meta in found if meta.values}) > 1:
            return "meta-empty" if any(not meta.values for meta in found) else cause
    return "meta-version"


def _raw_values(node: NodeSettings, meta: Meta, broker: Version) -> Iterator[Fact]:
    values = meta.values or {}
    for name in ("version", "broker.id", "node.id")[: 3 if node.kraft else 2]:
        said = values.get(name)
        if said is not None and java_int(said, _INT) is None:
            message = f'Failed to parse {name} property as an int: For input string: "{said}"'
            cause = "meta-version" if name == "version" else "node-id"
            yield Fact(REFUSES, cause, message, meta.path, _RESTORE)
            return
        if name == "version" and not node.kraft and java_int(said or "0") != 0:
            listed = ", ".join(f"{key}={values[key]}" for key in sorted(values))
            message = (
                f"Found unexpected version in loaded `meta.properties`: {{{listed}}}. Zk-based "
                "brokers only support version 0 (which is implicit when the `version` field is "
                "missing)."
            )
            yield Fact(REFUSES, "meta-version", message, meta.path, _RESTORE)
            return
    name = "node.id" if node.kraft and values.get("version") == "1" else "broker.id"
    said = values.get(name)
    stored = None if said is None else java_int(said, _INT)
    own = node.node_id
    if own is None or stored in (None, own) or (own < 0 and not node.kraft):
        return
    if node.kraft:
        message = (
            f"Configured node.id `{own}` doesn't match stored node.id `{stored}' in "
            "meta.properties. " + _MOVED.format("controller.id", "broker", " (log.dirs)")
        )
    else:
        message = (
            f"Configured broker.id {own} doesn't match stored broker.id Some({stored}) in "
            "meta.properties. " + _MOVED.format("broker.id", "broker", " (log.dirs)")
        )
    yield Fact(REFUSES, "node-id", message, meta.path, _OWN_ID)


# From 0.8.2 to 2.7: each by itself, a version and an id must be there.


def _checkpoint(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    offline: list[Meta] = []
    ids: list[int] = []
    for meta in metas:
        why, cause, is_io = _old_problem(meta, broker)
        if why and is_io and has(broker, DIRECTORY_FAILURES):
            offline.append(meta._replace(broken=why))
        elif why:
            yield Fact(REFUSES, cause, why, meta.path, _RESTORE)
            return
        elif meta.values is not None:
            ids.append(int(meta.values["broker.id"]))
    found = [meta for meta in metas if meta.values is not None and meta not in offline]
    if has(broker, CLUSTER_ID_KEPT) and len({meta.get("cluster.id") for meta in found}) > 1:
        yield _inconsistent(found)
        return
    if len(set(ids)) > 1:
        if has(broker, CLUSTER_ID_KEPT):
            yield _inconsistent(found)
            return
        message = (
            "Failed to match broker.id across log.dirs. This could happen if multiple brokers "
            "shared a log directory (log.dirs) or partial data was manually copied from another "
            "broker. Found"
        )
        yield Fact(REFUSES, "node-id", message, found[-1].path, _OTHERS)
        return
    own = node.node_id
    if ids and own is not None and own >= 0 and ids[0] != own:
        stored = f"Some({ids[0]})" if has(broker, META_VERSION_IMPLIED) else ids[0]
        message = (
            f"Configured broker.id {own} doesn't match stored broker.id {stored} in "
            "meta.properties. " + _MOVED.format("broker.id", "broker", " (log.dirs)")
        )
        yield Fact(REFUSES, "node-id", message, found[0].path, _OWN_ID)
        return
    if offline and len(offline) == len(metas):
        yield _offline(offline[0])._replace(outcome=REFUSES, cause=_unread_cause(offline[0]))
        return
    yield from map(_offline, offline)


def _unread_cause(meta: Meta) -> str:
    return "permission" if meta.denied else "meta-malformed"


def _old_problem(meta: Meta, broker: Version) -> tuple[str, str, bool]:
    """What the reader of 0.8.2 to 2.7 throws: the sentence, a cause, whether it is of the disk."""
    if meta.absent or (meta.is_io and not has(broker, META_OPENED_AS_PATH)):
        return "", "", False
    if meta.values is None:
        return meta.broken, "meta-malformed", meta.is_io
    for name, cause in (("version", "meta-version"), ("broker.id", "node-id")):
        said = meta.values.get(name)
        if said is None:
            cause = "meta-empty" if not any(meta.values) else cause
            return f"requirement failed: Missing required property '{name}'", cause, False
        number = java_int(said.strip(), _INT)
        if number is None:
            return f'For input string: "{said.strip()}"', cause, False
        if number < 0:
            return (
                (
                    f"requirement failed: {name} has value {number} which is not in the range "
                    "(0,2147483647)."
                ),
                cause,
                False,
            )
        if name == "version" and number:
            message = f"Unrecognized version of the server meta.properties file: {number}"
            return message, cause, True
    return "", "", False

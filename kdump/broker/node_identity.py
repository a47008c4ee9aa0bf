"""Whose the data directories of a node are, as a start reads `meta.properties` (N3 to N6)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator

from kdump.broker import node_old_identity
from kdump.broker import versions as v
from kdump.broker.node_meta import (
    INT,
    MOVED,
    NEW_ID,
    RESTORE,
    Meta,
    advise_owner,
    explain_unread,
    offline_fact,
    unformatted_fact,
)
from kdump.broker.node_settings import REFUSES, Fact, NodeSettings
from kdump.broker.versions import Version, has
from kdump.storage import names
from kdump.storage.checkpoints import java_int

_RESERVED_IDS = 100
_DIRECTORY_ID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?\Z")


def identity_facts(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    """Say what a start makes of the files; it stops at the first that refuses."""
    if not has(broker, v.META_PROPERTIES):
        return
    if node.kraft and has(broker, v.META_ENSEMBLE):
        yield from _ensemble(node, metas)
    elif has(broker, v.META_VERSION_IMPLIED):
        yield from node_old_identity.compare_metas(node, metas, broker)
    else:
        yield from node_old_identity.check_each(node, metas, broker)


# From 3.7 on: all of them together, sorted by path.


def _ensemble(node: NodeSettings, metas: list[Meta]) -> Iterator[Fact]:
    metas = sorted((_check_meta(meta) for meta in metas), key=lambda meta: meta.directory)
    sound = [meta for meta in metas if meta.values is not None]
    broken = [meta for meta in metas if meta.broken]
    if not sound:
        first = next(iter(broken), metas[0])
        why = f" ({first.path}: {first.broken})" if first.broken else ""
        yield Fact(
            REFUSES,
            explain_unread(first) if broken else "meta-missing",
            "No readable meta.properties files found.",
            first.path,
            f"{RESTORE}{why}",
        )
        return
    refused = list(_check_agreement(node, sound))
    yield from refused
    for meta in broken:
        if meta.directory == node.metadata_dir:
            message = (
                f"Encountered I/O error in metadata log directory {meta.directory}. "
                "Cannot continue."
            )
            remedy = f"{RESTORE} ({meta.broken})"
            yield Fact(REFUSES, explain_unread(meta), message, meta.path, remedy)
    yield from _find_misplaced(node, sound)
    yield from map(unformatted_fact, (meta for meta in metas if meta.absent))
    for meta in sound:
        for name, what, cause in (
            ("node.id", "node ID", "node-id"), ("cluster.id", "cluster ID", "cluster-id")
        ):  # fmt: skip
            if _own(meta, name) is None:
                message = f"Error: {what} not found in {meta.directory}"
                empty = not any(meta.values or ())
                yield Fact(REFUSES, "meta-empty" if empty else cause, message, meta.path, RESTORE)
                break
    for meta in broken:
        if meta.directory != node.metadata_dir:
            yield offline_fact(meta)


def _check_meta(meta: Meta) -> Meta:
    """Mark a file as broken that the reader of 3.7 and newer cannot take."""
    if meta.values is None:
        return meta
    why = _unreadable(meta.values)
    return Meta(meta.directory, broken=why) if why else meta


def _unreadable(values: dict[str, str]) -> str:
    said = values.get("version", "0")
    version = java_int(said.strip(), INT)
    if version is None:
        return f"Invalid meta.properties version string '{said}'"
    if version not in (0, 1):
        return f"Unknown meta.properties version number {version}"
    name = "node.id" if version else "broker.id"
    if version or name in values:
        if name not in values:
            return f"Failed to find {name}"
        if java_int(values[name], INT) is None:
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


def _check_agreement(node: NodeSettings, sound: list[Meta]) -> Iterator[Fact]:
    """Hold them against the settings and each other, in the broker's order (N5, N6)."""
    cluster, number = None, node.node_id
    seen: dict[int, str] = {}
    for meta in sound:
        own = _own(meta, "node.id")
        stored = None if own is None else java_int(own, INT)
        said = meta.get("cluster.id")
        cluster = said if cluster is None else cluster
        if said not in (None, cluster):
            message = f"Invalid cluster.id in: {meta.path}. Expected {cluster}, but read {said}"
            yield Fact(
                REFUSES, "cluster-id", message, meta.path, advise_owner(node, sound, "cluster-id")
            )
            continue
        number = stored if number is None else number
        if stored not in (None, number):
            message = (
                f"Stored node id {stored} doesn't match previous node id {number} in {meta.path}. "
                + MOVED.format("node id", "node", "")
            )
            yield Fact(REFUSES, "node-id", message, meta.path, advise_owner(node, sound, "node-id"))
            continue
        identity = meta.get("directory.id")
        if identity is None:
            continue
        bits = int.from_bytes(base64.urlsafe_b64decode(identity[:22] + "=="), "big")
        shown = base64.urlsafe_b64encode(bits.to_bytes(16, "big")).decode().rstrip("=")
        if bits < _RESERVED_IDS:
            message = f"Invalid reserved directory ID {shown} found in {meta.directory}"
            yield Fact(REFUSES, "directory-id", message, meta.path, NEW_ID)
        elif bits in seen:
            message = (
                f"Duplicate directory ID Optional[{shown}] found. It was the ID of {seen[bits]}, "
                f"but also of {meta.directory}"
            )
            yield Fact(REFUSES, "directory-id", message, meta.path, NEW_ID)
        seen.setdefault(bits, meta.directory)


def _find_misplaced(node: NodeSettings, sound: list[Meta]) -> Iterator[Fact]:
    for meta in sound:
        found = os.path.join(meta.directory, names.METADATA_LOG)
        if meta.directory != node.metadata_dir and os.path.lexists(found):
            message = (
                f"Found unexpected metadata location in data directory `{found}` (the configured "
                f"metadata directory is {node.metadata_dir})."
            )
            remedy = (
                "Set metadata.log.dir to where the metadata log is. If both have one, keep the "
                "one with the later epoch, or the longer one if the epochs are equal, and move "
                "the other away: nothing that the quorum committed is lost."
            )
            yield Fact(REFUSES, "metadata-misplaced", message, found, remedy)
            return

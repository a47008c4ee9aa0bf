"""Whose data directories are, to brokers before 3.7 and those of ZooKeeper (N4)."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.broker import versions as v
from kdump.broker.node_meta import (
    INT,
    MOVED,
    OWN_ID,
    RESTORE,
    Meta,
    advise_owner,
    explain_unread,
    offline_fact,
    unformatted_fact,
)
from kdump.broker.node_settings import REFUSES, Fact, NodeSettings
from kdump.broker.versions import Version, has
from kdump.storage.checkpoints import java_int

# From 2.8 to 3.6: files are compared as they are.


def compare_metas(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    online = [meta for meta in metas if not (meta.broken and meta.is_io)]
    unread = [
        unformatted_fact(meta)
        if meta.absent
        else Fact(REFUSES, "meta-malformed", meta.broken, meta.path, RESTORE)
        for meta in online
        if meta.broken or (meta.absent and node.kraft)
    ]
    if unread:
        yield from unread
        return
    offline = [meta for meta in metas if meta.broken]
    if len(offline) == len(metas) and not node.kraft:
        yield offline_fact(offline[0])._replace(outcome=REFUSES, cause=explain_unread(offline[0]))
        return
    if node.kraft and any(meta.directory == node.metadata_dir for meta in offline):
        message = (
            "Cannot start server since `meta.properties` could not be loaded from "
            f"{node.metadata_dir}"
        )
        yield Fact(REFUSES, "meta-malformed", message, offline[0].path, RESTORE)
        return
    found = [meta for meta in online if meta.values is not None]
    if len({tuple(sorted((meta.values or {}).items())) for meta in found}) > 1:
        yield _inconsistent(node, found)
        return
    if found:
        yield from _raw_values(node, found[0])
    yield from map(offline_fact, offline)


def _inconsistent(node: NodeSettings, found: list[Meta]) -> Fact:
    message = (
        "BrokerMetadata is not consistent across log.dirs. This could happen if multiple brokers "
        "shared a log directory (log.dirs) or partial data was manually copied from another "
        "broker. Found:"
    )
    cause = _describe_difference(found)
    if cause in ("node-id", "cluster-id"):
        return Fact(REFUSES, cause, message, found[-1].path, advise_owner(node, found, cause))
    remedy = (
        "Compare the files. If one directory belongs to another broker, mount the right one; "
        "otherwise copy the right file over the other."
    )
    return Fact(REFUSES, cause, message, found[-1].path, remedy)


def _describe_difference(found: list[Meta]) -> str:
    for name, cause in (
        ("broker.id", "node-id"),
        ("node.id", "node-id"),
        ("cluster.id", "cluster-id"),
    ):
        if len({meta.get(name) for meta in found if meta.values}) > 1:
            return "meta-empty" if any(not meta.values for meta in found) else cause
    return "meta-version"


def _raw_values(node: NodeSettings, meta: Meta) -> Iterator[Fact]:
    values = meta.values or {}
    if node.kraft and (lacks := _lacks_of_kraft(meta)):
        yield lacks
        return
    for name in ("version", "broker.id", "node.id")[: 3 if node.kraft else 2]:
        said = values.get(name)
        if said is not None and java_int(said, INT) is None:
            message = f'Failed to parse {name} property as an int: For input string: "{said}"'
            cause = "meta-version" if name == "version" else "node-id"
            yield Fact(REFUSES, cause, message, meta.path, RESTORE)
            return
        if name == "version" and not node.kraft and java_int(said or "0") != 0:
            listed = ", ".join(f"{key}={values[key]}" for key in sorted(values))
            message = (
                f"Found unexpected version in loaded `meta.properties`: {{{listed}}}. Zk-based "
                "brokers only support version 0 (which is implicit when the `version` field is "
                "missing)."
            )
            yield Fact(REFUSES, "meta-version", message, meta.path, RESTORE)
            return
    name = "node.id" if node.kraft and values.get("version") == "1" else "broker.id"
    said = values.get(name)
    stored = None if said is None else java_int(said, INT)
    own = node.node_id
    if own is None or stored in (None, own) or (own < 0 and not node.kraft):
        return
    if node.kraft:
        message = (
            f"Configured node.id `{own}` doesn't match stored node.id `{stored}' in "
            "meta.properties. " + MOVED.format("controller.id", "broker", " (log.dirs)")
        )
    else:
        message = (
            f"Configured broker.id {own} doesn't match stored broker.id Some({stored}) in "
            "meta.properties. " + MOVED.format("broker.id", "broker", " (log.dirs)")
        )
    yield Fact(REFUSES, "node-id", message, meta.path, OWN_ID)


def _lacks_of_kraft(meta: Meta) -> Fact | None:
    """What a KRaft node's file must have, once its numbers can be read."""
    values = meta.values or {}
    version = java_int(values.get("version", "0"), INT)
    if version not in (None, 1):
        message = f"Expected version 1, but got version {version}"
        cause = "meta-version" if values else "meta-empty"
        return Fact(REFUSES, cause, message, meta.path, RESTORE)
    for name, cause in (("cluster.id", "cluster-id"), ("node.id", "node-id")):
        if version == 1 and name not in values:
            message = f"Failed to find required property {name}."
            return Fact(REFUSES, cause, message, meta.path, RESTORE)
    return None


# From 0.8.2 to 2.7: each by itself, a version and an id must be there.


def check_each(node: NodeSettings, metas: list[Meta], broker: Version) -> Iterator[Fact]:
    offline: list[Meta] = []
    ids: list[int] = []
    refused = False
    for meta in metas:
        why, cause, is_io = _old_problem(meta, broker)
        if why and is_io and has(broker, v.DIRECTORY_FAILURES):
            offline.append(meta._replace(broken=why))
        elif why:
            refused = True
            yield Fact(REFUSES, cause, why, meta.path, RESTORE)
        elif meta.values is not None:
            ids.append(int(meta.values["broker.id"]))
    if refused:
        return
    found = [meta for meta in metas if meta.values is not None and meta not in offline]
    if has(broker, v.CLUSTER_ID_KEPT) and len({meta.get("cluster.id") for meta in found}) > 1:
        yield _inconsistent(node, found)
        return
    if len(set(ids)) > 1:
        if has(broker, v.CLUSTER_ID_KEPT):
            yield _inconsistent(node, found)
            return
        message = (
            "Failed to match broker.id across log.dirs. This could happen if multiple brokers "
            "shared a log directory (log.dirs) or partial data was manually copied from another "
            "broker. Found"
        )
        yield Fact(
            REFUSES, "node-id", message, found[-1].path, advise_owner(node, found, "node-id")
        )
        return
    own = node.node_id
    if ids and own is not None and own >= 0 and ids[0] != own:
        stored = f"Some({ids[0]})" if has(broker, v.META_VERSION_IMPLIED) else ids[0]
        message = (
            f"Configured broker.id {own} doesn't match stored broker.id {stored} in "
            "meta.properties. " + MOVED.format("broker.id", "broker", " (log.dirs)")
        )
        yield Fact(REFUSES, "node-id", message, found[0].path, OWN_ID)
        return
    if offline and len(offline) == len(metas):
        yield offline_fact(offline[0])._replace(outcome=REFUSES, cause=explain_unread(offline[0]))
        return
    yield from map(offline_fact, offline)


def _old_problem(meta: Meta, broker: Version) -> tuple[str, str, bool]:
    """What the reader of 0.8.2 to 2.7 throws: the sentence, a cause, whether it is of the disk."""
    if meta.absent or (meta.is_io and not has(broker, v.META_OPENED_AS_PATH)):
        return "", "", False
    if meta.values is None:
        return meta.broken, "meta-malformed", meta.is_io
    for name, cause in (("version", "meta-version"), ("broker.id", "node-id")):
        said = meta.values.get(name)
        if said is None:
            cause = "meta-empty" if not any(meta.values) else cause
            return f"requirement failed: Missing required property '{name}'", cause, False
        number = java_int(said.strip(), INT)
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

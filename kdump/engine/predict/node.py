"""Foretell whether a node starts, by settings, identity, directories and metadata (N1 to N12)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kdump.broker.node_directories import LOCKED, OFFLINE, User, directory_facts, find_duplicates
from kdump.broker.node_identity import identity_facts
from kdump.broker.node_meta import read_metas
from kdump.broker.node_room import room_facts
from kdump.broker.node_settings import (
    REFUSES,
    STARTS,
    UNKNOWN,
    Fact,
    NodeSettings,
    check_settings,
    is_krafts,
    read_node,
)
from kdump.broker.versions import NEWEST, Version
from kdump.engine.predict.node_quorum import LOST, quorum_facts
from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.rows.verify import NodeStart
from kdump.storage import places
from kdump.storage.names import LOCK, METADATA_LOG, Kind, parse
from kdump.storage.source import Unreadable, unreadable_ranges


def node_start(
    directories: Iterable[str],
    broker: Version | None,
    *,
    server_properties: str | None = None,
    user: User | None = None,
) -> list[Fact]:
    """Say whether a node would start: facts in the order of the broker, at least one.

    `directories` are used where no settings name them. `broker` None: the newest, as long as the
    directories are of the kind that it uses. `user`: who runs the broker; None: whoever has all
    rights that it needs.
    """
    dirs = tuple(directories)
    node = read_node(server_properties, dirs, broker or NEWEST)
    if any(map(places.is_uri, node.log_dirs)):
        return [_unchecked_fact("store", "A prediction needs a local directory, not a store.")]
    if broker is None and not _is_kraft(node):
        return [_unchecked_fact("version", _WHICH, _NAME_IT)]
    unread = dict(_find_unread(node))
    found = [
        fact
        for fact in _facts(node, broker or NEWEST, user)
        if fact.path not in unread and os.path.dirname(fact.path or "") not in unread
    ]
    if not any(fact.outcome == REFUSES for fact in found):
        where = node.path or next(iter(node.log_dirs), None)
        found.insert(0, Fact(STARTS, "none", "Nothing found that stops the start.", where))
    for path, error in unread.items():
        if error is None:
            found.append(Fact(UNKNOWN, "permission", _UNREAD, path, _AS_BROKER))
        else:
            found.append(
                Fact(
                    UNKNOWN,
                    "unreadable",
                    f"Reading it fails ({error}). {_MEETS_IT}",
                    path,
                    _COPY_FIRST,
                )
            )
    if node.values is None:
        found.append(_unknown_fact(node))
    elif node.elsewhere and len(node.log_dirs) < node.dirs_named:
        message = f"The contents of the other directories in log.dirs ({node.dirs_named} in total)."
        found.append(_unchecked_fact("settings", message, "Give a copy of each directory."))
    elif not node.kraft:
        found.append(_zookeeper(node))
    return found


_UNREAD = "Its contents: this user is not allowed to read them."
_AS_BROKER = "Run kdump as the user that runs the broker, or as root."


_MEETS_IT = "A broker start that gets the same error fails, or continues without this directory."
_COPY_FIRST = (
    "Copy what is still readable from the disk (ddrescue), and run kdump predict on the copy."
)


def _find_unread(node: NodeSettings) -> Iterator[tuple[str, str | None]]:
    """Yield what cannot be read of what a start reads of a node, and the device's error.

    None in its place: this user may not read it. Partitions have rows of their own.
    """
    for directory in dict.fromkeys((*node.log_dirs, node.metadata_dir)):
        if directory is None:
            continue
        for folder in (directory, os.path.join(directory, METADATA_LOG)):
            if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):
                yield folder, None
                break
            with suppress(OSError):
                for name in sorted(os.listdir(folder)):
                    path = os.path.join(folder, name)
                    if name == LOCK or not os.path.isfile(path):
                        continue
                    if not os.access(path, os.R_OK):
                        yield path, None
                    elif error := _device_error(path):
                        yield path, error


def _device_error(path: str) -> str | None:
    """Read a file that a start reads; return what the device says where it does not give all."""
    if parse(os.path.basename(path)).kind is Kind.UNKNOWN:
        return None
    try:
        unreadable = unreadable_ranges(path)
        return Unreadable(path, unreadable).reason if unreadable else None
    except PathError as error:
        return error.reason if places.lexists(path) else None


_NAME_IT = "Give the broker's version with --broker-version."
_WHICH = (
    "the broker version. kdump assumes the newest release, which needs KRaft, but these look like "
    "directories of a broker with ZooKeeper: the result may not apply."
)


def _unchecked_fact(cause: str, message: str, remedy: str | None = None) -> Fact:
    return Fact(UNKNOWN, cause, message, None, remedy)


def _is_kraft(node: NodeSettings) -> bool:
    """Whether settings or directories show that the node keeps metadata by itself."""
    return bool((node.values or {}).get("process.roles")) or any(map(is_krafts, node.log_dirs))


def user_of(name: str) -> User:
    """Look up a user of this machine, by name or number; raise `ValueError` where there is none."""
    import grp
    import pwd

    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        if not name.isdigit():
            raise ValueError(f"there is no user named {name} on this machine") from None
        return User(int(name), frozenset(), is_root=name == "0")
    groups = {group.gr_gid for group in grp.getgrall() if found.pw_name in group.gr_mem}
    return User(found.pw_uid, frozenset({found.pw_gid, *groups}), is_root=found.pw_uid == 0)


def _facts(node: NodeSettings, broker: Version, user: User | None) -> Iterator[Fact]:
    """Yield facts in the order of the broker; once one refuses, what else does when that is mended.

    Each stage goes on with the directories that are not offline.
    """
    offline: set[str | None] = set()
    refused: set[Fact] = set()
    for stage in _STAGES:
        left = tuple(at for at in node.log_dirs if at not in offline)
        for fact in stage(node._replace(log_dirs=left), broker, user):
            if fact.cause == OFFLINE:
                offline |= {fact.path, os.path.dirname(fact.path or "")}
            if fact.outcome == REFUSES:
                if fact in refused:
                    continue
                if fact.cause != LOCKED:
                    refused.add(fact)
            elif refused:
                continue
            yield fact


_Stage = Callable[["NodeSettings", "Version", "User | None"], Iterator[Fact]]
#: In the order of the broker.
_STAGES: tuple[_Stage, ...] = (
    lambda node, broker, user: check_settings(node, broker),
    lambda node, broker, user: identity_facts(node, read_metas(node, broker, user), broker),
    lambda node, broker, user: quorum_facts(node, broker),
    directory_facts,
    lambda node, broker, user: room_facts(node, broker),
    lambda node, broker, user: find_duplicates(node, broker),
)


def _unknown_fact(node: NodeSettings) -> Fact:
    ids = "node.id, process.roles, the voters" if node.kraft else "broker.id"
    message = (
        f"settings that can prevent a start ({ids}, and others), and whether log.dirs has "
        "directories that are not in PATHS."
    )
    return Fact(
        UNKNOWN,
        "settings",
        message,
        None,
        "Give the broker's settings file with --server-properties.",
    )


def _zookeeper(node: NodeSettings) -> Fact:
    message = "The cluster's id in ZooKeeper, which meta.properties must name."
    where = (node.values or {}).get("zookeeper.connect")
    return Fact(UNKNOWN, "zookeeper", message, where)


def compare_oldest(facts: list[Fact], oldest: list[Fact]) -> Fact | None:
    """Say what the oldest release would do that the directories can be of; None: the same."""
    refused, refused_too = (
        next((fact for fact in some if fact.outcome == REFUSES), None) for some in (facts, oldest)
    )
    unread = any(fact.cause in ("permission", "unreadable") for fact in facts)
    if unread or (refused is None) == (refused_too is None):
        return None  # what cannot be read would have dated it
    guess = "the release that wrote this directory. The oldest one that may have written it would"
    would = f"{guess} start."
    if refused_too is not None:
        would = f"{guess} not start: {refused_too.message}"
    return Fact(UNKNOWN, "version", would, (refused or refused_too or facts[0]).path, _NAME_IT)


def row_of(fact: Fact) -> NodeStart:
    """Make the row of a fact."""
    return NodeStart(*fact)


#: What is a finding of its own already, of a directory or partition; or none.
_FOUND_ELSEWHERE = (LOCKED, "name", "duplicate-partition", "partition")


def finding_of(fact: Fact) -> Finding | None:
    """Make a finding of what stops a node or loses all it had, unless it is one already."""
    if fact.cause == LOST:
        return finding("start-loses-records", path=fact.path or "", message=fact.message)
    if fact.outcome != REFUSES or fact.cause in _FOUND_ELSEWHERE:
        return None
    unfinished = " …" if fact.message.endswith(":") else ""
    message = (
        f'The node does not start ({fact.cause}). Its log would say: "{fact.message}{unfinished}"'
    )
    return finding("start-refused", path=fact.path or "", message=message)

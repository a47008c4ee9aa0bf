"""Read `meta.properties` as a start does, and the words for what is wrong with it (N3 to N6)."""

from __future__ import annotations

import os
import re

from kdump.broker.node_directories import User
from kdump.broker.node_settings import REFUSES, STARTS, Fact, NodeSettings
from kdump.broker.versions import META_ENSEMBLE, META_OPENED_AS_PATH, Version, has
from kdump.errors import PathError
from kdump.findings.shell import CLUSTER_ID, SERVER_PROPERTIES, format_command
from kdump.storage import names
from kdump.storage.properties import SIZE_LIMIT, java_properties
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

INT = 1 << 31
_MALFORMED = re.compile(r"^[ \t\f]*[^#!\s].*?(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", re.MULTILINE)
MOVED = (
    "If you moved your data, make sure your configured {0} matches. If you intend to create a new "
    "{1}, you should remove all data in your data directories{2}."
)
RESTORE = (
    "Write the file again with the ids of this node: from a sibling directory, from a backup, or "
    "by hand (version, node.id, cluster.id); nothing is lost. Do not format a directory that "
    "contains the only copy of records."
)
OTHERS = (
    "Find the owner of this directory; if it was mounted here by mistake, mount the right one. "
    "Only if its records are this cluster's, write that cluster.id into the file: the start "
    "renames replicas of topics that the cluster does not know to -stray."
)
OWN_ID = (
    "Set node.id (or broker.id) to the id in the directories; nothing is lost. "
    "Do not change the file instead, unless somebody edited it: a broker with another id renames "
    "replicas that the cluster does not assign to it to -stray."
)
NEW_ID = (
    "Remove the line directory.id from one of the files: the start generates a new one, and the "
    "cluster learns where the replicas are."
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


def advise_owner(node: NodeSettings, found: list[Meta], cause: str) -> str:
    """What to do where the files name another node or cluster than they should, or several."""
    what = "node" if cause == "node-id" else "cluster"
    names_ = ("node.id", "broker.id") if cause == "node-id" else ("cluster.id",)
    owners: dict[str, list[str]] = {}
    for meta in found:
        said = next((text for name in names_ if (text := meta.get(name)) is not None), None)
        if said is not None:
            owners.setdefault(said, []).append(meta.directory)
    if len(owners) < 2:
        return OWN_ID if cause == "node-id" else OTHERS
    own = str(node.node_id) if cause == "node-id" else ""
    if own not in owners:
        own = ""
    of_others = {owner: at for owner, at in owners.items() if owner != own}
    told = "; ".join(
        f"{' and '.join(at)} belong{'s' * (len(at) == 1)} to {what} {owner}"
        for owner, at in of_others.items()
    )
    this = f", and this is {what} {own}" if own else ""
    return (
        f"These are volumes of several {what}s: {told}{this}. Mount each at its own {what}, and "
        "the missing one here; if that one is lost, remove its directory from log.dirs. "
        "Do not change an id, in the settings or in a file."
    )


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
    if not os.path.exists(path):
        above = directory
        while not os.path.exists(above):
            above = os.path.dirname(above) or os.curdir
        if not os.path.isdir(above):
            return Meta(directory, broken=f"{path}: Not a directory", is_io=True)
        return Meta(directory, absent=True)
    if os.path.isdir(path):
        return Meta(directory, broken="Is a directory", is_io=True)
    try:
        text = read_whole(path, SIZE_LIMIT).decode("latin-1")
    except PathError as error:
        return Meta(directory, broken=str(error), is_io=True)
    if _MALFORMED.search(text):
        return Meta(directory, broken="Malformed \\uxxxx encoding.")
    return Meta(directory, values=dict(java_properties(text)))


_FORMAT = format_command((
    "kafka-storage.sh", "format", "--ignore-formatted", "--cluster-id", CLUSTER_ID, "--config",
    SERVER_PROPERTIES,
))  # fmt: skip


def unformatted_fact(meta: Meta) -> Fact:
    message = (
        f"No `meta.properties` found in {meta.directory} (have you run `kafka-storage.sh` to "
        "format the directory?)"
    )
    remedy = (
        "If its disk is not mounted, mount it. Or remove it from log.dirs; its replicas are then "
        "offline. If it is a new, empty directory, format it; its replicas are then copied from "
        f"other brokers: {_FORMAT}"
    )
    return Fact(REFUSES, "meta-missing", message, meta.path, remedy)


def offline_fact(meta: Meta) -> Fact:
    return Fact(
        STARTS,
        "directory-offline",
        meta.broken,
        meta.path,
        f"The node starts without this directory: its replicas are offline. {RESTORE}",
    )


def explain_unread(meta: Meta) -> str:
    return "permission" if meta.denied else "meta-malformed"

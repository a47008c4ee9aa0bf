"""Recognize paths that are not data directories, and name the command for each."""

from __future__ import annotations

import os
import stat
from fnmatch import filter as matching

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.data_directories import MARKS
from kdump.storage.local_log import looks_like_partition
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

_LOOKED_AT = 100
ELSEWHERE = "info"  # of the directory that is meant
#: Options that take the path that a command is given.
SETTINGS_OF, TIER_OF = f"{ELSEWHERE} --server-properties", "salvage --tier"
_LOGS_OF_TEXT = "These are a broker's text logs, not its data; use the directories in log.dirs."
_INSTALLED = "This is an installation of Kafka: its settings name the data directories."
#: What folders hold that are not a broker's, as FOLDER/NAME of the path itself and the folders in
#: it: patterns that all match, and what that means.
_OTHERS = (
    (("*/PG_VERSION", "*/base"), "PostgreSQL"),
    (("*/ibdata1",), "MySQL or MariaDB"),
    (("*/WiredTiger",), "MongoDB"),
    (("*/lastId", "*/VERSION"), "BookKeeper"),
    (("*/CURRENT", "*/MANIFEST-*"), "LevelDB or RocksDB"),
    (("*/kafka-streams-process-metadata",), "Kafka Streams"),
    (("version-2/log.*",), "A ZooKeeper server"),
    (("version-2/snapshot.*",), "A ZooKeeper server"),
    (("redpanda/controller",), "Redpanda"),
    (("data/redpanda",), "Redpanda"),
    (("*/*-*-v1.log",), "Redpanda"),
    (("*/bin", "*/config", "*/libs"), _INSTALLED),
    (("*/server.log*",), _LOGS_OF_TEXT),
    (("*/controller.log*",), _LOGS_OF_TEXT),
)
_SETTINGS = ("config/server.properties", "config/kraft/server.properties")
_SQLITE = b"SQLite format 3\0"
_SPECIAL = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "character device"}


class Advice(NamedTuple):
    """What is not ordinary about a path, and the command that says more of it."""

    path: str
    text: str
    command: str


def path_hint(path: str) -> Advice | None:
    """Name the command for a path that is not a data directory; None if no command reads it."""
    if not places.isdir(path):
        return _of_file(path)
    found = _list_names(path)
    if not MARKS.isdisjoint(found):
        return None
    if (other := _of_another(path, found)) is not None or not looks_like_partition(found):
        return other
    name = names.parse_directory(os.path.basename(places.absolute(path)))
    if names.kinds(found).isdisjoint((Kind.LOG, Kind.PRE08_LOG)):
        text = "These are indexes without their logs: no records are here."
    elif name is None:
        text = "It has segments, but its name is not TOPIC-PARTITION: brokers do not load it."
    else:
        text = f"This is one partition, {name.topic}-{name.partition}."
    return Advice(path, text, "verify")


def unreadable(path: str) -> PathError | None:
    """Say why a path is not read that is neither a directory nor a plain file or disk."""
    if places.is_uri(path):
        return None
    if os.path.islink(path) and not os.path.exists(path):
        return PathError(path, f"is a link to {os.readlink(path)}, which does not exist")
    mode = os.stat(path).st_mode if os.path.exists(path) else 0
    what = _SPECIAL.get(stat.S_IFMT(mode))
    return None if what is None else PathError(path, f"is a {what}: give a data directory")


def _of_file(path: str) -> Advice | None:
    given = places.given(path)
    if not places.lexists(path) or unreadable(path) is not None:
        return None
    if given.endswith(".properties") and os.path.basename(given) != names.META_PROPERTIES:
        text = "These are settings; a broker's settings name its data directories."
        return Advice(given, text, SETTINGS_OF)
    kind = names.parse(places.file_name(path)).kind
    if kind is Kind.UNKNOWN:
        try:
            with Source(path) as source:
                head = source.read(0, len(_SQLITE))
        except (PathError, StoreError):
            return None
        if head == _SQLITE:
            return Advice(path, _name_writer("SQLite"), ELSEWHERE)
        text = "This is not a Kafka file. If it is a disk image, it may contain batches."
        return Advice(path, text, "carve")
    given = places.container(given)  # an archive of one file
    command = "verify" if kind in names.SEGMENT_KINDS else "dump"
    return Advice(given, f"This is one file: {kind.value.replace('-', ' ')}.", command)


def _of_another(path: str, found: list[str]) -> Advice | None:
    """Recognize the folder of another program, itself or one folder above."""
    listed = [f"{os.path.basename(places.absolute(path))}/{name}" for name in found]
    for name in found[:_LOOKED_AT]:
        listed += [f"{name}/{one}" for one in _list_names(os.path.join(path, name))]
    for patterns, text in _OTHERS:
        if all(matching(listed, pattern) for pattern in patterns):
            files = [os.path.join(path, one) for one in _SETTINGS]
            if text is _INSTALLED and (found := [*filter(places.isfile, files)]):
                return Advice(found[0], text, SETTINGS_OF)
            return Advice(path, text if text.endswith(".") else _name_writer(text), ELSEWHERE)
    return None


def _name_writer(whose: str) -> str:
    return f"{whose} wrote this; use the directories in the broker's log.dirs."


def _list_names(path: str) -> list[str]:
    try:
        return places.listdir(path)
    except (OSError, StoreError):
        return []

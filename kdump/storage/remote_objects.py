"""Find the objects of partitions in remote storage, of LocalTieredStorage or Aiven's plugin.

    tier = RemoteObjects("s3://bucket/kafka-tiered-storage")
    tier.of("orders", 0, "nO5caqCwS4mJy1twxMkd4A").files("_oRY-lmTTd2c0O0He1aPeg")

Of a bucket no more is listed than the folders of the partitions that are asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, PathError, StoreError
from kdump.storage import names, places
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.storage.aiven import AivenPartition

_ID = "[A-Za-z0-9_-]{22}"
_FOLDER = re.compile(rf"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)-(?P<id>{_ID})\Z")
_OBJECT = re.compile(rf"(?P<base>\d{{20}})-(?P<id>{_ID})\.(?P<what>[a-z_]+)\Z")
#: The names that the layout gives to the files of a segment.
_KINDS = {
    "log": Kind.LOG,
    "index": Kind.OFFSET_INDEX,
    "timeindex": Kind.TIME_INDEX,
    "txnindex": Kind.TRANSACTION_INDEX,
    "snapshot": Kind.PRODUCER_SNAPSHOT,
    "leader_epoch_checkpoint": Kind.LEADER_EPOCHS,
}


class PartitionObjects:
    """The objects of one partition: of each segment id its base offset, and its files by kind."""

    def __init__(self, folder: str, names_there: Sequence[str] = ()) -> None:
        self.folder = folder
        self.bases: dict[str, int] = {}
        self._files: dict[str, dict[Kind, str]] = {}
        for name in names_there:
            found = _OBJECT.match(name)
            kind = _KINDS.get(found["what"]) if found else None
            if found is not None and kind is not None:
                self.bases[found["id"]] = int(found["base"])
                at = os.path.join(folder, name)
                self._files.setdefault(found["id"], {})[kind] = at

    def files(self, segment_id: str) -> dict[Kind, str] | None:
        """Return the paths of a segment's files; None where none of its objects is there."""
        return self._files.get(segment_id)

    def paths(self, segment_id: str) -> list[str]:
        """Return the paths of all objects of a segment."""
        return [*self._files.get(segment_id, {}).values()]


#: Those of a partition where none were given.
NO_OBJECTS = PartitionObjects("")
_TOPIC_FOLDER = re.compile(rf"(?P<topic>.+)-(?P<id>{_ID})\Z")
_AIVEN = re.compile(rf"(?P<base>\d{{20}})-(?P<id>{_ID})\.(?P<end>log|indexes|rsm-manifest)\Z")
_LEVELS = 3  # of folders that a prefix of object names may have


class RemoteObjects:
    """A remote storage: a folder or a bucket in which brokers keep segments.

    `key` names the private key that decrypts what Aiven's plugin encrypted.
    """

    def __init__(self, uri: str, key: str | None = None) -> None:
        self.uri = uri
        self._key = key
        inner = os.path.join(uri, names.LOCAL_TIERED_STORAGE)
        self._root = inner if _is_folder(inner) else uri
        self._found: dict[str, PartitionObjects | AivenPartition] = {}

    @cached_property
    def _topics(self) -> dict[str, list[str]]:
        """The folders of topics in Aiven's layout, by topic id: also below a prefix of names."""
        found: dict[str, list[str]] = {}
        folders = [self._root]
        for _ in range(_LEVELS):
            below = []
            for folder in folders:
                for name in sorted(_folders(folder)):
                    path = os.path.join(folder, name)
                    of_topic = _TOPIC_FOLDER.match(name)
                    if of_topic is None or _FOLDER.match(name):
                        below.append(path)
                    if of_topic is not None:
                        found.setdefault(of_topic["id"], []).append(path)
            if found:
                break
            folders = below
        return found

    def of(self, topic: str, partition: int, topic_id: str) -> PartitionObjects | AivenPartition:
        """List the objects of one partition; its folder need not be there."""
        folders = [os.path.join(one, str(partition)) for one in self._topics.get(topic_id, ())]
        if folders := [one for one in folders if _is_folder(one)]:
            if folders[0] not in self._found:
                self._found[folders[0]] = _aiven_partition(folders, self._key)
            return self._found[folders[0]]
        folder = os.path.join(self._root, f"{topic}-{partition}-{topic_id}")
        if folder not in self._found:
            self._found[folder] = PartitionObjects(folder, sorted(_list_names(folder)))
        return self._found[folder]

    def partitions(self) -> list[tuple[str, int, str]]:
        """Return topic, number and topic id of all partitions that have a folder."""
        matched = [_FOLDER.match(name) for name in sorted(_list_names(self._root))]
        found = [(one["topic"], int(one["partition"]), one["id"]) for one in matched if one]
        every = ((one, folder) for one, folders in self._topics.items() for folder in folders)
        for topic_id, folder in every:
            for name in _folders(folder):
                if name.isdecimal():
                    topic = _topic_of(os.path.join(folder, name), topic_id)
                    found.append((topic, int(name), topic_id))
        return sorted(set(found))


def object_name(topic: str, partition: int, topic_id: str | None, base: int, segment: str) -> str:
    """Return the name that the layout gives to the log of a segment."""
    stem, dot, end = names.file_name(Kind.LOG, base).partition(".")
    return f"{topic}-{partition}-{topic_id or '?'}/{stem}-{segment}{dot}{end}"


def _folders(folder: str) -> list[str]:
    try:
        return [entry.name for entry in places.entries(folder) if places.is_dir(entry)]
    except (OSError, PathError, StoreError):
        return []


def _aiven_partition(folders: list[str], key: str | None) -> AivenPartition:
    from kdump.storage.aiven import AivenPartition

    objects: dict[str, dict[str, str]] = {}
    for folder in folders:
        for name in sorted(_list_names(folder)):
            found = _AIVEN.match(name)
            if found is not None:
                objects.setdefault(found["id"], {})[found["end"]] = os.path.join(folder, name)
    return AivenPartition(folders[0], objects, key)


def _topic_of(folder: str, topic_id: str) -> str:
    """Return a topic by the first manifest that can be read; else by its folder, with a prefix."""
    from kdump.storage.aiven import BadManifest

    objects = _aiven_partition([folder], None)
    for segment_id in objects.bases:
        with suppress(BadManifest, KdumpError):
            manifest = objects.manifest(segment_id)
            if manifest is not None:
                return manifest.topic
    return os.path.basename(os.path.dirname(folder)).removesuffix(f"-{topic_id}")


def _list_names(folder: str) -> list[str]:
    try:
        return places.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PathError.from_os(folder, error) from error


def _is_folder(path: str) -> bool:
    try:
        return places.isdir(path)
    except (OSError, PathError, StoreError):
        return False


def find_cached_indexes(data_directory: str, segment_id: str, base: int) -> dict[Kind, str] | None:
    """Return the indexes of a remote segment that a broker keeps in its cache (W10).

    It believes them without a look at the objects. None where it has not both indexes.
    """
    folder = os.path.join(data_directory, names.REMOTE_LOG_INDEX_CACHE)
    found = {
        kind: os.path.join(folder, f"{base}_{segment_id}.{suffix}")
        for suffix, kind in _KINDS.items()
        if suffix in ("index", "timeindex", "txnindex")
    }
    there = {kind: path for kind, path in found.items() if places.lexists(path)}
    return there if {Kind.OFFSET_INDEX, Kind.TIME_INDEX} <= there.keys() else None

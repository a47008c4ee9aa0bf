"""Find the objects of partitions in remote storage, in the layout of Kafka's LocalTieredStorage.

    tier = RemoteObjects("s3://bucket/kafka-tiered-storage")
    tier.of("orders", 0, "nO5caqCwS4mJy1twxMkd4A").files("_oRY-lmTTd2c0O0He1aPeg")

Of a bucket no more is listed than the folders of the partitions that are asked for.
"""

from __future__ import annotations

import os
import re

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.names import Kind

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

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.bases: dict[str, int] = {}
        self._files: dict[str, dict[Kind, str]] = {}
        for name in sorted(_listed(folder)):
            found = _OBJECT.match(name)
            kind = _KINDS.get(found["what"]) if found else None
            if found is not None and kind is not None:
                self.bases[found["id"]] = int(found["base"])
                at = os.path.join(folder, name)
                self._files.setdefault(found["id"], {})[kind] = at

    def files(self, segment_id: str) -> dict[Kind, str] | None:
        """Return the paths of a segment's files; None where none of its objects is there."""
        return self._files.get(segment_id)


class RemoteObjects:
    """A remote storage: a folder or a bucket in which brokers keep segments."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        inner = os.path.join(uri, names.LOCAL_TIERED_STORAGE)
        self._root = inner if _is_folder(inner) else uri
        self._found: dict[str, PartitionObjects] = {}

    def of(self, topic: str, partition: int, topic_id: str) -> PartitionObjects:
        """List the objects of one partition; its folder need not be there."""
        folder = os.path.join(self._root, f"{topic}-{partition}-{topic_id}")
        if folder not in self._found:
            self._found[folder] = PartitionObjects(folder)
        return self._found[folder]

    def partitions(self) -> list[tuple[str, int, str]]:
        """Return topic, number and topic id of all partitions that have a folder."""
        found = [_FOLDER.match(name) for name in sorted(_listed(self._root))]
        return [(one["topic"], int(one["partition"]), one["id"]) for one in found if one]


def object_name(topic: str, partition: int, topic_id: str | None, base: int, segment: str) -> str:
    """Return the name that the layout gives to the log of a segment."""
    stem, dot, end = names.file_name(Kind.LOG, base).partition(".")
    return f"{topic}-{partition}-{topic_id or '?'}/{stem}-{segment}{dot}{end}"


def _listed(folder: str) -> list[str]:
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


def cached_indexes(data_directory: str, segment_id: str, base: int) -> dict[Kind, str] | None:
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

"""Give partitions in remote storage as directories of logs, for a run that rebuilds them.

Each becomes a view (`kdump/stores/view_store.py`). What is in a bucket is copied to a temporary
directory once, so that no byte is asked for twice; objects in a folder are read in place.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Set
from typing import IO, cast

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.aiven import AivenPartition
from kdump.storage.names import Kind
from kdump.storage.remote_objects import PartitionObjects, RemoteObjects
from kdump.storage.source import Source
from kdump.storage.targets import Selection
from kdump.stores.unpacking import Unpacker, scratch_directory
from kdump.stores.uris import is_uri
from kdump.stores.view_store import Member, root_of

_PIECE = 1 << 22


class _Stream(io.RawIOBase):
    """All of a file, read once from front to back."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        data = self._source.read(self._at, _PIECE if size < 0 else min(size, _PIECE))
        self._at += len(data)
        return data


class TierViews:
    """Views of the partitions in a remote storage; what is copied is removed with the process."""

    def __init__(self, objects: RemoteObjects, finished: Set[str], known: Set[str]) -> None:
        """Take the ids of segments and of topics that metadata at hand has."""
        self._objects = objects
        self._finished = finished
        self._known = known
        self._unpacker = Unpacker(scratch_directory(), None, lambda total: None)

    def paths(self, selection: Selection, topic_id: str | None) -> Iterator[str | PathError]:
        """Yield the path of each partition that is asked for, or why it cannot be read.

        Of several topics of one name those are left out that the metadata does not know, if it
        knows one of them.
        """
        found = [one for one in self._objects.partitions() if selection.admits(one[0], one[1])]
        known = {(topic, number) for topic, number, one in found if one in self._known}
        for topic, number, one in found:
            if topic_id is not None and one != topic_id:
                continue
            if (topic, number) in known and one not in self._known:
                continue
            try:
                path = self._view_of(topic, number, one)
            except (PathError, StoreError) as error:
                yield PathError(error.path, error.reason)
                continue
            if path is not None:
                yield path

    def _view_of(self, topic: str, number: int, topic_id: str) -> str | None:
        objects = self._objects.of(topic, number, topic_id)
        chosen = self._choose(objects)
        for why in getattr(objects, "failed", {}).values():
            raise PathError(objects.folder, f"has a segment that cannot be read: {why}")
        if not chosen:
            return None
        place = names.directory_name(topic, number)
        members: dict[str, Member] = {}
        for base in sorted(chosen):
            files = objects.files(chosen[base]) or {}
            inside = f"{place}/{names.file_name(Kind.LOG, base)}"
            members[inside] = self._member(files[Kind.LOG])
        newest = objects.files(chosen[max(chosen)]) or {}
        if Kind.LEADER_EPOCHS in newest:
            at = f"{place}/{names.LEADER_EPOCH_CHECKPOINT}"
            members[at] = self._member(newest[Kind.LEADER_EPOCHS])
        text = f"version: 0\ntopic_id: {topic_id}\n".encode()
        identity = self._unpacker.spool(io.BytesIO(text), names.PARTITION_METADATA)
        members[f"{place}/{names.PARTITION_METADATA}"] = identity
        root = root_of("/" + objects.folder.replace("://", "/"))
        self._unpacker.publish(root, members, ())
        return f"{root}/{place}"

    def _choose(self, objects: PartitionObjects | AivenPartition) -> dict[int, str]:
        """Choose a segment for each start offset: by the metadata, else the most complete one."""
        ranks = {key: self._rank(objects, key) for key in objects.bases}
        has_more = any(count > 1 for _, count, _ in ranks.values())
        chosen: dict[int, str] = {}
        for key in sorted(ranks, key=lambda one: (ranks[one], one)):
            finished, count, size = ranks[key]
            if size >= 0 and (count > 1 or finished or not has_more):
                chosen[objects.bases[key]] = key
        return chosen

    def _rank(
        self, objects: PartitionObjects | AivenPartition, segment_id: str
    ) -> tuple[bool, int, int]:
        files = objects.files(segment_id) or {}
        size = places.getsize(files[Kind.LOG]) if Kind.LOG in files else -1
        return segment_id in self._finished, len(files), size

    def _member(self, path: str) -> Member:
        if not is_uri(path):
            status = os.stat(path)
            return Member(os.path.abspath(path), 0, status.st_size, status.st_mtime_ns)
        with Source(path) as source:
            return self._unpacker.spool(cast("IO[bytes]", _Stream(source)), path)

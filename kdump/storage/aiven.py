"""Read segments that Aiven's plugin for tiered storage stored: manifests, chunks, indexes (W11).

A segment is `<prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>` with three
objects: `.log`, chunk after chunk, `.indexes`, and `.rsm-manifest`, JSON that says where each is.
Whatever a manifest claims is checked against the sizes of the objects before it is used.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import struct
from collections.abc import Iterator
from functools import cache
from typing import IO, Any, cast

from kdump.errors import KdumpError
from kdump.storage import places
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.stores.chunks import (
    TAG_BYTES,
    BadChunkError,
    ChunkKey,
    decompress,
    decrypt,
)
from kdump.stores.unpacking import Unpacker, scratch_directory
from kdump.tuples import NamedTuple

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
_MANIFEST_LIMIT = 16 << 20
_SEGMENT_LIMIT = (1 << 31) - 1
_CHUNK_LIMIT = 1 << 30
_SIZES_LIMIT = 16 << 20
_INDEX_KINDS = {
    "offset": Kind.OFFSET_INDEX,
    "timestamp": Kind.TIME_INDEX,
    "producerSnapshot": Kind.PRODUCER_SNAPSHOT,
    "leaderEpoch": Kind.LEADER_EPOCHS,
    "transaction": Kind.TRANSACTION_INDEX,
}

#: So many decoded files stay open; others have names in the temporary directory.
_MOST_OPEN = 60


class BadManifest(Exception):
    """A manifest that cannot be believed; says why."""


class Chunk(NamedTuple):
    """A range of a segment, and where it is in the object."""

    size: int
    position: int
    stored_size: int


class Manifest(NamedTuple):
    """What a manifest says of a segment, as far as it can be true."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    size_bytes: int
    chunks: tuple[Chunk, ...]
    indexes: dict[Kind, tuple[int, int]]
    compressed: bool
    data_key: str | None
    aad: bytes

    @property
    def log_bytes(self) -> int:
        """The size that the log object must have."""
        return self.chunks[-1].position + self.chunks[-1].stored_size if self.chunks else 0


def read_manifest(path: str, log_bytes: int | None, indexes_bytes: int | None) -> Manifest:
    """Read a manifest, and hold it against the sizes of its objects, None for one that is missing.

    Raises BadManifest.
    """
    try:
        with Source(path) as source:
            if source.size > _MANIFEST_LIMIT:
                raise BadManifest(f"it has {source.size:,} bytes")
            read = json.loads(source.read_whole(_MANIFEST_LIMIT))
    except (ValueError, RecursionError):
        raise BadManifest("it is not JSON") from None
    try:
        return _check(read, log_bytes, indexes_bytes)
    except (KeyError, TypeError, AttributeError, OverflowError):
        raise BadManifest("a field is missing or has the wrong type") from None
    except (ValueError, BadChunkError) as error:
        raise BadManifest(str(error) or "a field has no value") from None


def _check(read: Any, log_bytes: int | None, indexes_bytes: int | None) -> Manifest:
    if read["version"] != "1":
        raise BadManifest(f"it has version {str(read['version'])[:20]!r}, not 1")
    about = read["remoteLogSegmentMetadata"]
    of = about["remoteLogSegmentId"]
    place = of["topicIdPartition"]
    index = read["chunkIndex"]
    size = _number(index["originalFileSize"], _SEGMENT_LIMIT)
    compressed, encryption = read["compression"], read.get("encryption")
    if not isinstance(compressed, bool):
        raise BadManifest("it does not state whether chunks are compressed")
    chunks = tuple(_chunks(index, size, log_bytes))
    indexes = {}
    for word, kind in _INDEX_KINDS.items():
        at = read["segmentIndexes"].get(word)
        if at is None:
            continue
        position = _number(at["position"], _SEGMENT_LIMIT)
        length = _number(at["size"], _SEGMENT_LIMIT)
        if indexes_bytes is not None and position + length > indexes_bytes:
            raise BadManifest(
                f"the {kind.value} ends at {position + length:,}, the .indexes object at "
                f"{indexes_bytes:,}"
            )
        indexes[kind] = position, length
    return Manifest(
        str(place["topicPartition"]["topic"]),
        str(place["topicId"]),
        _number(place["topicPartition"]["partition"], _SEGMENT_LIMIT),
        str(of["id"]),
        _number(about["startOffset"], 1 << 63),
        _number(about["endOffset"], 1 << 63),
        size,
        chunks,
        indexes,
        compressed,
        None if encryption is None else str(encryption["dataKey"]),
        b"" if encryption is None else base64.b64decode(encryption["aad"]),
    )


def _number(value: object, limit: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise BadManifest(f"{str(value)[:20]} is not a size or an offset")
    return value


def _chunks(index: dict[str, Any], size: int, log_bytes: int | None) -> Iterator[Chunk]:
    """Yield the chunks; their sizes add up to those of the segment and of its object."""
    original = _number(index["originalChunkSize"], _CHUNK_LIMIT)
    if original < 1:
        raise BadManifest("its chunks have no size")
    count = -(-size // original)
    if log_bytes is not None and count > log_bytes:
        raise BadManifest(f"{count:,} chunks do not fit in {log_bytes:,} bytes")
    if index["type"] == "fixed":
        stored = _number(index["transformedChunkSize"], _CHUNK_LIMIT)
        final = _number(index["finalTransformedChunkSize"], _CHUNK_LIMIT)
        total = (count - 1) * stored + final if count else 0
        sizes = None
    elif index["type"] == "variable":
        sizes = _sizes(index["transformedChunks"], count)
        stored = final = 0
        total = sum(sizes)
    else:
        raise BadManifest(f"its chunk index has type {str(index['type'])[:20]!r}")
    if log_bytes is not None and total < log_bytes:
        raise BadManifest(f"its chunks have {total:,} bytes, the .log object {log_bytes:,}")
    if sizes is None and log_bytes is not None and total > log_bytes + original + TAG_BYTES * 2:
        raise BadManifest(f"its chunks have {total:,} bytes, the .log object {log_bytes:,}")
    position = 0
    for number in range(count):
        last = number == count - 1
        taken = sizes[number] if sizes is not None else final if last else stored
        yield Chunk(size - number * original if last else original, position, taken)
        position += taken


def _sizes(packed: str, count: int) -> list[int]:
    """Unpack the sizes of chunks: their number, the least, differences, and the last one."""
    try:
        data = decompress(base64.b64decode(packed, validate=True), _SIZES_LIMIT)
    except binascii.Error:
        raise BadManifest("its chunk sizes are not Base64") from None
    stated = int.from_bytes(data[:4], "big")
    if len(data) < 4 or stated != count:
        raise BadManifest(f"it has {stated:,} chunk sizes for {count:,} chunks")
    if count <= 1:
        if len(data) != 4 + 4 * count:
            raise BadManifest("its chunk sizes have the wrong length")
        return [int.from_bytes(data[4:8], "big")] * count
    if len(data) < 13:
        raise BadManifest("its chunk sizes have the wrong length")
    least, width = struct.unpack_from(">ib", data, 4)
    end = 9 + (count - 1) * width
    if not 0 <= width <= 4 or least < 0 or len(data) != end + 4:
        raise BadManifest("its chunk sizes have the wrong length")
    steps = range(9, end, width) if width else ()
    found = [least + int.from_bytes(data[at : at + width], "big") for at in steps]
    found = found or [least] * (count - 1)
    return [*found, int.from_bytes(data[end:], "big")]


@cache
def _unpacker() -> Unpacker:
    return Unpacker(scratch_directory(), None, lambda total: None, _MOST_OPEN)


class AivenPartition:
    """The objects of one partition; what is asked for is decoded to a temporary directory once."""

    def __init__(self, folder: str, objects: dict[str, dict[str, str]], key: str | None) -> None:
        """`objects` are the paths of each segment id by their endings; `key` a file, if given."""
        self.folder = folder
        self.bases = {one: int(places.file_name(next(iter(at.values())))[:20])
                      for one, at in objects.items()}  # fmt: skip
        self._objects = objects
        self._key = key
        self._decoded: dict[str, dict[Kind, str]] = {}
        self.failed: dict[str, str] = {}

    def stored_paths(self, segment_id: str) -> dict[str, str]:
        """Return the paths of a segment's objects by their endings."""
        return self._objects.get(segment_id, {})

    def paths(self, segment_id: str) -> list[str]:
        """Return the paths of all objects of a segment."""
        return [*self.stored_paths(segment_id).values()]

    def manifest(self, segment_id: str) -> Manifest | None:
        """Read the manifest of a segment; None where there is none. Raises BadManifest."""
        stored = self.stored_paths(segment_id)
        if MANIFEST not in stored:
            return None
        sizes = [places.getsize(stored[one]) if one in stored else None for one in (LOG, INDEXES)]
        found = read_manifest(stored[MANIFEST], *sizes)
        named = f"{found.topic}-{found.topic_id}/{found.partition}"
        folder = stored[MANIFEST].rpartition("/")[0]
        if not folder.endswith(named) or found.segment_id != segment_id:
            raise BadManifest(
                f"it belongs to {ascii(named)[:80]}, not to the partition in its name"
            )
        if found.start_offset != self.bases[segment_id]:
            raise BadManifest(f"it begins at {found.start_offset:,}, not at the offset in its name")
        return found

    def needs_key(self, manifest: Manifest) -> bool:
        """Whether a segment is encrypted, and no key was given."""
        return manifest.data_key is not None and self._key is None

    def files(self, segment_id: str) -> dict[Kind, str] | None:
        """Return the paths of a segment's files, decoded; None where none of them is there.

        Why one cannot be decoded goes to `failed`.
        """
        if segment_id not in self._objects:
            return None
        if segment_id not in self._decoded:
            self._decoded[segment_id] = {}
            try:
                self._decoded[segment_id] = self._decode(segment_id)
            except (BadManifest, BadChunkError) as error:
                self.failed[segment_id] = str(error)
            except KdumpError as error:
                self.failed[segment_id] = str(getattr(error, "reason", error))
        return self._decoded[segment_id]

    def _decode(self, segment_id: str) -> dict[Kind, str]:
        manifest, stored = self.manifest(segment_id), self.stored_paths(segment_id)
        if manifest is None:
            raise BadManifest("the manifest is missing")
        if self.needs_key(manifest):
            raise BadChunkError("it is encrypted, and no key was given")
        key = b""
        if manifest.data_key is not None and self._key is not None:
            key = _key_of(self._key).data_key(manifest.data_key)
        found: dict[Kind, str] = {}
        if INDEXES in stored:
            with Source(stored[INDEXES]) as source:
                for kind, (position, size) in manifest.indexes.items():
                    data = source.read(position, size)
                    if size and manifest.data_key is not None:
                        data = decrypt(key, manifest.aad, data)
                    found[kind] = _unpacker().spool(io.BytesIO(data), kind.value).file
        if LOG in stored:
            with Source(stored[LOG]) as source:
                parts = _plain(source, manifest, key)
                found[Kind.LOG] = (
                    _unpacker().spool(cast("IO[bytes]", _JoinedStream(parts)), LOG).file
                )
        return found


@cache
def _key_of(path: str) -> ChunkKey:
    return ChunkKey(path)


def _plain(source: Source, manifest: Manifest, key: bytes) -> Iterator[bytes]:
    for chunk in manifest.chunks:
        data = source.read(chunk.position, chunk.stored_size)
        if manifest.data_key is not None:
            data = decrypt(key, manifest.aad, data)
        if manifest.compressed:
            data = decompress(data, chunk.size)
        if len(data) != chunk.size:
            raise BadChunkError(
                f"a chunk has {len(data):,} bytes, but {chunk.size:,} according to the manifest"
            )
        yield data


class _JoinedStream(io.RawIOBase):
    """Pieces as a stream; each `read` gives the next one."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        while not self._left:
            following = next(self._pieces, None)
            if following is None:
                return b""
            self._left = following
        size = len(self._left) if size < 0 else size
        found, self._left = self._left[:size], self._left[size:]
        return found

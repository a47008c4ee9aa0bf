"""Say what a file holds by its bytes, where its name does not say.

What is sure is said, and no more: a log shows its first entry with the right checksum, a snapshot
its own checksum, a checkpoint its lines. Of indexes only the slots can be looked at; where two
readings would do, nothing is said.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from kdump import kernels
from kdump.kernels import columns as c
from kdump.record.layout import MAX_INT32, MAX_INT64
from kdump.storage import checkpoints, names, properties
from kdump.storage.names import Kind
from kdump.storage.pcap import is_capture
from kdump.storage.pre08_records import Pre08Records
from kdump.storage.producer_snapshot import ProducerSnapshot
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

#: How a file of a kind is called on the command line, and named where its own name says nothing.
KINDS = {
    **names.EXTENSIONS,
    names.LEADER_EPOCH_CHECKPOINT: Kind.LEADER_EPOCHS,
    names.RECOVERY_POINT_CHECKPOINT: Kind.OFFSET_CHECKPOINT,
    names.PARTITION_METADATA: Kind.PARTITION_METADATA,
    names.META_PROPERTIES: Kind.META_PROPERTIES,
    names.QUORUM_STATE: Kind.QUORUM_STATE,
    "metadata-snapshot": Kind.METADATA_SNAPSHOT,
    "capture": Kind.CAPTURE,
    "frames": Kind.FRAMES,
}
_LOOKED_AT = 1 << 20  # bytes of a log's start; a larger first batch is believed by its header
_SMALL = 1 << 20
_LENGTH_BYTES = 4  # of a frame
_LOOKED_SLOTS = 64
_YEAR_2000_MS, _YEAR_2100_MS = 946_684_800_000, 4_102_444_800_000


class RecognizedFile(NamedTuple):
    """What a file holds (a word of KINDS, None where nothing is sure), and its first offset."""

    word: str | None
    base_offset: int | None = None


def recognize(path: str) -> RecognizedFile:
    """Look at the first bytes of a file."""
    with Source(path) as source:
        head = source.read(0, _LOOKED_AT)
        if is_capture(head):
            return RecognizedFile("capture")
        found = _log(head) or _pre08_log(source)
        if found is None and source.size <= _SMALL:
            found = _small(head)
        if found is None and _frames(head):
            return RecognizedFile("frames")
        return found or RecognizedFile(_index(head, source.size))


def _log(head: bytes) -> RecognizedFile | None:
    """Recognize a log by an entry with the right checksum at its start."""
    batches, _, _ = kernels.walk(head, 0, len(head), 0, -1, True, 1)
    if batches.count and not batches.flags_of(0) & c.WRONG:
        return RecognizedFile("log", batches.known_offset(0))
    return None


def _pre08_log(source: Source) -> RecognizedFile | None:
    is_log = Pre08Records(source, limit=_LOOKED_AT).starts_with_entry()
    return RecognizedFile("kafka", 0) if is_log else None


def _frames(head: bytes) -> bool:
    """Recognize a file of requests and responses by the first request."""
    from kdump.messages import old_protocol, protocol

    size = int.from_bytes(head[:_LENGTH_BYTES], "big")
    first = head[_LENGTH_BYTES:]
    return protocol.is_request(first, size) or old_protocol.is_request(first, size)


def _small(data: bytes) -> RecognizedFile | None:
    """Recognize a checkpoint, properties or a snapshot, which are read whole."""
    if not ProducerSnapshot(data).problems():
        return RecognizedFile("snapshot")
    if checkpoints.parse_leader_epochs(data).entries:
        return RecognizedFile(names.LEADER_EPOCH_CHECKPOINT)
    if checkpoints.parse_offsets(data).entries:
        return RecognizedFile(names.RECOVERY_POINT_CHECKPOINT)
    if not properties.parse_partition_metadata(data).problems:
        return RecognizedFile(names.PARTITION_METADATA)
    known = properties.parse_meta_properties(data)
    if not known.problems and {"node.id", "broker.id"} & known.values.keys():
        return RecognizedFile(names.META_PROPERTIES)
    if data[:1] == b"{" and not properties.parse_quorum_state(data).problems:
        return RecognizedFile(names.QUORUM_STATE)
    return None


def _index(head: bytes, size: int) -> str | None:
    """Recognize an index by slots that rise; None where it may be another one, or none."""
    if not any(head):
        return None  # all zeros: any index that holds nothing yet
    found = [word for word, form in _SLOTS.items() if _is_index(head, size, *form)]
    return found[0] if len(found) == 1 else None


def _is_index(head: bytes, size: int, slot: struct.Struct, rising: int, *bounds: _Bounds) -> bool:
    if size % slot.size:
        return False
    room = min(len(head) // slot.size, _LOOKED_SLOTS) * slot.size
    slots = [one for one in slot.iter_unpack(head[:room]) if any(one)]
    return all(
        low <= member <= high
        for one in slots
        for member, low, high in zip(one, *bounds, strict=True)
    ) and all(one[rising] < other[rising] for one, other in pairwise(slots))


_Bounds = tuple[int, ...]
#: Index -> its slots, the member that rises, and the least and the most that each may be.
_SLOTS: dict[str, tuple[struct.Struct, int, _Bounds, _Bounds]] = {
    "index": (struct.Struct(">ii"), 0, (0, 0), (MAX_INT32,) * 2),
    "timeindex": (struct.Struct(">qi"), 0, (_YEAR_2000_MS, 0), (_YEAR_2100_MS, MAX_INT32)),
    "txnindex": (struct.Struct(">hqqqq"), 3, (0,) * 5, (0, *(MAX_INT64,) * 4)),
}


def file_name(word: str, base_offset: int) -> str:
    """Name a file of a kind as a broker would."""
    kind = KINDS[word]
    if kind in names.SEGMENT_KINDS:
        return names.file_name(kind, base_offset)
    if kind is Kind.METADATA_SNAPSHOT:
        return f"{base_offset:020d}-0000000000.checkpoint"
    if kind in (Kind.CAPTURE, Kind.FRAMES):
        return names.CAPTURE if kind is Kind.CAPTURE else names.FRAMES
    return word

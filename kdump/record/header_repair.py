"""Put right the header fields that no checksum covers, where the checksum proves the rest (F20).

Of a batch those are its base offset, its length, its leader epoch and its magic byte; of a message
its offset and its length. A length and a magic are right when the checksum is right with them. An
offset and an epoch are only inferred: from the entries before and after.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kdump import kernels
from kdump.kernels import columns as c
from kdump.record.batch import read_batch
from kdump.record.layout import FORMATS, LOG_OVERHEAD, SMALLEST_MESSAGE
from kdump.tuples import NamedTuple

_OFFSET, _SIZE, _EPOCH = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">i")
_SIZE_AT, _EPOCH_AT = _OFFSET.size, LOG_OVERHEAD
MAGIC_AT = 16
_BITS = 63
_UNFIT = c.CRC_BAD | c.TOO_SMALL | c.MAGIC_UNKNOWN | c.DELTA_COUNT | c.CODEC_UNKNOWN


class Field(NamedTuple):
    """A header field, as it is stored and as it has to be."""

    name: str
    stored: int
    inferred: int


class MendedEntry(NamedTuple):
    """An entry with its header put right; `at` is where it starts in the bytes looked at."""

    at: int
    data: bytes
    fields: tuple[Field, ...]


class Neighbours(NamedTuple):
    """What is sound around a place: last offset and epoch before, first offset and epoch after.

    None where nothing is there; an epoch below 0 is none.
    """

    last: int
    epoch: int
    first: int | None
    next_epoch: int


def mend(data: bytes, around: Neighbours, limit: int) -> Iterator[MendedEntry]:
    """Yield the entries in some bytes of which only uncovered fields are wrong, in their order."""
    position, last = 0, around.last
    while position < len(data):
        entry = _with_right_checksum(data[position:])
        if entry is None:
            return
        found, fields = entry
        behind = position + len(found)
        # Only what ends where the sound entry after it begins is right before that.
        first = around.first if behind == len(data) else None
        placed = _place(found, around._replace(last=last, first=first), around.first, limit)
        if placed is not None:
            placed_data, more, last = placed
            if fields or more:
                yield MendedEntry(position, placed_data, (*fields, *more))
        position = behind


def with_known_magic(data: bytes) -> int | None:
    """Return the magic with which the checksum of an entry is right, if its own is not the one."""
    entry = _with_right_checksum(data)
    if entry is None or len(entry[0]) != len(data):
        return None
    return next((field.inferred for field in entry[1] if field.name == "magic"), None)


def _with_right_checksum(data: bytes) -> tuple[bytes, tuple[Field, ...]] | None:
    """Find the length and the magic with which the checksum of the first entry is right."""
    if len(data) < LOG_OVERHEAD + SMALLEST_MESSAGE:
        return None
    stored = _SIZE.unpack_from(data, _SIZE_AT)[0]
    own = LOG_OVERHEAD + stored
    for size in (own, len(data)) if own != len(data) else (own,):
        if not LOG_OVERHEAD + SMALLEST_MESSAGE <= size <= len(data):
            continue
        for read in sorted(FORMATS, key=lambda each: each.magic != data[MAGIC_AT]):
            if size < read.smallest_size:
                continue
            entry = bytearray(data[:size])
            _SIZE.pack_into(entry, _SIZE_AT, size - LOG_OVERHEAD)
            entry[MAGIC_AT] = read.magic
            rows, _, _ = kernels.walk(entry, 0, size, 0, -1, True, 1)
            if rows.count == 1 and not rows.flags & _UNFIT:
                fields = [Field("length", stored, size - LOG_OVERHEAD)] if size != own else []
                if read.magic != data[MAGIC_AT]:
                    fields.append(Field("magic", data[MAGIC_AT], read.magic))
                return bytes(entry), tuple(fields)
    return None


def _place(
    data: bytes, around: Neighbours, bound: int | None, limit: int
) -> tuple[bytes, tuple[Field, ...], int] | None:
    """Give an entry an offset and an epoch that its neighbours bear out; None where they do not."""
    rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    offsets = _offsets(data, limit) if rows.flags & c.WRAPPER else None
    stored = _OFFSET.unpack_from(data)[0]
    if offsets is not None and not rows.format(0).relative_offsets:
        first, last, right = offsets[0], offsets[-1], offsets[-1]  # they have their own (F13)
        if not (around.last < first <= last and (bound is None or last < bound)):
            return None
    else:
        if rows.flags & c.WRAPPER and not offsets:
            return None
        # How far the offset of the entry is from its first and its last one: that of a wrapper is
        # its last. (Stored as 0, it counts for none of them, F12.)
        before = offsets[-1] - offsets[0] if offsets else 0
        behind = 0 if offsets else rows.last_offset(0) - stored
        found = _base(stored, around, bound, before, behind)
        if found is None:
            return None
        right, last = found, found + behind
    made, fields = bytearray(data), []
    if right != stored:
        _OFFSET.pack_into(made, 0, right)
        fields.append(Field("offset", stored, right))
    if rows.has_leader_epoch(0):
        epoch = _EPOCH.unpack_from(data, _EPOCH_AT)[0]
        right_epoch = _epoch(epoch, around)
        if right_epoch is None:
            return None
        if right_epoch != epoch:
            _EPOCH.pack_into(made, _EPOCH_AT, right_epoch)
            fields.append(Field("leader_epoch", epoch, right_epoch))
    return bytes(made), tuple(fields), last


def _base(
    stored: int, around: Neighbours, bound: int | None, before: int, behind: int
) -> int | None:
    """The offset that an entry has to have between its neighbours, None where none is proved."""

    def fits(offset: int) -> bool:
        first, last = offset - before, offset + behind
        return around.last < first <= last and (bound is None or last < bound)

    if around.first is None and bound is None:
        return stored if stored - before == around.last + 1 else None
    if fits(stored):
        return stored
    exact = around.last + 1 + before
    if around.first is not None and exact + behind + 1 == around.first:
        return exact
    flipped = [stored ^ 1 << bit for bit in range(_BITS) if fits(stored ^ 1 << bit)]
    return flipped[0] if len(flipped) == 1 else None


def _epoch(stored: int, around: Neighbours) -> int | None:
    """The leader epoch of an entry: epochs never fall, and one between equal ones is the same."""
    known = [epoch for epoch in (around.epoch, around.next_epoch) if epoch >= 0]
    if not known or (min(known) <= stored <= max(known) and len(known) == 2):
        return stored
    if len(known) == 1:
        return stored if stored == known[0] else None
    return known[0] if known[0] == known[1] else None


def epoch_between(stored: int, before: int, after: int) -> int | None:
    """The epoch of a batch between two of one epoch, where it says another; None else."""
    return before if 0 <= before == after != stored else None


def with_epoch(data: bytes, epoch: int) -> MendedEntry:
    """Write a batch with another leader epoch."""
    stored = _EPOCH.unpack_from(data, _EPOCH_AT)[0]
    made = bytearray(data)
    _EPOCH.pack_into(made, _EPOCH_AT, epoch)
    return MendedEntry(0, bytes(made), (Field("leader_epoch", stored, epoch),))


def with_offset(data: bytes, offset: int) -> MendedEntry:
    """Write an entry with another offset of its own."""
    stored = _OFFSET.unpack_from(data)[0]
    made = bytearray(data)
    _OFFSET.pack_into(made, 0, offset)
    return MendedEntry(0, bytes(made), (Field("offset", stored, offset),))


def _offsets(data: bytes, limit: int) -> list[int]:
    """The offsets inside a wrapper, none where not all of it opens."""
    rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    found: list[int] = []
    for piece in read_batch(data, 0, rows, 0, limit=limit):
        if not piece.is_sound:
            return []
        found += piece.records.offsets
    return found

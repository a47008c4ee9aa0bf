"""Compare record by record the batches that are not the same in all replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.compare.cursor import HOLE, INSIDE, Absence, Cursor, Entry
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.members import sequence_at
from kdump.record.batch import read_batch
from kdump.record.default import headers_of
from kdump.record.layout import format_of
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.compare.replica import Replica, UnusableRange
    from kdump.kernels.columns import DecodedRecords
    from kdump.record.stretches import Data

#: What records are compared by, in the order in which differences are named. Those behind the
#: first three exist in magic 2 only, and are not held against an older format.
FIELDS = tuple(
    "key value timestamp_ms headers producer_id producer_epoch sequence control"
    " leader_epoch".split()
)
_IN_EVERY_FORMAT = 3
#: Why a batch was not opened although nothing may be wrong with it.
_NOT_LOOKED_AT = frozenset({reasons.OVER_LIMIT, reasons.CODEC_MISSING})


class Record(NamedTuple):
    """One record as it is compared; `values` are parallel to FIELDS."""

    offset: int
    entry: Entry
    magic: int
    values: tuple[object, ...]

    @property
    def is_legacy(self) -> bool:
        """Whether it is of a format before record batches."""
        return format_of(self.magic).is_legacy

    @property
    def key(self) -> bytes | None:
        """Its key."""
        key = self.values[0]
        return key if isinstance(key, bytes) else None

    @property
    def may_go_for_good(self) -> bool:
        """Whether a cleaner may remove it though no other record has its key: a tombstone, what
        belongs to a transaction, and what has no key, which a compacted topic refuses.
        """
        flags = self.entry.batches.flags_of(self.entry.row)
        return self.key is None or self.values[1] is None or bool(flags & _OF_TRANSACTIONS)


_OF_TRANSACTIONS = c.TRANSACTIONAL | c.CONTROL


class UndecodedRest(NamedTuple):
    """What is left of a batch that could not be decoded: its offsets up to `last` are unknown."""

    entry: Entry
    reason: str
    damaged: bool


def find_differing_fields(one: Record, other: Record) -> tuple[str, ...]:
    """Name the fields in which two records of the same offset differ."""
    if one.values == other.values:
        return ()
    converted = one.magic != other.magic
    count = _IN_EVERY_FORMAT if converted and (one.is_legacy or other.is_legacy) else len(FIELDS)
    return tuple(
        name
        for name, mine, theirs in zip(FIELDS[:count], one.values, other.values, strict=False)
        if mine != theirs and not (converted and name == "timestamp_ms" and -1 in (mine, theirs))
    )


def records_of(entry: Entry, replica: Replica) -> Iterator[Record | UndecodedRest]:
    """Decode a batch, record by record; what cannot be decoded ends it."""
    for piece in pieces_of(entry, replica):
        if isinstance(piece, UndecodedRest):
            yield piece
        else:
            yield from map(piece.record, range(piece.first, piece.records.count))


def pieces_of(entry: Entry, replica: Replica) -> Iterator[Piece | UndecodedRest]:
    """Decode a batch, read again from its file; what cannot be decoded ends it."""
    batches, row = entry.batches, entry.row
    position, size = batches.position(row), batches.size_bytes(row)
    if size > max(replica.limit, 1 << 18):
        yield UndecodedRest(entry, "over-decompress-limit", damaged=False)
        return
    read = partial(replica.read, entry.place.path)
    known = replica.ahead.records(batches, row, read)
    if known is not None:
        yield Piece(entry, *known)
        return
    data = read(position, size)
    if len(data) < size:
        yield UndecodedRest(entry, "file-vanished", damaged=False)
        return
    for piece in read_batch(data, position, batches, row, limit=replica.limit):
        offsets = piece.records.offsets.tolist()
        if min(offsets, default=0) < 0:
            sound = next(at for at, offset in enumerate(offsets) if offset < 0)
            yield Piece(entry, piece.data, piece.records.up_to(sound))
            yield UndecodedRest(entry, "offset-unknown", damaged=True)
            return
        yield Piece(entry, piece.data, piece.records)
        if piece.reason not in (reasons.END, reasons.FULL):
            word = reasons.NAMES.get(piece.reason, str(piece.reason))
            # A wrapper that ends early is read so by every broker (F17).
            if piece.reason != reasons.INNER_CUT_SHORT:
                yield UndecodedRest(entry, word, damaged=piece.reason not in _NOT_LOOKED_AT)
            return


class Piece:
    """Some records of a batch, from row `first` on; `common` is what they are compared by beside
    their own fields.
    """

    def __init__(self, entry: Entry, data: Data, records: DecodedRecords, first: int = 0) -> None:
        self.data = data
        self.records = records
        self.first = first
        self._entry = entry
        header = entry.batches.header(entry.row)
        self._modern = not header.is_legacy
        self._base, self._sequence = header.base_offset, header.base_sequence
        self._producer = header.producer_id, header.producer_epoch
        self._control = header.flags & _OF_TRANSACTIONS
        self._epoch = header.leader_epoch
        self._magic = header.magic
        self.common: tuple[object, ...] = (self._magic, self._modern)
        if self._modern:
            self.common += (*self._producer, self._control, self._epoch, self._base, self._sequence)

    def record(self, row: int) -> Record:
        """Return one of them."""
        data = memoryview(self.data)
        (
            _, start, size, offset, timestamp, key, key_size, value, value_size, headers, count, _,
        ) = self.records.row(row)  # fmt: skip
        own = (
            bytes(data[key : key + key_size]) if key_size >= 0 else None,
            bytes(data[value : value + value_size]) if value_size >= 0 else None,
            timestamp,
        )
        if not self._modern:
            return Record(offset, self._entry, self._magic, (*own, *_OLD))
        found = tuple(headers_of(data, headers, count, start + size)) if count else ()
        number = sequence_at(self._sequence, offset - self._base)
        of_batch = (*self._producer, number, self._control, self._epoch)
        return Record(offset, self._entry, self._magic, (*own, found, *of_batch))


_OLD = ((), -1, -1, -1, 0, -1)


class Stream:
    """The records of one replica in a cluster, in order; `at` is the one at hand.

    `offset` is its offset, which says whether it is worth making.
    """

    def __init__(self, cursor: Cursor, entries: Sequence[Entry]) -> None:
        self.cursor = cursor
        self.entries = entries
        self.offset: int | None = None
        self.unopened: list[UndecodedRest] = []
        self.reported: set[int] = set()
        self._pieces = self._read_all()
        self._piece: Piece | None = next(self._pieces, None)
        self._row = -1 if self._piece is None else self._piece.first - 1
        self._last = -1
        self.advance()

    def advance(self) -> None:
        """Go on to the next record."""
        self._row += 1
        start = self.cursor.replica.start
        while self._piece is not None:
            records = self._piece.records
            while self._row < records.count:
                offset = records.offset(self._row)
                if offset > self._last and offset >= start:
                    self.offset = self._last = offset
                    return
                self._row += 1
            self._piece = next(self._pieces, None)
            self._row = 0 if self._piece is None else self._piece.first
        self.offset = None

    @property
    def at(self) -> Record | None:
        """The record at hand, None behind the last."""
        return None if self._piece is None else self._piece.record(self._row)

    def same_ahead(self, other: Stream) -> int:
        """Count the records from the one at hand on that are the same there, within a batch."""
        mine, theirs = self._piece, other._piece
        if mine is None or theirs is None or mine.common != theirs.common:
            return 0
        return kernels.same_records(
            mine.data, mine.records, self._row, theirs.data, theirs.records, other._row
        )

    def skip(self, count: int) -> None:
        """Go past so many records, whose offsets rise."""
        assert self._piece is not None
        self._row += count - 1
        self._last = self._piece.records.offset(self._row)
        self.advance()

    def _read_all(self) -> Iterator[Piece]:
        for entry in self.entries:
            for piece in pieces_of(entry, self.cursor.replica):
                if isinstance(piece, UndecodedRest):
                    self.unopened.append(piece)
                else:
                    yield piece

    def knows(self, offset: int) -> bool:
        """Whether what this replica has at an offset can be known."""
        return not any(each.entry.first <= offset <= each.entry.last for each in self.unopened)

    def absent(self, offset: int) -> Absence:
        """Say why it has nothing at an offset."""
        if offset < self.cursor.replica.start:
            return self.cursor.absent(offset)
        for entry in self.entries:
            if offset < entry.first:
                return Absence(self.cursor, HOLE if entry.holes else INSIDE)
            if offset <= entry.last:
                return Absence(self.cursor, INSIDE)
        return self.cursor.absent(offset)

    def holes(self, offset: int) -> tuple[UnusableRange, ...]:
        """Give the holes in which an offset may lie."""
        for entry in self.entries:
            if offset < entry.first:
                self.reported.update(map(id, entry.holes))
                return entry.holes
        return tuple(self.cursor.holes)

    def find_holes(self) -> Iterator[tuple[Entry, UnusableRange]]:
        """Yield the holes between the batches in which no other replica has anything."""
        for entry in self.entries[1:]:
            for hole in entry.holes:
                if id(hole) not in self.reported and not hole.finding.entry.ends_log:
                    yield entry, hole


def side_by_side(
    streams: Sequence[Stream], skipped: Callable[[int], None] | None = None
) -> Iterator[tuple[int, list[Record | None]]]:
    """Yield each offset that any of the streams has, with the record of each.

    With `skipped`, records that are the same in all are not yielded but counted to it.
    """
    first, *others = streams
    while True:
        while skipped is not None and (same := min(map(first.same_ahead, others), default=0)):
            for stream in streams:
                stream.skip(same)
            skipped(same)
        heads = [stream.offset for stream in streams if stream.offset is not None]
        if not heads:
            return
        offset = min(heads)
        yield offset, [stream.at if stream.offset == offset else None for stream in streams]
        for stream in streams:
            if stream.offset == offset:
                stream.advance()

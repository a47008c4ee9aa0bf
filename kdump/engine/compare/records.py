"""Compare record by record the batches that are not the same in all replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.compare.cursor import HOLE, INSIDE, Absence, Cursor, Entry
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import last_sequence, read_batch
from kdump.record.default import headers_of
from kdump.record.layout import format_of

if TYPE_CHECKING:
    from kdump.engine.compare.replica import Replica, UnusableRange
    from kdump.kernels.columns import RecordBatches
    from kdump.record.decoded import Decoded

#: What records are compared by, in the order in which differences are named. Those behind the
#: first three exist in magic 2 only, and are not held against an older format.
FIELDS = (
    "key",
    "value",
    "timestamp_ms",
    "headers",
    "producer_id",
    "producer_epoch",
    "sequence",
    "control",
    "leader_epoch",
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


class Unopened(NamedTuple):
    """What is left of a batch that could not be decoded: its offsets up to `last` are unknown."""

    entry: Entry
    reason: str
    damaged: bool


def differing_fields(one: Record, other: Record) -> tuple[str, ...]:
    """Name the fields in which two records of the same offset differ."""
    if one.values == other.values:
        return ()
    count = len(FIELDS) if not (one.is_legacy or other.is_legacy) else _IN_EVERY_FORMAT
    converted = one.magic != other.magic
    return tuple(
        name
        for name, mine, theirs in zip(FIELDS[:count], one.values, other.values, strict=False)
        if mine != theirs and not (converted and name == "timestamp_ms" and -1 in (mine, theirs))
    )


def records_of(entry: Entry, replica: Replica) -> Iterator[Record | Unopened]:
    """Decode a batch, read again from its file; what cannot be decoded ends it."""
    batches = entry.batches.slice(entry.row, entry.row + 1)
    size = batches.size_bytes(0)
    if size > max(replica.limit, 1 << 18):
        yield Unopened(entry, "over-decompress-limit", damaged=False)
        return
    position = batches.position(0)
    data = replica.read(entry.place.path, position, size)
    if len(data) < size:
        yield Unopened(entry, "file-vanished", damaged=False)
        return
    for piece in read_batch(data, position, batches, 0, limit=replica.limit):
        for record in _piece(entry, batches, piece):
            if record.offset < 0:
                yield Unopened(entry, "offset-unknown", damaged=True)
                return
            yield record
        if piece.reason not in (reasons.END, reasons.FULL):
            word = reasons.NAMES.get(piece.reason, str(piece.reason))
            # A wrapper that ends early is read so by every broker (F17).
            if piece.reason != reasons.INNER_CUT_SHORT:
                yield Unopened(entry, word, damaged=piece.reason not in _NOT_LOOKED_AT)
            return


def _piece(entry: Entry, batches: RecordBatches, piece: Decoded) -> Iterator[Record]:
    modern = not batches.is_legacy(0)
    data = memoryview(piece.data)
    base, sequence = batches.base_offset(0), batches.base_sequence(0)
    producer = batches.producer_id(0), batches.producer_epoch(0)
    control = batches.flags_of(0) & _OF_TRANSACTIONS
    epoch = batches.leader_epoch(0)
    magic = batches.magic(0)
    for (
        _, start, size, offset, timestamp, key, key_size, value, value_size, headers, count, _,
    ) in piece.records.rows():  # fmt: skip
        common = (
            bytes(data[key : key + key_size]) if key_size >= 0 else None,
            bytes(data[value : value + value_size]) if value_size >= 0 else None,
            timestamp,
        )
        if modern:
            found = tuple(headers_of(data, headers, count, start + size)) if count else ()
            number = last_sequence(sequence, offset - base)
            yield Record(offset, entry, magic, (*common, found, *producer, number, control, epoch))
        else:
            yield Record(offset, entry, magic, (*common, *_OLD))


_OLD = ((), -1, -1, -1, 0, -1)


class Stream:
    """The records of one replica in a cluster, in order; `at` is the one at hand."""

    def __init__(self, cursor: Cursor, entries: Sequence[Entry]) -> None:
        self.cursor = cursor
        self.entries = entries
        self.at: Record | None = None
        self.unopened: list[Unopened] = []
        self.told: set[int] = set()
        self._records = self._all()
        self.advance()

    def advance(self) -> None:
        """Go on to the next record."""
        self.at = next(self._records, None)

    def _all(self) -> Iterator[Record]:
        last = -1
        for entry in self.entries:
            for record in records_of(entry, self.cursor.replica):
                if isinstance(record, Unopened):
                    self.unopened.append(record)
                elif record.offset > last and record.offset >= self.cursor.replica.start:
                    last = record.offset
                    yield record

    def knows(self, offset: int) -> bool:
        """Whether what this replica has at an offset can be told."""
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
                self.told.update(map(id, entry.holes))
                return entry.holes
        return tuple(self.cursor.holes)

    def untold(self) -> Iterator[tuple[Entry, UnusableRange]]:
        """Yield the holes between the batches in which no other replica has anything."""
        for entry in self.entries[1:]:
            for hole in entry.holes:
                if id(hole) not in self.told and not hole.finding.entry.ends_log:
                    yield entry, hole


def side_by_side(streams: Sequence[Stream]) -> Iterator[tuple[int, list[Record | None]]]:
    """Yield each offset that any of the streams has, with the record of each."""
    while True:
        heads = [stream.at for stream in streams if stream.at is not None]
        if not heads:
            return
        offset = min(head.offset for head in heads)
        found = []
        for stream in streams:
            here = stream.at is not None and stream.at.offset == offset
            found.append(stream.at if here else None)
        yield offset, found
        for stream in streams:
            if stream.at is not None and stream.at.offset == offset:
                stream.advance()

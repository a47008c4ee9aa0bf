"""What a walk over a sound piece of a log leaves: the headers of its batches, packed.

Whoever reads a piece sends this to whoever judges the whole partition, who hands the checks the
very runs that a walk over the log would: the same batches in each, since some checks look at a run
at a time. No check of a sound log looks at bytes other than of control batches, or at checksums but
of batches at sequence 0, which may be one sent twice; of others the checksum is left out, as 0.

Headers are alike, and most fields follow from others: `_pack` writes what does not follow.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, chain
from operator import add, or_, sub
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.reading.scan import FEW, PLAIN
from kdump.engine.work.splits import stitched
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Run
from kdump.storage.file_records import BATCHES_A_RUN, BLOCK_BYTES

if TYPE_CHECKING:
    from kdump.engine.work.splits import Seam
    from kdump.storage.source import Source

#: Inode, size and time of modification: what tells a file from what it may become.
Identity = tuple[int, int, int]

_ROWS_A_CHUNK = 1 << 14
_HEAD = struct.Struct("=qq?")  # rows, position of the first, whether it is packed tightly
_ALL = tuple(k for k in range(c.BATCH_WIDTH) if k not in (c.B_POSITION, c.B_CRC, c.B_COMPUTED_CRC))
# Written as they are, as differences from row to row, and from another column. The counts of
# records follow from the offsets, sequence numbers from these and the producer's batch before.
_AS_IS = (
    c.B_SIZE, c.B_MAGIC, c.B_ATTRIBUTES, c.B_LEADER_EPOCH, c.B_PRODUCER_ID, c.B_PRODUCER_EPOCH,
    c.B_FLAGS, c.B_LAYOUT,
)  # fmt: skip
_RISING = (c.B_LAST_OFFSET, c.B_MAX_TIMESTAMP)
_BELOW = ((c.B_BASE_OFFSET, c.B_LAST_OFFSET), (c.B_BASE_TIMESTAMP, c.B_MAX_TIMESTAMP))
_SAME, _PLANES = b"\0", b"\1"


class Walked(NamedTuple):
    """One piece of one log, walked: where, and what the checks need of it.

    Where the seam is not sound, nothing else is there. `sums` are those of the records, if they
    were decoded (see `Records.sums`).
    """

    base_offset: int
    seam: Seam
    identity: Identity = (0, 0, 0)
    chunks: tuple[bytes, ...] = ()
    sums: tuple[int, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, more or less."""
        return sum(map(len, self.chunks))


def identity_of(source: Source) -> Identity:
    """Ask which file is open; in a store without numbers and times its size alone says so."""
    status = source.status()
    return status.st_ino, status.st_size, status.st_mtime_ns


def fits(pieces: Sequence[Walked], identity: Identity | None = None) -> bool:
    """Whether the pieces are all of one log, which is the file of that identity."""
    if not pieces or any(piece.identity != pieces[0].identity for piece in pieces):
        return False
    if identity is not None and pieces[0].identity != identity:
        return False
    seams = [piece.seam for piece in pieces]
    return seams[0].start is not None and stitched(seams, pieces[0].identity[1])


class Packer:
    """Takes up runs of sound batches; `size_bytes` is what they have become so far.

    `tight`: some 6 bytes a batch instead of some 25, for several times the work. Raises
    OverflowError for numbers so far apart that no difference can be kept.
    """

    def __init__(self, *, tight: bool = True) -> None:
        self.size_bytes = 0
        self._tight = tight
        self._chunks: list[bytes] = []
        self._parts: list[RecordBatches] = []
        self._rows = 0
        self._control = bytearray()

    def add(self, run: Run) -> None:
        """Take up a run."""
        batches = run.batches
        if batches.flags & c.CONTROL:
            for row, flags in enumerate(batches.row_flags):
                if flags & c.CONTROL:
                    at = batches.position(row) - run.base
                    self._control += run.data[at : at + batches.size_bytes(row)]
        self._parts.append(batches)
        self._rows += batches.count
        if self._rows >= _ROWS_A_CHUNK or len(self._control) >= BLOCK_BYTES:
            self._flush()

    def chunks(self) -> tuple[bytes, ...]:
        """Give all of it."""
        self._flush()
        return tuple(self._chunks)

    def _flush(self) -> None:
        if self._parts:
            chunk = _pack(RecordBatches.join(self._parts), bytes(self._control), self._tight)
            self._chunks.append(chunk)
            self.size_bytes += len(chunk)
            self._parts, self._rows = [], 0
            self._control.clear()


def _pack(batches: RecordBatches, control: bytes, tight: bool) -> bytes:
    parts: list[bytes] = []
    if tight:
        _put_tightly(parts, batches)
    else:
        for k in _ALL:
            _put(parts, batches.column(k))
    sums = batches.crcs
    rows = _firsts(batches.base_sequences)
    parts += (array("I", (sums[row] for row in rows)).tobytes(), control)
    data = b"".join(parts)
    head = _HEAD.pack(batches.count, batches.position(0), tight)
    return head + (zlib.compress(data, 1) if tight else data)


def _put_tightly(parts: list[bytes], batches: RecordBatches) -> None:
    for k in _AS_IS:
        _put(parts, batches.column(k))
    for k in _RISING:
        column = batches.column(k)
        _put(parts, map(sub, column, chain((0,), column)))
    spans: array[int] = array("q")
    for k, above in _BELOW:
        differences = array("q", map(sub, batches.column(above), batches.column(k)))
        spans = spans or differences
        _put(parts, differences)
    _put(parts, map(sub, batches.records_counts, spans))
    _put_sequences(parts, batches, spans)


def _put_sequences(parts: list[bytes], batches: RecordBatches, spans: array[int]) -> None:
    """Write by how much each sequence number is not the one behind the producer's batch before."""
    sequences, producer_ids = batches.base_sequences, batches.producer_ids
    if _is_same(producer_ids):  # then they run as the offsets do
        parts.append(_SAME)
        _put(parts, map(sub, sequences, batches.base_offsets))
        return
    parts.append(_PLANES)
    expected: dict[int, int] = {}
    differences = array("q")
    for producer_id, sequence, span in zip(producer_ids, sequences, spans, strict=True):
        differences.append(sequence - expected.get(producer_id, 0))
        expected[producer_id] = sequence + span + 1
    _put(parts, differences)


def _firsts(sequences: memoryview) -> Sequence[int]:
    """Give the rows at sequence 0, whose checksums tell whether they are the same batch."""
    if _is_same(sequences):
        return () if len(sequences) and sequences[0] else range(len(sequences))
    return [row for row, sequence in enumerate(sequences) if not sequence]


def _is_same(column: memoryview) -> bool:
    raw = column.tobytes()
    return raw == raw[:8] * len(column)


def _put(parts: list[bytes], column: Iterable[int]) -> None:
    """Write a column as its bytes' planes, since most of them are all the same."""
    raw = (column if isinstance(column, array) else array("q", column)).tobytes()
    if raw == raw[:8] * (len(raw) // 8):
        parts += (_SAME, raw[:8])
        return
    parts.append(_PLANES)
    for k in range(8):
        plane = raw[k::8]
        parts += (_SAME, plane[:1]) if plane.count(plane[:1]) == len(plane) else (_PLANES, plane)


class _Chunk:
    """Reads what `_pack` wrote."""

    def __init__(self, packed: bytes) -> None:
        self.rows, position, tight = _HEAD.unpack_from(packed)
        self._data = zlib.decompress(packed[_HEAD.size :]) if tight else packed
        self._at = 0 if tight else _HEAD.size
        self.columns = [array("q") for _ in range(c.BATCH_WIDTH)]
        if tight:
            self._take_tight()
        else:
            for k in _ALL:
                self.columns[k] = self._take()
        columns = self.columns
        starts = accumulate(columns[c.B_SIZE][:-1], initial=position)
        columns[c.B_POSITION] = array("q", starts)
        columns[c.B_CRC] = columns[c.B_COMPUTED_CRC] = self._sums(columns[c.B_BASE_SEQUENCE])
        self.control = self._data[self._at :]

    def _take_tight(self) -> None:
        columns = self.columns
        for k in _AS_IS:
            columns[k] = self._take()
        for k in _RISING:
            columns[k] = array("q", accumulate(self._take()))
        spans: array[int] = array("q")
        for k, above in _BELOW:
            differences = self._take()
            spans = spans or differences
            columns[k] = array("q", map(sub, columns[above], differences))
        columns[c.B_RECORDS_COUNT] = array("q", map(add, self._take(), spans))
        columns[c.B_BASE_SEQUENCE] = self._sequences(columns[c.B_PRODUCER_ID], spans)

    def _sequences(self, producer_ids: array[int], spans: array[int]) -> array[int]:
        if self._is_same():
            return array("q", map(add, self._take(), self.columns[c.B_BASE_OFFSET]))
        expected: dict[int, int] = {}
        sequences = array("q")
        for producer_id, difference, span in zip(producer_ids, self._take(), spans, strict=True):
            sequence = difference + expected.get(producer_id, 0)
            sequences.append(sequence)
            expected[producer_id] = sequence + span + 1
        return sequences

    def _sums(self, sequences: array[int]) -> array[int]:
        sums = array("q", bytes(8 * self.rows))
        rows = _firsts(memoryview(sequences))
        known = array("I")
        known.frombytes(self._next(known.itemsize * len(rows)))
        for row, one in zip(rows, known, strict=True):
            sums[row] = one
        return sums

    def _take(self) -> array[int]:
        column = array("q")
        if self._is_same():
            return self._bytes_to(column, self._next(8) * self.rows)
        raw = bytearray(8 * self.rows)
        for k in range(8):
            raw[k::8] = self._next(1) * self.rows if self._is_same() else self._next(self.rows)
        return self._bytes_to(column, raw)

    def _bytes_to(self, column: array[int], raw: bytes | bytearray) -> array[int]:
        column.frombytes(raw)
        return column

    def _is_same(self) -> bool:
        return self._next(1) == _SAME

    def _next(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


class _Rows:
    """The rows at hand, as columns; the bytes of their control batches lie one behind the other."""

    def __init__(self) -> None:
        self.columns = [array("q") for _ in range(c.BATCH_WIDTH)]
        self.control = bytearray()
        self._same: int | None = 0  # the flags of all, where they are the same
        self._block = 0  # where the block starts of the range that was yielded last
        self._first: int | None = None  # and that of the first row, if that is not its first

    def add(self, chunk: _Chunk) -> None:
        """Take up more rows."""
        self.control += chunk.control
        for held, more in zip(self.columns, chunk.columns, strict=True):
            held += more
        every = set(self.columns[c.B_FLAGS])
        self._same = every.pop() if len(every) == 1 else None

    def forget(self, count: int) -> None:
        """Let go of the first rows."""
        self.columns = [held[count:] for held in self.columns]

    def flags(self, first: int, end: int) -> int:
        """Give all flags of some rows."""
        if self._same is not None:
            return self._same
        return reduce(or_, self.columns[c.B_FLAGS][first:end])

    def slice(self, first: int, end: int) -> RecordBatches:
        """Copy some rows."""
        block = array("q")
        for column in self.columns:
            block += column[first:end]
        return RecordBatches(block, end - first, end - first, self.flags(first, end))

    def blocks(self, *, last: bool) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows as `FileRecords.walk` does: the whole batches of a block, or one.

        Unless these are the `last` rows, others may belong to the block of the last of them.
        """
        starts, sizes = self.columns[c.B_POSITION], self.columns[c.B_SIZE]
        count = len(starts)
        ends = starts[1:]
        if count:
            ends.append(starts[-1] + sizes[-1])
        first, base = 0, self._first
        while first < count:
            self._block, base = starts[first] if base is None else base, None
            end = max(bisect_right(ends, self._block + BLOCK_BYTES, first), first + 1)
            if end == count and not last:
                return
            for start in range(first, end, BATCHES_A_RUN):
                yield start, min(start + BATCHES_A_RUN, end)
            first = end

    def joined(self, *, last: bool) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows as `scan` joins them: blocks of which no bytes are looked at."""
        start, done, block = -1, 0, 0
        for first, end in self.blocks(last=last):
            plain = end - first <= FEW and not self.flags(first, end) & ~PLAIN
            if start >= 0 and (not plain or first - start + FEW > BATCHES_A_RUN):
                yield start, first
                start = -1
            if not plain:
                yield first, end
            elif start < 0:
                start, block = first, self._block
            done = end
        if start >= 0 and last:
            yield start, done
        self._first = None if start < 0 else block

    def run(self, first: int, end: int) -> Run:
        """Make a run with the bytes of its control batches, which must be the first there are."""
        batches = self.slice(first, end)
        base = batches.position(0)
        if not batches.flags & c.CONTROL:
            return Run(bytearray(), base, batches)
        last = batches.count - 1
        data = bytearray(batches.position(last) + batches.size_bytes(last) - base)
        used = 0
        for row, flags in enumerate(batches.row_flags):
            if flags & c.CONTROL:
                at, size = batches.position(row) - base, batches.size_bytes(row)
                data[at : at + size] = self.control[used : used + size]
                used += size
        del self.control[:used]
        return Run(data, base, batches)


def replayed(pieces: Iterable[Walked], *, joined: bool = False) -> Iterator[Run]:
    """Yield the runs of a walk over the whole log, of which these are all pieces, in order.

    Their data holds the bytes of control batches alone, at their places. `joined`: those are
    joined that `scan` joins.
    """
    rows = _Rows()
    for packed in (chunk for piece in pieces for chunk in piece.chunks):
        rows.add(_Chunk(packed))
        ranges = rows.joined(last=False) if joined else rows.blocks(last=False)
        done = 0
        for first, done in ranges:
            yield rows.run(first, done)
        rows.forget(done)
    for first, end in rows.joined(last=True) if joined else rows.blocks(last=True):
        yield rows.run(first, end)

"""Carve an image: find the batches in it, the small texts that name partitions, and index pages.

What is kept of the batches are extents: stretches of an image in which one batch follows the other
and all are of one log, as far as the bytes can tell. A file begins where a sector does; so where an
offset is passed over just there, another file may begin.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.reading.background_source import BackgroundSource
from kdump.kernels import columns as c
from kdump.kernels.members import sequence_at
from kdump.record.batch import read_batch
from kdump.record.control import SNAPSHOT_HEADER, control_type
from kdump.record.frames import Run
from kdump.record.layout import CODEC_MASK
from kdump.storage import checkpoints
from kdump.storage.directory_blocks import (
    BLOCK,
    INODE,
    DirectoryBlock,
    may_be_directory,
    may_be_inode,
    read_block,
    read_inode,
)
from kdump.storage.names import DirectoryName
from kdump.storage.properties import parse_partition_metadata
from kdump.storage.raw_image import RawImage
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace
    from kdump.kernels.columns import BatchHeader, RecordBatches

SECTOR = 512
SMALLEST_BLOCK = 1024  # of file systems that brokers are on
_PRODUCERS = 32  # batches at either end whose producers are kept
_TORN_KEPT = 100_000
_TEXTS_KEPT = 100_000
_PAGE_BYTES = 1 << 16
_UNSOUND = c.WRONG & ~c.OFFSET_NOT_RISING
_SAMPLED = 63  # of the checksum's bits: one batch in so many says which extents have the same
_SAMPLED_FIRST = 16  # and so many of each extent
_SAMPLES_KEPT = 4096  # of an extent, about
_CHECKPOINT = re.compile(rb"0\r?\n[1-9][0-9]{0,5}\r?\n")
_PARTITION_METADATA = re.compile(rb"version: \d\n")
_METADATA_BYTES = 64

#: How much of an extent, at either end, is held against index pages.
ENDS_BYTES = 1 << 16

Sequence = tuple[int, int]  # a producer's epoch and a sequence number of its


class Piece(NamedTuple):
    """A stretch of an image, its end excluded."""

    position: int
    end: int


@dataclass(slots=True, eq=False)
class Extent:
    """Batches one behind the other, of one log; of a batch in pieces only that one.

    `heads` and `tails`: of producers met at its start and end the first and last sequence numbers.
    `torn`: the header right behind it, of a batch whose checksum is wrong. `sample`: what tells
    some of its batches from others. `late`: where a batch of it begins, not far from its end.
    `first_ms`, `last_ms`: the least and the greatest of its batches' largest timestamps, -1: none.
    """

    path: str
    pieces: list[Piece]
    first: int
    last: int
    batches: int
    layout: int
    epochs: tuple[int, int]  # of the first and of the last batch
    heads: dict[int, Sequence] = field(default_factory=dict)
    tails: dict[int, Sequence] = field(default_factory=dict)
    torn: BatchHeader | None = None
    is_plain: bool = False  # begins with a message that is no wrapper
    has_wrappers: bool = False
    is_doubtful: bool = False  # its offsets may be others than it has
    is_snapshot: bool = False  # of the metadata of a cluster, which is written like a log
    sample: list[int] = field(default_factory=list)
    late: int = 0
    codecs: int = 0  # a bit for each
    first_ms: int = -1
    last_ms: int = -1

    @property
    def position(self) -> int:
        """Where it begins."""
        return self.pieces[0].position

    @property
    def end(self) -> int:
        """Where its last piece ends."""
        return self.pieces[-1].end

    @property
    def size_bytes(self) -> int:
        """How many bytes its batches have."""
        return sum(piece.end - piece.position for piece in self.pieces)

    def may_precede(self, other: Extent) -> bool:
        """Whether the other's format and leader epoch may come behind this in one log."""
        return self.layout <= other.layout and self.epochs[1] <= other.epochs[0]


class ImageContents(NamedTuple):
    """What was found in one image.

    `torn` are headers of batches whose checksum is wrong. `said` are offsets of partitions, with
    the checkpoint that each stands in; `topic_ids` are those of `partition.metadata` files;
    `index_pages` are pieces of offset indexes, `directories` blocks of the file system that have
    names of a broker's files.
    """

    path: str
    size_bytes: int
    extents: list[Extent]
    torn: list[BatchHeader]
    said: dict[tuple[str, int], dict[int, Piece]]
    topic_ids: list[tuple[str, Piece]]
    index_pages: list[Piece]
    directories: tuple[DirectoryBlock, ...] = ()


def carve(path: str, pace: Pace, limit: int) -> ImageContents:
    """Read an image once from front to back."""
    source = NotingSource(path, pace)
    with source:
        image = RawImage(source, limit=limit)
        found = _Extents(path, limit)
        torn: list[BatchHeader] = []
        for item in image.walk():
            if isinstance(item, Run):
                found.take(item)
            for header in (one.header(0) for one in image.torn):
                found.tear(header)
                if len(torn) < _TORN_KEPT:
                    torn.append(header)
            image.torn.clear()
        return ImageContents(
            path,
            source.size,
            found.all(),
            torn,
            source.read_checkpoints(),
            source.topic_ids(),
            source.index_pages,
            tuple(source.directories()),
        )


class NotingSource(BackgroundSource):
    """An image that takes note of small texts and index pages while it is read."""

    def __init__(self, path: str, pace: Pace) -> None:
        self._texts: dict[int, None] = {}
        self._metadata: dict[int, None] = {}
        self._blocks: dict[int, None] = {}
        self._inodes: dict[int, None] = {}
        self.index_pages: list[Piece] = []
        super().__init__(path, pace)

    def read_into(self, buffer: bytearray | memoryview, position: int, size: int) -> int:
        done = super().read_into(buffer, position, size)
        if before := position % SECTOR:  # the last read ended in this sector
            self._search(
                memoryview(Source.read(self, position - before, SECTOR)), position - before
            )
        with memoryview(buffer) as view:
            first = -position % SECTOR
            self._search(view[first:done], position + first)
        return done

    def _search(self, data: memoryview, position: int) -> None:
        """Look for texts and index pages in sectors."""
        starts = bytes(data[::SECTOR])
        for letter, words, texts in (
            (b"0", _CHECKPOINT, self._texts),
            (b"v", _PARTITION_METADATA, self._metadata),
        ):
            at = starts.find(letter)
            while at >= 0 and len(texts) < _TEXTS_KEPT:
                if words.match(data, at * SECTOR, at * SECTOR + 16):
                    texts[position + at * SECTOR] = None
                at = starts.find(letter, at + 1)
        for at in kernels.index_sectors(data, 0, SECTOR):
            self._index_sector(position + at)
        self._look_for_names(bytes(data), position)

    def _look_for_names(self, data: bytes, position: int) -> None:
        """Take note of the blocks that begin like a directory's, and of inodes of directories."""
        first = -position % BLOCK
        # The type of an entry in ext4, the first letter of a magic in xfs: few blocks have them.
        for column, byte in ((7, b"\1"), (7, b"\2"), (0, b"X")):
            for number in _find_all(data[first + column :: BLOCK], byte):
                at = first + number * BLOCK
                if len(data) - at >= BLOCK and may_be_directory(data, at):
                    self._note_block(self._blocks, position + at)
        for number in _find_all(data[::SECTOR], b"I"):
            at = number * SECTOR
            if len(data) - at >= INODE and may_be_inode(data, at):
                self._note_block(self._inodes, position + at)

    def _note_block(self, blocks: dict[int, None], position: int) -> None:
        if len(blocks) < _TEXTS_KEPT:
            blocks[position] = None

    def directories(self) -> Iterator[DirectoryBlock]:
        """Read the directory blocks, and the small directories in inodes, that were met."""
        for positions, size, read in (
            (self._blocks, BLOCK, read_block),
            (self._inodes, INODE, read_inode),
        ):
            for position in positions:
                found = read(Source.read(self, position, size))
                if found is not None:
                    yield found

    def _index_sector(self, at: int) -> None:
        pages = self.index_pages
        start, end = pages[-1] if pages else (-1, -1)
        if at == end and end - start < _PAGE_BYTES:
            pages[-1] = Piece(start, at + SECTOR)
        elif at >= end and len(pages) < _TEXTS_KEPT:
            pages.append(Piece(at, at + SECTOR))

    def topic_ids(self) -> list[tuple[str, Piece]]:
        """Read the `partition.metadata` files that were met."""
        found = []
        for position in self._metadata:
            text = Source.read(self, position, _METADATA_BYTES).partition(b"\0")[0]
            read = parse_partition_metadata(text)
            topic_id = read.values.get("topic_id")
            if topic_id is not None and not read.problems:
                found.append((topic_id, Piece(position, position + len(text))))
        return found

    def read_checkpoints(self) -> dict[tuple[str, int], dict[int, Piece]]:
        """Read the checkpoints of offsets that were met, whole or not."""
        found: dict[tuple[str, int], dict[int, Piece]] = {}
        for position in self._texts:
            text, size = b"", 1 << 12
            while len(text) < size <= checkpoints.SIZE_LIMIT and b"\0" not in text:
                size *= 4
                text = Source.read(self, position, size)
            text = text.partition(b"\0")[0]
            piece = Piece(position, position + len(text))
            read = checkpoints.parse_offsets(text)
            for topic, partition, offset in read.entries[: read.declared or 0]:
                if DirectoryName(topic, partition).legal:
                    found.setdefault((topic, partition), {}).setdefault(offset, piece)
        return found


class _Extents:
    """Puts runs of batches together to extents, and cuts them where another file may begin."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._done: list[Extent] = []
        self._open: Extent | None = None
        self._torn_wrapper: BatchHeader | None = None

    def all(self) -> list[Extent]:
        """Give what was found."""
        self._close()
        return self._done

    def take(self, run: Run) -> None:
        """Take up a run of batches."""
        batches = run.batches
        start = 0
        for row in self._marks(batches):
            is_unsound = bool(batches.flags_of(row) & _UNSOUND)
            if is_unsound or (row and _may_begin(batches, row, batches.last_offset(row - 1))):
                self._add(run, start, row)
                self._close()
                start = row + is_unsound
        self._add(run, start, batches.count)

    def tear(self, header: BatchHeader) -> None:
        """Take note of a header whose checksum is wrong."""
        extent = self._open
        if extent is not None and extent.end == header.position:
            extent.torn = header
        self._close()
        self._torn_wrapper = header if header.flags & c.WRAPPER else self._torn_wrapper

    def _marks(self, batches: RecordBatches) -> list[int]:
        if batches.flags & c.WRONG:
            return list(range(batches.count))
        positions = batches.positions
        return [row for row, at in enumerate(positions) if not at % SECTOR]

    def _add(self, run: Run, start: int, stop: int) -> None:
        """Add rows that are of one log, to the extent that is open if they go on with it."""
        if start >= stop:
            return
        batches, extent = run.batches, self._open
        if extent is not None and (
            extent.is_doubtful
            or extent.end != batches.position(start)
            or _may_begin(batches, start, extent.last)
        ):
            self._close()
            extent = None
        if extent is None and stop - start > 1 and _may_be_cut(batches, start):
            self._add(run, start, start + 1)
            self._close()
            start += 1
        if extent is None:
            extent = self._open = self._new(run, start, stop)
        few = _SAMPLED_FIRST - extent.batches
        end = stop - 1
        extent.batches += stop - start
        extent.last = batches.last_offset(end)
        _note_facts(extent, batches, start, stop)
        extent.has_wrappers |= bool(batches.flags & c.WRAPPER)
        extent.pieces[-1] = extent.pieces[-1]._replace(end=batches.end_position(end))
        extent.epochs = extent.epochs[0], epoch_of(batches, end)
        if extent.end - extent.late > 2 * ENDS_BYTES:
            row = bisect_left(batches.positions, extent.end - ENDS_BYTES, start, end)
            extent.late = batches.position(row)
        for row in range(max(start, stop - _PRODUCERS), stop):
            _note(extent.tails, batches, row, is_end=True)
        if len(extent.sample) < _SAMPLES_KEPT:
            extent.sample += [
                identity(batches, row)
                for row, crc in enumerate(batches.crcs[start:stop], start)
                if not crc & _SAMPLED or row - start < few
            ]

    def _new(self, run: Run, row: int, stop: int) -> Extent:
        batches = run.batches
        extent = Extent(
            self._path,
            [Piece(batches.position(row), batches.position(row))],
            first_of(run.data, run.base, batches, row, self._limit),
            batches.last_offset(row),
            0,
            batches.layout(row),
            (epoch_of(batches, row),) * 2,
        )
        extent.late = extent.position
        extent.is_plain = batches.is_legacy(row) and not batches.is_wrapper(row)
        extent.is_snapshot = _is_snapshot(run, row)
        extent.is_doubtful = _may_be_cut(batches, row)
        for each in range(row, min(row + _PRODUCERS, stop)):
            _note(extent.heads, batches, each, is_end=False)
        return extent

    def _close(self) -> None:
        extent, self._open = self._open, None
        if extent is not None:
            extent.is_doubtful |= self._is_inside_wrapper(extent)
            self._done.append(extent)

    def _is_inside_wrapper(self, extent: Extent) -> bool:
        """Whether it may be messages of a torn wrapper that its compression left as they were."""
        torn = self._torn_wrapper
        return (
            torn is not None
            and torn.position < extent.position
            and extent.end <= torn.position + torn.size_bytes
            and extent.last <= torn.last_offset
            and extent.layout == torn.layout
            and extent.position % SECTOR != 0
        )


def _find_all(data: bytes, byte: bytes) -> Iterator[int]:
    at = data.find(byte)
    while at >= 0:
        yield at
        at = data.find(byte, at + 1)


def _note_facts(extent: Extent, batches: RecordBatches, start: int, stop: int) -> None:
    """Take note of the codecs and the times of some rows."""
    for attributes in set(batches.all_attributes[start:stop]):
        extent.codecs |= 1 << (attributes & CODEC_MASK)
    times = [time_ms for time_ms in batches.max_timestamps[start:stop] if time_ms >= 0]
    if times:
        extent.last_ms = max(*times, extent.last_ms)
        extent.first_ms = min(*times, extent.first_ms if extent.first_ms >= 0 else extent.last_ms)


def identity(batches: RecordBatches, row: int) -> int:
    """Give a number that tells a batch from others."""
    last = batches.last_offset(row)
    return hash((last, batches.crc(row), batches.size_bytes(row), batches.layout(row)))


def _may_begin(batches: RecordBatches, row: int, last: int) -> bool:
    """Whether another log may begin with a row, right behind a batch that ends with an offset."""
    first = batches.known_offset(row)
    if first <= last:
        return True
    if first == last + 1 or batches.position(row) % SECTOR or batches.is_wrapper(row):
        return False
    return not _is_sparse(batches)


def _may_be_cut(batches: RecordBatches, row: int) -> bool:
    """Whether the offset of a batch may be another file's bytes: no checksum covers it.

    A block begins before the checksum, and the batch behind does not go on with the offsets.
    """
    at = batches.position(row)
    if not -at % SMALLEST_BLOCK < batches.format(row).crc_position or not at % SMALLEST_BLOCK:
        return False
    behind = row + 1
    return behind == batches.count or batches.known_offset(behind) != batches.last_offset(row) + 1


def _is_sparse(batches: RecordBatches) -> bool:
    """Whether offsets are passed over elsewhere too, inside sectors: the log was compacted."""
    lasts, bases = batches.last_offsets, batches.base_offsets
    rows = range(1, batches.count)
    return any(bases[row] > lasts[row - 1] + 1 and batches.position(row) % SECTOR for row in rows)


def epoch_of(batches: RecordBatches, row: int) -> int:
    """Give the leader epoch of an entry, -1 where its format has none."""
    return batches.leader_epoch(row) if batches.has_leader_epoch(row) else -1


def _note(found: dict[int, Sequence], batches: RecordBatches, row: int, *, is_end: bool) -> None:
    """Take note of a producer's sequence numbers: at the start of an extent the first of them."""
    sequence = batches.base_sequence(row) if batches.has_producer_fields(row) else -1
    if sequence < 0 or batches.producer_id(row) < 0:
        return
    producer, epoch = batches.producer_id(row), batches.producer_epoch(row)
    if is_end:
        more = batches.last_offset(row) - batches.base_offset(row)
        found[producer] = epoch, sequence_at(sequence, more)
    else:
        found.setdefault(producer, (epoch, sequence))


def first_of(data: bytes | bytearray, base: int, rows: RecordBatches, row: int, limit: int) -> int:
    """Find the first offset of a batch; a wrapper is opened for it."""
    if not rows.is_wrapper(row):
        return rows.base_offset(row)
    offsets = [
        min(piece.records.offsets)
        for piece in read_batch(data, base, rows, row, limit=limit)
        if piece.records.count
    ]
    return min(offsets, default=rows.last_offset(row))


def _is_snapshot(run: Run, row: int) -> bool:
    """Whether a batch begins a snapshot of a cluster's metadata."""
    if run.batches.base_offset(row) or not run.batches.flags_of(row) & c.CONTROL:
        return False
    piece = next(iter(read_batch(run.data, run.base, run.batches, row, limit=SECTOR)))
    return (
        piece.records.count > 0
        and control_type(piece.records.key(piece.data, 0)) == SNAPSHOT_HEADER
    )

"""Walk one part of a huge partition in a worker of verify.

It frames and sums, and with `--deep` decodes, as a scan does. Where everything is sound the headers
are packed for whoever judges the partition; anything else ends it, and the seam says so.

Read huge partitions in parts, in parallel, before they are checked as one.

A partition is judged by one process, since what is found depends on all that lies before. But most
of the work is to read, to check and to decode, and of a sound log nothing is left of that but the
headers of its batches. So the closed logs of a large partition are cut as `splits` does, the pieces
are walked by whoever is idle, and what they leave (`PackedHeaders`) goes with the partition's item
to the one that judges it, who replays it to the checks in place of reading.

A piece that meets anything but sound batches gives up, and a log whose pieces do not fit together,
or that has changed since, is read as ever. So nothing is found that an uncut run would not find,
and nothing is missed. What is packed is small beside the log; where batches are tiny it would not
be, nothing would be gained, and such a log is read as ever, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kdump.engine.checks.records import Records
from kdump.engine.reading.background_source import BackgroundSource
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.header_columns import HeaderPacker, PackedHeaders, fits, identity_of
from kdump.engine.reading.log_files import place_of
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.engine.reading.segment_pass import SplitPass
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.verify.plan import target_of
from kdump.engine.work.pace import Progress
from kdump.engine.work.splits import Split, may_be_cut, parts, range_of
from kdump.errors import KdumpError
from kdump.kernels import columns as c
from kdump.record.frames import Run
from kdump.storage import names
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile, Target
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.verify.options import Item, VerifyOptions
    from kdump.engine.work.pace import Pace
    from kdump.engine.work.pipeline import Driver


_PACKED_FREE_BYTES = 64 << 10  # may be packed whatever the share
_SOUND = c.COMPRESSED | c.TRANSACTIONAL | c.CONTROL  # flags of batches that a piece may hold


class Piece(NamedTuple):
    """What one worker walks: part of a log, or some whole ones, of item number `item`.

    `share` is how many bytes of log may leave one byte.
    """

    item: int
    split: Split
    share: int

    @property
    def path(self) -> str:
        """What errors about the piece name."""
        return self.split.path

    @property
    def size_bytes(self) -> int:
        """What is to be read, in bytes of logs."""
        return self.split.size_bytes


def walk_piece(
    piece: Piece, pace: Pace, *, deep: bool, limit: int, settings: Settings
) -> list[PackedHeaders]:
    """Walk the logs of a piece: a pure function of the piece and the files."""
    found: list[PackedHeaders] = []
    used = _Budget(piece.share)
    for file, size in zip(piece.split.target.files, piece.split.sizes, strict=True):
        split = piece.split._replace(
            target=piece.split.target._replace(files=(file,)), sizes=(size,)
        )
        base = file.name.base_offset
        assert base is not None
        try:
            walk = _Walk(split, pace, used, limit=limit, deep=deep, settings=settings)
            walked = walk.walk(HeaderPacker())
        except KdumpError:
            walked = None  # whoever reads the whole log says why
        found.append(walked or PackedHeaders(base, SplitEdges(sound=False)))
    return found


class _Budget:
    """How much may be packed: a share of what was walked, beyond some that is free."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._walked = 0
        self._packed = 0

    def admits(self, walked: int, packed: int) -> bool:
        """Whether one more log, so far, keeps to it."""
        most = _PACKED_FREE_BYTES + (self._walked + walked) // self._share
        return self._packed + packed <= most

    def add(self, walked: int, packed: int) -> None:
        """Count a log that was walked."""
        self._walked += walked
        self._packed += packed


class _Walk:
    """One walk over a range of one log."""

    def __init__(
        self, split: Split, pace: Pace, used: _Budget, *, limit: int, deep: bool, settings: Settings
    ) -> None:
        self._split = split
        self._file = split.target.files[0]
        self._pace = pace
        self._used = used
        self._limit = limit
        self._segment = _segment_of(self._file)
        partition = PartitionScan(
            split.target._replace(log=LocalLog(os.path.dirname(self._file.path), [])),
            directory=None,
            settings=settings,
            deep=deep,
            limit=limit,
        )
        self._records = Records(partition) if deep else None

    def walk(self, packer: HeaderPacker) -> PackedHeaders | None:
        """Return what is left of the range; None for anything but sound batches."""
        base = self._segment.base_offset
        with Source(self._file.path) as source:
            identity = identity_of(source)
            if source.size != self._split.sizes[0]:
                return None
            reach = range_of(source, self._split)
            if reach is None:
                return PackedHeaders(base, SplitEdges(), identity)
        with BackgroundSource(self._file.path, self._pace) as source:
            if identity_of(source) != identity:
                return None
            seam = self._range(source, packer, *reach)
            if seam is None:
                return None
            chunks = packer.chunks()
            walked = seam.stop - reach[0]
            if not self._used.admits(walked, packer.size_bytes):
                return None
            if identity_of(source) != identity:
                return None
        self._used.add(walked, packer.size_bytes)
        sums = None if self._records is None else self._records.sums()
        return PackedHeaders(base, seam, identity, chunks, sums)

    def _range(
        self, source: Source, packer: HeaderPacker, start: int, end: int
    ) -> SplitEdges | None:
        last = self._segment.last_offset if not start else -1
        log = SplitPass(source, limit=self._limit, next_base=self._file.next_base)
        for item in log.items(start, end, last):
            if not isinstance(item, Run) or item.batches.flags & ~_SOUND:
                return None
            batches = item.batches
            row = batches.count - 1
            if self._records is not None:
                if any(True for _ in self._records.run(self._segment, item)):
                    return None
                if self._records.not_checked:
                    return None
            self._segment.last_offset = batches.last_offset(row)
            packer.add(item)
            if not self._used.admits(batches.end_position(row) - start, packer.size_bytes):
                return None
        return log.edges if log.edges.sound else None


def _segment_of(file: LogFile) -> SegmentScan:
    assert file.name.base_offset is not None
    segment = LogSegment(file.name.base_offset, {Kind.LOG: file.path})
    return SegmentScan(segment, place_of(file), next_base=file.next_base, active=False)


#: So many bytes of log may leave one. In fewer, batches are so small that reading is no more work;
#: of more, not even common batches of 16 KiB could be packed, so that less is cut instead.
_LEAST_SHARE, _MOST_SHARE = 64, 2048


def read_in_splits(
    items: list[Item],
    options: VerifyOptions,
    settings: Settings,
    *,
    driver: Driver,
    progress: Progress,
    split_bytes: int,
) -> list[Item]:
    """Walk what is to be cut, and return the items with what that left."""
    if options.quick:
        return items
    most = driver.packed_bytes
    splits = list(_splits(items, split_bytes, most * _MOST_SHARE))
    if not splits:
        return items
    planned = sum(split.size_bytes for _, split in splits)
    share = max(_LEAST_SHARE, -(-planned // most))
    pieces = [Piece(number, split, share) for number, split in splits]
    walk = partial(walk_piece, deep=options.deep, limit=options.decompress_limit, settings=settings)
    kept = _WalkedPieces(most)
    for piece, result in driver(pieces, walk, _byte_progress(progress)):
        if not isinstance(result, KdumpError):  # else whoever reads the whole log says it
            kept.add(piece.item, result)
    logs = kept.logs()
    progress.done_before += sum(one[0].identity[1] for of_item in logs.values() for one in of_item)
    progress.slots = [0]
    return [
        item._replace(walked={one[0].base_offset: one for one in logs[number]})
        if number in logs
        else item
        for number, item in enumerate(items)
    ]


def _splits(
    items: Sequence[Item], split_bytes: int, most_bytes: int
) -> Iterator[tuple[int, Split]]:
    """Cut and pack the closed logs of each partition that is larger than a piece.

    No more than some bytes in all; what is behind that is read by whoever judges it.
    """
    left = most_bytes
    for number, item in enumerate(items):
        if not item.whole or item.topic == names.CLUSTER_METADATA_TOPIC:
            continue
        if item.size_bytes <= split_bytes:
            continue
        target = target_of(item)
        if isinstance(target, KdumpError) or target.log is None:
            continue
        files = [
            file
            for file in _logs_of(target, target.log)
            if file.name.base_offset in item.sizes and may_be_cut(file, Filters())
        ]
        for split in parts(target, files, Filters(), split_bytes):
            left -= split.size_bytes
            if left < 0:
                return
            yield number, split


def _logs_of(target: Target, log: LocalLog) -> Iterator[LogFile]:
    for segment, following in with_next_base(log.logs):
        path = str(segment.log)
        name = names.parse(os.path.basename(path))
        yield LogFile(path, name, target.topic, target.partition, following, following is None)


def _byte_progress(progress: Progress) -> Progress:
    """Make a progress that shows bytes and places, and leaves the count of partitions alone."""
    beside = Progress()

    def tick() -> None:
        progress.slots, progress.at = beside.slots, beside.at
        progress.tick()

    beside.tick = tick
    return beside


class _WalkedPieces:
    """What pieces left, by item and base offset: as long as all of a log are sound, and there is
    room.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._logs: dict[tuple[int, int], list[PackedHeaders] | None] = {}
        self._size_bytes = 0

    def add(self, item: int, walked: Sequence[PackedHeaders]) -> None:
        """Take what one piece left."""
        for one in walked:
            key = (item, one.base_offset)
            known = self._logs.setdefault(key, [])
            if known is None:
                continue
            known.append(one)
            self._size_bytes += one.size_bytes
            if not one.seam.sound or self._size_bytes > self._most_bytes:
                self._size_bytes -= sum(piece.size_bytes for piece in known)
                self._logs[key] = None

    def logs(self) -> dict[int, list[tuple[PackedHeaders, ...]]]:
        """Give the logs whose pieces fit together, by item."""
        found: dict[int, list[tuple[PackedHeaders, ...]]] = {}
        for (item, _), pieces in self._logs.items():
            if pieces is not None and fits(pieces):
                found.setdefault(item, []).append(tuple(pieces))
        return found

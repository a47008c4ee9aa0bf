"""Walk one part of a huge partition in a worker of verify.

It frames and sums, and with `--deep` decodes, as a scan does. Where everything is sound the headers
are packed for whoever judges the partition; anything else ends it, and the seam says so.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.checks.records import Records
from kdump.engine.reading.background_source import BackgroundSource
from kdump.engine.reading.header_columns import HeaderPacker, PackedHeaders, identity_of
from kdump.engine.reading.log_files import place_of
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.engine.reading.segment_pass import SplitPass
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.splits import Split, range_of
from kdump.errors import KdumpError
from kdump.kernels import columns as c
from kdump.record.frames import Run
from kdump.storage.local_log import LocalLog, LogSegment
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.work.pace import Pace
    from kdump.storage.targets import LogFile

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
        self,
        split: Split,
        pace: Pace,
        used: _Budget,
        *,
        limit: int,
        deep: bool,
        settings: Settings,
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
    segment = LogSegment(file.name.base_offset)
    segment.files[Kind.LOG] = file.path
    return SegmentScan(segment, place_of(file), next_base=file.next_base, active=False)

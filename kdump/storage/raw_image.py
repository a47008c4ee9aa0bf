"""RawImage: the entries of logs anywhere in a file that is none, as the image of a disk.

An entry counts by its checksum alone: nothing says where a log begins, which one it is, or that its
offsets go on from those before. So nothing is believed of a broken header either: where it leads is
searched like any other place, because the blocks behind it may be another file's.
"""

from __future__ import annotations

from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize
from kdump.storage.after_damage import AfterDamage, Window, header_at
from kdump.storage.believed_offsets import BelievedOffsets, Bounds
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.names import OFFSET_MAX
from kdump.storage.running_sums import Sums
from kdump.storage.source import Source

_DOUBTFUL = c.TOO_SMALL | c.MAGIC_UNKNOWN | c.CODEC_UNKNOWN | c.DELTA_COUNT | c.RESERVED
_PRODUCER_ID_MAX = 1 << 48  # controllers count them up from 0


class RawImage(FileRecords):
    """The entries of an image; `limit` (bytes) bounds the largest that is looked for.

    `torn` are headers that say nothing that cannot be, but for a wrong checksum: most often of an
    entry whose rest lies elsewhere. Whoever walks takes them out.
    """

    def __init__(self, source: Source, *, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(source, limit=limit)
        self.torn: list[RecordBatches] = []

    def _after_damage(self, last_offset: int, *, whole: bool) -> AfterDamage:
        return _Anywhere(self.source, self._sums, self.torn, self.limit)

    def _large(
        self, position: int, size: int, limit: int, behind: AfterDamage, window: Window
    ) -> tuple[Oversize | Gap, int]:
        header = self.header(position)
        if header is None or size > self.limit or not _is_likely(header, self.source):
            return behind.measure_gap(position, limit, "cut-short", window)
        return super()._large(position, size, limit, behind, window)


class _AllOffsets(BelievedOffsets):
    """Any offset, wherever it is met."""

    def __init__(self) -> None:
        super().__init__(None, OFFSET_MAX, -1, whole=True)

    def gap(self) -> None:
        """Take up nothing."""

    def add(self, batches: RecordBatches) -> None:
        """Take up nothing."""

    def bounds(self) -> Bounds:
        """Return all offsets there are."""
        return Bounds(-1, OFFSET_MAX, -1, OFFSET_MAX)


class _Anywhere(AfterDamage):
    summed = 0  # what has a wrong checksum is to be seen

    def __init__(self, source: Source, sums: Sums, torn: list[RecordBatches], largest: int) -> None:
        super().__init__(source, sums, _AllOffsets())
        self._torn = torn
        self.largest = largest

    def entry(self, rows: RecordBatches, row: int, window: Window, limit: int) -> tuple[Gap, int]:
        header = rows.slice(row, row + 1)
        header.flags = header.flags_of(0)
        if _is_likely(header, self._source):
            self._torn.append(header)
        return self.search(header.position(0), limit, "crc-mismatch", header, b"", window)

    def measure_gap(
        self, position: int, limit: int, reason: str, window: Window
    ) -> tuple[Gap, int]:
        return self.search(position, limit, reason, None, b"", window)

    def is_right(self, position: int, end: int, window: Window) -> bool:
        header = header_at(self._source, position)
        if header is None or not _is_likely(header, self._source):
            return False
        if super().is_right(position, end, window):
            return True
        self._torn.append(header)
        return False


def _is_likely(header: RecordBatches, source: Source) -> bool:
    """Whether a header is like those that brokers write, before its checksum is looked at.

    Few other bytes look so: what they claim to cover need not be read.
    """
    if header.flags & _DOUBTFUL:
        return False
    read = header.format(0)
    if not read.is_legacy:
        is_empty = header.size_bytes(0) == read.header_size
        return (
            (header.records_count(0) > 0) != is_empty
            and -1 <= header.producer_id(0) < _PRODUCER_ID_MAX
            and header.producer_epoch(0) >= -1
            and header.base_sequence(0) >= -1
            and header.leader_epoch(0) >= -1
            and header.max_timestamp(0) >= -1
        )
    # A key and a value fill a message.
    at = header.position(0) + read.header_size
    key = _int32(source, at - 4)
    if not -1 <= key <= header.size_bytes(0) - read.smallest_size:
        return False
    value = _int32(source, at + max(key, 0))
    return value >= -1 and read.smallest_size + max(key, 0) + max(value, 0) == header.size_bytes(0)


def _int32(source: Source, position: int) -> int:
    return int.from_bytes(source.read(position, 4), "big", signed=True)

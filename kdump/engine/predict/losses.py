"""What a cut takes away: records counted, as far as what goes can still be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.predict.segment import Segment
from kdump.kernels import columns as c
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.kernels.columns import Columns

_BELIEVED = ~(c.CRC_BAD | c.COMPRESSED | c.WRAPPER | c.CONTROL | c.TRANSACTIONAL)


class Losses(NamedTuple):
    """How many `records` are lost, and the `end_offset` behind the last of them."""

    records: int
    end_offset: int


def losses(segment: Segment, position: int, end: int, losses_before: Losses) -> Losses:
    """Count what lies in [position, end) of a segment's log.

    A broken batch counts where its header is believable: the broker had taken it, and its offsets
    are gone with it. Messages in a wrapper are counted by the offsets they span.
    """
    records, last = losses_before.records, losses_before.end_offset - 1
    with Source(segment.path) as source:
        for item in FileRecords(source).walk(position, end, last):
            rows = item.header if isinstance(item, Gap) else item.batches
            if isinstance(item, Gap) and rows is None and item.reason == "cut-short":
                rows = _cut_short(source, item.position)
            if rows is None or (isinstance(item, Gap) and not _believable(rows, last)):
                continue
            for row in range(rows.count):
                count = rows.value(c.B_RECORDS_COUNT, row)
                offset = rows.value(c.B_LAST_OFFSET, row)
                if offset <= last:
                    continue  # a second copy, or out of order: not known to be lost
                records += offset - last if count < 0 else count
                last = offset
    return Losses(records, last + 1)


def _believable(rows: Columns, last: int) -> bool:
    if rows.flags & _BELIEVED & c.WRONG:
        return False
    offset = rows.value(c.B_LAST_OFFSET, 0)
    span = max(rows.value(c.B_RECORDS_COUNT, 0), 1)
    return last < offset and (last < 0 or offset - last <= max(16 * span, 1 << 16))


def _cut_short(source: Source, position: int) -> Columns | None:
    """The header of a batch whose end is missing, if all of its header is there."""
    from kdump import kernels
    from kdump.record.layout import LOG_OVERHEAD

    data = bytearray(source.read(position, 96))
    size = len(data) - LOG_OVERHEAD
    if size < 14:
        return None
    data[8:12] = size.to_bytes(4, "big")
    rows, _, _ = kernels.walk(data, 0, len(data), position, -1, False, 1)
    return rows if rows.count else None

"""Turn what a reader of a log yields into annotated bytes: `dump --hex`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.hex.dump import gap_hex_lines, hex_lines
from kdump.findings.code import Show
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, HexText, Place

if TYPE_CHECKING:
    from kdump.engine.reading.segment_reader import Item
    from kdump.storage.source import Source

_RAW_BYTES = 512


def hex_items(
    source: Source, place: Place, items: Iterable[Item], limit: int
) -> Iterator[HexText | Finding]:
    """Yield the bytes of each entry whose header comes by, and of what has none.

    `limit` bounds what is read of one entry, and its uncompressed bytes.
    """
    for item in items:
        if isinstance(item, BatchChunk):
            rows = range(item.batches.count) if item.rows is None else item.rows
            for row in rows:
                header = item.batches.slice(row, row + 1)
                position, size = header.position(0), header.size_bytes(0)
                data = source.read(position, min(size, limit))
                lines = hex_lines(data, position, header=header, limit=limit)
                yield HexText(item.place, position, lines)
        elif isinstance(item, Finding):
            if item.entry.show is Show.RAW and item.position is not None:
                size = item.size_bytes or 0
                data = source.read(item.position, min(size, _RAW_BYTES))
                lines = gap_hex_lines(data, item.position, size, item.code)
                yield HexText(place, item.position, lines)
            yield item

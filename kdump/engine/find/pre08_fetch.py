"""Make the row of a fetch of 0.7, where an offset is a byte and a fetch starts at any (F1)."""

from __future__ import annotations

import hashlib

from kdump.engine.find.options import FindOptions
from kdump.engine.find.pre08 import segments_of
from kdump.rows.find import Fetch
from kdump.storage.source import Source
from kdump.storage.targets import Target

_SIZE = 4
_PIECE_BYTES = 1 << 20


def fetch_row(target: Target, row: Fetch, options: FindOptions) -> Fetch:
    """Fill the row: the bytes from the target on, up to the size asked for, of one segment."""
    below = [(base, path) for base, path in segments_of(target) if base <= row.target]
    if not below:
        return row.replaced(error="OFFSET_OUT_OF_RANGE: below the first segment")
    base, path = below[-1]
    with Source(path) as source:
        start = row.target - base
        if start > source.size:
            end = base + source.size
            return row.replaced(error=f"OFFSET_OUT_OF_RANGE: the segment ends at {end:,}")
        end = min(start + row.max_bytes, source.size)
        if row.max_offset is not None:
            end = max(start, min(end, row.max_offset - base))
        digest = hashlib.sha256()
        for at in range(start, end, _PIECE_BYTES):
            digest.update(source.read(at, min(_PIECE_BYTES, end - at)))
        entries, last, at, size = _walk(source, start, end)
        needs = size if size is not None and not entries and size > row.max_bytes else None
    return row.replaced(
        path=path,
        segment=base,
        position=start,
        end_position=end,
        size_bytes=end - start,
        sha256=digest.hexdigest() if end > start else None,
        entries=entries,
        first_offset=row.target if entries else None,
        last_offset=None if last is None else base + last,
        cut_bytes=end - at,
        cut_offset=base + at if at < end else None,
        cut_size_bytes=size,
        needs_bytes=needs,
        stuck=needs is not None,
        bound=base + source.size,
        next_offset=base + at,
        steps=[] if options.explain else None,
    )


def _walk(source: Source, start: int, end: int) -> tuple[int, int | None, int, int | None]:
    """Count whole entries; with where the last one starts and ends, and the size of a cut one.

    A size that no entry can have ends it, too: a fetch may start in the middle of an entry.
    """
    entries, last, at = 0, None, start
    while at + _SIZE <= end:
        size = _SIZE + int.from_bytes(source.read(at, _SIZE), "big", signed=True)
        if size <= _SIZE:
            break
        if at + size > end:
            return entries, last, at, size
        entries, last, at = entries + 1, at, at + size
    return entries, last, at, None

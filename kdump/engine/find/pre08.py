"""Look up offsets and times in `.kafka` files (0.6, 0.7), by position and file time (F1, L10)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.broker.list_offsets import NONE, offsets_by_file_time
from kdump.broker.partition import Step
from kdump.engine.find.lookup_row import SCANNED, steps_of, time_lookup
from kdump.rows.find import OffsetLookup
from kdump.storage.names import Kind
from kdump.storage.pre08_records import Pre08Entry, Pre08Records
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.find.options import FindOptions
    from kdump.findings.rows import Row
    from kdump.storage.targets import Target


def segments_of(target: Target) -> list[tuple[int, str]]:
    """List the segments as (first offset, path)."""
    assert target.log is not None
    return [(segment.base_offset, segment.files[Kind.PRE08_LOG]) for segment in target.log.logs]


def offset_row(target: Target, offset: int, options: FindOptions) -> Row:
    """Find the entry that holds the byte an offset names; there is no index, so from the start."""
    steps: list[Step] = []
    row = _find(target, offset, options.decompress_limit, steps)
    if row.error:
        steps.append(Step("error", target.path, row.error, {}))
    if options.check:
        row = row.replaced(scan_offset=row.offset, asked_=SCANNED)
    return row.replaced(steps=steps_of(steps, options))


def _find(target: Target, offset: int, limit: int, steps: list[Step]) -> OffsetLookup:
    """Make the row, with the error that a broker answers with, if it does."""
    nothing = OffsetLookup(target.topic, target.partition, offset)
    below = [(base, path) for base, path in segments_of(target) if base <= offset]
    if not below:
        return nothing.replaced(error="OFFSET_OUT_OF_RANGE: below the first segment")
    base, path = below[-1]
    words = f"base offset {base:,} is the last at or below the target"
    steps.append(Step("segment", path, words, {"segment": base}))
    with Source(path) as source:
        end = base + source.size
        if offset > end:
            return nothing.replaced(error=f"OFFSET_OUT_OF_RANGE: the segment ends at {end:,}")
        nothing = nothing.replaced(segment=base)
        if offset == end:
            steps.append(Step("end", path, f"the log ends at {end:,}: none", {}))
            return nothing
        scanned = 0
        for item in Pre08Records(source, limit=limit).walk():
            scanned += isinstance(item, Pre08Entry)
            if base + item.position + item.size_bytes <= offset:
                continue
            row = nothing.replaced(
                position=item.position, size_bytes=item.size_bytes, batches_scanned=scanned
            )
            start = base + item.position
            if not isinstance(item, Pre08Entry):
                if start + item.size_bytes < end:  # a fetch starts at any byte
                    following = start + item.size_bytes
                    row = row.replaced(
                        next_offset=following, served_from=following, skipped_by_seek=0
                    )
                error = f"no entry can be read in the {item.size_bytes:,} bytes from {start:,} on"
                return row.replaced(error=error)
            words = (
                f"{scanned:,} entries from the first byte on: the one at position "
                f"{item.position:,} ({item.size_bytes:,} bytes) contains the byte"
            )
            details = {"position": item.position, "batches": scanned}
            steps.append(Step("scan", path, words, dict(details)))
            return row.replaced(offset=start, base_offset=start, last_offset=start)
    return nothing


def time_row(target: Target, target_ms: int, options: FindOptions) -> Row:
    """Answer by modification time, the only way 0.7 has."""
    pairs = []
    size = end = 0
    for base, path in segments_of(target):
        with Source(path) as source:
            pairs.append((base, source.status().st_mtime_ns // 1_000_000))
            size, end = source.size, base + source.size
    if size:
        now_ms = time.time_ns() // 1_000_000 if options.now_ms is None else options.now_ms
        pairs.append((end, now_ms))
    offsets = offsets_by_file_time(pairs, target_ms, options.max_offsets)
    words = f"0.7 compares the target with the modification times of {len(pairs):,} segments"
    steps = [Step("segments", target.path, words, {})]
    has_all = options.list_offsets_version == 0
    is_checked = options.check and not has_all
    return time_lookup(
        target,
        target_ms,
        NONE._replace(offset=offsets[0] if offsets else -1),
        offsets=offsets if has_all else None,
        scan_offset=offsets[0] if is_checked and offsets else None,
        steps=steps_of(steps, options),
        asked=SCANNED if is_checked else (),
    )

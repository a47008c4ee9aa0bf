"""Choose the position to start reading at: what an index says, if the log confirms it."""

from __future__ import annotations

from bisect import bisect, bisect_left

from kdump.engine.reading.damage import first_record
from kdump.engine.reading.log_files import sibling_path
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.record.frames import Run
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.names import OFFSET_MAX, Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile
from kdump.storage.time_index import TimeIndex


def start_position(source: Source, file: LogFile, offset: int) -> int:
    """Return a position from which a walk meets every entry that reaches `offset`.

    An index entry is a claim: it serves only when a valid entry starts at its position and lies at
    or below the offset; offsets rise in a sound log, so nothing before it is missed. Else 0. Of a
    wrapper the first message inside has to lie there: its own offset proves nothing.
    """
    base = file.name.base_offset
    if base is None or offset <= base:
        return 0
    try:
        with Source(sibling_path(file, Kind.OFFSET_INDEX)) as index_source:
            index = OffsetIndex(index_source, base)
            slots = range(index.logical_end(source.size))
            behind = bisect(slots, offset, key=lambda slot: index.entry(slot).offset)
            # The entry found may name an offset inside a later batch than the one at its position
            # (I9), so the header has the last word; the one before it is tried then.
            for slot in range(behind - 1, max(behind - 3, -1), -1):
                position = index.entry(slot).position
                if _is_confirmed(source, position, offset):
                    return position
    except PathError:
        return 0
    return 0


def last_run(source: Source, file: LogFile) -> Run | None:
    """Return the last entry of a log, as a run of one row; the index tells where to look for it."""
    records, last = FileRecords(source), None
    for batches in records.headers(start_position(source, file, OFFSET_MAX)):
        last = batches.position(batches.count - 1)
    return None if last is None else next(records.runs_as_is(last), None)


def time_position(source: Source, file: LogFile, time_ms: int) -> int:
    """Return the position of a batch before which no record reaches a time, nor in it; else 0.

    An entry (T, O) of the time index says that any record later than T lies after O (I12). It
    serves only when the log has a batch with just that time at that offset, and never in a log that
    may hold wrappers: such an entry holds what the wrappers say of themselves.
    """
    base = file.name.base_offset
    if base is None or file.name.is_retired or _may_hold_wrappers(source):
        return 0
    try:
        with Source(sibling_path(file, Kind.TIME_INDEX)) as index_source:
            index = TimeIndex(index_source, base)
            slots = range(index.logical_end())
            behind = bisect_left(slots, time_ms, key=lambda slot: index.entry(slot).timestamp_ms)
            claim = index.entry(behind - 1) if behind else None
    except PathError:
        return 0
    position = start_position(source, file, claim.offset) if claim is not None else 0
    if not position:
        return 0
    assert claim is not None
    for batches in FileRecords(source).headers(position):
        for row, last_offset in enumerate(batches.last_offsets):
            if last_offset >= claim.offset:
                exact = batches.max_timestamp(row) == claim.timestamp_ms
                wrapper = batches.flags_of(row) & c.WRAPPER
                return batches.position(row) if exact and not wrapper else 0
    return 0


def _is_confirmed(source: Source, position: int, offset: int) -> bool:
    header = FileRecords(source).valid_at(position, source.size, -1)
    if header is None:
        return False
    if not header.flags & c.WRAPPER:
        return header.base_offset(0) <= offset
    run = next(FileRecords(source).runs_as_is(position), None)
    first = None if run is None else first_record(run, 0, DEFAULT_LIMIT)
    return first is not None and first <= offset


def _may_hold_wrappers(source: Source) -> bool:
    """Whether a log begins in a format that has wrappers; batches come after an upgrade."""
    header = FileRecords(source).header(0)
    return header is not None and header.is_legacy(0)


def ends_before(source: Source, file: LogFile, time_ms: int) -> bool:
    """Whether a closed segment's time index proves that no record in it reaches a time.

    The last entry holds the segment's greatest timestamp (I16). It is believed when the index
    rises from end to end, the log has a batch with just that time at that offset, and nothing from
    that batch to the end of the log is later, or broken: an index that lost its last entries
    fails the last test.
    """
    base = file.name.base_offset
    if base is None or file.active or file.name.is_retired or _may_hold_wrappers(source):
        return False
    try:
        with Source(sibling_path(file, Kind.TIME_INDEX)) as index_source:
            index = TimeIndex(index_source, base)
            if not index.entries or index.trailing_bytes or not index.extent().is_sound:
                return False
            last = index.entry(index.entries - 1)
    except PathError:
        return False
    if last.timestamp_ms >= time_ms or last.offset < base:
        return False
    found = False
    for item in FileRecords(source).walk(start_position(source, file, last.offset)):
        if not isinstance(item, Run) or item.batches.flags & (c.WRONG | c.WRAPPER):
            return False
        batches = item.batches
        for last_offset, greatest in zip(batches.last_offsets, batches.max_timestamps, strict=True):
            if greatest > last.timestamp_ms:
                return False
            found = found or (last_offset >= last.offset and greatest == last.timestamp_ms)
    return found

"""Find where a quick check starts reading: at the last index entry that the log confirms."""

from __future__ import annotations

from bisect import bisect_left

from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.record.frames import Gap
from kdump.storage.index import Index, OffsetIndex, OffsetPosition
from kdump.storage.source import Source

# An index is proved whole up to this many bytes, else its end only.
_PROVED_BYTES = 1 << 18
_PROVED_SLOTS = 4096
_STEPS_BACK = 64


def sound_start(
    log: Source, base_offset: int, index_path: str | None, *, whole: bool = False
) -> int:
    """Where the last entry of an offset index leads that can be true; else 0.

    `whole`: the checksum of the entry it leads to is right, too.
    """
    if index_path is None:
        return 0
    try:
        with Source(index_path) as source:
            index = OffsetIndex(source, base_offset, slotwise=True)
            end = count_written_slots(index)
            for slot in range(end - 1, max(-1, end - 1 - _STEPS_BACK), -1):
                if _bears_out(log, base_offset, index.entry(slot), whole=whole):
                    return index.entry(slot).position
    except PathError:
        return 0
    return 0


def _bears_out(log: Source, base_offset: int, entry: OffsetPosition, *, whole: bool) -> bool:
    """Whether an entry starts in the log where an index entry says (I10 c and e)."""
    from kdump.storage.file_records import FileRecords

    if not 0 < entry.position < log.size:
        return False
    header = FileRecords(log).header(entry.position)
    if header is None or header.flags & (c.TOO_SMALL | c.MAGIC_UNKNOWN):
        return False
    first = header.base_offset(0)
    if header.flags & c.WRAPPER:
        first = base_offset
    if not base_offset <= first <= entry.offset:
        return False
    if not whole:
        return True
    end = entry.position + header.size_bytes(0)
    return not isinstance(next(FileRecords(log).walk(entry.position, end), None), Gap)


def count_written_slots(index: Index) -> int:
    """Count the written entries of an index that a start would rebuild (I3).

    Zeros end them, and behind a truncation the first entry that does not rise. Of a large index
    only the last slots are looked at for that.
    """
    empty = (0, 0)
    end = bisect_left(range(index.entries), True, key=lambda slot: index.raw(slot) == empty)
    if end * index.layout.size <= _PROVED_BYTES:
        return min(end, index.count_rising())
    start = end - _PROVED_SLOTS
    key, value = index.raw(start)
    for slot, next_key, next_value in index.pairs(start + 1, end):
        if next_key <= key or not index.value_rises(value, next_value):
            return slot
        key, value = next_key, next_value
    return end

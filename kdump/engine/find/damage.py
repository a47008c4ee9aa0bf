"""An offset whose lookup meets damage: what can be read from disk, and where consumers go on."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.engine.served import Served
from kdump.engine.sound import Sound, sound_batches
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords

if TYPE_CHECKING:
    from kdump.engine.find.rows import FindOptions
    from kdump.engine.lookup import Found, PartitionView
    from kdump.engine.served import Way

FIELDS = ("next_offset", "served_from", "skipped_by_seek")


def way_past(
    view: PartitionView,
    offset: int,
    found: Found | None,
    record: tuple[int, int] | None,
    error: str | None,
    options: FindOptions,
) -> dict[str, object]:
    """Give the members of a row that say how to get past damage; null where there is none.

    A walk from the last index entry that the log bears out tells which batch should be found. It
    is made only where the lookup fails, or answers with another offset than was asked for.
    """
    fields: dict[str, object] = dict.fromkeys(FIELDS)
    if error is None and record is not None and record[0] == offset and _is_sound(view, found):
        return fields
    place = _sound_place(view, offset)
    if place is None:
        return fields
    number, position, first = place
    base = view.segments[number].base_offset
    lands = error is None and found is not None and found[:2] == (base, position)
    if lands and _is_sound(view, found):
        return fields  # nothing was damaged: records are missing there, or not handed out
    served = Served(view.target, view.broker, running=options.as_is, limit=options.decompress_limit)
    try:
        way = served.way(base, position, first)
        if way is None:
            return fields
        view.note(
            "served",
            view.segments[number].path,
            _words(first, way),
        )
        return dict(zip(FIELDS, (first, way.served_from, way.skipped), strict=True))
    finally:
        served.close()


def _words(first: int, way: Way) -> str:
    disk = f"damage: on disk offset {first:,} is the next that can be read"
    if way.served_from is None:
        return f"{disk}; consumers are served nothing behind it"
    between = f", {way.skipped:,} sound records behind that" if way.skipped else ""
    return f"{disk}; consumers are served again from {way.served_from:,} on{between}"


def _is_sound(view: PartitionView, found: Found | None) -> bool:
    """Whether the checksum of the batch found is right."""
    if found is None:
        return False
    log = next(at for at in view.segments if at.base_offset == found.segment).log()
    items = FileRecords(log, limit=view.limit).walk(
        found.position, found.position + found.size_bytes
    )
    return not isinstance(next(items, None), Gap | None)


def _sound_place(view: PartitionView, offset: int) -> tuple[int, int, int] | None:
    """Find the first sound batch that reaches an offset: segment, position, offset to read from."""
    if offset < view.log_start:
        return None
    floor = max(view.floor(offset), 0)
    bases = [segment.base_offset for segment in view.segments]
    for number in range(floor, len(bases)):
        segment = view.segments[number]
        position = segment.start_for(offset) if number == floor else 0
        following = bases[number + 1] if number + 1 < len(bases) else None
        for item in sound_batches(
            segment.path, position, bases[number], next_base=following, limit=view.limit
        ):
            if isinstance(item, Sound) and item.lasts[-1] >= offset:
                row = bisect_left(item.lasts, offset)
                return number, item.positions[row], max(offset, item.first_record(row))
        segment.close()
    return None

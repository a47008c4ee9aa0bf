"""Describe damage that a lookup meets: what can be read, and where consumers go on."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from kdump.broker.lookup_records import BrokerError
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.partition import FetchStart, PartitionView
    from kdump.engine.advice.landings import Way
    from kdump.engine.find.options import FindOptions


class WayPast(NamedTuple):
    """The members of a row that say how to get past damage; None where there is none."""

    next_offset: int | None = None
    served_from: int | None = None
    skipped_by_seek: int | None = None


_NONE = WayPast()


def way_past(
    view: PartitionView,
    offset: int,
    found: FetchStart | None,
    record: tuple[int, int] | None,
    error: str | None,
    options: FindOptions,
) -> WayPast:
    """Say how to get past damage, if there is any.

    A walk from the last index entry that the log bears out tells which batch should be found. It
    is made only where the lookup fails, or answers with another offset than was asked for.
    """
    if (
        error is None
        and record is not None
        and record[0] == offset
        and _has_right_checksum(view, found)
    ):
        return _NONE
    from kdump.engine.advice.served_partition import ServedPartition  # most lookups meet no damage

    try:
        place = _sound_place(view, offset)
    except BrokerError:  # it does not start on these files, so it serves nothing
        place = None
    if place is None:
        return _NONE
    number, position, first, below = place
    assert view.target.log is not None
    log = view.target.log.logs[number]
    lands = error is None and found is not None and found.position == position
    if lands and _path(view, found) == log.log and _has_right_checksum(view, found):
        return _NONE  # nothing was damaged: records are missing there, or not handed out
    served = ServedPartition(
        view.target,
        view.broker,
        running=options.as_is,
        limit=options.decompress_limit,
        settings=view.settings,
    )
    try:
        way = served.way(log.base_offset, position, first)
        if way is None:
            return _NONE
        way = way._replace(skipped=0 if way.served_from == first else way.skipped - below)
        view.note("served", str(log.log), _words(first, way))
        return WayPast(first, *way)
    finally:
        served.close()


def _words(first: int, way: Way) -> str:
    disk = f"damage: on disk offset {first:,} is the next that can be read"
    if way.served_from is None:
        return f"{disk}; consumers receive nothing after it"
    between = f", {way.skipped:,} sound records after that" if way.skipped else ""
    return f"{disk}; consumers are served again from {way.served_from:,} on{between}"


def _path(view: PartitionView, found: FetchStart | None) -> str | None:
    return None if found is None else view.segment_at(found.segment).path


def _has_right_checksum(view: PartitionView, found: FetchStart | None) -> bool:
    """Whether the checksum of the batch found is right."""
    if found is None:
        return False
    records = FileRecords(view.segment_at(found.segment).log(), limit=view.limit)
    items = records.walk(found.position, found.position + found.size_bytes)
    return not isinstance(next(items, None), Gap | None)


def _sound_place(view: PartitionView, offset: int) -> tuple[int, int, int, int] | None:
    """Find the first sound batch that reaches an offset.

    Gives its log's number, its position, the offset to read from, and how many records lie below.
    """
    from kdump.engine.reading.seek import start_position
    from kdump.storage.local_log import with_next_base
    from kdump.storage.names import parse
    from kdump.storage.targets import LogFile

    first = view.log_start if view.tier is None else view.tier.local_start
    if offset < first or view.target.log is None:
        return None
    from kdump.engine.advice.landings import Sound, sound_batches

    logs = view.target.log.logs
    floor = max(bisect_right(logs, offset, key=attrgetter("base_offset")) - 1, 0)
    for number, (log, following) in islice(enumerate(with_next_base(logs)), floor, None):
        path, base = str(log.log), log.base_offset
        position = 0
        if number == floor:
            name = parse(os.path.basename(path))
            file = LogFile(path, name, None, None, following, following is None)
            with Source(path) as source:
                position = start_position(source, file, offset)
        for item in sound_batches(path, position, base, next_base=following, limit=view.limit):
            if isinstance(item, Sound) and item.lasts[-1] >= offset:
                row = bisect_left(item.lasts, offset)
                first = max(offset, item.first_record(row))
                below = bisect_left(item.records(row), first)
                return number, item.positions[row], first, below
    return None

"""The view `segments`: the segments of partitions by name, size and time; no log is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from kdump.engine.reading.log_files import logs_of, sibling_path
from kdump.errors import PathError
from kdump.rows.row import Row
from kdump.rows.words import Int32, Time
from kdump.storage import places
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile, Target
from kdump.storage.time_index import TimeIndex


class Segment(Row, kind="segment"):
    """A segment of a partition."""

    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segment: Annotated[int | None, "base offset of the segment"]
    next_segment: Annotated[int | None, "base offset of the next segment; null: none"]
    closed: Annotated[bool, "whether it is sealed (not the active segment)"]
    first_ms: Annotated[Time | None, "largest time in its first batch"]
    last_ms: Annotated[Time | None, "its largest time according to its time index"]
    path: Annotated[str, "its log file"]


def segments_of(targets: Iterable[Target]) -> Iterator[Segment]:
    """Yield the segments of partitions, in order."""
    for target in targets:
        for file in logs_of(target):
            try:
                yield _segment(file)
            except PathError:
                if places.lexists(file.path):
                    raise


def _segment(file: LogFile) -> Segment:
    first = None
    with Source(file.path) as source:
        batch = FileRecords(source).header(0)
        if batch is not None and batch.count and batch.max_timestamp(0) >= 0:
            first = batch.max_timestamp(0)
    return Segment(
        topic=file.topic,
        partition=file.partition,
        segment=file.name.base_offset,
        next_segment=file.next_base,
        closed=file.next_base is not None or file.name.is_retired,
        first_ms=first,
        last_ms=_last_ms(file),
        path=file.path,
    )


def _last_ms(file: LogFile) -> int | None:
    base = file.name.base_offset
    if base is None or file.name.is_retired:
        return None
    try:
        with Source(sibling_path(file, Kind.TIME_INDEX)) as source:
            index = TimeIndex(source, base)
            end = index.logical_end()
            return index.entry(end - 1).timestamp_ms if end else None
    except PathError:
        return None

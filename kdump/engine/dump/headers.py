"""Count the records of a partition by the headers of their batches, where these can be trusted.

Nothing is decompressed, and no checksum is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from kdump.engine.dump.run import log_items
from kdump.engine.reading.damage import unread_finding
from kdump.engine.reading.log_files import logs_of, place_of
from kdump.engine.reading.segment_reader import SegmentReader
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile, Target

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions, Item

Told = TypeVar("Told")

#: So many headers are given at once, or a few more.
_ROWS_A_CHUNK = 4096


def header_items(target: Target, options: DumpOptions) -> Iterator[Item | Finding | KdumpError]:
    """Yield a target's records: headers that stand for all of theirs, else the records themselves.

    From the first header of a log on that may not be right, its records are read.
    """
    for file in logs_of(target):
        if file.name.kind is not Kind.LOG:
            yield from _records(log_items(target._replace(files=(file,)), options))
            continue
        try:
            with Source(file.path) as source:
                yield from _headers(source, file, options)
        except PathError as error:
            yield unread_finding(error, place_of(file))


def _headers(
    source: Source, file: LogFile, options: DumpOptions
) -> Iterator[Item | Finding | KdumpError]:
    place, records = place_of(file), FileRecords(source)
    position, last_offset, held, rows = 0, -1, list[RecordBatches](), 0
    whole = False
    for batches in records.headers(0):
        if not _is_reliable(batches, last_offset):
            break
        last = batches.count - 1
        position, last_offset = batches.end_position(last), batches.last_offset(last)
        held.append(batches)
        rows += batches.count
        if rows >= _ROWS_A_CHUNK:
            yield BatchChunk(place, RecordBatches.join(held))
            held, rows = [], 0
    else:
        whole = records.stopped_by == reasons.END
    if held:
        yield BatchChunk(place, RecordBatches.join(held))
    if whole:
        return
    reader = SegmentReader(source, file, options, options.filters)
    yield from _records(reader.items(position))


def _records(items: Iterable[Told]) -> Iterator[Told]:
    """Leave out the headers of batches that cannot be read."""
    return (item for item in items if not isinstance(item, BatchChunk))


def _is_reliable(batches: RecordBatches, last_offset: int) -> bool:
    """Whether headers are such that a reader of the records finds as many as they say.

    A count above the size in bytes is for a reader to believe: nothing is made of it here.
    """
    if batches.flags & (c.WRONG | c.WRAPPER) or batches.base_offset(0) <= last_offset:
        return False
    counts, sizes = batches.records_counts, batches.sizes
    if min(counts) >= 0 and max(counts) <= min(sizes):
        return True
    return all(0 <= count <= size for count, size in zip(counts, sizes, strict=True))

"""Check segments of 0.6 and 0.7: framing, checksums, and that they are contiguous (F5)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.storage import places

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan
    from kdump.storage.local_log import LogSegment


class Pre08Counts:
    """What a scan of `.kafka` files looked at."""

    def __init__(self) -> None:
        self.segments = self.batches = self.records_count = self.bytes = 0
        self.wrappers = 0  # entries that hold an unknown number of messages
        self.complete: set[int] = set()  # base offsets of segments that were read to their end


def scan_pre08(partition: PartitionScan, counts: Pre08Counts) -> Iterator[Finding]:
    """Read the `.kafka` segments of a partition and yield what is wrong with them."""
    segments = [segment for segment in partition.log.logs if segment.is_pre08]
    sizes: dict[int, int] = {}
    tails: dict[int, Finding] = {}  # by segment: a tail that does not come to an end
    for segment in segments:
        try:
            sizes[segment.base_offset] = places.getsize(str(segment.log))
            if not partition.quick:
                known = partition.known_findings(segment.base_offset, str(segment.log))
                for found in _read(partition, segment, counts) if known is None else known:
                    if found.code == "torn-tail":
                        tails[segment.base_offset] = found
                    else:
                        yield found
        except (PathError, OSError) as error:
            place = _place(partition, segment)
            if not isinstance(error, PathError):
                error = PathError.from_os(place.path, error)
            yield from partition.note_unread(error, place)
    for one, following in pairwise(segments):
        size = sizes.get(one.base_offset)
        if size is None or one.base_offset + size == following.base_offset:
            continue
        tail = tails.pop(one.base_offset, None)
        yield at_place(
            "pre08-gap",
            _place(partition, following),
            offset=following.base_offset,
            expected=one.base_offset + size,
            actual=following.base_offset,
            message=f"The previous segment ends at {one.base_offset + size:,}, but this one starts "
            "at "
            f"{following.base_offset:,}.",
            consequences=() if tail is None else (f"{tail.code}@{tail.position}",),
        )
    yield from tails.values()


def _place(partition: PartitionScan, segment: LogSegment) -> Place:
    return partition.place._replace(segment=segment.base_offset, path=str(segment.log))


def _read(partition: PartitionScan, segment: LogSegment, counts: Pre08Counts) -> Iterator[Finding]:
    # Few directories have such files.
    from kdump.engine.dump.pre08 import pre08_gap_finding, pre08_rows
    from kdump.storage.pre08_records import Pre08Entry, Pre08Records

    place = _place(partition, segment)
    with partition.open(str(segment.log)) as source:
        counts.segments += 1
        counts.bytes += source.size
        for item in Pre08Records(source, limit=partition.limit).walk():
            if not isinstance(item, Pre08Entry):
                yield pre08_gap_finding(item, source, place)
                continue
            counts.batches += 1
            if item.entry.codec:
                counts.wrappers += 1
            else:
                counts.records_count += 1
            if partition.deep:
                rows = pre08_rows(item, place, partition.limit)
                yield from (row for row in rows if isinstance(row, Finding))
        if not source.shrank:
            counts.complete.add(segment.base_offset)

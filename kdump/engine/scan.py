"""One scan of a partition: every segment's log read once, every check fed from it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kdump.engine.rows import Place
from kdump.engine.settings import Settings
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.record.frames import Gap, Run
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.checks import Check, Reported
    from kdump.engine.targets import Target
    from kdump.storage.local_log import LocalLog
    from kdump.storage.log_dir import LogDir
    from kdump.storage.segment import LogSegment


class SegmentScan:
    """One segment while its log is read. Checks read it and change nothing in it.

    `last_offset` is that of the last sound batch so far (base offset - 1 before the first);
    `next_base` the next segment's base offset, None for the newest; `active`: the newest, which a
    broker may be writing. `gaps` are those met so far, without their bytes.
    """

    def __init__(
        self, segment: LogSegment, place: Place, *, next_base: int | None, active: bool
    ) -> None:
        assert segment.log is not None
        self.segment = segment
        self.place = place
        self.path: str = segment.log
        self.base_offset = segment.base_offset
        self.next_base = next_base
        self.active = active
        self.source: Source | None = None  # open while the segment is read
        self.last_offset = segment.base_offset - 1
        self.end_position = 0  # where what was read so far ends
        self.batches = 0
        self.gaps: list[Gap] = []


class PartitionScan:
    """One partition and what its checks may ask for.

    `directory` is the data directory around it, if it can be listed. `now_ms` is the time of the
    run; `limit` bounds a batch's plain text in bytes; `deep`: records are read too.
    """

    def __init__(
        self,
        target: Target,
        *,
        directory: LogDir | None,
        settings: Settings,
        deep: bool = False,
        limit: int = DEFAULT_LIMIT,
        now_ms: int | None = None,
    ) -> None:
        assert target.log is not None
        self.target = target
        self.log: LocalLog = target.log
        self.directory = directory
        self.settings = settings
        self.deep = deep
        self.limit = limit
        self.now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        logs = [segment for segment in self.log.logs if Kind.LOG in segment.files]
        self.segments = [
            SegmentScan(
                segment,
                Place(target.topic, target.partition, segment.base_offset, str(segment.log)),
                next_base=logs[number + 1].base_offset if number + 1 < len(logs) else None,
                active=number == len(logs) - 1,
            )
            for number, segment in enumerate(logs)
        ]


def scan(partition: PartitionScan, checks: Sequence[Check]) -> Iterator[Reported]:
    """Read each segment once and yield what the checks report, in the order in which they do."""
    for segment in partition.segments:
        yield from _scan_segment(partition, segment, checks)
    for check in checks:
        yield from check.end()


def _scan_segment(
    partition: PartitionScan, segment: SegmentScan, checks: Sequence[Check]
) -> Iterator[Reported]:
    with Source(segment.path) as source:
        segment.source = source
        source.advise_sequential()
        yield from chain.from_iterable(check.begin(segment) for check in checks)
        records = FileRecords(source, limit=partition.limit, next_base=segment.next_base)
        for item in records.walk(last_offset=segment.last_offset):
            if isinstance(item, Gap):
                for check in checks:
                    yield from check.gap(segment, item)
                segment.gaps.append(item._replace(data=b""))
                segment.end_position = item.position + item.size_bytes
                continue
            batches = item.batches
            for check in checks:
                if isinstance(item, Run):
                    yield from check.run(segment, item)
                else:
                    yield from check.oversize(segment, item)
            last = batches.count - 1
            segment.batches += batches.count
            segment.last_offset = batches.value(c.B_LAST_OFFSET, last)
            segment.end_position = batches.value(c.B_POSITION, last) + batches.value(c.B_SIZE, last)
        yield from chain.from_iterable(check.finish(segment) for check in checks)
        segment.source = None


__all__ = ["PartitionScan", "PathError", "SegmentScan", "scan"]

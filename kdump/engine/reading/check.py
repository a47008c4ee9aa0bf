"""Checks: small objects fed from one scan of a partition, in log order.

The scan (`engine/reading/scan.py`) walks each segment once and hands every check the same events:

    begin(segment)          a segment's log is about to be read
    run(segment, run)       sound batches as columns; flags tell which break a shallow rule
    oversize(segment, one)  one sound batch that is too large to be held
    headers(segment, batches)  either of them, without the bytes
    gap(segment, gap)       bytes that hold no usable batch
    finish(segment)         the segment's log has been read to its end
    skip(segment)           the segment was not read (--state, --subset, --max-duration): what a
                            check carried over from earlier segments is not known any more
    end()                   all segments are done

A hook that has nothing to report returns nothing. Most checks need `headers` alone, to which both
kinds of batches come where a check has no `run` or `oversize` of its own.

A check yields findings, or suspects: findings with what of the log they rest on. Where that lies
in a range that another finding has already declared bad, the suspect only follows from it, and
`fold` makes it a consequence there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.findings.finding import Finding
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize, Run
from kdump.storage.file_records import BATCHES_A_RUN
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan


#: So many of a partition are reported one by one; what comes on top is counted.
FINDINGS_A_CODE = 1000

#: Why a batch is not looked into, though it may be sound -> how it is counted.
NOT_CHECKED = {
    reasons.OVER_LIMIT: "batches_over_limit",
    reasons.CODEC_MISSING: "batches_without_codec",
}


class RestsOn(NamedTuple):
    """What of a log a finding rests on: positions [position, end_position) of one segment's log,
    offsets [offset, end_offset) of the partition, or both; None where it says nothing. `also`:
    what else it rests on.
    """

    segment: int | None = None
    position: int | None = None
    end_position: int | None = None
    offset: int | None = None
    end_offset: int | None = None
    also: RestsOn | None = None


class Conditional(NamedTuple):
    """A finding that counts only if what it rests on is not itself found bad."""

    finding: Finding
    touches: RestsOn


Reported = Finding | Conditional
#: What a hook gives.
Reports = Iterable[Reported] | None


class Check:
    """Does nothing; a check overrides what it needs. `partition` is what the scan knows of all.

    `reads_snapshots`: it is handed metadata snapshots too, behind all segments, as segments whose
    place has no segment number. `reads_tails`: with --quick it is handed the end of each log, from
    the last good index entry on; other checks have to skip the segment. `reads_records`: it
    wants all bytes of a run; of a sound log that was read in pieces by others it is given by `add`
    what it came to there. `not_checked` says what a check left out, and how much of it.
    """

    reads_snapshots = False
    reads_tails = False
    reads_records = False

    def __init__(self, partition: PartitionScan) -> None:
        self.partition = partition
        self.not_checked: defaultdict[str, int] = defaultdict(int)

    def begin(self, segment: SegmentScan) -> Reports:
        """Take up a segment."""
        return None

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> Reports:
        """Look at consecutive sound batches; `segment.last_offset` is that of the one before."""
        return None

    def run(self, segment: SegmentScan, run: Run) -> Reports:
        """Look at sound batches and their bytes."""
        return self.headers(segment, run.batches)

    def oversize(self, segment: SegmentScan, one: Oversize) -> Reports:
        """Look at the header of a batch whose bytes are not at hand."""
        return self.headers(segment, one.batches)

    def gap(self, segment: SegmentScan, gap: Gap) -> Reports:
        """Look at bytes that hold no usable batch."""
        return None

    def add(self, sums: Sequence[int]) -> None:
        """Take up what the records of a piece of this segment came to."""

    def finish(self, segment: SegmentScan) -> Reports:
        """Look back at a segment that was read to its end."""
        return None

    def skip(self, segment: SegmentScan) -> Reports:
        """Forget what was carried over: this segment is not read."""
        return None

    def end(self) -> Reports:
        """Look back at the whole partition."""
        return None


FEW = 512  # batches of a block: with more of them, a call of each check costs little beside


PLAIN = c.COMPRESSED | c.TRANSACTIONAL  # flags that make no check look at a batch's bytes


def is_unneeded(item: Run | Oversize) -> bool:
    """Whether no check wants the bytes of these batches, and they are few."""
    plain = isinstance(item, Run) and not item.batches.flags & ~PLAIN
    return plain and len(item.batches) <= FEW


def join_headers(
    items: Iterable[Run | Oversize | Gap], joins: Callable[[Run | Oversize], bool] = is_unneeded
) -> Iterator[Run | Oversize | Gap]:
    """Join the headers of many blocks of the file, without their bytes, where `joins` allows it."""
    parts: list[RecordBatches] = []
    count = 0
    for item in items:
        batches = None if isinstance(item, Gap) or not joins(item) else item.batches
        if parts and (batches is None or count + max(len(batches), FEW) > BATCHES_A_RUN):
            yield Run(bytearray(), 0, RecordBatches.join(parts))
            parts, count = [], 0
        if batches is None:
            yield item
        else:
            parts.append(batches)
            count += len(batches)
    if parts:
        yield Run(bytearray(), 0, RecordBatches.join(parts))

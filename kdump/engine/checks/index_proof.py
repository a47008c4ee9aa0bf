"""Check the offset and time index of each segment against its log, in the kernel.

An index is right if no lookup goes wrong, not if it equals a rebuilt one: which offsets and how
many entries brokers wrote changed over the years (I9, I14), and a restart, a follower's fetches and
the cleaner space them otherwise than recovery does (R4). So each entry is held against what every
era keeps to (I10, I12), while the log is read anyway; what does not hold is then put to the
broker's own search, to say for which offset or time it answers wrongly.

An index is read before the size of its log is taken: an entry is written after its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.checks.answers import Answers
from kdump.engine.checks.index_file import IndexFile
from kdump.engine.checks.offset_index import Spacing, offset_index_reports
from kdump.engine.checks.proof import Proof
from kdump.engine.checks.time_index import TimeIndexes
from kdump.engine.reading.check import Check, Conditional, Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.kernels.text_form import time_text
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.kernels.columns import RecordBatches


class IndexProof(Check):
    """`.index` and `.timeindex` against the log; with --quick, against themselves."""

    reads_tails = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._proof: Proof | None = None
        self._times = TimeIndexes(partition)
        self._spacing = Spacing(partition)

    def begin(self, segment: SegmentScan) -> Iterator[Finding]:
        """Read both indexes, before the log's size is taken."""
        self._proof = proof = Proof(segment)
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            path = segment.segment.files.get(kind)
            if path is None:
                proof.missing.append(kind)
                continue
            index: IndexFile | None = None
            try:
                with Source(path) as source:
                    index = IndexFile(source, kind)
            except PathError as error:
                yield from self.partition.note_unread(error, segment.place._replace(path=path))
                continue
            if index.unreadable:
                for start, end in index.unreadable:
                    size = end - start
                    yield at_place(
                        "unreadable", segment.place, path=path, position=start, size_bytes=size
                    )
                continue
            if index.unread:
                self.not_checked["index_entries"] += index.unread
            if kind is Kind.OFFSET_INDEX:
                proof.offsets = index
            else:
                proof.times = index

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Feed the kernel; an entry that names a gap meets the batch behind it."""
        assert self._proof is not None
        if not self.partition.quick:
            self._proof.feed(batches)

    def finish(self, segment: SegmentScan) -> Iterator[Reported]:
        """Say what does not hold; a log that was not read to its end proves nothing."""
        proof, self._proof = self._proof, None
        if proof is None:
            return
        if self.partition.quick:
            proof.quick = True
            with Answers(self.partition, segment) as answers:
                yield from offset_index_reports(proof, answers)
                yield from self._times.quick_reports(proof, answers)
            return
        if not segment.complete:
            return
        if segment.tail is None and proof.log_is_short():
            yield _log_too_short(proof)
        with Answers(self.partition, segment) as answers:
            yield from offset_index_reports(proof, answers)
            self._spacing.add(proof)
            yield from self._times.reports(proof, answers)

    def skip(self, segment: SegmentScan) -> None:
        """Nothing is known of this segment's times."""
        self._proof = None

    def end(self) -> Iterator[Reported]:
        """Look back at what only later segments can tell."""
        yield from self._times.end()
        yield from self._spacing.end()


def _log_too_short(proof: Proof) -> Reported:
    segment, times = proof.segment, proof.times
    assert times is not None
    time_ms, relative = times.entry(len(times) - 1)
    offset, behind = segment.base_offset + relative, segment.next_base
    found = at_place(
        "log-too-short",
        segment.place,
        position=segment.end_position,
        offset=segment.last_offset + 1,
        expected=offset,
        actual=segment.last_offset,
        message=f"The segment's log ends at position {segment.end_position:,} with offset "
        f"{segment.last_offset:,}; its indexes refer to offset {offset:,} at time "
        f"{time_text(time_ms)}.",
        lost_at_least=1,
        lost_at_most=None if behind is None else behind - segment.last_offset - 1,
        next_offset=behind,
    )
    before = RestsOn(segment.base_offset, proof.last_position, segment.end_position + 1)
    return Conditional(found, before)

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
from kdump.engine.checks.offset_index import offset_index_reports
from kdump.engine.checks.proof import Proof
from kdump.engine.checks.spacing import Spacing
from kdump.engine.checks.time_index import TimeIndexes
from kdump.engine.reading.check import Check, Conditional, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import finding
from kdump.storage import places
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.reading.check import Reported
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.record.frames import Gap, Oversize, Run


class IndexProof(Check):
    """`.index` and `.timeindex` against the log; with --quick, against themselves."""

    reads_tails = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._proof: Proof | None = None
        self._times = TimeIndexes(partition)
        self._spacing = Spacing()

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
                if places.lexists(path):
                    self.partition.errors.append(error)
                else:
                    yield _about("file-vanished", path, segment)
                continue
            if index.unreadable:
                for start, end in index.unreadable:
                    yield _about("unreadable", path, segment, start, end - start)
                continue
            if index.unread:
                left_out = self.not_checked.get("index_entries", 0)
                self.not_checked["index_entries"] = left_out + index.unread
            if kind is Kind.OFFSET_INDEX:
                proof.offsets = index
            else:
                proof.times = index
        proof.start()

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Finding]:
        """Feed the kernel."""
        assert self._proof is not None
        if not self.partition.quick:
            self._proof.feed(run.batches)
        return iter(())

    def oversize(self, segment: SegmentScan, one: Oversize) -> Iterator[Finding]:
        """Feed the kernel."""
        assert self._proof is not None
        if not self.partition.quick:
            self._proof.feed(one.batches)
        return iter(())

    def gap(self, segment: SegmentScan, gap: Gap) -> Iterator[Finding]:
        """An entry that names a gap meets the batch behind it."""
        return iter(())

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
        torn = bool(segment.gaps) and segment.gaps[-1].to_end
        if not torn and proof.log_is_short():
            yield _log_too_short(proof)
        with Answers(self.partition, segment) as answers:
            yield from offset_index_reports(proof, answers)
            self._spacing.add(proof)
            yield from self._times.reports(proof, answers)

    def skip(self, segment: SegmentScan) -> Iterator[Finding]:
        """Nothing is known of this segment's times."""
        self._proof = None
        self._times.skip(segment)
        return iter(())

    def end(self) -> Iterator[Reported]:
        """Look back at what only later segments can tell."""
        yield from self._times.end()
        yield from self._spacing.end()


def _log_too_short(proof: Proof) -> Reported:
    segment, times = proof.segment, proof.times
    assert times is not None
    time_ms, relative = times.entry(len(times) - 1)
    offset = segment.base_offset + relative
    found = at_place(
        "log-too-short",
        segment.place,
        position=segment.end_position,
        offset=segment.last_offset + 1,
        expected=offset,
        actual=segment.last_offset,
        message=f"The log ends at position {segment.end_position:,} with offset "
        f"{segment.last_offset:,}; its indexes know of offset {offset:,} at time {time_ms}.",
        lost_at_least=1,
        lost_at_most=None
        if segment.next_base is None
        else segment.next_base - segment.last_offset - 1,
        next_offset=segment.next_base,
    )
    before = RestsOn(segment.base_offset, proof.last_position, segment.end_position + 1)
    return Conditional(found, before)


def _about(
    code: str,
    path: str,
    segment: SegmentScan,
    position: int | None = None,
    size_bytes: int | None = None,
) -> Finding:
    place = segment.place
    return finding(
        code,
        path=path,
        topic=place.topic,
        partition=place.partition,
        segment=place.segment,
        position=position,
        size_bytes=size_bytes,
    )

"""Report wrong entries of a `.timeindex`, with a time answered wrongly (I12 to I17).

A lookup by time first picks one segment, by the last entry of each, then a place to scan from, by
the entries of that one (L12). The first step goes wrong where a sealed segment's last entry is not
its true maximum (I16), the second where an entry leads past a record it should have found.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kdump.engine.checks.answers import NOTHING
from kdump.engine.checks.time_entries import Doubt, TimeEntries
from kdump.engine.reading.check import Conditional, Reported
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.kernels.text_form import time_text
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.answers import Answers
    from kdump.engine.checks.proof import Proof
    from kdump.engine.reading.partition_scan import PartitionScan
    from kdump.findings.finding import Finding
    from kdump.storage.log_dir import LogDir


class _Largest(NamedTuple):
    """A segment's largest time: as its batches say, and as a broker that starts believes."""

    segment: int
    true_ms: int
    believed_ms: int


class TimeIndexes:
    """The time indexes of a partition."""

    def __init__(self, partition: PartitionScan) -> None:
        self._partition = partition
        self._largest: list[_Largest] = []
        self._doubts: list[Doubt] = []

    def reports(self, proof: Proof, answers: Answers) -> Iterator[Reported]:
        """Yield what is wrong with the time index of a segment that was read to its end."""
        segment, index = proof.segment, proof.times
        true_ms = segment.max_timestamp_ms
        if index is None:
            self._largest.append(_Largest(segment.base_offset, true_ms, true_ms))
            if self._is_missed(proof):
                yield at_place("time-index-missing", segment.place)
            return
        reports = TimeEntries(proof, index, answers)
        believed_ms = reports.believed_ms()
        if index.trailing_bytes:
            yield reports.size("time-index-size")
        if segment.active:
            believed_ms = true_ms
        doubted: int | None = None
        if believed_ms != true_ms and not (believed_ms > true_ms and proof.has_legacy):
            self._doubts.append(reports.judge_last(believed_ms))
            doubted = index.entries - 1
        self._largest.append(_Largest(segment.base_offset, true_ms, believed_ms))
        yield from reports.entries(doubted)

    def quick_reports(self, proof: Proof, answers: Answers) -> Iterator[Reported]:
        """Yield what the file alone shows."""
        index = proof.times
        if index is None:
            return
        reports = TimeEntries(proof, index, answers)
        if index.trailing_bytes:
            yield reports.size("time-index-size")
        if index.is_untrimmed and not proof.segment.active:
            yield reports.zeros()
        yield from reports.quick_disorder()

    def _is_missed(self, proof: Proof) -> bool:
        """Whether a time index should be there: not in eras without, not where both are gone."""
        segment = proof.segment
        if Kind.TIME_INDEX not in proof.missing or Kind.OFFSET_INDEX in proof.missing:
            return False
        if segment.max_timestamp_ms < 0:
            return False
        if any(Kind.TIME_INDEX in other.files for other in self._partition.log.segments):
            return True
        directory = self._partition.directory
        return directory is not None and _has_time_indexes(directory)

    def end(self) -> Iterator[Reported]:
        """Say what the last entries that are no maximum do to lookups in the whole partition."""
        for doubt in self._doubts:
            found = self._consequence(doubt)
            yield found if doubt.touches is None else Conditional(found, doubt.touches)

    def _consequence(self, doubt: Doubt) -> Finding:
        base = doubt.finding.segment
        earlier = [at for at in self._largest if base is not None and at.segment < base]
        later = [at for at in self._largest if base is not None and at.segment > base]
        floor_ms = max((at.believed_ms for at in earlier), default=-1)
        right: str | None = None
        given = NOTHING
        target_ms = -1
        if doubt.believed_ms < doubt.true_ms:
            # Passed over: the next segment that reaches the time answers, or none does.
            if doubt.true_ms > floor_ms:
                target_ms, right = doubt.true_ms, f"an offset of segment {base}"
                taken = next((at for at in later if at.believed_ms >= target_ms), None)
                if taken is not None:
                    given = f"an offset of segment {taken.segment}"
        else:
            # Taken, though nothing in it reaches the time; later segments are not asked.
            known_ms = max(doubt.true_ms, floor_ms)
            hidden = next((at for at in later if at.true_ms > known_ms), None)
            if hidden is not None and doubt.believed_ms > known_ms:
                target_ms = min(doubt.believed_ms, hidden.true_ms)
                right = f"an offset of segment {hidden.segment}"
        if right is None:
            message = f"{doubt.finding.message} All lookups by time still give the right answer."
            return doubt.finding._replace(message=message)
        message = (
            f"{doubt.finding.message} A lookup of time {time_text(target_ms)} should return "
            f"{right}, but returns {'nothing' if given == NOTHING else given}."
        )
        return doubt.finding._replace(message=message, expected=right, actual=given)


@lru_cache(maxsize=4)
def _has_time_indexes(directory: LogDir) -> bool:
    """Whether any partition of a data directory has one: brokers before 0.10.1 made none."""
    for _, path in directory.partitions:
        try:
            log = LocalLog.open(path)
        except PathError:
            continue
        if any(Kind.TIME_INDEX in segment.files for segment in log.segments):
            return True
    return False

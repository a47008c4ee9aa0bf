"""Report wrong entries of an `.index`, with an offset answered wrongly (I6 to I11)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.checks.answers import EntryReports, EntryVerdict, zeros_words
from kdump.engine.checks.missing_segments import COMPACTED_TOPICS
from kdump.engine.reading.check import Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.kernels import columns as c
from kdump.storage import places
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.engine.checks.answers import Answers, WrongAnswer
    from kdump.engine.checks.proof import BadEntry, Proof
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding


def offset_index_reports(proof: Proof, answers: Answers) -> Iterator[Reported]:
    """Yield what is wrong with the offset index of a segment that was read to its end."""
    segment, index = proof.segment, proof.offsets
    if index is None:
        is_missing = Kind.OFFSET_INDEX in proof.missing and not _is_unwritten(segment)
        if is_missing and not _is_loose(segment):
            yield at_place("offset-index-missing", segment.place)
        return
    reports = _Reports(proof, index, answers)
    if index.trailing_bytes:
        yield reports.size("offset-index-size")
    if index.is_untrimmed and not segment.active:
        yield reports.zeros()
    beyond = range(proof.proved_offsets, len(index))
    bad = [entry for entry in proof.bad if entry.why in _MESSAGES]
    reports.known_bad = frozenset([*(entry.number for entry in bad), *beyond[:1]])
    first_bad = min(reports.known_bad, default=len(index))
    stale = (
        segment.active
        and index.is_untrimmed
        and len(bad) + len(beyond) == len(index) - first_bad
        and index.may_be_stale_from(first_bad, quick=proof.quick)
    )
    if stale:
        if first_bad < index.used:
            yield reports.stale("offset-index-stale", first_bad)
        return
    if index.odd_count:
        yield reports.disorder("offset-index-order", index.odd, index.odd_count)
    yield from reports.report_bad([entry for entry in bad if entry.why == c.NO_BATCH])
    yield from reports.report_bad([entry for entry in bad if entry.why != c.NO_BATCH])
    if beyond:
        yield reports.report_beyond(beyond)


_OPENINGS = 2  # a segment is opened when it is made, and by a restart or two
_EMPTY_FACTOR = 3  # an index is empty for no reason if its log has room for so many entries
_MESSAGES = {
    c.NO_BATCH: "The entry for offset {offset:,} names position {position:,}, where no batch "
    "starts.",
    c.PASSES_OVER: "The entry for offset {offset:,} names position {position:,}, but a batch "
    "before that position already reaches offset {offset:,}.",
    c.BELOW_BATCH: "The entry for offset {offset:,} names the batch at position {position:,}, "
    "which starts after that offset.",
}


def _is_loose(segment: SegmentScan) -> bool:
    """Whether a log was given alone under any name, so that no index can be beside it."""
    path = segment.path
    return places.is_view(path) and len(places.listdir(places.parent(path))) == 1


def _is_unwritten(segment: SegmentScan) -> bool:
    """Whether a log holds no entry yet: a broker makes the indexes with the first one."""
    reserved = segment.active and [gap.reason for gap in segment.gaps] == ["zeros"]
    return segment.end_position == 0 or (
        reserved and segment.start_position == segment.batches == 0
    )


class _Reports(EntryReports):
    """Makes findings about one offset index."""

    sentence = (
        "A fetch from offset {target:,} should start at {{right}}, but a broker returns {{given}}."
    )
    known_bad: frozenset[int] = frozenset()

    def try_target(self, target: int) -> WrongAnswer | None:
        """Fetch from an offset."""
        if target > self.segment.last_offset:
            return None
        return self.answers.wrong_offset(target, self._start(target))

    def misled_finding(
        self, code: str, slot: int, message: str, wrong: WrongAnswer | None, slots: int = 1
    ) -> Finding:
        """Make a finding that names the offset for which a fetch goes wrong."""
        found = super().misled_finding(code, slot, message, wrong, slots)
        return found if wrong is None else found._replace(offset=wrong.target)

    def zeros(self) -> Finding:
        """The index of a sealed segment ends in zeros."""
        used, count = self.file.used, self.file.entries - self.file.used
        message = f"{zeros_words(count)}, in a segment that is not the newest."
        wrong = self.find_wrong([self.segment.last_offset])
        return self.misled_finding("offset-index-zeros", used, message, wrong, count)

    def nearby_targets(self, slot: int) -> list[int]:
        """The offsets of the entries around, and those beside them."""
        near = [
            self.segment.base_offset + relative for relative, _ in self.file.entries_around(slot)
        ]
        beside = (*(offset + 1 for offset in near), *(offset - 1 for offset in near))
        return [self.segment.last_offset, *near, *beside]

    def judge(self, entry: BadEntry) -> EntryVerdict:
        """Say what batch an entry does not name."""
        relative, position = self.file.entry(entry.number)
        offset = self.segment.base_offset + relative
        message = _MESSAGES[entry.why].format(offset=offset, position=position)
        code = "offset-index-position" if entry.why == c.NO_BATCH else "offset-index-offset"
        touches = self.rests_on(position)
        if entry.culprit is not None:
            touches = touches._replace(also=self.rests_on(entry.culprit))
        return EntryVerdict(code, message, touches, [offset])

    def judge_beyond(self, numbers: range) -> EntryVerdict:
        """Say that entries name positions behind the log's end."""
        relative, position = self.file.entry(numbers[0])
        end = self.segment.end_position
        message = (
            f"{len(numbers):,} entries name positions from {position:,} on, where no batch starts: "
            f"the log ends at {end:,}."
        )
        targets = [self.segment.base_offset + relative]
        return EntryVerdict("offset-index-position", message, self.rests_on(position), targets)

    def rests_on(self, value: int) -> RestsOn:
        """The byte at a position."""
        return RestsOn(self.segment.base_offset, value, value + 1)

    def _start(self, target: int) -> int:
        """Where a right scan for an offset may start: the last proved entry at or below it."""
        index = self.file
        relative = target - self.segment.base_offset
        numbers = range(min(self.proof.proved_offsets, len(index)))
        number = bisect(numbers, relative, key=lambda number: index.entry(number)[0]) - 1
        while number >= 0 and number in self.known_bad:
            number -= 1
        return index.entry(number)[1] if number >= 0 else 0


class Spacing:
    """How far apart entries lie in the segments of a partition.

    An empty index is legal: a segment that was compacted, or written in a few large appends, has
    few entries or none (I9). So it is a note, where the neighbours are dense or where the log is
    longer than the interval and no cleaner wrote it.
    """

    def __init__(self, partition: PartitionScan) -> None:
        self._interval = partition.settings.index_interval_bytes
        self._source = partition.settings.source("index_interval_bytes")
        self._cleaned = partition.cleaner_offset()
        policy = partition.settings.cleanup_policy
        self._compacted = "compact" in policy or partition.target.topic in COMPACTED_TOPICS
        self._densest: int | None = None  # bytes of log an entry
        self._empty: list[tuple[int, Finding]] = []
        self._shown: list[int] = []  # segments of which it is told in any case

    def add(self, proof: Proof) -> None:
        """Take in one segment."""
        segment, index = proof.segment, proof.offsets
        if index is None:
            return
        if len(index) > 1:
            spacing = segment.end_position // len(index)
            self._densest = spacing if self._densest is None else min(self._densest, spacing)
        elif not index.entries and not segment.active:
            message = f"The index has no entry, but the log has {segment.end_position:,} bytes."
            # The first entry is that of the first append that starts beyond the interval, and a
            # restart in between begins to count again.
            expected = proof.last_position > _OPENINGS * self._interval
            is_cleaned = self._compacted or segment.base_offset < self._cleaned
            if expected and not is_cleaned:
                self._shown.append(segment.base_offset)
                message += (
                    f" With index.interval.bytes={self._interval:,} ({self._source}) it should "
                    f"have one, unless the segment was written in one large append (as a follower "
                    f"may), over "
                    "several restarts, or with a different setting."
                )
            empty = at_place("offset-index-empty", segment.place, path=index.path, message=message)
            self._empty.append((proof.last_position, empty))

    def end(self) -> Iterator[Finding]:
        """Name the empty ones whose logs have room for entries."""
        densest = self._densest
        for size, empty in self._empty:
            is_long = densest is not None and size >= _EMPTY_FACTOR * densest
            if is_long or empty.segment in self._shown:
                yield empty

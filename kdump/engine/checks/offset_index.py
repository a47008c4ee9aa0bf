"""Report wrong entries of an `.index`, with an offset answered wrongly (I6 to I11)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.checks.answers import HARMLESS
from kdump.engine.checks.proof import TRIES, most_harmful_first
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.findings.finding import finding
from kdump.kernels import columns as c
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.engine.checks.answers import Answers, Wrong
    from kdump.engine.checks.index_file import IndexFile
    from kdump.engine.checks.proof import BadEntry, Proof
    from kdump.engine.reading.check import Reported
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.findings.finding import Finding


def offset_index_reports(proof: Proof, answers: Answers) -> Iterator[Reported]:
    """Yield what is wrong with the offset index of a segment that was read to its end."""
    segment, index = proof.segment, proof.offsets
    if index is None:
        if Kind.OFFSET_INDEX in proof.missing and not _is_unwritten(segment):
            yield finding(
                "offset-index-missing",
                path=segment.path,
                topic=segment.place.topic,
                partition=segment.place.partition,
                segment=segment.place.segment,
            )
        return
    reports = _Reports(proof, index, answers)
    if index.trailing_bytes:
        yield reports.size()
    if index.is_untrimmed and not segment.active:
        yield reports.zeros()
    beyond = range(proof.proved_offsets, len(index))
    bad = [entry for entry in proof.bad if entry.why in _MESSAGES]
    reports.known_bad = {entry.number for entry in bad} | set(beyond[:1])
    first_bad = min(reports.known_bad, default=len(index))
    stale = (
        segment.active
        and index.is_untrimmed
        and len(bad) + len(beyond) == len(index) - first_bad
        and index.may_be_stale_from(first_bad, quick=proof.quick)
    )
    if stale:
        if first_bad < index.used:
            yield reports.stale(first_bad)
        return
    yield from reports.odd()
    yield from reports.bad([entry for entry in bad if entry.why == c.NO_BATCH])
    yield from reports.bad([entry for entry in bad if entry.why != c.NO_BATCH])
    if beyond:
        yield reports.beyond(beyond)


_MESSAGES = {
    c.NO_BATCH: "No batch starts at position {position:,}, where the entry for offset {offset:,} "
    "says one does.",
    c.PASSES_OVER: "The entry for offset {offset:,} says that no batch before position "
    "{position:,} reaches it, but one does.",
    c.BELOW_BATCH: "The entry for offset {offset:,} names the batch at position {position:,}, "
    "which starts above it.",
}


def _is_unwritten(segment: SegmentScan) -> bool:
    """Whether a log holds no entry yet: a broker makes the indexes with the first one."""
    reserved = segment.active and [gap.reason for gap in segment.gaps] == ["zeros"]
    return segment.end_position == 0 or (
        reserved and segment.start_position == segment.batches == 0
    )


class _Reports:
    """Makes findings about one offset index."""

    def __init__(self, proof: Proof, index: IndexFile, answers: Answers) -> None:
        self._proof = proof
        self._segment = proof.segment
        self._index = index
        self._answers = answers
        self.known_bad: set[int] = set()

    def _find(
        self, code: str, slot: int, message: str, wrong: Wrong | None = None, slots: int = 1
    ) -> Finding:
        place = self._segment.place
        return finding(
            code,
            path=self._index.path,
            topic=place.topic,
            partition=place.partition,
            segment=place.segment,
            position=slot * self._index.slot_bytes,
            size_bytes=slots * self._index.slot_bytes,
            offset=wrong.target if wrong else None,
            expected=wrong.right if wrong else None,
            actual=wrong.given if wrong else None,
            message=f"{message} {_answer_words(wrong)}",
        )

    def size(self) -> Finding:
        index = self._index
        place = self._segment.place
        whole = index.entries * index.slot_bytes
        return finding(
            "offset-index-size",
            path=index.path,
            topic=place.topic,
            partition=place.partition,
            segment=place.segment,
            position=whole,
            size_bytes=index.trailing_bytes,
            expected=whole,
            actual=whole + index.trailing_bytes,
        )

    def zeros(self) -> Finding:
        index = self._index
        count = index.entries - index.used
        message = f"The last {count:,} entries are zeros, in a segment that is not the newest."
        wrong = self._wrong([self._segment.last_offset])
        return self._find("offset-index-zeros", index.used, message, wrong, count)

    def stale(self, first_bad: int) -> Reported:
        index = self._index
        slot = index.slot(first_bad) if first_bad < len(index) else index.odd[0]
        place = self._segment.place
        told = finding(
            "offset-index-stale",
            path=index.path,
            topic=place.topic,
            partition=place.partition,
            segment=place.segment,
            position=slot * index.slot_bytes,
            size_bytes=(index.used - slot) * index.slot_bytes,
        )
        if first_bad >= len(index):
            return told
        return Conditional(told, self._touches(index.entry(first_bad)[1]))

    def odd(self) -> Iterator[Reported]:
        """Entries that do not rise: one finding, for they are one disorder."""
        index = self._index
        if not index.odd_count:
            return
        base = self._segment.base_offset
        targets = [self._segment.last_offset]
        for slot in index.odd[:TRIES]:
            near = [base + relative for relative, _ in index.around(slot)]
            targets += [*near, *(offset + 1 for offset in near), *(offset - 1 for offset in near)]
        message = f"{index.odd_count:,} entries do not rise above those before them."
        if index.odd_count == 1:
            message = "One entry does not rise above those before it."
        yield self._find("offset-index-order", index.odd[0], message, self._wrong(targets))

    def bad(self, entries: list[BadEntry]) -> Iterator[Reported]:
        """Entries that do not hold; one that leads astray comes first and says for what."""
        base = self._segment.base_offset

        def wrong(entry: BadEntry) -> Wrong | None:
            return self._wrong([base + self._index.entry(entry.number)[0]])

        for entry, found, told in most_harmful_first(entries, wrong):
            yield self._suspect(entry, found, told=told)

    def _suspect(self, entry: BadEntry, wrong: Wrong | None, *, told: bool) -> Reported:
        relative, position = self._index.entry(entry.number)
        message = _MESSAGES[entry.why].format(
            offset=self._segment.base_offset + relative, position=position
        )
        code = "offset-index-position" if entry.why == c.NO_BATCH else "offset-index-offset"
        found = self._find(code, self._index.slot(entry.number), message, wrong)
        if not told:
            found = found._replace(message=message)
        touches = self._touches(position)
        if entry.culprit is not None:
            touches = touches._replace(also=self._touches(entry.culprit))
        return Conditional(found, touches)

    def beyond(self, numbers: range) -> Reported:
        """Entries that name what lies behind the log's end."""
        relative, position = self._index.entry(numbers[0])
        end = self._segment.end_position
        message = (
            f"{len(numbers):,} entries name positions from {position:,} on, where no batch starts: "
            f"the log ends at {end:,}."
        )
        wrong = self._wrong([self._segment.base_offset + relative])
        slot = self._index.slot(numbers[0])
        found = self._find("offset-index-position", slot, message, wrong, len(numbers))
        return Conditional(found, self._touches(position))

    def _touches(self, position: int) -> RestsOn:
        return RestsOn(self._segment.base_offset, position, position + 1)

    def _wrong(self, targets: list[int]) -> Wrong | None:
        for target in dict.fromkeys(targets):
            if target <= self._segment.last_offset:
                wrong = self._answers.wrong_offset(target, self._start(target))
                if wrong is not None:
                    return wrong
        return None

    def _start(self, target: int) -> int:
        """Where a right scan for an offset may start: the last proved entry at or below it."""
        index = self._index
        relative = target - self._segment.base_offset
        numbers = range(min(self._proof.proved_offsets, len(index)))
        number = bisect(numbers, relative, key=lambda number: index.entry(number)[0]) - 1
        while number >= 0 and number in self.known_bad:
            number -= 1
        return index.entry(number)[1] if number >= 0 else 0


def _answer_words(wrong: Wrong | None) -> str:
    if wrong is None:
        return HARMLESS
    return wrong.words(
        f"A fetch from offset {wrong.target:,} has to start at {{right}}; a broker gives {{given}}."
    )

"""Check the entries of one `.timeindex` against the log, and lookups by it (I13 to I17)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.checks.answers import HARMLESS
from kdump.engine.checks.proof import TRIES, most_harmful_first
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.findings.finding import finding
from kdump.kernels import columns as c

if TYPE_CHECKING:
    from kdump.engine.checks.answers import Answers, Wrong
    from kdump.engine.checks.index_file import IndexFile
    from kdump.engine.checks.proof import BadEntry, Proof
    from kdump.engine.reading.check import Reported
    from kdump.findings.finding import Finding


class Doubt(NamedTuple):
    """A sealed segment whose last entry is not its maximum; what it does depends on the others."""

    finding: Finding
    true_ms: int
    believed_ms: int
    touches: RestsOn | None


class TimeEntries:
    """Makes findings about the entries of one time index."""

    def __init__(self, proof: Proof, index: IndexFile | None, answers: Answers) -> None:
        self._proof = proof
        self._segment = proof.segment
        self._index = index
        self._answers = answers

    @property
    def _file(self) -> IndexFile:
        assert self._index is not None
        return self._index

    def _find(
        self, code: str, slot: int, message: str | None, wrong: Wrong | None = None, slots: int = 1
    ) -> Finding:
        place = self._segment.place
        size = self._file.slot_bytes
        return finding(
            code,
            path=self._file.path,
            topic=place.topic,
            partition=place.partition,
            segment=place.segment,
            position=slot * size,
            size_bytes=slots * size,
            expected=wrong.right if wrong else None,
            actual=wrong.given if wrong else None,
            message=message,
        )

    def missing(self) -> Finding:
        place = self._segment.place
        return finding(
            "time-index-missing",
            path=self._segment.path,
            topic=place.topic,
            partition=place.partition,
            segment=place.segment,
        )

    def size(self) -> Finding:
        file = self._file
        whole = file.entries * file.slot_bytes
        found = self._find("time-index-size", file.entries, None)
        return found._replace(
            size_bytes=file.trailing_bytes, expected=whole, actual=whole + file.trailing_bytes
        )

    def believed_ms(self) -> int:
        """What a broker that starts takes for the largest time: the last slot's (L12 step 2)."""
        file = self._file
        if not file.entries:
            # Judged by the file's time, in milliseconds.
            source = self._segment.source
            assert source is not None
            if self._segment.max_timestamp_ms < 0:
                return -1
            return source.status().st_mtime_ns // 1_000_000
        if file.is_untrimmed:
            return 0
        return file.last_key

    def last(self, believed_ms: int) -> Doubt | None:
        """The last entry of a sealed segment is not its largest time (I16)."""
        file, segment = self._file, self._segment
        true_ms = segment.max_timestamp_ms
        touches: RestsOn | None = None
        if not file.entries:
            found = self._find("time-index-last", 0, None, slots=0)
            message = f"The time index is empty; the largest time in the log is {true_ms}."
        elif file.is_untrimmed:
            count = file.entries - file.used
            found = self._find("time-index-zeros", file.used, None, slots=count)
            message = (
                f"The last {count:,} entries are zeros, in a segment that is not the newest; the "
                f"largest time in the log is {true_ms}."
            )
        else:
            found = self._find("time-index-last", file.entries - 1, None)
            message = (
                f"The last entry says {believed_ms}; the largest time in the log is {true_ms}."
            )
            if believed_ms > true_ms:
                touches = self._touches(file.last_value)
        found = found._replace(expected=true_ms, actual=believed_ms, message=message)
        return Doubt(found, true_ms, believed_ms, touches)

    def entries(self, doubted: int | None) -> Iterator[Reported]:
        """What is wrong with single entries, but for slot `doubted`, which is reported already."""
        file, proof = self._file, self._proof
        segment = self._segment
        beyond = range(proof.proved_times, len(file))
        bad = [
            entry
            for entry in proof.bad
            if entry.why in (c.STARTS_LATE, c.OTHER_TIME) and not self._misled(entry)
        ]
        if segment.active and file.is_untrimmed:
            first = min([entry.number for entry in bad] + list(beyond[:1]), default=len(file))
            if len(bad) + len(beyond) == len(file) - first and file.may_be_stale_from(first):
                if first < len(file) or file.odd_count:
                    yield self._stale(first)
                return
        yield from self._odd(doubted)
        bad = [entry for entry in bad if file.slot(entry.number) != doubted]
        yield from self._bad([entry for entry in bad if entry.why == c.STARTS_LATE])
        yield from self._bad([entry for entry in bad if entry.why == c.OTHER_TIME])
        if beyond and not (len(beyond) == 1 and file.slot(beyond[0]) == doubted):
            yield self._beyond(beyond)

    def zeros(self) -> Finding:
        """A sealed segment's index ends in zeros; nothing of its log is known."""
        file = self._file
        return self._find("time-index-zeros", file.used, None, slots=file.entries - file.used)

    def disorder(self) -> Iterator[Reported]:
        """Entries that do not rise, where no log was read."""
        file = self._file
        last_relative = self._segment.last_offset - self._segment.base_offset
        ahead = bool(len(file)) and file.entry(len(file) - 1)[1] > last_relative
        stale = file.stale_from is not None or (file.is_untrimmed and file.odd_count == 1 and ahead)
        if self._segment.active and stale:
            yield self._stale(len(file))
        elif file.odd_count:
            yield self._find("time-index-order", file.odd[0], None)

    def _misled(self, entry: BadEntry) -> bool:
        """Whether an entry starts late only because an offset index entry does, reported there."""
        offsets = self._proof.offsets
        if entry.why != c.STARTS_LATE or offsets is None:
            return False
        relative = self._file.entry(entry.number)[1]
        numbers = range(len(offsets))
        used = bisect(numbers, relative, key=lambda number: offsets.entry(number)[0]) - 1
        of_offsets = (c.NO_BATCH, c.PASSES_OVER, c.BELOW_BATCH)
        return any(at.number == used and at.why in of_offsets for at in self._proof.bad)

    def _stale(self, first: int) -> Reported:
        file = self._file
        slot = file.slot(first) if first < len(file) else file.odd[0]
        found = self._find("time-index-stale", slot, None, slots=file.used - slot)
        if first >= len(file):
            return found
        return Conditional(found, self._touches(file.entry(first)[1]))

    def _odd(self, doubted: int | None) -> Iterator[Reported]:
        file = self._file
        odd = [slot for slot in file.odd if slot != doubted]
        count = file.odd_count - (len(file.odd) - len(odd))
        if not count or not odd:
            return
        targets = []
        for slot in odd[:TRIES]:
            targets += self._times_around(slot)
        message = f"{count:,} entries do not rise above those before them."
        if count == 1:
            message = "One entry does not rise above those before it."
        wrong = self._wrong(targets)
        yield self._find("time-index-order", odd[0], f"{message} {_answer_words(wrong)}", wrong)

    def _times_around(self, slot: int) -> list[int]:
        """Times worth a trial: those of the entries before and behind an odd slot that rise."""
        near = [time for time, _ in self._file.around(slot)]
        return [*near, *(time + 1 for time in near), self._segment.max_timestamp_ms]

    def _bad(self, entries: list[BadEntry]) -> Iterator[Reported]:
        def wrong(entry: BadEntry) -> Wrong | None:
            time = self._file.entry(entry.number)[0]
            return self._wrong([time, entry.max_timestamp_ms, time + 1])

        for entry, found, told in most_harmful_first(entries, wrong):
            yield self._suspect(entry, found, told=told)

    def _suspect(self, entry: BadEntry, wrong: Wrong | None, *, told: bool) -> Reported:
        time, relative = self._file.entry(entry.number)
        offset = self._segment.base_offset + relative
        if entry.why == c.STARTS_LATE:
            code = "time-index-offset"
            message = (
                f"The entry for time {time} names offset {offset:,}, but a batch with that time or "
                f"a later one lies before where a scan for it starts."
            )
        else:
            code = "time-index-entry"
            message = (
                f"The entry names time {time} for offset {offset:,}, where the largest time of the "
                f"batch is {entry.max_timestamp_ms}."
            )
        if told:
            message = f"{message} {_answer_words(wrong)}"
        found = self._find(code, self._file.slot(entry.number), message, wrong)
        touches = self._touches(relative)._replace(
            segment=self._segment.base_offset, position=entry.position
        )
        return Conditional(found._replace(offset=offset), touches)

    def _beyond(self, numbers: range) -> Reported:
        time, relative = self._file.entry(numbers[0])
        offset = self._segment.base_offset + relative
        message = (
            f"{len(numbers):,} entries name offsets from {offset:,} on; the last in the log is "
            f"{self._segment.last_offset:,}."
        )
        wrong = self._wrong([time, time + 1])
        slot = self._file.slot(numbers[0])
        message = f"{message} {_answer_words(wrong)}"
        found = self._find("time-index-entry", slot, message, wrong, len(numbers))
        touches = self._touches(relative)._replace(
            segment=self._segment.base_offset, position=self._proof.last_position
        )
        return Conditional(found._replace(offset=offset), touches)

    def _touches(self, relative: int) -> RestsOn:
        return RestsOn(offset=self._segment.base_offset + relative)

    def _wrong(self, targets: list[int]) -> Wrong | None:
        for target in dict.fromkeys(targets):
            wrong = self._answers.wrong_time(target)
            if wrong is not None:
                return wrong
        return None


def _answer_words(wrong: Wrong | None) -> str:
    if wrong is None:
        return HARMLESS
    return wrong.words(
        f"For time {wrong.target} the answer within this segment is {{right}}; a broker gives "
        "{given}."
    )

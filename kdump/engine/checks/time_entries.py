"""Check the entries of one `.timeindex` against the log, and lookups by it (I13 to I17)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from kdump.engine.checks.answers import EntryReports, EntryVerdict, WrongAnswer, zeros_words
from kdump.engine.checks.proof import BadEntry
from kdump.engine.reading.check import Reported, RestsOn
from kdump.findings.finding import Finding
from kdump.kernels import columns as c
from kdump.kernels.text_form import time_text
from kdump.tuples import NamedTuple


class Doubt(NamedTuple):
    """A sealed segment whose last entry is not its maximum; what it does depends on the others."""

    finding: Finding
    true_ms: int
    believed_ms: int
    touches: RestsOn | None


class TimeEntries(EntryReports):
    """Makes findings about the entries of one time index."""

    sentence = (
        "A lookup of time {time} should return {{right}} in this segment, but returns {{given}}."
    )

    def try_target(self, target: int) -> WrongAnswer | None:
        """Look a time up within the segment."""
        return self.answers.wrong_time(target)

    def believed_ms(self) -> int:
        """What a broker that starts takes for the largest time: the last slot's (L12 step 2)."""
        file = self.file
        if not file.entries:
            # Judged by the file's time, in milliseconds.
            source = self.segment.source
            assert source is not None
            if self.segment.max_timestamp_ms < 0:
                return -1
            return source.status().st_mtime_ns // 1_000_000
        if file.is_untrimmed:
            return 0
        return file.last_key

    def judge_last(self, believed_ms: int) -> Doubt:
        """The last entry of a sealed segment is not its largest time (I16)."""
        file, segment = self.file, self.segment
        true_ms = segment.max_timestamp_ms
        touches: RestsOn | None = None
        if not file.entries:
            found = self.find("time-index-last", 0, 0)
            message = (
                f"The time index is empty; the largest time in the segment is {time_text(true_ms)}."
            )
        elif file.is_untrimmed:
            count = file.entries - file.used
            found = self.zeros()
            message = (
                f"{zeros_words(count)}, in a segment that is not the newest; the "
                f"largest time in the segment is {time_text(true_ms)}."
            )
        else:
            found = self.find("time-index-last", file.entries - 1)
            message = (
                f"The last entry has time {time_text(believed_ms)}; the largest "
                f"time in the segment is {time_text(true_ms)}."
            )
            if believed_ms > true_ms:
                touches = self.rests_on(file.last_value)
        found = found._replace(expected=true_ms, actual=believed_ms, message=message)
        return Doubt(found, true_ms, believed_ms, touches)

    def entries(self, doubted: int | None) -> Iterator[Reported]:
        """What is wrong with single entries, but for slot `doubted`, which is reported already."""
        file, proof = self.file, self.proof
        segment = self.segment
        beyond = range(proof.proved_times, len(file))
        bad = [
            entry
            for entry in proof.bad
            if entry.why in (c.STARTS_LATE, c.OTHER_TIME) and not self._is_misled(entry)
        ]
        if segment.active and file.is_untrimmed:
            first = min([entry.number for entry in bad] + list(beyond[:1]), default=len(file))
            if len(bad) + len(beyond) == len(file) - first and file.may_be_stale_from(first):
                if first < len(file) or file.odd_count:
                    yield self.stale("time-index-stale", first)
                return
        odd = [slot for slot in file.odd if slot != doubted]
        if odd:
            count = file.odd_count - (len(file.odd) - len(odd))
            yield self.disorder("time-index-order", odd, count)
        bad = [entry for entry in bad if file.slot(entry.number) != doubted]
        yield from self.report_bad([entry for entry in bad if entry.why == c.STARTS_LATE])
        yield from self.report_bad([entry for entry in bad if entry.why == c.OTHER_TIME])
        if beyond and not (len(beyond) == 1 and file.slot(beyond[0]) == doubted):
            yield self.report_beyond(beyond)

    def zeros(self) -> Finding:
        """A sealed segment's index ends in zeros; nothing of its log is known."""
        file = self.file
        return self.find("time-index-zeros", file.used, file.entries - file.used)

    def quick_disorder(self) -> Iterator[Reported]:
        """Entries that do not rise, where no log was read."""
        file = self.file
        last_relative = self.segment.last_offset - self.segment.base_offset
        ahead = bool(len(file)) and file.entry(len(file) - 1)[1] > last_relative
        stale = file.stale_from is not None or (file.is_untrimmed and file.odd_count == 1 and ahead)
        if self.segment.active and stale:
            yield self.stale("time-index-stale", len(file))
        elif file.odd_count:
            yield self.find("time-index-order", file.odd[0])

    def _is_misled(self, entry: BadEntry) -> bool:
        """Whether an entry starts late only because an offset index entry does, reported there."""
        offsets = self.proof.offsets
        if entry.why != c.STARTS_LATE or offsets is None:
            return False
        relative = self.file.entry(entry.number)[1]
        numbers = range(len(offsets))
        used = bisect(numbers, relative, key=lambda number: offsets.entry(number)[0]) - 1
        of_offsets = (c.NO_BATCH, c.PASSES_OVER, c.BELOW_BATCH)
        return any(at.number == used and at.why in of_offsets for at in self.proof.bad)

    def nearby_targets(self, slot: int) -> list[int]:
        """The times of the entries around, and those behind them."""
        near = [time for time, _ in self.file.entries_around(slot)]
        return [*near, *(time + 1 for time in near), self.segment.max_timestamp_ms]

    def judge(self, entry: BadEntry) -> EntryVerdict:
        """Say what an entry's offset and time have to do with each other."""
        time, relative = self.file.entry(entry.number)
        offset = self.segment.base_offset + relative
        if entry.why == c.STARTS_LATE:
            code = "time-index-offset"
            message = (
                f"The entry for time {time_text(time)} names offset {offset:,}, but a batch "
                "before it already has a record of that time or later; lookups that use this entry "
                "miss that record."
            )
        else:
            code = "time-index-entry"
            message = (
                f"The entry for offset {offset:,} names time {time_text(time)}, but the largest "
                f"time in that batch is {time_text(entry.max_timestamp_ms)}."
            )
        targets = [time, entry.max_timestamp_ms, time + 1]
        return EntryVerdict(
            code, message, self._rests_on(relative, entry.position), targets, offset
        )

    def judge_beyond(self, numbers: range) -> EntryVerdict:
        """Say that entries name offsets behind the log's end."""
        time, relative = self.file.entry(numbers[0])
        offset = self.segment.base_offset + relative
        message = (
            f"{len(numbers):,} entries name offsets from {offset:,} on; the last in the log is "
            f"{self.segment.last_offset:,}."
        )
        touches = self._rests_on(relative, self.proof.last_position)
        return EntryVerdict("time-index-entry", message, touches, [time, time + 1], offset)

    def rests_on(self, value: int) -> RestsOn:
        """An offset, as the entry has it."""
        return RestsOn(offset=self.segment.base_offset + value)

    def _rests_on(self, relative: int, position: int) -> RestsOn:
        """An offset, and the batch that an entry for it met."""
        return self.rests_on(relative)._replace(segment=self.segment.base_offset, position=position)

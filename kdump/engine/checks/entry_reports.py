"""Make findings about the entries of one index; both kinds of index come to them the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Unpack

from kdump.engine.checks.answers import HARMLESS, Answers, Wrong
from kdump.engine.checks.proof import TRIES, BadEntry, Proof, most_harmful_first
from kdump.engine.reading.check import Conditional, Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.index_file import IndexFile
    from kdump.findings.finding import About, Finding


class Judged(NamedTuple):
    """What an entry that does not hold is called, what it says, and what that rests on.

    `targets` are worth a trial because of it.
    """

    code: str
    message: str
    touches: RestsOn
    targets: list[int]
    offset: int | None = None


class EntryReports:
    """Findings about one index; a lookup by it is a subclass's to try.

    A target is what lookups are by: an offset, or a time. `sentence` says how one goes wrong.
    """

    sentence: str

    def __init__(self, proof: Proof, file: IndexFile, answers: Answers) -> None:
        self.proof = proof
        self.segment = proof.segment
        self.file = file
        self.answers = answers

    @abstractmethod
    def try_target(self, target: int) -> Wrong | None:
        """Look a target up both ways; None where both agree."""

    @abstractmethod
    def near(self, slot: int) -> list[int]:
        """Targets worth a trial because of a slot that does not rise."""

    @abstractmethod
    def judged(self, entry: BadEntry) -> Judged:
        """Say what is wrong with an entry that does not hold."""

    @abstractmethod
    def behind(self, numbers: range) -> Judged:
        """Say what is wrong with entries that name what lies behind the log's end."""

    @abstractmethod
    def touches(self, value: int) -> RestsOn:
        """What of the log the second field of an entry rests on."""

    def find(self, code: str, slot: int, slots: int = 1, **about: Unpack[About]) -> Finding:
        """Make a finding about some slots of the file."""
        size = self.file.slot_bytes
        about["position"], about["size_bytes"] = slot * size, slots * size
        return at_place(code, self.segment.place, path=self.file.path, **about)

    def find_misled(
        self, code: str, slot: int, message: str, wrong: Wrong | None, slots: int = 1
    ) -> Finding:
        """Make a finding that says for what a lookup goes wrong."""
        words = HARMLESS
        if wrong is not None:
            words = wrong.words(self.sentence.format(target=wrong.target))
        return self.find(
            code,
            slot,
            slots,
            expected=wrong.right if wrong else None,
            actual=wrong.given if wrong else None,
            message=f"{message} {words}",
        )

    def size(self, code: str) -> Finding:
        """The file ends in a piece of an entry."""
        file = self.file
        whole = file.entries * file.slot_bytes
        found = self.find(code, file.entries, expected=whole, actual=whole + file.trailing_bytes)
        return found._replace(size_bytes=file.trailing_bytes)

    def stale(self, code: str, first: int) -> Reported:
        """Old entries stand behind the end, from entry `first` or the odd slot on."""
        file = self.file
        slot = file.slot(first) if first < len(file) else file.odd[0]
        found = self.find(code, slot, file.used - slot)
        if first >= len(file):
            return found
        return Conditional(found, self.touches(file.entry(first)[1]))

    def disorder(self, code: str, odd: list[int], count: int) -> Finding:
        """Entries that do not rise: one finding, for they are one disorder."""
        targets = [target for slot in odd[:TRIES] for target in self.near(slot)]
        message = f"{count:,} entries do not rise above those before them."
        if count == 1:
            message = "One entry does not rise above those before it."
        return self.find_misled(code, odd[0], message, self.wrong(targets))

    def bad(self, entries: list[BadEntry]) -> Iterator[Reported]:
        """Entries that do not hold; one that leads astray comes first and says for what."""

        def wrong_of(entry: BadEntry) -> Wrong | None:
            return self.wrong(self.judged(entry).targets)

        for entry, wrong, is_first in most_harmful_first(entries, wrong_of):
            judged = self.judged(entry)
            found = self._reported(judged, entry.number, wrong)
            yield Conditional(
                found if is_first else found._replace(message=judged.message), judged.touches
            )

    def beyond(self, numbers: range) -> Reported:
        """Entries that name what lies behind the log's end, as one."""
        judged = self.behind(numbers)
        wrong = self.wrong(judged.targets)
        found = self._reported(judged, numbers[0], wrong, len(numbers))
        return Conditional(found, judged.touches)

    def _reported(
        self, judged: Judged, number: int, wrong: Wrong | None, slots: int = 1
    ) -> Finding:
        found = self.find_misled(judged.code, self.file.slot(number), judged.message, wrong, slots)
        return found if judged.offset is None else found._replace(offset=judged.offset)

    def wrong(self, targets: Iterable[int]) -> Wrong | None:
        """Try some targets; give the first that is answered wrongly."""
        tried = map(self.try_target, dict.fromkeys(targets))
        return next((wrong for wrong in tried if wrong is not None), None)

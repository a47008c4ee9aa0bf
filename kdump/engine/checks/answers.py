"""Show with a lookup of the broker's that a wrong index gives a wrong answer.

The search of the broker's version runs over the index file as it lies on disk (I4, I7, I15), then
its scan from there (L2, L12). A right answer comes from the same scan, started early enough.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Unpack

from kdump.engine.checks.proof import TRIES, BadEntry, Proof, most_harmful_first
from kdump.engine.reading.check import Conditional, Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels.text_form import time_text
from kdump.storage.file_records import FileRecords
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.segment import Segment
    from kdump.engine.checks.index_file import IndexFile
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import About, Finding


NOTHING = "none"
ERROR = "an error"

Answer = int | str


class WrongAnswer(NamedTuple):
    """A target for which a broker answers wrongly: an offset, or a time in ms."""

    target: int
    right: Answer
    given: Answer

    def words(self, sentence: str) -> str:
        """Fill a sentence with `{right}` and `{given}` as a person reads them."""
        right, given = (
            f"{at:,}" if isinstance(at, int) else "nothing" if at == NOTHING else at
            for at in (self.right, self.given)
        )
        return sentence.format(right=right, given=given)


HARMLESS = "All lookups that kdump tried gave the right answer, but it tried only some."


class Answers:
    """The answers of one segment; a context manager. `None` where the files cannot tell.

    Nothing is opened, and nothing of the broker's search loaded, before one is asked for.
    """

    def __init__(self, partition: PartitionScan, segment: SegmentScan) -> None:
        assert segment.source is not None
        self._partition = partition
        self._scanned = segment
        self._size = segment.source.size
        self._opened: Segment | None = None

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *details: object) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _segment(self) -> Segment:
        if self._opened is None:
            from kdump.broker.segment import Segment

            self._opened = Segment(
                self._scanned.base_offset,
                self._scanned.segment.files,
                self._partition.broker,
                self._partition.settings,
                limit=self._partition.limit,
                part=(0, self._size),
            )
        return self._opened

    def wrong_offset(self, target: int, start: int) -> WrongAnswer | None:
        """Compare both answers for an offset; no batch before `start` holds it."""
        if target < self._segment.base_offset:
            return None
        try:
            given = self._offset(target, self._position_of(target))
            right = self._offset(target, start)
        except PathError:
            return None
        return None if right == given else WrongAnswer(target, right, given)

    def wrong_time(self, target_ms: int) -> WrongAnswer | None:
        """Compare both answers for a time, within this segment (L12)."""
        if target_ms < 0:
            return None
        from kdump.broker.index_search import find_time

        segment = self._segment
        try:
            entry = find_time(segment.time_index(), target_ms, segment.broker)
            given = self._time(target_ms, self._position_of(entry.offset))
            right = self._time(target_ms, 0)
        except PathError:
            return None
        return None if right == given else WrongAnswer(target_ms, right, given)

    def _position_of(self, offset: int) -> int:
        self._segment.offset_index()  # opened once for all answers: a store is asked for each
        return self._segment.position_of(offset)

    def _offset(self, target: int, position: int) -> Answer:
        """The first offset handed out: of the batch that a search from a position ends at."""
        from kdump.broker.log_reader import RefusalError, UnknowableError

        try:
            with self._segment.entries() as entries:
                found = entries.search(position, target)
        except (RefusalError, UnknowableError):
            return ERROR
        if found is None:
            return NOTHING
        header = FileRecords(self._segment.log()).header(found.position)
        if header is None or header.flags & c.TOO_SMALL:
            return ERROR
        return max(target, found.base_offset or 0)

    def _time(self, target_ms: int, position: int) -> Answer:
        """The first record at or after a time in batches that reach it."""
        from kdump.broker.list_offsets import first_at_time
        from kdump.broker.lookup_records import BrokerError

        try:
            found, _ = first_at_time(self._segment, position, target_ms)
        except BrokerError:
            return ERROR
        return found.offset if found.offset >= 0 else NOTHING


class EntryVerdict(NamedTuple):
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
    def try_target(self, target: int) -> WrongAnswer | None:
        """Look a target up both ways; None where both agree."""

    @abstractmethod
    def nearby_targets(self, slot: int) -> list[int]:
        """Targets worth a trial because of a slot that does not rise."""

    @abstractmethod
    def judge(self, entry: BadEntry) -> EntryVerdict:
        """Say what is wrong with an entry that does not hold."""

    @abstractmethod
    def judge_beyond(self, numbers: range) -> EntryVerdict:
        """Say what is wrong with entries that name what lies behind the log's end."""

    @abstractmethod
    def rests_on(self, value: int) -> RestsOn:
        """What of the log the second field of an entry rests on."""

    def find(self, code: str, slot: int, slots: int = 1, **about: Unpack[About]) -> Finding:
        """Make a finding about some slots of the file."""
        size = self.file.slot_bytes
        about["position"], about["size_bytes"] = slot * size, slots * size
        return at_place(code, self.segment.place, path=self.file.path, **about)

    def misled_finding(
        self, code: str, slot: int, message: str, wrong: WrongAnswer | None, slots: int = 1
    ) -> Finding:
        """Make a finding that says for what a lookup goes wrong."""
        words = HARMLESS
        if wrong is not None:
            words = wrong.words(
                self.sentence.format(target=wrong.target, time=time_text(wrong.target))
            )
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
        return Conditional(found, self.rests_on(file.entry(first)[1]))

    def disorder(self, code: str, odd: list[int], count: int) -> Finding:
        """Entries that do not rise: one finding, for they are one disorder."""
        targets = [target for slot in odd[:TRIES] for target in self.nearby_targets(slot)]
        message = f"{count:,} entries are not greater than those before them."
        if count == 1:
            message = "One entry is not greater than those before it."
        return self.misled_finding(code, odd[0], message, self.find_wrong(targets))

    def report_bad(self, entries: list[BadEntry]) -> Iterator[Reported]:
        """Entries that do not hold; one that leads astray comes first and says for what."""

        def wrong_of(entry: BadEntry) -> WrongAnswer | None:
            return self.find_wrong(self.judge(entry).targets)

        for entry, wrong, is_first in most_harmful_first(entries, wrong_of):
            judged = self.judge(entry)
            found = self._make_finding(judged, entry.number, wrong)
            yield Conditional(
                found if is_first else found._replace(message=judged.message), judged.touches
            )

    def report_beyond(self, numbers: range) -> Reported:
        """Entries that name what lies behind the log's end, as one."""
        judged = self.judge_beyond(numbers)
        wrong = self.find_wrong(judged.targets)
        found = self._make_finding(judged, numbers[0], wrong, len(numbers))
        return Conditional(found, judged.touches)

    def _make_finding(
        self, judged: EntryVerdict, number: int, wrong: WrongAnswer | None, slots: int = 1
    ) -> Finding:
        found = self.misled_finding(
            judged.code, self.file.slot(number), judged.message, wrong, slots
        )
        return found if judged.offset is None else found._replace(offset=judged.offset)

    def find_wrong(self, targets: Iterable[int]) -> WrongAnswer | None:
        """Try some targets; give the first that is answered wrongly."""
        tried = map(self.try_target, dict.fromkeys(targets))
        return next((wrong for wrong in tried if wrong is not None), None)


def zeros_words(count: int) -> str:
    """Say how many entries at the end of an index are zeros."""
    return "The last entry is zeros" if count == 1 else f"The last {count:,} entries are zeros"

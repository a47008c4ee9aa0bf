"""Run the kernel's index check over one segment and keep what it found."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from kdump import kernels
from kdump.kernels import columns as c
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.index_file import IndexFile
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.storage.names import Kind

BAD_ENTRIES_KEPT = 1000
TRIES = 8  # bad entries of one code for which a wrong answer is looked for

Answer = TypeVar("Answer")


class BadEntry(NamedTuple):
    """An entry that does not hold: why (see `columns`), its number, and the batch it met.

    `culprit` is where the batch starts that makes it wrong, if it is another: one further up whose
    offset is too high.
    """

    why: int
    number: int
    position: int
    culprit: int | None
    max_timestamp_ms: int


def most_harmful_first(
    entries: Sequence[BadEntry], wrong_of: Callable[[BadEntry], Answer | None]
) -> Iterator[tuple[BadEntry, Answer | None, bool]]:
    """Yield entries that do not hold, first one by which a lookup goes wrong, with what it says.

    Some are tried, and the first stands for them where none leads astray. The last member is
    whether an entry is that first one.
    """
    first = 0
    wrong: Answer | None = None
    for number, entry in enumerate(entries[:TRIES]):
        wrong = wrong_of(entry)
        if wrong is not None:
            first = number
            break
    if entries:
        yield entries[first], wrong, True
    for number, entry in enumerate(entries):
        if number != first:
            yield entry, None, False


class EntryProof:
    """Holds the entries of a segment's two indexes against its log while that is read.

    An index is None where there is no such file.
    """

    def __init__(
        self, base_offset: int, offsets: IndexFile | None = None, times: IndexFile | None = None
    ) -> None:
        self.base_offset = base_offset
        self.offsets = offsets
        self.times = times
        self._state = array("q", (0, 0, base_offset - 1, -1, 0, 0))
        self._marks: array[int] | None = None

    def prove(self, batches: c.RecordBatches, most: int) -> list[tuple[int, int, int]]:
        """Prove the entries that these batches can prove.

        Give those that do not hold, so many at most: why, the entry's number, the batch's row.
        """
        if self._marks is None:
            self._marks = array("q", bytes(8 * len(self.offsets or ())))
        return kernels.prove_entries(
            batches,
            b"" if self.offsets is None else self.offsets.slots,
            b"" if self.times is None else self.times.slots,
            self.base_offset,
            self._state,
            self._marks,
            most,
        )

    @property
    def proved_offsets(self) -> int:
        """How many entries of the offset index lie within the log."""
        return self._state[0]

    @property
    def proved_times(self) -> int:
        """How many entries of the time index name an offset that the log reaches."""
        return self._state[1]

    @property
    def newest_time_ms(self) -> int:
        """The largest timestamp of the log so far."""
        return self._state[3]

    @property
    def has_legacy(self) -> bool:
        """Whether a v0 entry was met: brokers of 0.10.2 noted times that no message has."""
        return bool(self._state[4])


class Proof(EntryProof):
    """The two indexes of one segment, and what the log says against them."""

    def __init__(self, segment: SegmentScan) -> None:
        super().__init__(segment.base_offset)
        self.segment = segment
        self.missing: list[Kind] = []
        self.quick = False  # the log was not read
        self.bad: list[BadEntry] = []
        self.last_position = 0  # where the last batch so far starts
        self._highest = segment.base_offset - 1
        self._highest_at = -1  # where the batch starts that has the highest offset so far

    def feed(self, batches: c.RecordBatches) -> None:
        """Prove the entries that these batches can prove."""
        for why, number, row in self.prove(batches, BAD_ENTRIES_KEPT - len(self.bad)):
            self.bad.append(
                BadEntry(
                    why,
                    number,
                    batches.position(row),
                    self._culprit(batches, number, row) if why == c.PASSES_OVER else None,
                    batches.max_timestamp(row),
                )
            )
        last = batches.count - 1
        self.last_position = batches.position(last)
        if batches.flags & c.OFFSET_NOT_RISING:
            every = batches.last_offsets
            last = max(range(batches.count), key=every.__getitem__)
        if batches.last_offset(last) > self._highest:
            self._highest = batches.last_offset(last)
            self._highest_at = batches.position(last)

    def _culprit(self, batches: c.RecordBatches, number: int, row: int) -> int:
        """Where the batch starts that ends at an entry's offset or later, before its position."""
        assert self.offsets is not None
        offset = self.segment.base_offset + self.offsets.entry(number)[0]
        if self._highest >= offset:
            return self._highest_at
        for before in range(row):
            if batches.last_offset(before) >= offset:
                return batches.position(before)
        return -1

    @property
    def proved_offsets(self) -> int:
        """How many entries of the offset index lie within the log."""
        if not self.quick or self.offsets is None:
            return super().proved_offsets
        entry = self.offsets.entry
        numbers = range(len(self.offsets))
        return bisect_left(numbers, self.segment.end_position, key=lambda number: entry(number)[1])

    def log_is_short(self) -> bool:
        """Whether both indexes go on where the log has ended: then it is the log that lacks.

        Behind a truncation they do, too, in a file that is not trimmed.
        """
        offsets, times = self.offsets, self.times
        tail = offsets is not None and len(offsets) > self.proved_offsets
        if offsets is not None and self.segment.active and offsets.is_untrimmed:
            return False
        if times is None or not len(times) or times.odd_count:
            return False
        time_ms, relative = times.entry(len(times) - 1)
        if self.proved_times == len(times) or time_ms <= self.segment.max_timestamp_ms:
            return False
        if self.segment.active and times.is_untrimmed:
            return False
        return tail or offsets is None or relative + self.segment.base_offset > self._highest

"""Build the index entries that recovery writes for one segment (R2, R16).

Nothing is decompressed, but for the wrappers at which brokers before 2.0 write an entry: its offset
is that of the first message inside (F18).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.log_reader import RefusalError
from kdump.broker.versions import Version, has
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import MAX_INT64
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.index import OffsetIndex
from kdump.storage.layout import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import OFFSET_MAX
from kdump.storage.time_index import TimeIndex
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.producer_state import ProducerStates
    from kdump.broker.settings import Settings
    from kdump.kernels.columns import RecordBatches

_ABORTED_MOST = 1_000_000  # a segment of markers alone holds more, and no broker wrote such a one

# Of an index's state between two runs (kernels.index_entries).
_NEWEST, _NEWEST_OFFSET, _ENTRIES, _LAST_OFFSET = 1, 2, 3, 4
_TIME_ENTRIES, _LAST_TIME, _LAST_TIME_OFFSET, _AT_LAST_TIME = 5, 6, 7, 8


class InvalidOffsetError(RefusalError):
    """InvalidOffsetException: an index entry that would not rise; the segment is emptied."""


class IndexEntries:
    """The offset and time index of one segment, from the batches of its log in order.

    `start` is where the segment begins in its file: behind 0 only for a part of one that is split.
    """

    def __init__(
        self, base_offset: int, broker: Version, settings: Settings, *, start: int = 0
    ) -> None:
        self.base_offset = base_offset
        self.offsets = bytearray()
        self.times = bytearray()
        self._start = start
        self._interval = settings.index_interval_bytes
        self._first_offsets = not has(broker, v.LAST_OFFSETS_INDEXED)
        self._timed = has(broker, v.TIME_INDEX)
        # A time that none is above makes no time entry due.
        newest = -1 if self._timed else MAX_INT64
        self._state = array("q", (start, newest, -1, 0, 0, 0, newest, 0, 0))
        max_index_bytes = settings.index_size_max_bytes
        self._most = max_index_bytes // OFFSET_INDEX_ENTRY.size
        # One slot is kept for the last entry (I13).
        self._most_times = max_index_bytes // TIME_INDEX_ENTRY.size - 1

    def take(self, batches: RecordBatches, row: int = 0) -> tuple[int, int]:
        """Make the entries due from a row on: the first row not taken, and the kernel's reason.

        At a wrapper that is UNOPENED, put its base offset in, and go on with it.
        """
        offsets, times, row, reason = kernels.index_entries(
            batches, row, self.base_offset, self._interval, self._first_offsets, self._state
        )
        if self._state[_ENTRIES] <= self._most:  # else the broker refuses it anyway
            self.offsets += self._from_start(offsets)
            self.times += times
        return row, reason

    def _from_start(self, offsets: bytes) -> bytes:
        """Count the positions of entries from the segment's start."""
        if not self._start:
            return offsets
        entries = OFFSET_INDEX_ENTRY.iter_unpack(offsets)
        return b"".join(OFFSET_INDEX_ENTRY.pack(at, where - self._start) for at, where in entries)

    def mark(self) -> tuple[array[int], int, int]:
        """Give what `go_back` takes to forget what is taken from here on."""
        return self._state[:], len(self.offsets), len(self.times)

    def go_back(self, mark: tuple[array[int], int, int]) -> None:
        """Forget what was taken since a mark."""
        state, offsets, times = mark
        self._state = state[:]
        del self.offsets[offsets:], self.times[times:]

    def finish(self) -> bool:
        """Make the last time entry, due at the end of any segment (I16); False if it would fall."""
        state = self._state
        if state[_NEWEST] <= state[_LAST_TIME]:
            return True
        if state[_TIME_ENTRIES] and state[_NEWEST_OFFSET] < state[_LAST_TIME_OFFSET]:
            return False
        relative = (state[_NEWEST_OFFSET] - self.base_offset + (1 << 31)) % (1 << 32) - (1 << 31)
        self.times += TIME_INDEX_ENTRY.pack(state[_NEWEST], relative)
        return True

    def full(self) -> str | None:
        """Which index a broker could not have put all these entries in.

        An entry of the offset index asks for a free slot of the time index beside it even where it
        adds none (I5, I13).
        """
        entries, times = self._state[_ENTRIES], self._state[_TIME_ENTRIES]
        if entries > self._most:
            return "offset index"
        if (
            self._timed
            and entries
            and (
                times > self._most_times
                or (times == self._most_times and entries > self._state[_AT_LAST_TIME])
            )
        ):
            return "time index"
        return None

    def refusal(self, batches: RecordBatches, row: int) -> RefusalError:
        """What a broker raises at a batch whose entry would not rise (I19), the first reason first.

        It looks for a free slot of each index before it looks at the entry.
        """
        state = self._state
        if state[_ENTRIES] >= self._most:
            return full_index("offset index")
        entry = batches.base_offset(row) if self._first_offsets else batches.last_offset(row)
        if state[_ENTRIES] and entry <= state[_LAST_OFFSET]:
            return InvalidOffsetError(
                f"the index entry due at {batches.position(row) - self._start} would decrease "
                f"from offset {state[_LAST_OFFSET]} to {entry}"
            )
        if state[_TIME_ENTRIES] >= self._most_times:
            return full_index("time index")
        newest = batches.max_timestamp(row) > state[_NEWEST]
        return self.time_falls(batches.last_offset(row) if newest else state[_NEWEST_OFFSET])

    def time_falls(self, offset: int | None = None) -> InvalidOffsetError:
        """What a broker raises at a time entry that would fall; of the last one if unsaid."""
        at = self._state[_NEWEST_OFFSET] if offset is None else offset
        return InvalidOffsetError(
            f"the time index entry for offset {at} would be below the previous one, "
            f"{self._state[_LAST_TIME_OFFSET]}"
        )

    def offset_index(self) -> OffsetIndex:
        """The offset index so far, to be searched."""
        return OffsetIndex(bytes(self.offsets), self.base_offset)

    def time_index(self) -> TimeIndex:
        """The time index so far."""
        return TimeIndex(bytes(self.times), self.base_offset)


def full_index(name: str) -> RefusalError:
    """What a broker raises at an index without a free slot."""
    return RefusalError(f"IllegalArgumentException: the {name} is full")


class Rules(NamedTuple):
    """Whose recovery it is; `limit` bounds an entry's uncompressed bytes."""

    broker: Version
    settings: Settings
    limit: int = DEFAULT_LIMIT

    def writes_as(self, other: Rules) -> bool:
        """Whether two releases write the same indexes of any log that both take."""
        changes = (v.LAST_OFFSETS_INDEXED, v.TIME_INDEX, v.TRANSACTION_INDEX, v.RECORD_BATCHES)
        return all(has(self.broker, one) == has(other.broker, one) for one in changes)

    @property
    def has_time_index(self) -> bool:
        """Whether that broker has a time index."""
        return has(self.broker, v.TIME_INDEX)

    @property
    def has_transactions(self) -> bool:
        """Whether that broker has a transaction index."""
        return has(self.broker, v.TRANSACTION_INDEX)


class Stop(NamedTuple):
    """Where recovery ends before the log does. `what` is the start of a sentence.

    `outcome` is what a broker does then: "cut" the segment there, "empty" it, "split" it, or
    "fail" to start.
    """

    position: int
    offset: int
    what: str
    outcome: str
    gap: Gap | None = None


class IndexBuilder:
    """The entries of one segment, built from the runs of its log in order.

    `end_position` is where what was taken ends, `next_offset` the offset behind it. `aborted` is
    known only where `states` was given.
    """

    def __init__(self, base_offset: int, rules: Rules, states: ProducerStates | None) -> None:
        self.base_offset = base_offset
        self.rules = rules
        self.states = states
        self.index = IndexEntries(base_offset, rules.broker, rules.settings)
        self.aborted = bytearray()
        self.abort_markers = array("q")  # their offsets, rising
        self.end_position = 0
        self.next_offset = base_offset
        self.stop: Stop | None = None
        self.lost = 0  # sound batches behind the stop in the run it lies in
        short = ("short",) if has(rules.broker, v.SHORT_MARKERS_RAISE) else ()
        self._raised = ("type", *short)  # problems of markers that no recovery catches

    def take(self, item: Run | Oversize | Gap) -> bool:
        """Take what comes next; false at the first thing that recovery does not take."""
        if isinstance(item, Gap):
            self._gap(item)
            return False
        batches = item.batches
        usable = self._usable(batches)
        if self.states is not None:
            usable = self._replay(item, usable)
        row = self._index(item, usable)
        if row:
            self.end_position = batches.end_position(row - 1)
            self.next_offset = batches.last_offset(row - 1) + 1
        if self.stop is None:
            return True
        self.lost = batches.count - row
        return False

    def finish(self) -> None:
        """Write the last time index entry, as every orderly end of a segment does (I16)."""
        size = ABORTED_TRANSACTION.size
        while self.stop and self.aborted:  # the producers may have been replayed beyond the stop
            *_, marker, _ = ABORTED_TRANSACTION.unpack_from(self.aborted, len(self.aborted) - size)
            if marker < self.next_offset:
                break
            del self.aborted[-size:]
        if not self.index.finish():
            what = "offsets decrease before its end"
            self.stop = Stop(self.end_position, self.next_offset, what, "empty")

    def over_limit(self) -> str | None:
        """Say which index is too small in a broker of these settings, which then does not start."""
        if len(self.abort_markers) > _ABORTED_MOST:
            return f"more than {_ABORTED_MOST:,} transactions were aborted in the segment"
        if self.index.full() is None:
            return None
        most = self.rules.settings.index_size_max_bytes
        return f"does not fit in {most:,} bytes (segment.index.bytes): a broker cannot recover it"

    def _usable(self, batches: RecordBatches) -> int:
        """Count the rows up to the first whose magic the broker does not take."""
        if batches.flags & c.MAGIC_UNKNOWN and has(self.rules.broker, v.RECORD_BATCHES):
            for row in range(batches.count):
                if batches.is_mislabelled(row):
                    self._stop_before(batches, row, "a checksum mismatch", "cut")
                    return row
        return batches.count

    def _index(self, item: Run | Oversize, usable: int) -> int:
        """Make the entries of the first `usable` rows; return how many rows were taken."""
        batches = item.batches
        if usable < batches.count:
            batches = batches.slice(0, usable)
        row = 0
        while True:
            row, reason = self.index.take(batches, row)
            if reason == reasons.END:
                return row
            if reason == reasons.UNOPENED:
                first = first_inside(item, row, self.rules.limit)
                if first is not None:
                    batches.put(row, base_offset=first)
                    continue
                self._stop_before(batches, row, "the wrapper cannot be opened", "fail")
            elif reason == reasons.OFFSET_RANGE:
                last = batches.last_offset(row)
                what = f"offset {last} does not belong in the segment"
                below = last < self.base_offset
                self._stop_before(batches, row, what, "fail" if below else "split")
            else:
                self._stop_before(batches, row, "offsets decrease", "empty")
            return row

    def _replay(self, item: Run | Oversize, usable: int) -> int:
        """Replay the producers of the first rows; return how many are still usable."""
        assert self.states is not None
        batches = item.batches
        if not (self.states.open or batches.flags & (c.TRANSACTIONAL | c.CONTROL)):
            return usable  # no transaction begins or ends here, and that is all that is asked
        from kdump.broker.producer_events import MixedBatch, TransactionEnd, Unreadable

        stop = OFFSET_MAX if usable == batches.count else batches.base_offset(usable)
        for event in self.states.replay(item, 0, stop):
            if isinstance(event, TransactionEnd):
                if not event.committed and len(self.abort_markers) <= _ABORTED_MOST:
                    self.abort_markers.append(event.offset)
                if len(self.abort_markers) <= _ABORTED_MOST and (entry := event.aborted_entry()):
                    self.aborted += ABORTED_TRANSACTION.pack(*entry)
            elif isinstance(event, Unreadable) and event.problem not in self._raised:
                # A broker notices when the batch is in the index already, and cuts behind it.
                what = f"the control record of producer {event.producer_id} cannot be read"
                offset = batches.last_offset(event.row) + 1
                self.stop = Stop(batches.end_position(event.row), offset, what, "cut")
                return event.row + 1
            elif isinstance(event, (Unreadable, MixedBatch)):
                what = (
                    f"producer {event.producer_id} writes records that no transaction can contain"
                )
                if isinstance(event, Unreadable) and event.problem == "short":
                    what = f"the control record of producer {event.producer_id} is too short"
                self._stop_before(batches, event.row, what, "fail")
                return event.row
        return usable

    def _gap(self, gap: Gap) -> None:
        if gap.reason == "zeros":
            return  # preallocated and never written: recovery cuts it off, and nothing is lost
        what = {
            "crc-mismatch": "a checksum mismatch",
            "batch-too-small": "the batch is smaller than its header",
            "length-too-small": "the length is below that of the smallest message",
            "cut-short": "an incomplete batch",
            "short-tail": "an incomplete batch",
        }.get(gap.reason, "no batch can be read")
        self.stop = Stop(gap.position, self.next_offset, what, "cut", gap)

    def _stop_before(self, batches: RecordBatches, row: int, what: str, outcome: str) -> None:
        position = batches.position(row)
        offset = self.next_offset if not row else batches.last_offset(row - 1) + 1
        self.stop = Stop(position, offset, what, outcome)


def first_inside(item: Run | Oversize, row: int, limit: int) -> int | None:
    """Open a wrapper for the offset of its first message (F13, F14, F18); None where it cannot be.

    What is inside that message does not matter: 0.9 stored wrappers in wrappers, and took their
    offsets as they stand.
    """
    from kdump.record.wrapper import open_wrapper

    if isinstance(item, Oversize):
        return None
    wrapper = open_wrapper(item.data, item.base, item.batches, row, limit)
    first = None if wrapper.reason else next(wrapper.messages(), None)
    return None if first is None else first[0]

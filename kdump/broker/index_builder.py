"""Build the index entries that recovery writes for one segment (R2, R16).

One walk from the segment's start to the first batch that a broker does not take. Nothing is
decompressed, but for the wrappers at which brokers before 2.0 write an entry: its offset is that
of the first message inside (F18).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from kdump import kernels
from kdump.broker.producer_state import Ended, Mixed, Unreadable
from kdump.broker.versions import (
    LAST_OFFSETS_INDEXED,
    RECORD_BATCHES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Version,
    has,
)
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import CODEC_MASK
from kdump.record.legacy import value_range
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.layout import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.broker.producer_state import ProducerStates
    from kdump.kernels.columns import RecordBatches

_ABORTED_MOST = 1_000_000  # a segment of markers alone holds more, and no broker wrote such a one

# Of an index's state between two runs (kernels.index_entries).
_NEWEST, _NEWEST_OFFSET, _ENTRIES = 1, 2, 3
_TIME_ENTRIES, _LAST_TIME, _LAST_TIME_OFFSET, _AT_LAST_TIME = 5, 6, 7, 8
_START = (0, -1, -1, 0, 0, 0, -1, 0, 0)


class Rules(NamedTuple):
    """Whose recovery it is, and its settings; sizes in bytes."""

    broker: Version
    interval_bytes: int = 4096
    max_index_bytes: int = 10_485_760
    limit: int = DEFAULT_LIMIT

    @property
    def has_time_index(self) -> bool:
        """Whether that broker has a time index."""
        return has(self.broker, TIME_INDEX)

    @property
    def has_transactions(self) -> bool:
        """Whether that broker has a transaction index."""
        return has(self.broker, TRANSACTION_INDEX)


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
        self.offsets = bytearray()
        self.times = bytearray()
        self.aborted = bytearray()
        self.abort_markers = array("q")  # their offsets, rising
        self.end_position = 0
        self.next_offset = base_offset
        self.batches = 0
        self.stop: Stop | None = None
        self.lost = 0  # sound batches behind the stop in the run it lies in
        self._state = array("q", _START)
        self._entries_most = rules.max_index_bytes // OFFSET_INDEX_ENTRY.size
        self._first_offsets = not has(rules.broker, LAST_OFFSETS_INDEXED)

    @property
    def newest_ms(self) -> int:
        """The highest timestamp taken, -1 for none."""
        return self._state[_NEWEST]

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
            last = row - 1
            self.batches += row
            self.end_position = batches.position(last) + batches.size_bytes(last)
            self.next_offset = batches.last_offset(last) + 1
        if self.stop is None:
            return True
        self.lost = batches.count - row
        return False

    def finish(self) -> None:
        """Write the last time index entry, as every orderly end of a segment does (I16)."""
        state = self._state
        size = ABORTED_TRANSACTION.size
        while self.stop and self.aborted:  # the producers may have been replayed beyond the stop
            *_, marker, _ = ABORTED_TRANSACTION.unpack_from(self.aborted, len(self.aborted) - size)
            if marker < self.next_offset:
                break
            del self.aborted[-size:]
        if state[_NEWEST] <= state[_LAST_TIME]:
            return
        if state[_TIME_ENTRIES] and state[_NEWEST_OFFSET] < state[_LAST_TIME_OFFSET]:
            self._stop_at(self.end_position, "offsets go back before its end", "empty")
            return
        relative = (state[_NEWEST_OFFSET] - self.base_offset + (1 << 31)) % (1 << 32) - (1 << 31)
        self.times += TIME_INDEX_ENTRY.pack(state[_NEWEST], relative)

    def over_limit(self) -> str | None:
        """Say which index is too small in a broker of these settings, which then does not start.

        One slot of the time index is kept for the last entry, and an entry of the offset index asks
        for a free one beside it even where it adds none (I5, I13).
        """
        most = self.rules.max_index_bytes
        entries, time_entries = self._state[_ENTRIES], self._state[_TIME_ENTRIES]
        slots = most // OFFSET_INDEX_ENTRY.size
        full = entries > slots
        if self.rules.has_time_index:
            usable = most // TIME_INDEX_ENTRY.size - 1
            full |= time_entries > usable
            full |= time_entries == usable and entries > self._state[_AT_LAST_TIME]
        if len(self.abort_markers) > _ABORTED_MOST:
            return f"more than {_ABORTED_MOST:,} transactions were aborted in the segment"
        if not full:
            return None
        return f"does not fit in {most:,} bytes (segment.index.bytes): a broker cannot recover it"

    def _usable(self, batches: RecordBatches) -> int:
        """Count the rows up to the first whose magic the broker does not take."""
        if batches.flags & c.MAGIC_UNKNOWN and has(self.rules.broker, RECORD_BATCHES):
            for row in range(batches.count):
                if batches.is_mislabelled(row):
                    self._stop_before(batches, row, "the batch fails its checksum", "cut")
                    return row
        return batches.count

    def _index(self, item: Run | Oversize, usable: int) -> int:
        """Make the entries of the first `usable` rows; return how many rows were taken."""
        batches = item.batches
        if usable < batches.count:
            batches = batches.slice(0, usable)
        row = 0
        while True:
            offsets, times, row, reason = kernels.index_entries(
                batches, row, self.base_offset, self.rules.interval_bytes, self._first_offsets,
                self._state,
            )  # fmt: skip
            if self._state[_ENTRIES] <= self._entries_most:  # else it is refused anyway
                self.offsets += offsets
                self.times += times
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
                what = f"offset {last} does not belong into the segment"
                below = last < self.base_offset
                self._stop_before(batches, row, what, "fail" if below else "split")
            else:
                self._stop_before(batches, row, "offsets go back", "empty")
            return row

    def _replay(self, item: Run | Oversize, usable: int) -> int:
        """Replay the producers of the first rows; return how many are still usable."""
        assert self.states is not None
        batches = item.batches
        if not (self.states.open or batches.flags & (c.TRANSACTIONAL | c.CONTROL)):
            return usable  # no transaction begins or ends here, and that is all that is asked
        stop = OFFSET_MAX if usable == batches.count else batches.base_offset(usable)
        for event in self.states.replay(item, 0, stop):
            if isinstance(event, Ended):
                if not event.committed and len(self.abort_markers) <= _ABORTED_MOST:
                    self.abort_markers.append(event.offset)
                if len(self.abort_markers) <= _ABORTED_MOST and (entry := event.aborted()):
                    self.aborted += ABORTED_TRANSACTION.pack(*entry)
            elif isinstance(event, Unreadable) and event.problem != "type":
                # A broker notices when the batch is in the index already, and cuts behind it.
                what = f"the control record of producer {event.producer_id} cannot be read"
                behind = event.row + 1
                position = batches.position(event.row)
                position += batches.size_bytes(event.row)
                offset = batches.last_offset(event.row) + 1
                self.stop = Stop(position, offset, what, "cut")
                return behind
            elif isinstance(event, (Unreadable, Mixed)):
                what = f"producer {event.producer_id} writes what no transaction may hold"
                self._stop_before(batches, event.row, what, "fail")
                return event.row
        return usable

    def _gap(self, gap: Gap) -> None:
        if gap.reason == "zeros":
            return  # preallocated and never written: recovery cuts it off, and nothing is lost
        what = {
            "crc-mismatch": "the batch fails its checksum",
            "batch-too-small": "the batch is too small to be one",
            "length-too-small": "the length field is below the smallest message",
            "cut-short": "the batch is not there to its end",
            "short-tail": "the batch is not there to its end",
        }.get(gap.reason, "no batch can be read")
        self.stop = Stop(gap.position, self.next_offset, what, "cut", gap)

    def _stop_before(self, batches: RecordBatches, row: int, what: str, outcome: str) -> None:
        position = batches.position(row)
        offset = self.next_offset if not row else batches.last_offset(row - 1) + 1
        self.stop = Stop(position, offset, what, outcome)

    def _stop_at(self, position: int, what: str, outcome: str) -> None:
        self.stop = Stop(position, self.next_offset, what, outcome)


def first_inside(item: Run | Oversize, row: int, limit: int) -> int | None:
    """Open a wrapper for the offset of its first message (F13, F14, F18); None where it cannot be.

    What is inside that message does not matter: 0.9 stored wrappers in wrappers, and took their
    offsets as they stand.
    """
    if isinstance(item, Oversize):
        return None
    from kdump.record import compression

    batches = item.batches
    start = batches.position(row) - item.base
    layout = batches.layout(row)
    wrong = batches.format(row).lz4_header_wrong
    codec = batches.attributes(row) & CODEC_MASK
    with memoryview(item.data) as view:
        first, end, reason = value_range(view, start, start + batches.size_bytes(row), layout)
        if reason:
            return None
        with view[first:end] as packed:
            plain = compression.decompress(codec, packed, limit, broken_lz4_header=wrong)
    if plain.data is None or plain.reason:
        return None
    wrapper_offset = batches.last_offset(row)
    data = plain.data
    base, _, count, reason = kernels.inner_base(data, 0, len(data), wrapper_offset, layout)
    if not count or reason == reasons.INNER_SIZE:
        return None
    return base + int.from_bytes(data[:8], "big", signed=True)


def lost_behind(rest: Iterable[Run | Oversize | Gap]) -> tuple[int, int]:
    """Count the sound batches behind a stop, and give the offset of the last (-1: none)."""
    count, last = 0, -1
    for item in rest:
        if not isinstance(item, Gap):
            count += item.batches.count
            last = item.batches.last_offset(item.batches.count - 1)
    return count, last

"""Check the transaction index against the ABORT markers of its segment (I21 to I24).

Entries and markers both rise by offset, so that the two are merged as the log is read, and no list
grows with the file. What a broker may lawfully have written otherwise than a replay of the log
does is left alone: compaction removes batches that an entry speaks of (I24), a replay that began
at the log start knows less (R8), and a follower appends many batches at once, so that a later
transaction may stand in an entry's last stable offset.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Unpack

from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import About, Finding, and_more
from kdump.findings.ranges import records_text
from kdump.storage import names, places
from kdump.storage.layout import ABORTED_TRANSACTION
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.transaction_index import AbortedTransaction, TransactionIndex
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.producer_events import TransactionEnd
    from kdump.broker.producer_state import ProducerStates
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan

_WINDOW = 64  # entries looked ahead for a marker's: so many in a row may be wrong
_KEPT = 1000  # of each kind of mismatch in one segment; the rest is counted
_SIZE = ABORTED_TRANSACTION.size


class _Slot(NamedTuple):
    slot: int
    entry: AbortedTransaction


class TransactionIndexCheck:
    """Holds one segment's index after the other against what the replay of the log says.

    `known_from`: transactions that began below it may be unknown to the replay. `log_start`: what
    lies below it no reader sees; `doubt` are words on how sure it is.
    """

    def __init__(
        self, partition: PartitionScan, states: ProducerStates, log_start: int, doubt: str
    ) -> None:
        self._doubt = doubt
        self._partition = partition
        self._states = states
        self._log_start = log_start
        self.known_from = 0
        self._segment: SegmentScan | None = None  # the one in hand
        self._path: str | None = None
        self._index: TransactionIndex | None = None
        self._source: Source | None = None

    def begin(self, segment: SegmentScan) -> None:
        """Open the index before the log is read: a broker writes an entry behind its marker."""
        self.close()
        self._segment = segment
        self._index = None
        self._unread = False
        self._slots: Iterator[_Slot] = iter(())
        self._waiting: deque[_Slot] = deque()
        self._odd: list[_Slot] = []  # entries that name no marker of the log
        self._named: deque[int] = deque(maxlen=_WINDOW)  # markers that an entry was found for
        self._missing: list[TransactionEnd] = []  # markers that no entry names
        self._unmatched = 0  # more of these
        self._later: list[tuple[_Slot, TransactionEnd]] = []  # their stable offset is yet to be met
        self._wrong: list[Conditional] = []
        self._unknown: list[RestsOn] = []
        self._path = segment.segment.files.get(Kind.TRANSACTION_INDEX)
        if self._path is None:
            return
        try:
            self._source = Source(self._path)
        except PathError as error:
            self._path = None
            self._note_unread(error)
            return
        self._index = TransactionIndex(self._source, segment.base_offset)
        self._slots = self._read_slots(self._index)

    def _read_slots(self, index: TransactionIndex) -> Iterator[_Slot]:
        try:
            yield from map(_Slot._make, index.slots())
        except PathError as error:
            self._note_unread(error)

    def _note_unread(self, error: PathError) -> None:
        """Keep the error: what an index that cannot be read names is not missing from it."""
        self._index = None
        self._unread = not self._partition.note_unread(error)

    def close(self) -> None:
        """Give the file back."""
        self._segment = None
        if self._source is not None:
            self._source.close()
            self._source = None

    def note_unknown(self, segment: SegmentScan, position: int, end_position: int) -> None:
        """Note that batches there have offsets that cannot be theirs: markers may be among them."""
        if len(self._unknown) < _KEPT:
            self._unknown.append(RestsOn(segment.base_offset, position, end_position))

    def end_unknown(self, offset: int) -> None:
        """Go on behind something that is unknown: what opened before this offset may be open."""
        self.known_from = max(self.known_from, offset)

    def note_open(self, first_offset: int) -> None:
        """A transaction opens: the stable offset of an entry before may name it."""
        if self._later:
            self._later = [
                pair for pair in self._later if pair[0].entry.last_stable_offset != first_offset
            ]

    def note_abort(self, segment: SegmentScan, ended: TransactionEnd) -> None:
        """An ABORT marker: find its entry, and compare."""
        found = self._take(ended.offset)
        if found is not None:
            self._compare(segment, found, ended)
        elif self._needs_entry(ended):
            if len(self._missing) < _KEPT:
                self._missing.append(ended)
            else:
                self._unmatched += 1

    def _needs_entry(self, ended: TransactionEnd) -> bool:
        """Whether readers see records of the transaction."""
        return (
            ended.first_offset >= 0
            and ended.records_count > 0
            and ended.last_data_offset >= self._log_start
        )

    def _take(self, marker_offset: int) -> _Slot | None:
        """Take the entry of a marker out of the window; those it passes by name no marker."""
        waiting = self._waiting
        while len(waiting) < _WINDOW and (following := next(self._slots, None)) is not None:
            waiting.append(following)
        for number, one in enumerate(waiting):
            if one.entry.last_offset == marker_offset:
                for _ in range(number):
                    self._put_aside(waiting.popleft())
                self._named.append(marker_offset)
                return waiting.popleft()
        while waiting and waiting[0].entry.last_offset < marker_offset:
            self._put_aside(waiting.popleft())
        return None

    def _put_aside(self, slot: _Slot) -> None:
        # One that repeats another is out of order, which the file's own problems report.
        if len(self._odd) < _KEPT and slot.entry.last_offset not in self._named:
            self._odd.append(slot)

    def _compare(self, segment: SegmentScan, slot: _Slot, ended: TransactionEnd) -> None:
        entry = slot.entry
        if entry.producer_id != ended.producer_id:
            message = (
                f"Entry {slot.slot} names producer {entry.producer_id}, but the ABORT marker that "
                f"it refers to, at offset {ended.offset:,}, is from producer {ended.producer_id}."
            )
            self._add(
                "transaction-index-marker", segment, slot, ended, ended.offset,
                expected=ended.producer_id, actual=entry.producer_id, message=message,
            )  # fmt: skip
        elif self._first_is_wrong(entry.first_offset, ended):
            expected = ended.first_offset if ended.first_offset >= 0 else None
            begins = "has no batch" if expected is None else f"begins at offset {expected:,}"
            message = (
                f"According to entry {slot.slot}, the transaction that producer "
                f"{entry.producer_id} aborted at offset {ended.offset:,} begins at offset "
                f"{entry.first_offset:,}; in the log, it {begins}."
            )
            self._add(
                "transaction-index-first-offset", segment, slot, ended, ended.first_offset,
                expected=expected, actual=entry.first_offset, message=message,
            )  # fmt: skip
        elif self._stable_is_wrong(entry.last_stable_offset, ended):
            if entry.last_stable_offset <= ended.offset + 1 or ended.others:
                self._add_stable(segment, slot, ended)
            elif len(self._later) < _KEPT:
                self._later.append((slot, ended))

    def _first_is_wrong(self, first: int, ended: TransactionEnd) -> bool:
        if not max(ended.previous_marker, -1) < first <= ended.offset:
            return True
        began = ended.first_offset
        if began < 0:  # none of its batches is there: a hole may have held them
            return ended.joined_from <= first
        if first < began:
            return ended.joined_from_then <= first
        if first > began:
            return began >= self._log_start and ended.joined_from == ended.joined_from_then
        return False

    def _stable_is_wrong(self, stable: int, ended: TransactionEnd) -> bool:
        expected = ended.last_stable_offset
        if stable == expected:
            return False
        if stable < 0:
            return True
        if stable < expected:
            return stable >= self.known_from and ended.joined_from <= stable
        if not ended.others:
            return True
        # A replay from the log start on knows less of what began below it.
        return ended.joined_from <= expected >= self._log_start

    def _add_stable(self, segment: SegmentScan, slot: _Slot, ended: TransactionEnd) -> None:
        expected, actual = ended.last_stable_offset, slot.entry.last_stable_offset
        message = (
            f"Entry {slot.slot} (producer {ended.producer_id}, aborted at offset {ended.offset:,}) "
            f"gives {actual:,} as the last stable offset; according to the log, it is {expected:,}."
        )
        self._add(
            "transaction-index-stable-offset", segment, slot, ended, expected,
            expected=expected, actual=actual, message=message,
        )  # fmt: skip

    def _add(
        self,
        code: str,
        segment: SegmentScan,
        slot: _Slot,
        ended: TransactionEnd,
        rests_on: int,
        **about: Unpack[About],
    ) -> None:
        """Note a wrong entry, which rests on the log from `rests_on` to the marker."""
        if len(self._wrong) >= _KEPT:
            return
        about["offset"], about["message"] = ended.offset, f"{about['message']}{self._doubt}"
        reported = self._finding(code, segment, slot.slot, **about)
        low = ended.offset if rests_on < 0 else min(rests_on, ended.offset)
        touches = RestsOn(segment.base_offset, ended.position, None, low, ended.offset + 1)
        self._wrong.append(Conditional(reported, touches))

    def finish(self, segment: SegmentScan) -> Iterator[Finding | Conditional]:
        """Say what is wrong with the segment's index."""
        if not segment.complete or self._states.overflowed:
            yield from self.leave(segment)
            return
        reports = list(self._compare_all(segment))
        if reports and not _was_replaced(segment):  # by a compaction, and the index with it
            yield from reports
        self.close()

    def _compare_all(self, segment: SegmentScan) -> Iterator[Finding | Conditional]:
        """Say what is wrong where the whole segment was read."""
        for slot in chain(self._waiting, self._slots):
            self._put_aside(slot)
        if self._unread:
            return
        if self._source is not None and self._source.unreadable:
            yield from self._unreadable(segment, self._source.unreadable)
            return
        self._leave_out_written(segment)
        for slot, ended in self._later:
            if ended.offset >= self._states.joined_from:
                self._add_stable(segment, slot, ended)
        yield from self._problems(segment)
        yield from self._wrong
        yield from self._no_markers(segment)
        yield from self._find_unnamed(segment)

    def _unreadable(self, segment: SegmentScan, ranges: list[tuple[int, int]]) -> Iterator[Finding]:
        """Name what the device does not give back: zeros in its place say nothing."""
        for start, end in ranges:
            yield self._finding("unreadable", segment, None, position=start, size_bytes=end - start)

    def leave(self, segment: SegmentScan) -> Iterator[Finding]:
        """Say what is wrong with the file itself: its segment was not read to the end."""
        if self._segment is segment and places.lexists(segment.path):
            self._odd, self._missing = [], []
            yield from self._problems(segment)
        self.close()

    def _leave_out_written(self, segment: SegmentScan) -> None:
        """Leave out markers whose entries were written since the index was opened, or stand out
        of order, which the file's own problems report.
        """
        if not self._missing:
            return
        wanted = {ended.offset for ended in self._missing}
        try:
            with Source(self._path_of(segment)) as source:
                slots = TransactionIndex(source, segment.base_offset).slots()
                offsets = (entry.last_offset for _, entry in slots)
                written = {offset for offset in offsets if offset in wanted}
        except PathError:
            return
        self._odd = [slot for slot in self._odd if slot.entry.last_offset not in written]
        self._missing = [ended for ended in self._missing if ended.offset not in written]

    def _problems(self, segment: SegmentScan) -> Iterator[Finding]:
        """What the file's own bytes say; an entry that is lost with them is no finding besides."""
        if self._index is None:
            return
        odd = {slot.slot for slot in self._odd}
        try:
            problems = self._index.problems()
        except PathError as error:
            self._note_unread(error)
            return
        for problem in problems:
            slot = (problem.position or 0) // _SIZE
            if problem.code == "transaction-index-order" and odd & {slot, slot - 1}:
                continue
            consequences: tuple[str, ...] = ()
            if problem.code == "transaction-index-size" and self._missing:
                consequences = (f"transaction-index-missing@{self._missing.pop().offset}",)
            reported = self._finding(
                problem.code,
                segment,
                slot,
                size_bytes=problem.size_bytes,
                expected=problem.expected,
                actual=problem.actual,
                consequences=consequences,
            )
            yield and_more(reported, problem.places - 1)

    def _no_markers(self, segment: SegmentScan) -> Iterator[Conditional]:
        """Entries that name no ABORT marker, each held against one that no entry names."""
        for slot, entry in self._odd:
            message = (
                f"According to entry {slot}, producer {entry.producer_id}'s transaction was "
                f"aborted at offset {entry.last_offset:,}, but there is no ABORT marker."
            )
            if entry.last_offset < segment.base_offset:
                message += " Brokers recover the segment at their next start."
            meant = self._take_intended(entry)
            reported = self._finding(
                "transaction-index-marker",
                segment,
                slot,
                offset=entry.last_offset,
                expected=None if meant is None else meant.offset,
                actual=entry.last_offset,
                message=message,
            )
            offset = entry.last_offset
            touches = RestsOn(segment.base_offset, None, None, offset, offset + 1)
            if meant is not None:
                touches = touches._replace(position=meant.position)
            elif self._unknown:
                # The marker it names may be one of these.
                position, end = self._unknown[0].position, self._unknown[-1].end_position
                touches = touches._replace(position=position, end_position=end)
            yield Conditional(reported, touches)

    def _take_intended(self, entry: AbortedTransaction) -> TransactionEnd | None:
        """Find, and take, the marker without an entry that a wrong entry was written for."""
        for number, ended in enumerate(self._missing):
            same = (entry.producer_id, entry.first_offset)
            if (ended.producer_id, ended.first_offset) == same:
                return self._missing.pop(number)
        return None

    def _find_unnamed(self, segment: SegmentScan) -> Iterator[Finding]:
        """Aborted transactions whose records consumers receive, since no entry names them."""
        count = len(self._missing) + self._unmatched
        if not count:
            return
        what = "transactions" if count > 1 else "transaction"
        message = f"The index lacks {count:,} aborted {what}."
        if self._missing:
            records = sum(ended.records_count for ended in self._missing)
            first = min(ended.first_offset for ended in self._missing)
            last = max(ended.last_data_offset for ended in self._missing)
            message = (
                f"The index lacks {count:,} aborted {what}, with {records_text(records)} between "
                f"offsets {first:,} and {last:,}."
            )
        yield self._finding(
            "transaction-index-missing",
            segment,
            None,
            offset=self._missing[0].offset if self._missing else None,
            expected=f"{count} entries",
            actual="none",
            message=message + self._doubt,
        )

    def _path_of(self, segment: SegmentScan) -> str:
        """The path of the segment's index, be it there or not."""
        name = names.file_name(Kind.TRANSACTION_INDEX, segment.base_offset)
        return self._path or os.path.join(os.path.dirname(segment.path), name)

    def _finding(
        self, code: str, segment: SegmentScan, slot: int | None, **about: Unpack[About]
    ) -> Finding:
        if slot is not None:
            about["position"] = slot * _SIZE
            about.setdefault("size_bytes", _SIZE)
        return at_place(code, segment.place, path=self._path_of(segment), **about)


def _was_replaced(segment: SegmentScan) -> bool:
    """Whether the log under this name is another file now than the one that was read."""
    if segment.source is None:
        return True
    try:
        now = places.stat(segment.path)
    except OSError:
        return True
    then = segment.source.status()
    return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino)

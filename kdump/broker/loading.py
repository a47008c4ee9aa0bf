"""Load one partition as a broker does at its start, without writing anything.

The order is the broker's (R5, R6): leftovers and swaps, each segment's files, recovery above the
recovery point unless the stop was clean, the log end, the producers. What changed between versions
is asked of the version where it matters.

A broker is up only when all is loaded; `LogLoader` goes as far as one lookup needs. What a lookup
asks is what became of one segment: whether those before it were cut, and whether its own indexes
were rebuilt. So a segment is recovered here when it is asked for, after those before it that a
start would recover first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.log_reader import Entries, RefusalError, UnknowableError
from kdump.broker.partition_files import Files
from kdump.broker.segment import OffsetOverflowError, Segment
from kdump.broker.versions import Version, has
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind
from kdump.storage.offsets import RELATIVE_MAX
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from kdump.broker.index_builder import IndexEntries
    from kdump.broker.recovered_producers import Producers
    from kdump.broker.settings import Settings
    from kdump.broker.shutdown_state import Stop
    from kdump.storage.local_log import LocalLog


_PARTS = 10_000  # of offsets that jump at every batch; no broker wrote them


def split(segment: Segment) -> list[Segment]:
    """Split a segment that holds an offset too large for it (R15); its batches are not checked."""
    if not segment.has_overflow():
        raise RefusalError(
            "IllegalArgumentException: Split operation is only permitted for segments with "
            f"overflow, and the problem path is {segment.path}"
        )
    pieces: list[Segment] = []
    build = segment.index_entries()
    with segment.entries() as entries:
        for rows in entries.as_is(segment.start):
            first = 0
            for row in range(rows.count):
                last = rows.last_offset(row)
                if not pieces or not 0 <= last - pieces[-1].base_offset <= RELATIVE_MAX:
                    if pieces:
                        _take(build, rows, first, row)
                        _finish(pieces[-1], build, rows.position(row))
                    if len(pieces) >= _PARTS:
                        raise UnknowableError(
                            f"a segment that splits into more than {_PARTS} parts"
                        )
                    pieces.append(_piece(segment, entries, rows, row))
                    build, first = pieces[-1].index_entries(), row
            _take(build, rows, first, rows.count)
        if not pieces or entries.stop != segment.end:
            raise RefusalError("NoSuchElementException: a tail that is no batch cannot be split")
        _finish(pieces[-1], build, segment.end)
    if len({piece.base_offset for piece in pieces}) < len(pieces):
        raise RefusalError("NoSuchFileException: two parts of a split segment have the same name")
    return pieces


def _piece(segment: Segment, entries: Entries, rows: RecordBatches, row: int) -> Segment:
    base = entries.first_offset(rows, row)
    if not 0 <= rows.last_offset(row) - base <= RELATIVE_MAX:
        raise RefusalError(f"IllegalStateException: the batch at offset {base} fits no segment")
    part = (rows.position(row), segment.end)
    files = {Kind.LOG: segment.path}
    return Segment(base, files, segment.broker, segment.settings, limit=segment.limit, part=part)


def _take(build: IndexEntries, rows: RecordBatches, first: int, stop: int) -> None:
    from kdump.broker.index_builder import full_index

    row, reason = build.take(rows.slice(first, stop))
    if (full := build.full()) is not None:
        raise full_index(full)
    if reason != reasons.END:
        raise build.refusal(rows, first + row)


def _finish(piece: Segment, build: IndexEntries, end: int) -> None:
    piece.put_built(build)
    piece.extent = piece.start, end


class LogLoader:
    """One partition while it is loaded; afterwards its attributes say what became of it."""

    def __init__(
        self,
        log: LocalLog,
        broker: Version,
        settings: Settings,
        stop: Stop,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.broker = broker
        self.stop = stop
        self.files = Files(log, broker, settings, limit)
        self.segments: dict[int, Segment] = {}
        self.hidden: dict[int, Segment] = {}  # files of a split that are not served until restart
        self.recovered: list[int] = []  # base offsets, in the order of recovery
        self.rebuilt: list[tuple[int, str]] = []  # recovered while loading: base offset, reason
        self.cut: Segment | None = None
        self.at_load: list[Segment] = []  # cut while loading, with no other consequence
        self.deleted: list[Segment] = []
        self.above_log_start = True
        self.split: list[int] = []  # bases of segments whose offsets were too far apart
        self.replayed: list[int] = []
        self.log_end = 0

    def run(self) -> None:
        """Go through all steps; raises RefusalError where the broker would not start."""
        self._retry(self._load)
        self._complete_swaps()
        if self.stop.recovers:
            self._retry(self._recover_log)
        if self.stop.recovers and has(self.broker, v.LOG_START_KEPT):
            self._apply_log_start()
        if not self.segments:
            self._new_segment()
        active = self.segments[max(self.segments)]
        if self.stop.recovers:
            self.log_end = active.read_next_offset()
        if has(self.broker, v.BROKEN_INDEX_STOPS):
            self._old_sanity(active)
        if has(self.broker, v.PRODUCER_STATE):
            self._replay(self.log_end)

    @property
    def bytes_read(self) -> int:
        """Bytes of log that the start would read, headers and replays included."""
        every = {id(segment): segment for segment in (*self.segments.values(), *self.deleted)}
        return sum(segment.bytes_read for segment in every.values())

    def _retry(self, step: Callable[[], None]) -> None:
        """Run a step; a segment with offsets too large for it is split, and the step run again."""
        while True:
            try:
                step()
            except OffsetOverflowError:
                self._split(self._at, recovering=step == self._recover_log)
            else:
                return

    def _split(self, segment: Segment, *, recovering: bool) -> None:
        """Put parts in the place of a segment; a later part of its own base may be lost with it.

        `LocalLog.replaceSegments` takes the old segment out by its base offset, unless that is the
        lowest of the new ones, after these were put in. While the log is being loaded that does
        not matter: it is listed anew.
        """
        self.split.append(segment.base_offset)
        if segment.is_part:
            raise RefusalError("a segment that was split would be split again, endlessly")
        pieces = split(segment)
        base, made = segment.base_offset, {piece.base_offset: piece for piece in pieces}
        self.files.by_base.pop(base, None)
        self.files.pieces.pop(base, None)
        self.files.pieces |= made
        self.segments |= made
        if base not in made:
            self.files.snapshots.forget([base])
            self.segments.pop(base, None)
        elif recovering and base != min(made):
            self.hidden[base] = self.segments.pop(base)

    # Loading -------------------------------------------------------------------------------------

    def _load(self) -> None:
        self.segments.clear()
        for base in self.files.bases():
            segment = self.files.open(base)
            segment.refuse_oversize()
            self._mend(segment)
            self.segments[base] = segment

    def _mend(self, segment: Segment) -> None:
        """Recover a segment whose indexes cannot be used (R6.4)."""
        base = segment.base_offset
        if base not in self.files.pieces and (reason := self._unusable(segment)):
            self.rebuilt.append((base, reason))
            if self._recover(segment) > 0:
                self.at_load.append(segment)

    def _unusable(self, segment: Segment) -> str | None:
        """Why a segment is recovered as soon as it is loaded; None where it is not (R6.4)."""
        base, files = segment.base_offset, self.files.by_base[segment.base_offset]
        if Kind.OFFSET_INDEX not in files:
            if not has(self.broker, v.MISSING_INDEX_REBUILT):
                raise RefusalError("IllegalStateException: a log without its offset index")
            if has(self.broker, v.EMPTY_INDEX_MADE_FIRST):
                return None
            return "the offset index is missing"
        if has(self.broker, v.BROKEN_INDEX_REBUILT):
            with Source(files[Kind.OFFSET_INDEX]) as source:
                index = OffsetIndex(source, base, slotwise=True)
                may_end_at_base = has(self.broker, v.INDEX_MAY_END_AT_BASE)
                broken = index.sanity(may_end_at_base=may_end_at_base)
            if broken is None and has(self.broker, v.TIME_INDEX) and Kind.TIME_INDEX in files:
                with Source(files[Kind.TIME_INDEX]) as source:
                    broken = TimeIndex(source, base, slotwise=True).sanity()
            if broken is not None:
                return broken
        if has(self.broker, v.TRANSACTION_INDEX) and Kind.TRANSACTION_INDEX in files:
            return _transaction_index(base, files[Kind.TRANSACTION_INDEX], self.broker)
        return None

    def _recover(self, segment: Segment) -> int:
        """Recover one segment with the producers' state before it."""
        from kdump.broker.recovered_producers import Producers

        self._at = segment
        if not has(self.broker, v.PRODUCER_STATE):
            return segment.recover(None)
        producers = Producers(self.files.snapshots)
        self._rebuild(producers, self.stop.log_start, segment.base_offset, clean=False)
        cut = segment.recover(producers)
        producers.take_snapshot()
        return cut

    def _complete_swaps(self) -> None:
        """Put in what was left as .swap, until 2.8 after the others are loaded (R6)."""
        for base, path in self.files.swaps.items():
            swap = self.files.segment(base, {Kind.LOG: path})
            self._recover(swap)
            end = swap.read_next_offset()
            old = self._values(base, end)
            if has(self.broker, v.SWAP_REPLACES_WHAT_OVERLAPS):
                old = [segment for segment in old if segment.read_next_offset() > base]
            for segment in old:
                del self.segments[segment.base_offset]
                if segment.base_offset < base:
                    self.deleted.append(segment)
                else:
                    self.files.replaced.append(segment.base_offset)
            self.segments[base] = swap

    def _values(self, low: int, high: int) -> list[Segment]:
        """The segments from the one that holds `low` up to, not including, `high`."""
        bases = sorted(self.segments)
        floor = max((base for base in bases if base <= low), default=low)
        if low == high and has(self.broker, v.EMPTY_RANGE_OF_SEGMENTS):
            return []
        return [self.segments[base] for base in bases if floor <= base < high]

    # Recovery ------------------------------------------------------------------------------------

    def _recover_log(self) -> None:
        if self.stop.clean:
            return
        self.recovered.clear()
        unflushed = self._segments_to_recover()
        for number, segment in enumerate(unflushed):
            if self._recover_unflushed(segment, unflushed[number + 1 :]):
                return

    def _segments_to_recover(self) -> list[Segment]:
        """What is recovered after an unclean stop: all from the recovery point's segment on."""
        return self._values(self.stop.recovery_point, 1 << 63)

    def _recover_unflushed(self, segment: Segment, behind: list[Segment]) -> bool:
        """Recover one of those; whether it is cut, which deletes all behind it (R5)."""
        from kdump.broker.index_builder import InvalidOffsetError

        self.recovered.append(segment.base_offset)
        try:
            cut = self._recover(segment)
        except InvalidOffsetError as error:
            segment.why_cut = str(error)
            cut = segment.truncate_to_base()
        if cut > 0:
            self.cut = segment
            segment.read_next_offset()  # logged, and may fail
            self._delete(behind)
        return cut > 0

    def _delete(self, segments: list[Segment]) -> None:
        for segment in segments:
            self.segments.pop(segment.base_offset, None)
        self.deleted += segments
        self.files.snapshots.forget(segment.base_offset for segment in segments)

    def _apply_log_start(self) -> None:
        """Delete everything where the log would end below its start (R5)."""
        if not self.segments:
            return
        if self.segments[max(self.segments)].read_next_offset() < self.stop.log_start:
            self.above_log_start = False
            self._delete([self.segments[base] for base in sorted(self.segments)])

    def _new_segment(self) -> None:
        base = (
            self.stop.log_start if has(self.broker, v.LOG_START_KEPT) and self.stop.recovers else 0
        )
        self.segments[base] = self.files.segment(base, {}, part=(0, 0))

    def _old_sanity(self, active: Segment) -> None:
        """Until 0.8.2 an index that fails its check, a rebuilt one too, stops the broker (I11)."""
        for base, segment in self.segments.items():
            if not (segment.rebuilt or Kind.OFFSET_INDEX in self.files.by_base.get(base, {})):
                continue
            with segment.open_index() as index:
                broken = index.sanity(may_end_at_base=False)
            if broken is not None and not (segment is active and "multiple" in broken):
                raise RefusalError(f"IllegalArgumentException: corrupt index: {broken}")

    # Producers -----------------------------------------------------------------------------------

    def _replay(self, log_end: int) -> None:
        """Build the producers' state up to the log end, as the last step of loading (R8)."""
        from kdump.broker.recovered_producers import Producers

        bases = sorted(self.segments)
        self.files.snapshots.remove_strays(bases)
        log_start = max(self.stop.log_start, bases[0])
        producers = Producers(self.files.snapshots)
        self._rebuild(producers, log_start, log_end, clean=self.stop.clean)
        if (first := producers.first_unstable()) is not None:
            self._find(max(first, log_start), log_end)

    def _find(self, offset: int, log_end: int) -> None:
        """Find an offset as the broker does for the one that bounds read_committed (L7)."""
        if offset >= log_end:
            return
        bases = sorted(self.segments)
        floor = max((base for base in bases if base <= offset), default=None)
        if floor is None:
            return
        for base in bases[bases.index(floor) :]:
            if self.segments[base].translate_offset(offset) is not None:
                return

    def _rebuild(self, producers: Producers, log_start: int, end: int, *, clean: bool) -> None:
        """Rebuild producer state up to `end` from the newest snapshot below it (R8)."""
        bases = sorted(self.segments)
        if clean and not self.files.snapshots.kept:
            for offset in (*bases[-2:], end):
                producers.end_offset = max(producers.end_offset, offset)
                producers.take_snapshot()
            return
        was_empty = producers.end_offset >= end
        producers.reload(log_start, end)
        if end > producers.end_offset and not was_empty:
            floor = max((base for base in bases if base <= end), default=None)
            for segment in self._values(producers.end_offset, end):
                self._replay_segment(producers, segment, log_start, end, floor, bases[-2:])
        producers.end_offset = end
        producers.take_snapshot()

    def _replay_segment(
        self,
        producers: Producers,
        segment: Segment,
        log_start: int,
        end: int,
        floor: int | None,
        snapshot_at: list[int],
    ) -> None:
        start = max(segment.base_offset, producers.end_offset, log_start)
        producers.end_offset = start
        if segment.base_offset in snapshot_at:
            producers.take_snapshot()
        if segment.size_bytes == 0:
            return
        limit = segment.end
        if segment.base_offset == floor and (found := segment.translate_offset(end)) is not None:
            limit = found.position
        first = segment.translate_offset(start)
        if first is None:
            return
        if limit < first.position:
            raise RefusalError("IllegalArgumentException: offsets so far out of order give a "
                               "negative size to read")  # fmt: skip
        self.replayed.append(segment.base_offset)
        with segment.entries() as entries:
            entries.end = limit
            producers.replay(entries, entries.as_is(first.position))


def _transaction_index(base: int, path: str, broker: Version) -> str | None:
    """Why a transaction index makes a start recover its segment (I22)."""
    from kdump.storage.transaction_index import TransactionIndex

    one_byte = not has(broker, v.BOTH_VERSION_BYTES)
    with Source(path) as source:
        index = TransactionIndex(source, base, one_byte=one_byte)
        if (broken := index.sanity()) is not None:
            return broken
        version = index.find_refused_version()
    if version is not None:
        raise RefusalError(f"KafkaException: aborted transaction of version {version} in {path}")
    return None


class LazyLogLoader(LogLoader):
    """The segments of a partition, each as a start leaves it once it was asked for.

    `segments` has those that are there as far as is known: a cut or a split changes it. What a
    split further behind puts in the place of a segment already asked for is not waited for. Files
    left as .swap are put in at once, with all that goes with that.
    """

    def __init__(
        self, log: LocalLog, broker: Version, settings: Settings, stop: Stop, *, limit: int
    ) -> None:
        super().__init__(log, broker, settings, stop, limit=limit)
        self._seen: set[int] = set()
        self._waiting: list[Segment] = []
        self._failed: tuple[int, RefusalError | UnknowableError] | None = None  # asked for, and why
        if self.files.swaps or self.files.swapped:
            self.run()
            self._seen.update(self.segments)
            return
        for base in self.files.bases():
            self.segments[base] = self.files.open(base)
        if not stop.clean:
            self._waiting = self._segments_to_recover()

    def settle(self, base: int) -> bool:
        """Go on until it is known what becomes of a segment; whether anything was recovered.

        Raises where the start fails on the way there, however often it is asked.
        """
        if self._failed is not None and base >= self._failed[0]:
            raise self._failed[1]
        try:
            return self._settle(base)
        except (RefusalError, UnknowableError) as error:
            self._failed = base, error
            raise

    def _settle(self, base: int) -> bool:
        if self._waiting and base >= self._waiting[0].base_offset:
            self._recover_to(base)
            return True
        if base in self._seen or base not in self.segments:
            return False
        self._seen.add(base)
        known = len(self.rebuilt)
        self._mend_or_split(self.segments[base])
        return len(self.rebuilt) > known

    def is_settled(self, base: int) -> bool:
        """Whether it is known what becomes of a segment."""
        return base in self._seen

    def _recover_to(self, base: int) -> None:
        """Recover what was not flushed, in order; the loading of all of it comes first (R6)."""
        if any(segment.base_offset not in self._seen for segment in self._waiting):
            for segment in self._waiting:
                self._seen.add(segment.base_offset)
                self._mend_or_split(segment)
            self._waiting = self._segments_to_recover()
            self._seen.update(segment.base_offset for segment in self._waiting)
        while self._waiting and self._waiting[0].base_offset <= base:
            segment, *self._waiting = self._waiting
            try:
                if self._recover_unflushed(segment, self._waiting):
                    self._waiting = []
            except OffsetOverflowError:
                self._split(segment, recovering=True)
                self._waiting = self._segments_to_recover()  # all over again
                self._seen.update(part.base_offset for part in self._waiting)

    def _mend_or_split(self, segment: Segment) -> None:
        try:
            self._mend(segment)
        except OffsetOverflowError:
            self._split(segment, recovering=False)

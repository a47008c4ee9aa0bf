"""Find what a cleaning of a log would leave and drop, as the log cleaner does (K4 to K6).

First the dirty part is read for the last offset of each key, then all that lies below it is held
against that, batch by batch. Nothing is written. Of more keys than are held, or where something is
too large to be opened, more records may go than are found; `is_lower_bound` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.control_batch import read_control
from kdump.broker.versions import has
from kdump.broker.visibility import producers_at_end
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record import control
from kdump.record.batch import read_batch
from kdump.record.layout import BATCH_OVERHEAD_V2
from kdump.record.rebuilt_sizes import compute_upgraded_size, rebuilt_size
from kdump.storage.file_records import FileRecords
from kdump.storage.offsets import RELATIVE_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.cleaner import Choice
    from kdump.broker.partition import PartitionView
    from kdump.broker.segment import Segment
    from kdump.broker.settings import Settings
    from kdump.kernels.columns import DecodedRecords, RecordBatches
    from kdump.record.decoded_part import DecodedPart
    from kdump.record.frames import Run
    from kdump.storage.transaction_index import AbortedTransaction

    Data = bytes | bytearray | memoryview
    Kept = list[tuple[Data, DecodedRecords, Sequence[int]]]  # bytes, records, rows of these

KEYS_KEPT = 1 << 20  # some 150 MB
_ENTRY_BYTES = 24  # of a key in the cleaner's own map
_NOT_OPENED = (reasons.OVER_LIMIT, reasons.CODEC_MISSING)
_SOUND = (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT)


class FailedError(Exception):
    """The cleaner gives the partition up at an entry."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(path, position, why)
        self.path = path
        self.position = position
        self.why = why


class _UnopenedError(Exception):
    """An entry that is not opened here, though a broker may."""


class CleanedBatch(NamedTuple):
    """One entry that a cleaning changes.

    `dead` are the offsets of the records that go. `size_bytes` is what is left of it: 0 where it
    goes whole, a header where it is kept for its producer or its offset. `sealed`: its checksum is
    wrong, and would be right in what is written.
    """

    segment: int
    position: int
    base_offset: int
    dead: Sequence[int]
    size_before: int
    size_bytes: int
    control: bool
    sealed: bool
    horizon_ms: int | None


class OffsetMap:
    """The last offset of each key in the dirty part, by the hash of the key.

    `end` is the offset behind the last that was looked at. A broker's map takes so many keys, and
    then the round ends (`full`); one that holds more than `kept` is partly known (`overflowed`).
    """

    def __init__(self, settings: Settings, kept: int = KEYS_KEPT) -> None:
        buffer = min(settings.dedupe_buffer // max(1, settings.cleaner_threads), (1 << 31) - 1)
        self._most = int(buffer // _ENTRY_BYTES * settings.dedupe_load_factor)
        self._kept = kept
        self.offsets: dict[int, int] = {}
        self.end = 0
        self.full = False
        self.overflowed = False

    def put(self, key: int, offset: int) -> bool:
        """Take up a record; False where the map is full."""
        offsets = self.offsets
        if len(offsets) >= self._most:
            self.full = True
            return False
        if len(offsets) >= self._kept and key not in offsets:
            self.overflowed = True
        else:
            offsets[key] = offset
        self.end = offset + 1
        return True

    def note_reached(self, offset: int) -> None:
        """Say that all below an offset was looked at."""
        self.end = max(self.end, offset)


class Repeats:
    """Looks for two records of one key in [start, end): what was cleaned has only the last.

    Of more keys than are held some classes are left out, by their hash, so that those that are
    looked at are looked at from the start on.
    """

    def __init__(self, start: int, end: int, kept: int = KEYS_KEPT) -> None:
        self.start = start
        self.end = end
        self.count = 0
        self.example = (-1, -1)
        self._kept = kept
        self._mask = 0
        self._offsets: dict[int, int] = {}

    def take(self, key: int, offset: int) -> None:
        """Take up a record."""
        if key & self._mask:
            return
        before = self._offsets.setdefault(key, offset)
        if before < offset:
            self.count += 1
            if self.count == 1:
                self.example = before, offset
        elif len(self._offsets) > self._kept:
            self._mask = self._mask << 1 | 1
            self._offsets = {one: at for one, at in self._offsets.items() if not one & self._mask}


class _Transactions:
    """Which transactions the cleaner has met batches of, in log order (K6)."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, bool] = {}  # producer, whether a batch of it was met
        self._committed: set[int] = set()

    def _take_up(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            self._aborted.setdefault(self._waiting.pop().producer_id, False)

    def is_aborted(self, run: Run, row: int) -> bool:
        """Take up a data batch, and say whether its transaction was aborted."""
        batches = run.batches
        self._take_up(batches.last_offset(row))
        if not batches.flags_of(row) & c.TRANSACTIONAL:
            return False
        producer_id = batches.producer_id(row)
        if producer_id in self._aborted:
            self._aborted[producer_id] = True
            return True
        self._committed.add(producer_id)
        return False

    def is_done(self, run: Run, row: int, path: str) -> bool:
        """Take up a marker, and say whether nothing was met of its transaction."""
        batches = run.batches
        self._take_up(batches.last_offset(row))
        marker = read_control(run, row)
        if marker.kind is None and not marker.problem:
            return True  # an empty one
        if marker.problem in ("record", "key"):
            raise FailedError(path, batches.position(row), "a control record that cannot be read")
        producer_id = batches.producer_id(row)
        if marker.kind == control.ABORT:
            return not self._aborted.pop(producer_id, False)
        if marker.kind == control.COMMIT:
            met = producer_id in self._committed
            self._committed.discard(producer_id)
            return not met
        return False


class CleaningRound:
    """One round of cleaning, from `choice` on; `batches` does it, and the rest tells of it then.

    `repeats`, where given, is told of the records that have a key.
    """

    def __init__(
        self,
        partition: PartitionView,
        choice: Choice,
        settings: Settings,
        now_ms: int,
        *,
        keys_kept: int = KEYS_KEPT,
        repeats: Repeats | None = None,
    ) -> None:
        self._partition = partition
        self._broker = partition.broker
        self._choice = choice
        self._settings = settings
        self._now_ms = now_ms
        self._repeats = repeats
        self._skipped = False
        self.too_wide: list[int] = []  # segments with records that no index can name (K8)
        self.map = OffsetMap(settings, keys_kept)
        self.tombstones = self.tombstones_removed = 0
        self.of_segments: dict[int, tuple[int, int]] = {}  # base offset, tombstones and removed
        self.bad_checksums = 0
        assert partition.target.log is not None
        states = producers_at_end(partition.target.log, partition.log_start, partition.limit)
        oldest = now_ms - settings.producer_id_expiration_ms
        self._active = {
            producer_id: one
            for producer_id, one in states.producers.items()
            if one.first_offset >= 0 or one.last_timestamp_ms > oldest
        }
        self._producers_lost = states.dropped or states.overflowed

    @property
    def is_lower_bound(self) -> bool:
        """Whether more may go than was found."""
        return self.map.overflowed or self._skipped or self._producers_lost

    def batches(self) -> Iterator[CleanedBatch]:
        """Yield the entries that are changed, in log order; raises FailedError."""
        first, end = self._choice.first_dirty_offset, self._choice.end_offset
        segments = self._partition.segments
        if first >= end:
            if self._repeats is not None:
                self._look_for_repeats(_segments_between(segments, 0, first))
            return
        dirty = _segments_between(segments, first, end)
        transactions = self._transactions(dirty[0].base_offset)
        following = [*(one.base_offset for one in dirty[1:]), end]
        for segment, behind in zip(dirty, following, strict=True):
            self._map_segment(segment, first, transactions)
            if self.map.full:
                break
            self.map.note_reached(behind)
        below = _segments_between(segments, 0, first)
        keep_from_ms = below[-1].modified_ms() - self._settings.delete_retention_ms if below else 0
        transactions = self._transactions(0)
        for segment in _segments_between(segments, 0, self.map.end):
            yield from self._clean_segment(segment, transactions, keep_from_ms)

    def _look_for_repeats(self, segments: Sequence[Segment]) -> None:
        """Read what was cleaned, where no round would; what cannot be read ends it."""
        transactions = self._transactions(0)
        self.map.end = self._choice.first_dirty_offset
        try:
            for segment in segments:
                before = self.tombstones
                for run in self._runs(segment, 0):
                    for row in range(run.batches.count):
                        if run.batches.flags_of(row) & c.CONTROL:
                            transactions.is_done(run, row, segment.path)
                        elif not transactions.is_aborted(run, row):
                            with suppress(_UnopenedError):
                                self._sift(segment, run, row, passed=False)
                self.of_segments[segment.base_offset] = self.tombstones - before, 0
        except FailedError:
            self._skipped = True

    def _transactions(self, start: int) -> _Transactions:
        """The aborted ones that end in a segment from `start` on; none below the log start."""
        start = max(start, self._partition.log_start)
        aborted = self._partition.view.aborted
        return _Transactions([one for one in aborted if one.last_offset >= start])

    def _runs(self, segment: Segment, position: int, *, checked: bool = False) -> Iterator[Run]:
        """Yield what the cleaner reads of a segment; what is no entry ends it (K5)."""
        records = FileRecords(segment.log(), limit=self._partition.limit)
        end = position
        for run in records.runs_as_is(position, segment.end, checked=checked):
            batches = run.batches
            if batches.flags & (c.MAGIC_UNKNOWN | c.TOO_SMALL):
                self._refuse(segment, batches.row_flags, batches.positions)
            end = batches.end_position(batches.count - 1)
            yield run
        if end < segment.end:
            why = {reasons.LENGTH_TOO_SMALL: "an impossible entry size"}
            raise FailedError(
                segment.path,
                end,
                why.get(records.stopped_by, "bytes that contain no complete batch"),
            )

    def _refuse(self, segment: Segment, flags: Sequence[int], positions: Sequence[int]) -> None:
        for row, each in enumerate(flags):
            if each & (c.MAGIC_UNKNOWN | c.TOO_SMALL):
                why = "an unknown magic" if each & c.MAGIC_UNKNOWN else "an entry too small"
                raise FailedError(segment.path, positions[row], why)

    def _pieces(
        self, segment: Segment, run: Run, row: int, *, strict: bool = True
    ) -> Iterator[DecodedPart]:
        limit = self._partition.limit
        for piece in read_batch(run.data, run.base, run.batches, row, limit=limit):
            if piece.reason in _NOT_OPENED and strict:
                raise _UnopenedError
            if piece.reason not in _SOUND and strict:
                why = f"records that cannot be read ({reasons.NAMES[piece.reason]})"
                raise FailedError(segment.path, run.batches.position(row), why)
            yield piece

    # The map -------------------------------------------------------------------------------------

    def _map_segment(self, segment: Segment, first: int, transactions: _Transactions) -> None:
        for run in self._runs(segment, segment.position_of(first)):
            batches = run.batches
            for row in range(batches.count):
                if batches.flags_of(row) & c.CONTROL:
                    transactions.is_done(run, row, segment.path)
                elif not transactions.is_aborted(run, row):
                    try:
                        self._map_batch(segment, run, row, first)
                    except _UnopenedError:
                        self._skipped = True
                    if self.map.full:
                        return
                if batches.last_offset(row) >= first:
                    self.map.note_reached(batches.last_offset(row) + 1)

    def _map_batch(self, segment: Segment, run: Run, row: int, first: int) -> None:
        put = self.map.put
        for piece in self._pieces(segment, run, row):
            records, view = piece.records, memoryview(piece.data)
            for offset, at, size in zip(
                records.offsets, records.key_positions, records.key_sizes, strict=True
            ):
                if (
                    size >= 0
                    and offset >= first
                    and not put(hash(bytes(view[at : at + size])), offset)
                ):
                    return

    # What stays ----------------------------------------------------------------------------------

    def _clean_segment(
        self, segment: Segment, transactions: _Transactions, keep_from_ms: int
    ) -> Iterator[CleanedBatch]:
        by_horizon = has(self._broker, v.DELETE_HORIZON)
        young = segment.modified_ms() > keep_from_ms
        before = self.tombstones, self.tombstones_removed
        for run in self._runs(segment, 0, checked=True):
            batches = run.batches
            for row in range(batches.count):
                horizon = None
                if by_horizon and batches.has_delete_horizon(row):
                    horizon = batches.base_timestamp(row)
                goes_by_batch = by_horizon and not batches.is_legacy(row)
                passed = (
                    horizon is not None and horizon <= self._now_ms if goes_by_batch else not young
                )
                cleaned = self._clean(segment, run, row, transactions, horizon, passed=passed)
                if cleaned is not None:
                    yield cleaned
        self.of_segments[segment.base_offset] = (
            self.tombstones - before[0],
            self.tombstones_removed - before[1],
        )

    def _clean(
        self,
        segment: Segment,
        run: Run,
        row: int,
        transactions: _Transactions,
        horizon: int | None,
        *,
        passed: bool,
    ) -> CleanedBatch | None:
        """Clean one entry; `passed` says that tombstones and markers in it may go."""
        batches = run.batches
        is_control = bool(batches.flags_of(row) & c.CONTROL)
        bad_checksum = bool(batches.flags_of(row) & c.CRC_BAD)
        self.bad_checksums += bad_checksum
        done = is_control and transactions.is_done(run, row, segment.path)
        drop_all = done and passed if is_control else transactions.is_aborted(run, row)
        kept: Kept = []
        tombstones = False
        try:
            if drop_all:
                # What goes whole the cleaner does not open, so that nothing in it can stop it.
                opened = self._keeps_empty(batches, row)
                dead = [
                    offset
                    for piece in self._pieces(segment, run, row, strict=opened)
                    for offset in piece.records.offsets
                ]
            else:
                kept, dead, tombstones = self._sift(segment, run, row, passed=passed)
        except _UnopenedError:
            self._skipped = True
            return None
        size = batches.size_bytes(row)
        new_horizon = None
        if any(rows for _, _, rows in kept):
            upgraded = batches.is_legacy(row) and has(self._broker, v.OLD_MESSAGES_REWRITTEN)
            by_batch = upgraded or not batches.is_legacy(row)
            by_batch = by_batch and has(self._broker, v.DELETE_HORIZON)
            if (tombstones or done) and horizon is None and by_batch:
                horizon = new_horizon = self._now_ms + self._settings.delete_retention_ms
            left = size
            if upgraded:
                left = compute_upgraded_size(batches, row, kept, horizon)
            elif dead or new_horizon is not None:
                left = rebuilt_size(batches, row, kept, horizon)
        elif self._keeps_empty(batches, row):
            if batches.is_legacy(row):
                why = (
                    "a message of magic 0 or 1 at the end of the cleaned range, of which nothing "
                    "would be left"
                )
                raise FailedError(segment.path, batches.position(row), why)
            left = BATCH_OVERHEAD_V2
        else:
            left = 0
        if left:
            self._note_range(segment, batches, row)
        if left == size and not dead and new_horizon is None:
            return None
        return CleanedBatch(
            segment.base_offset, batches.position(row), batches.known_offset(row), dead, size, left,
            is_control, bad_checksum and left > 0, new_horizon,
        )  # fmt: skip

    def _note_range(self, segment: Segment, batches: RecordBatches, row: int) -> None:
        """Look whether an index of the segment can name what is kept of an entry (K8)."""
        if batches.last_offset(row) - segment.base_offset <= RELATIVE_MAX:
            return
        if has(self._broker, v.CLEANER_STOPPED_BY_OFFSETS):
            why = f"an offset more than {RELATIVE_MAX:,} above the segment's base"
            raise FailedError(segment.path, batches.position(row), why)
        if segment.base_offset not in self.too_wide:
            self.too_wide.append(segment.base_offset)

    def _sift(
        self, segment: Segment, run: Run, row: int, *, passed: bool
    ) -> tuple[Kept, list[int], bool]:
        """Tell the records that stay from those that go; and whether a tombstone stays."""
        kept: Kept = []
        dead: list[int] = []
        tombstones = False
        last, latest, repeats = self.map.end - 1, self.map.offsets, self._repeats
        for piece in self._pieces(segment, run, row):
            records = piece.records
            if run.batches.flags_of(row) & c.CONTROL:
                kept.append((piece.data, records, range(records.count)))
                continue
            view = memoryview(piece.data)
            rows = []
            for number in range(records.count):
                offset = records.offset(number)
                size = records.key_size(number)
                has_value = records.value_size(number) >= 0
                if offset > last:
                    stays = True
                elif size < 0:
                    stays = False
                else:
                    at = records.key_position(number)
                    key = hash(bytes(view[at : at + size]))
                    if repeats is not None and repeats.start <= offset < repeats.end:
                        repeats.take(key, offset)
                    stays = offset >= latest.get(key, -1)
                    if not has_value:
                        self.tombstones += 1
                        self.tombstones_removed += passed or not stays
                        stays = stays and not passed
                if stays:
                    rows.append(number)
                    tombstones = tombstones or not has_value
                else:
                    dead.append(offset)
            kept.append((piece.data, records, rows))
        return kept, dead, tombstones

    def _keeps_empty(self, batches: RecordBatches, row: int) -> bool:
        """Whether an entry is kept without records: for its producer, or for its offset (K6)."""
        last = batches.last_offset(row)
        one = self._active.get(batches.producer_id(row))
        if one is not None and batches.has_producer_fields(row):
            if one.last_offset >= 0:
                if last == one.last_offset:
                    return True
            elif batches.flags_of(row) & c.CONTROL:
                epoch = batches.producer_epoch(row)
                if epoch == one.producer_epoch:
                    return True
        if has(self._broker, v.LAST_BATCH_KEPT):
            return bool(last + 1 == self._choice.end_offset)
        if has(self._broker, v.LAST_REPLICATED_BATCH_KEPT):
            mark = self._partition.view.mark
            return bool(last + 1 == (self._partition.log_end if mark is None else mark))
        return False


def _segments_between(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    """The segments from the one with offset `first` on that begin below `end`."""
    start = max([n for n, one in enumerate(segments) if one.base_offset <= first], default=0)
    return [one for one in segments[start:] if one.base_offset < end]

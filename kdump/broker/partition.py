"""Look up offsets in a partition as a broker does, from disk alone.

A `PartitionView` is the partition as a broker that starts on it would hold it (or, `as_is`, just
the files): the log start, the log end, and for each segment the indexes it would believe. What a
start would rebuild is answered by a scan, which gives what the rebuilt index would.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kdump.broker import versions as v
from kdump.broker.index_search import find_offset, floor_slot
from kdump.broker.loading import LazyLogLoader
from kdump.broker.lookup_records import (
    BrokerError,
    RemoteOnlyError,
    convert_errors,
    raise_undecodable,
)
from kdump.broker.partition_files import make_empty
from kdump.broker.segment import Segment
from kdump.broker.settings import DEFAULT, Settings, SettingsOnDemand, index_settings
from kdump.broker.shutdown_state import stop_for_lookup
from kdump.broker.versions import NEWEST, Version, has
from kdump.broker.visibility import AbortFilter, View
from kdump.findings.finding import Finding
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.index import OffsetIndex, OffsetPosition
from kdump.storage.names import OFFSET_MAX, Kind
from kdump.storage.time_index import TimeIndex
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.remote_files import RemoteFiles
    from kdump.broker.remote_log import RemoteSegment
    from kdump.rows.find import FoundStep
    from kdump.storage.targets import Target


class Step(NamedTuple):
    """One step of a lookup: what was asked of which file, and what it said."""

    step: str
    file: str
    text: str
    details: dict[str, object]

    def fields(self) -> FoundStep:
        """The step as a member of a JSON row."""
        return {"step": self.step, "file": self.file, "text": self.text, **self.details}


class FetchStart(NamedTuple):
    """The first entry of a fetch: its place and its header's offsets."""

    segment: int
    position: int
    size_bytes: int
    base_offset: int | None
    last_offset: int
    index_entry: OffsetPosition | None
    batches_scanned: int


class PartitionView:
    """One partition as a broker that starts on it would answer for it.

    `as_is` takes the files exactly as they lie. `limit` bounds a batch's uncompressed bytes;
    `settings` are the topic's, Kafka's defaults where not given: a start rebuilds indexes by them.
    """

    def __init__(
        self,
        target: Target,
        *,
        isolation: str = "read_uncommitted",
        as_is: bool = False,
        broker: Version = NEWEST,
        limit: int = DEFAULT_LIMIT,
        settings: Settings | SettingsOnDemand | None = None,
    ) -> None:
        assert target.log is not None
        self.target = target
        self.broker = broker
        self.limit = limit
        self.as_is = as_is
        self.committed = isolation == "read_committed"
        self.steps: list[Step] = []
        view = View(target, committed=self.committed, limit=limit)
        self.findings: list[Finding] = view.findings
        self._log_start = view.log_start
        self.high_watermark = view.end
        self.view = view
        self.tier = view.tier
        self._opened: dict[str, RemoteFiles] = {}
        self.settings: Any = Settings() if settings is None else settings
        self._start: LazyLogLoader | None = None
        self._segments: list[Segment] | None = None
        self._log_end: int | None = None

    @property
    def segments(self) -> list[Segment]:
        """The segments, as far as it is known what a start makes of them; see `onward`."""
        if self._segments is None:
            self._segments = [*self._remote(), *self._list_segments()]
        return self._segments

    @property
    def first_local(self) -> int:
        """The number of the first segment that is local; those before it are remote."""
        return sum(segment.remote is not None for segment in self.segments)

    def _remote(self) -> list[Segment]:
        """The remote segments that are read from, each as often as a piece of it is."""
        pieces = () if self.tier is None else self.tier.pieces()
        found = {piece.segment.segment_id: piece.segment for piece in pieces}
        return sorted(map(self.remote_segment, found.values()), key=attrgetter("base_offset"))

    def remote_segment(self, remote: RemoteSegment) -> RemoteFiles:
        """Return what a remote segment is read by, the same each time."""
        from kdump.broker.remote_files import remote_files

        assert self.tier is not None
        found = self._opened.get(remote.segment_id)
        if found is None:
            found = remote_files(remote, self.tier, self.broker, self.settings, self.limit)
            self._opened[remote.segment_id] = found
        return found

    @property
    def log_start(self) -> int:
        """The log start offset; files that a start puts in place may move it."""
        _ = self.segments
        return self._log_start

    def _list_segments(self) -> list[Segment]:
        assert self.target.log is not None
        log = self.target.log
        if self.as_is:
            return [
                make_empty(at, self.broker, self.settings, limit=self.limit)
                if Kind.LOG in at.misnamed_files
                else Segment(at.base_offset, at.files, self.broker, self.settings, limit=self.limit)
                for at in log.logs
                if at.log
            ]
        with convert_errors(self.target.path):
            stop = stop_for_lookup(log, self.view.directory, self.broker)
            self._start = LazyLogLoader(log, self.broker, self.settings, stop, limit=self.limit)
        return self._load_segments()

    def _load_segments(self) -> list[Segment]:
        """The segments that are left; one without a path is new, in the place of all deleted."""
        assert self._start is not None
        made = self._start.segments
        found = [made[base] for base in sorted(made) if made[base].path]
        if self.tier is not None:
            self._log_start = self.tier.log_start
        elif found:
            self._log_start = max(self._start.stop.log_start, found[0].base_offset)
        return found

    def _settle(self, number: int) -> None:
        """Make known what a start does to a segment; those from it on may become others."""
        segment = self.segments[number]
        if self._start is None or segment.remote is not None:
            return
        with convert_errors(segment.path):
            changed = self._start.settle(segment.base_offset)
        if changed:
            for one in self.segments[number:]:
                one.close()
            self._segments = [*self.segments[: self.first_local], *self._load_segments()]
            self._note_recovery(segment)

    def _note_recovery(self, segment: Segment) -> None:
        assert self._start is not None
        cut = self._start.cut
        text = f"a broker start recovers this segment and rebuilds its indexes{self._by_settings()}"
        if cut is not None and cut.base_offset <= segment.base_offset:
            deleted = len(self._start.deleted)
            text = (
                f"a broker start truncates segment {cut.base_offset:,} to {cut.size_bytes:,} bytes"
                + (f" and deletes the {deleted:,} segments after it" if deleted else "")
            )
        self.note("recovery", segment.path, text, segment=segment.base_offset)

    def _by_settings(self) -> str:
        """Name the settings that are not Kafka's defaults, of those that an index hangs on."""
        named = [
            f"{one['name']}={one['value']} ({one['source']})"
            for one in index_settings(self.settings)
            if one["source"] != DEFAULT
        ]
        return f", by {' and '.join(named)}" if named else ""

    def onward(self, number: int = 0) -> Iterator[Segment]:
        """The segments from a number on, each as a start leaves it."""
        while number < len(self.segments):
            base = self.segments[number].base_offset
            self._settle(number)
            if number < len(self.segments):
                if self.segments[number].base_offset < base:
                    continue  # it was split, and the parts begin lower
                yield self.segments[number]
            number += 1

    def segment_at(self, base: int) -> Segment:
        """The segment of a base offset that an answer named."""
        known = (*self.segments, *self._opened.values())
        return next(segment for segment in known if segment.base_offset == base)

    def close(self) -> None:
        """Give all files back."""
        for segment in (
            *(self._segments or ()),
            *self._opened.values(),
        ):  # listed here, they might fail a second time
            segment.close()

    def note(self, step: str, file: str, text: str, **details: object) -> None:
        """Keep a step for `--explain`."""
        self.steps.append(Step(step, file, text, details))

    @property
    def log_end(self) -> int:
        """The log end offset, found as a broker finds it at start (`readNextOffset`).

        It reads on from the last indexed offset of the newest segment; where that offset is not in
        the log, the segment's base offset stands, whatever lies in the file. A log that ends below
        its start is deleted, and begins anew there (R5).
        """
        if self._log_end is None:
            for _ in self.onward(max(0, len(self.segments) - 1)):
                pass
            end = self._next_offset() if self.segments else self.log_start
            if end < self.log_start and not self.as_is and has(self.broker, v.LOG_START_KEPT):
                self._segments, end = [], self.log_start
            self._log_end = end
        return self._log_end

    def _next_offset(self) -> int:
        active = self.segments[-1]
        with convert_errors(active.path):
            return active.read_next_offset()

    @property
    def visible_end(self) -> int:
        """The offset below which a consumer of this isolation level is handed records."""
        return self.visible_below(self.log_end)

    def visible_below(self, log_end: int) -> int:
        """The visible end of a log that ends there; since 4.0 a batch begins there (L7)."""
        mark = log_end if self.view.mark is None else min(self.view.mark, log_end)
        stable = mark if self.high_watermark is None else min(self.high_watermark, mark)
        if stable == mark or not has(self.broker, v.READ_GIVES_BASE_OFFSET):
            return stable
        try:
            found = self.fetch(stable)
        except BrokerError:
            return stable  # damage, which whoever reads on comes to as well
        if found is None or found.base_offset is None:
            return mark if found is None else stable
        return min(found.base_offset, mark)

    @property
    def bound(self) -> int:
        """The offset from which on nothing is handed out; `as_is` no log end is worked out."""
        if self.as_is:
            return OFFSET_MAX if self.high_watermark is None else self.high_watermark
        return self.visible_end

    def is_empty_at_start(self) -> bool:
        """Whether a start leaves no segment: the log would end below its start (R5).

        Raises where the start fails at looking for the log end, which is read in any case where
        that takes no more than a few pages.
        """
        if self.segments and not self.as_is:
            assert self._start is not None
            if self._start.stop.clean or self.segments[-1].base_offset < self.log_start:
                _ = self.log_end
        return not self.segments

    def hands_out(self, offset: int) -> bool:
        """Whether a record's offset is below the bound; the log end is not looked for in vain."""
        if self.high_watermark is not None and offset >= self.high_watermark:
            return False
        return self._surely_below_end(offset) or offset < self.bound

    def _surely_below_end(self, offset: int) -> bool:
        """Whether it is known without the log end that an offset lies below it.

        So it does where a segment behind it is left, once its own was recovered: what is recovered
        later may be emptied, but not end below its base offset.
        """
        if self._start is None or self._start.stop.clean or not has(self.broker, v.OVERFLOW_SPLIT):
            return False
        number = self._floor_of(offset)
        if 0 <= number < self.first_local:
            return True
        return (
            0 <= number < len(self.segments) - 1
            and self._start.is_settled(self.segments[number].base_offset)
            and self.segments[-1].base_offset > self.log_start
        )

    def search(self, index: OffsetIndex | TimeIndex, target: int, path: str | None) -> int:
        """Find the floor slot by the broker's own search, and note the slots it compared (I4)."""
        compared: list[int] = []

        slot = floor_slot(index, target, self.broker, compared)
        kind = "index" if isinstance(index, OffsetIndex) else "timeindex"
        entries = f"{index.entries:,} {'entry' if index.entries == 1 else 'entries'}"
        if not index.entries:
            text = "no entries: the scan starts at the segment's first byte"
        elif slot < 0:
            text = f"{entries}, all above the target: start at the first byte"
        else:
            text = (
                f"{entries}, {len(compared)} compared: slot {slot:,} "
                f"({_entry_words(index, slot)}) is the last at or below the target"
            )
        self.note(
            kind,
            path or "",
            text,
            slots=index.entries,
            compared=compared,
            slot=slot if slot >= 0 else None,
            entry=index.entry(slot)._asdict() if slot >= 0 else None,
        )
        return slot

    def index_entry(self, segment: Segment, offset: int) -> OffsetPosition | None:
        """Look an offset up in the segment's offset index; None where the scan starts at 0 (I7)."""
        index = segment.offset_index()
        slot = self.search(index, offset, segment.files.get(Kind.OFFSET_INDEX))
        if slot < 0:
            return None
        return index.entry(slot)

    def translate(
        self, segment: Segment, offset: int, position: int, entry: OffsetPosition | None = None
    ) -> FetchStart | None:
        """Search from a position for the first entry that reaches `offset` (L2, F12)."""
        segment.log()  # stays open
        with convert_errors(segment.path), segment.entries() as entries:
            found = entries.search(max(segment.start, position), offset)
        if found is None:
            return None
        return FetchStart(segment.base_offset, *found[:4], entry, found.scanned)

    def floor(self, offset: int) -> int:
        """The number of the last segment whose base offset is at or below `offset`, or -1 (L1)."""
        number = self._floor_of(offset)
        while number >= 0:
            self._settle(number)
            found = self._floor_of(offset)
            if found == number:
                break
            number = found  # it was deleted, or split
        return number

    def _floor_of(self, offset: int) -> int:
        return bisect_right(self.segments, offset, key=attrgetter("base_offset")) - 1

    def fetch(self, offset: int) -> FetchStart | None:
        """Find the first entry a fetch at `offset` returns, segment by segment from the floor (L4).

        None where all from the offset on is gone or not there yet. Out of range: BrokerError.
        """
        number = self.floor(offset)
        if not self.as_is:
            if offset < self.log_start:
                raise self._out_of_range()
            if not self._surely_below_end(offset):
                if offset > self.log_end:
                    raise self._out_of_range()
                if offset == self.log_end:
                    text = "that is the log end: nothing to return yet"
                    self.note("end", self.target.path, text)
                    return None
        if self.tier is not None and self.log_start <= offset < self.tier.local_start:
            number = self._remote_number(offset)
        if number < 0:
            raise BrokerError("OFFSET_OUT_OF_RANGE: below the first segment")
        scanned = 0
        first = True
        for segment in self.onward(number):
            self.note(
                "segment",
                segment.path,
                f"base offset {segment.base_offset:,} is the last at or below the target"
                if first
                else "no batch there reaches the target: continuing with the next segment",
                segment=segment.base_offset,
            )
            first = False
            segment.check()
            entry = self.index_entry(segment, offset)
            position = segment.start + (entry.position if entry else 0)
            found = self.translate(segment, offset, position, entry)
            if found is not None:
                whole = has(self.broker, v.IMPOSSIBLE_SIZE_RAISES)
                if not whole and not self._old_slice(segment, found):
                    return None
                scanned += found.batches_scanned
                self.note(
                    "scan",
                    segment.path,
                    f"{found.batches_scanned:,} batch{'es' * (found.batches_scanned != 1)} from "
                    f"position {position:,} on, "
                    f"{found.position + found.size_bytes - position:,} bytes: the first whose last "
                    f"offset ({found.last_offset:,}) reaches the target starts at "
                    f"{found.position:,}",
                    position=found.position,
                    batches=found.batches_scanned,
                    bytes=found.position + found.size_bytes - position,
                )
                return found._replace(batches_scanned=scanned)
            segment.close()
        return None

    def _remote_number(self, offset: int) -> int:
        """The number of the remote segment that an offset is read from (W4)."""
        assert self.tier is not None
        remote = self.tier.segment_at(offset)
        if remote is not None:
            return self.segments.index(self.remote_segment(remote))
        if self.tier.problem is not None:
            raise BrokerError(f"no remote segment is served: {self.tier.problem}")
        if self.tier.log is None:
            raise RemoteOnlyError(None)
        raise BrokerError(
            f"OFFSET_OUT_OF_RANGE: according to the metadata, no remote segment contains offset "
            f"{offset:,}"
        )

    def _out_of_range(self) -> BrokerError:
        return BrokerError(
            f"OFFSET_OUT_OF_RANGE: the log starts at {self.log_start:,} and ends at "
            f"{self.log_end:,}"
        )

    def _old_slice(self, segment: Segment, found: FetchStart) -> bool:
        """Whether a fetch before 0.10.2 hands out any bytes: it looked its end up, too (L3)."""
        end = self.bound
        lowest = find_offset(segment.offset_index(), end, self.broker).position
        position = max(found.position, segment.start + lowest)
        limit = self.translate(segment, end, position)
        return limit is None or limit.position > found.position

    def record_at(self, found: FetchStart, offset: int) -> tuple[int, int] | None:
        """The first record at or after `offset` a consumer is handed: (offset, timestamp_ms).

        From the entry found on, to the visible end; control records and, read_committed, the data
        of aborted transactions are passed over (L5, L9).
        """
        from kdump.record.batch import read_batch

        number = self._floor_of(found.segment)
        aborted = AbortFilter(self.view.list_aborted(offset)) if self.committed else None
        position = found.position
        for segment in self.onward(number):
            segment.check()
            position = max(position, segment.start)
            records = FileRecords(segment.log(), limit=self.limit)
            for item in records.runs_as_is(position, segment.end):
                for row in range(item.batches.count):
                    skipped = aborted is not None and aborted.skips(item, row)
                    flags = item.batches.flags_of(row)
                    if skipped or flags & c.CONTROL:
                        continue
                    # A consumer opens each wrapper that it is handed, whatever its offset is.
                    if item.batches.last_offset(row) < offset and not flags & c.WRAPPER:
                        continue
                    for piece in read_batch(
                        item.data, item.base, item.batches, row, limit=self.limit
                    ):
                        for at in range(piece.records.count):
                            record = piece.records.offset(at)
                            if record >= offset:
                                if not self.hands_out(record):
                                    return None
                                return record, piece.records.timestamp(at)
                        where = item.batches.position(row)
                        raise_undecodable(segment.path, where, piece.reason)
                    if not self.hands_out(item.batches.last_offset(row)):
                        return None
            impossible = records.stopped_by == reasons.LENGTH_TOO_SMALL
            if impossible and has(self.broker, v.IMPOSSIBLE_SIZE_RAISES):
                raise BrokerError(f"CorruptRecordException in {segment.path}")
            position = 0
        return None


def _entry_words(index: OffsetIndex | TimeIndex, slot: int) -> str:
    first, second = index.entry(slot)
    if isinstance(index, OffsetIndex):
        return f"offset {first:,}, position {second:,}"
    return f"{first}, offset {second:,}"

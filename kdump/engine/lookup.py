"""Where a broker looks for an offset, and what it hands out: its own search, from disk alone.

A `PartitionView` is the partition as a broker that starts on it would hold it (or, `as_is`, just
the files): the log start, the log end, and for each segment the indexes it would believe. What a
start would rebuild is answered by a scan, which gives what the rebuilt index would.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.findings import Finding
from kdump.engine.lookup_segment import BrokerError, Found, Segment, raise_undecodable
from kdump.engine.visibility import AbortFilter, View
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.storage import names, places
from kdump.storage.believed import MAX_OFFSET
from kdump.storage.file_records import DEFAULT_LIMIT, FileRecords
from kdump.storage.index import WARM_BYTES, floor_slot, floor_slot_plain
from kdump.storage.names import Kind
from kdump.storage.offset_index import OffsetIndex, OffsetPosition
from kdump.storage.time_index import TimestampOffset

if TYPE_CHECKING:
    from kdump.engine.targets import Target
    from kdump.storage.index import Index

Version = tuple[int, ...]
NEWEST: Version = (4, 1)
_BATCH_WALK = (0, 10, 2)  # before, a lookup read the twelve bytes before each message


class Step(NamedTuple):
    """One step of a lookup: what was asked of which file, and what it said."""

    step: str
    file: str
    text: str
    details: dict[str, object]

    def fields(self) -> dict[str, object]:
        """The step as a member of a JSON row."""
        return {"step": self.step, "file": self.file, "text": self.text, **self.details}


class PartitionView:
    """One partition as a broker that starts on it would answer for it.

    `as_is` takes the files exactly as they lie. `limit` bounds a batch's plain text in bytes.
    """

    def __init__(
        self,
        target: Target,
        *,
        isolation: str = "read_uncommitted",
        as_is: bool = False,
        broker: Version = NEWEST,
        limit: int = DEFAULT_LIMIT,
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
        self.log_start = view.log_start
        self.high_watermark = view.end
        self.view = view
        unclean = not as_is and _stopped_uncleanly(target)
        logs = [segment for segment in target.log.logs if Kind.LOG in segment.files]
        self.segments = [
            Segment(
                segment.base_offset,
                segment.files,
                rebuilt=not as_is
                and (
                    Kind.OFFSET_INDEX not in segment.files or (unclean and number == len(logs) - 1)
                ),
                ends_silently=broker < _BATCH_WALK,
            )
            for number, segment in enumerate(logs)
        ]
        self._log_end: int | None = None

    def close(self) -> None:
        """Give all files back."""
        for segment in self.segments:
            segment.close()

    def note(self, step: str, file: str, text: str, **details: object) -> None:
        """Keep a step for `--explain`."""
        self.steps.append(Step(step, file, text, details))

    @property
    def log_end(self) -> int:
        """The log end offset, found as a broker finds it at start (`readNextOffset`).

        It reads on from the last indexed offset of the newest segment; where that offset is not in
        the log, the segment's base offset stands, whatever lies in the file.
        """
        if self._log_end is None:
            self._log_end = self._find_log_end()
        return self._log_end

    def _find_log_end(self) -> int:
        if not self.segments:
            return self.log_start
        newest = self.segments[-1]
        if newest.rebuilt:
            start = newest.sound_start()
        else:
            index = newest.offset_index()
            last_indexed = index.last_offset
            found = self.translate(newest, last_indexed, index.lookup(last_indexed).position)
            if found is None:
                return newest.base_offset
            start = found.position
        last = newest.base_offset - 1
        for batches in newest.headers(start):
            last = batches.value(c.B_LAST_OFFSET, batches.count - 1)
        return last + 1

    @property
    def visible_end(self) -> int:
        """The offset below which a consumer of this isolation level is handed records."""
        end = self.log_end
        return end if self.high_watermark is None else min(end, self.high_watermark)

    @property
    def bound(self) -> int:
        """The offset from which on nothing is handed out; `as_is` no log end is worked out."""
        if self.as_is:
            return MAX_OFFSET if self.high_watermark is None else self.high_watermark
        return self.visible_end

    def search(self, index: Index, target: int, path: str | None) -> int:
        """Find the floor slot by the broker's own search, and note the slots it compared (I4)."""
        compared: list[int] = []

        def key(slot: int) -> int:
            compared.append(slot)
            return index.raw(slot)[0]

        relative = target - index.base_offset if isinstance(index, OffsetIndex) else target
        if self.broker >= (2, 1):
            slot = floor_slot(key, index.entries, relative, WARM_BYTES // index.layout.size)
        else:
            slot = floor_slot_plain(key, index.entries, relative)
        kind = "index" if isinstance(index, OffsetIndex) else "timeindex"
        if not index.entries:
            text = "no entries: the scan starts at the segment's first byte"
        elif slot < 0:
            text = f"{index.entries:,} entries, all above the target: start at the first byte"
        else:
            text = (
                f"{index.entries:,} entries, {len(compared)} compared: slot {slot:,} "
                f"({_entry_words(index, slot)}) is the last at or below the target"
            )
        self.note(
            kind,
            path or "",
            text,
            slots=index.entries,
            compared=compared,
            slot=slot if slot >= 0 else None,
            entry=_entry_fields(index, slot),
        )
        return slot

    def index_entry(self, segment: Segment, offset: int) -> OffsetPosition | None:
        """Look an offset up in the segment's offset index; None where the scan starts at 0 (I7)."""
        index = segment.offset_index()
        slot = self.search(index, offset, segment.files.get(Kind.OFFSET_INDEX))
        if slot < 0:
            return None
        entry = index.entry(slot)
        if segment.rebuilt and not segment.bears_out(entry):
            self.note(
                "index",
                segment.files[Kind.OFFSET_INDEX],
                f"no batch with that offset starts at {entry.position:,}: a start rebuilds this "
                "index, so the scan starts at the segment's first byte",
            )
            return None
        return entry

    def translate(
        self, segment: Segment, offset: int, position: int, entry: OffsetPosition | None = None
    ) -> Found | None:
        """Scan from a position for the first entry whose last offset reaches `offset` (L2, F12)."""
        scanned = 0
        if self.broker < _BATCH_WALK:
            for last, start, size in segment.old_entries(max(0, position)):
                scanned += 1
                if last >= offset:
                    return Found(segment.base_offset, start, size, None, last, entry, scanned)
            return None
        for batches in segment.headers(max(0, position)):
            for row, last in enumerate(batches.column(c.B_LAST_OFFSET)):
                scanned += 1
                if last >= offset:
                    base = batches.value(c.B_BASE_OFFSET, row)
                    wrapper = batches.value(c.B_FLAGS, row) & c.WRAPPER
                    return Found(
                        segment.base_offset,
                        batches.value(c.B_POSITION, row),
                        batches.value(c.B_SIZE, row),
                        None if wrapper else base,
                        last,
                        entry,
                        scanned,
                    )
        return None

    def floor(self, offset: int) -> int:
        """The number of the last segment whose base offset is at or below `offset`, or -1 (L1)."""
        number = -1
        for at, segment in enumerate(self.segments):
            if segment.base_offset > offset:
                break
            number = at
        return number

    def fetch(self, offset: int) -> Found | None:
        """Find the first entry a fetch at `offset` returns, segment by segment from the floor (L4).

        None where all from the offset on is gone or not there yet. Out of range: BrokerError.
        """
        if not self.as_is and (offset < self.log_start or offset > self.log_end):
            raise BrokerError(
                f"OFFSET_OUT_OF_RANGE: the log holds {self.log_start:,} to {self.log_end:,}"
            )
        number = self.floor(offset)
        if number < 0:
            raise BrokerError("OFFSET_OUT_OF_RANGE: below the first segment")
        if not self.as_is and offset == self.log_end:
            self.note("end", self.target.path, "that is the log end: nothing to hand out yet")
            return None
        scanned = 0
        for segment in self.segments[number:]:
            self.note(
                "segment",
                segment.path,
                f"base offset {segment.base_offset:,} is the last at or below the target"
                if scanned == 0 and segment is self.segments[number]
                else "nothing reached the target there: on to the next segment",
                segment=segment.base_offset,
            )
            entry = self.index_entry(segment, offset)
            position = entry.position if entry else 0
            found = self.translate(segment, offset, position, entry)
            if found is not None:
                if self.broker < _BATCH_WALK and not self._old_slice(segment, found):
                    return None
                scanned += found.batches_scanned
                self.note(
                    "scan",
                    segment.path,
                    f"{found.batches_scanned:,} batches from position {position:,} on, "
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

    def _old_slice(self, segment: Segment, found: Found) -> bool:
        """Whether a fetch before 0.10.2 hands out any bytes: it looked its end up, too (L3)."""
        end = self.bound
        position = max(found.position, segment.offset_index().lookup(end).position)
        limit = self.translate(segment, end, position)
        return limit is None or limit.position > found.position

    def record_at(self, found: Found, offset: int) -> tuple[int, int] | None:
        """The first record at or after `offset` a consumer is handed: (offset, timestamp_ms).

        From the entry found on, to the visible end; control records and, read_committed, the data
        of aborted transactions are passed over (L5, L9).
        """
        end = self.bound
        number = next(
            at for at, item in enumerate(self.segments) if item.base_offset == found.segment
        )
        aborted = AbortFilter(self.view.aborted_from(offset)) if self.committed else None
        position = found.position
        for segment in self.segments[number:]:
            records = FileRecords(segment.log(), limit=self.limit)
            for item in records.runs_as_is(position, segment.end()):
                for row in range(item.batches.count):
                    skipped = aborted is not None and aborted.skips(item, row)
                    if skipped or item.batches.value(c.B_FLAGS, row) & c.CONTROL:
                        continue
                    if item.batches.value(c.B_LAST_OFFSET, row) < offset:
                        continue
                    for piece in read_batch(
                        item.data, item.base, item.batches, row, limit=self.limit
                    ):
                        for at in range(piece.records.count):
                            record = piece.records.value(c.R_OFFSET, at)
                            if record >= offset:
                                if record >= end:
                                    return None
                                return record, piece.records.value(c.R_TIMESTAMP, at)
                        where = item.batches.value(c.B_POSITION, row)
                        raise_undecodable(segment.path, where, piece.reason)
                    if item.batches.value(c.B_LAST_OFFSET, row) >= end:
                        return None
            if records.stopped_by == reasons.LENGTH_TOO_SMALL and not segment.ends_silently:
                raise BrokerError(f"CorruptRecordException in {segment.path}")
            position = 0
        return None


def _entry_fields(index: Index, slot: int) -> dict[str, int] | None:
    if slot < 0:
        return None
    key, value = index.raw(slot)
    if isinstance(index, OffsetIndex):
        return {"offset": index.base_offset + key, "position": value}
    return {"timestamp_ms": key, "offset": index.base_offset + value}


def _entry_words(index: Index, slot: int) -> str:
    key, value = index.raw(slot)
    if isinstance(index, OffsetIndex):
        return f"offset {index.base_offset + key:,}, position {value:,}"
    return f"{key}, offset {index.base_offset + value:,}"


def _stopped_uncleanly(target: Target) -> bool:
    """Whether a start would recover the newest segment: a data directory without the clean mark.

    A partition directory that stands alone tells nothing of how its broker stopped; its files are
    then taken as a clean stop leaves them.
    """
    assert target.log is not None
    directory = places.parent(target.log.path)

    def beside(name: str) -> bool:
        return places.lexists(os.path.join(directory, name))

    is_data_directory = beside(names.META_PROPERTIES) or beside(names.RECOVERY_POINT_CHECKPOINT)
    return is_data_directory and not beside(names.CLEAN_SHUTDOWN)


__all__ = [
    "BrokerError",
    "Found",
    "PartitionView",
    "PathError",
    "Segment",
    "Step",
    "TimestampOffset",
]

"""Read one log file as chunks of rows and findings, for `dump`."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading import damage
from kdump.engine.reading.epoch_watch import EpochWatch
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.log_files import place_of
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, RecordChunk
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.record import control, legacy
from kdump.record.batch import read_batch
from kdump.record.decoded_part import DecodedPart
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.stretches import stretches
from kdump.storage import places
from kdump.storage.names import Kind, file_name
from kdump.storage.offsets import Offsets, ResolvedGap, end_of
from kdump.storage.source import Source
from kdump.storage.targets import LogFile
from kdump.values.decoded_values import values_of

if TYPE_CHECKING:
    from kdump.broker.visibility import AbortFilter
    from kdump.engine.reading.options import DumpOptions
    from kdump.values.decoded_values import Values

    Item = RecordChunk | BatchChunk | Finding

RECORDS_A_CHUNK = 8192
_GAPS_IN_FULL = 1000  # of those behind no flipped bit is looked for


class SegmentReader:
    """Reads one file as the options say; what is asked for of it may be less (`filters`).

    `aborted` names the batches that a consumer skips. `as_stored`: keys and values are neither
    decoded nor masked, for those who do not show them. `place` is where rows come from: its segment
    is None for a metadata snapshot, whose records' offsets have nothing to do with its name.
    """

    def __init__(
        self,
        source: Source,
        file: LogFile,
        options: DumpOptions,
        filters: Filters,
        aborted: AbortFilter | None = None,
        *,
        as_stored: bool = False,
    ) -> None:
        self.place = place = place_of(file)
        if file.name.kind is Kind.METADATA_SNAPSHOT:
            self.place = place = place._replace(segment=None)
        self._source = source
        self._filters = filters
        self._want_records = options.mode == "records"
        self._values: Values | None = None
        if self._want_records and not as_stored:
            self._values = values_of(
                place,
                decode=options.decode,
                secrets=options.show_secrets,
                schemas=options.schemas,
            )
        self._limit = options.decompress_limit
        self._next_base = next_base = file.next_base
        self._active = active = file.active and not file.name.is_retired
        self._next_log = ""
        if next_base is not None:
            name = file_name(Kind.LOG, next_base)
            self._next_log = os.path.join(os.path.dirname(file.path), name)
        self._deep = options.deep
        self._aborted = aborted
        self._gaps = 0
        first = 0 if place.segment is None else place.segment
        self._offsets = Offsets(first - 1, end_of(place.segment, next_base))
        self._log = SegmentPass(
            source, self._offsets, limit=self._limit, next_base=next_base, active=active
        )
        self._reserved_reported = False
        self._epochs = EpochWatch(place)

    def items(self, position: int = 0) -> Iterator[Item]:
        """Yield what is asked for, from a position at which an entry is known to start."""
        for item in self._log.items(position):
            if isinstance(item, Gap):
                yield from self._gap(item)
            elif isinstance(item, Oversize):
                yield from self._oversize(item)
            elif self._past(item):
                return
            else:
                yield from self._run(item)
                if self._reached_end(item):
                    return
        yield from self._gap_findings(self._offsets.release(self._next_base))
        if self._source.shrank:
            yield damage.at_place("file-shrank", self.place, position=self._source.status().st_size)

    def _past(self, run: Run) -> bool:
        """Whether this run and all behind it lie above the range; offsets rise from run to run.

        A wrapper is opened for its first offset: neither its own offset nor that of one before
        tells it.
        """
        to_offset = self._filters.to_offset
        if to_offset is None or self._offsets.has_gap:
            return False
        batches = run.batches
        if batches.flags & c.OFFSET_NOT_RISING:
            return False
        if not self._offsets.believes(batches.known_offset(0), batches.last_offset(0)):
            return False
        first = damage.first_record(run, 0, self._limit)
        return first is not None and first >= to_offset

    def _reached_end(self, run: Run) -> bool:
        """Whether this run ends where the range does, so that what is wrong behind is no matter."""
        to_offset, batches = self._filters.to_offset, run.batches
        if to_offset is None or batches.flags & c.OFFSET_NOT_RISING:
            return False
        row = batches.count - 1
        if not batches.flags_of(row) & c.WRAPPER:
            return self._offsets.last + 1 >= to_offset
        inside = damage.wrapper_maximum(run, row, self._limit)
        return inside is not None and inside[0] + 1 >= to_offset

    def _gap(self, gap: Gap) -> Iterator[Item]:
        """Show a damaged entry's header at once; the finding waits for the next good offset."""
        if gap.header is not None and self._shows_gap(gap.header):
            yield BatchChunk(self.place, gap.header)
        yield from self._gap_findings(self._log.take(gap))

    def _shows_gap(self, header: RecordBatches) -> bool:
        """Whether a damaged header may belong to the range asked for; it is not to be trusted."""
        filters = self._filters
        return filters.from_offset is None or self._offsets.last + 1 >= min(
            filters.from_offset, header.last_offset(0)
        )

    def _gap_findings(self, released: Iterable[ResolvedGap]) -> Iterator[Finding]:
        from_offset = self._filters.from_offset
        for one in released:
            self._gaps += 1
            following = one.next_offset
            if from_offset is not None and following is not None and following <= from_offset:
                continue  # what is lost lies before the range
            yield damage.gap_finding(
                one, self.place, self._source, active=self._active, brief=self._gaps > _GAPS_IN_FULL
            )

    def _run(self, run: Run) -> Iterator[Item]:
        batches = run.batches
        before = self._offsets.last
        yield from self._gap_findings(self._log.take(run))
        admitted = self._select_batches(run)
        yield from self._check_flags(batches, before, admitted)
        yield from self._check_reserved(batches, admitted)
        yield from self._epochs.run(batches, admitted)
        if self._want_records:
            yield from self._records(run, admitted)
        else:
            yield from self._headers(run, admitted)

    def _check_flags(
        self, batches: RecordBatches, before: int, admitted: bytearray | None
    ) -> Iterator[Finding]:
        """Tell what is wrong with sound entries, if it is not that the log was replaced.

        A cleaner that joins segments leaves one that reaches past where the next began.
        """
        for one in damage.flag_findings(batches, self.place, before, self._next_base, admitted):
            if one.code != "offset-past-next" or places.lexists(self._next_log):
                yield one

    def _check_reserved(
        self, batches: RecordBatches, admitted: bytearray | None
    ) -> Iterator[Finding]:
        """Say once for a segment that attribute bits are set that mean nothing."""
        for row in () if self._reserved_reported else damage.find_reserved_rows(batches):
            if admitted is None or admitted[row]:
                self._reserved_reported = True
                yield damage.reserved_finding(batches, row, self.place)
                return

    def _select_batches(self, run: Run) -> bytearray | None:
        """Mark the batches that can hold something asked for; None: all."""
        filters, batches = self._filters, run.batches
        if not filters.on_batches and self._aborted is None:
            return None
        marks = bytearray(batches.count)
        for row in range(batches.count):
            skipped = self._aborted is not None and self._aborted.skips(run, row)
            marks[row] = not skipped and filters.admits_batch(batches, row)
            if marks[row] and filters.hides(batches, row):
                inside = damage.wrapper_maximum(run, row, self._limit)
                marks[row] = inside is None or filters.may_reach(*inside)
        return None if all(marks) else marks

    def _headers(self, run: Run, admitted: bytearray | None) -> Iterator[Item]:
        batches = run.batches
        if self._deep and batches.flags & c.WRAPPER:
            yield from self._open_wrappers(run)
        rows = self._filters.select_headers(batches)
        if admitted is not None:
            every = range(batches.count) if rows is None else rows
            rows = array("q", (row for row in every if admitted[row]))
        if rows is None or rows:
            yield BatchChunk(self.place, batches, rows)

    def _open_wrappers(self, run: Run) -> Iterator[Finding]:
        """Fill in what only the inside of a wrapper tells: first offset and number of messages."""
        batches = run.batches
        for row, flags in enumerate(batches.row_flags):
            if not flags & c.WRAPPER:
                continue
            count, first = 0, None
            for piece in read_batch(run.data, run.base, batches, row, limit=self._limit):
                if piece.records.count and first is None:
                    first = piece.records.offset(0)
                count += piece.records.count
                yield from damage.decode_findings(
                    piece.reason, piece.detail, self.place, batches, row, count
                )
            if first is not None:
                batches.put(row, base_offset=first, records_count=count)

    def _records(self, run: Run, admitted: bytearray | None) -> Iterator[Item]:
        """Decode a run: many batches in one kernel call, what is odd or large one by one."""
        batches = run.batches
        for data, records, first, behind, reason in stretches(
            *run, limit=self._limit, max_records=RECORDS_A_CHUNK, admitted=admitted, wrappers=True
        ):
            if records is None:
                yield from self._read_one(run, first, admitted)
                continue
            if records.count:
                yield from self._chunk(data, batches, records, admitted)
            last = behind - 1
            if reason and (admitted is None or admitted[last]):
                inside = sum(1 for batch in records.batches if batch == last)
                yield from damage.decode_findings(reason, "", self.place, batches, last, inside)

    def _read_one(self, run: Run, row: int, admitted: bytearray | None) -> Iterator[Item]:
        batches = run.batches
        flags = batches.flags_of(row)
        decoded = 0
        for piece in read_batch(
            run.data, run.base, batches, row, limit=self._limit, max_records=RECORDS_A_CHUNK
        ):
            controls = controls_of(piece) if flags & c.CONTROL else None
            if piece.records.count:
                yield from self._chunk(piece.data, batches, piece.records, admitted, controls)
            if flags & c.WRAPPER:
                yield from self._inner_crcs(piece, batches, row)
            if controls is not None:
                yield from self._controls(controls, batches, row)
            decoded += piece.records.count
            yield from damage.decode_findings(
                piece.reason, piece.detail, self.place, batches, row, decoded
            )
            if piece.reason == reasons.INNER_COMPRESSED:
                yield from self._past_nested(piece, batches, row, admitted)

    def _past_nested(
        self, piece: DecodedPart, batches: RecordBatches, row: int, admitted: bytearray | None
    ) -> Iterator[Item]:
        """Show the messages from one on that is compressed again, which ends every other reader."""
        decoded = piece.records.count
        for more in legacy.read_past_nested(piece, batches, row, RECORDS_A_CHUNK):
            if more.records.count:
                yield from self._chunk(more.data, batches, more.records, admitted)
            yield from self._inner_crcs(more, batches, row)
            decoded += more.records.count
            yield from damage.decode_findings(
                more.reason, more.detail, self.place, batches, row, decoded
            )

    def _chunk(
        self,
        data: bytes | bytearray | memoryview,
        batches: RecordBatches,
        records: DecodedRecords,
        admitted: bytearray | None,
        controls: list[dict[str, object] | None] | None = None,
    ) -> Iterator[RecordChunk]:
        filters, values = self._filters, self._values
        if values is not None and values.decodes:
            filters = filters._replace(key=None, grep=None)
        rows = filters.select_records(data, records, admitted)
        if rows is None or rows:
            chunk = RecordChunk(self.place, data, batches, records, rows, controls)
            if values is None:
                yield chunk
            else:
                yield from values.chunks(chunk, self._filters.content)
            # Whoever took it may hold it until it has the next, whose text is opened meanwhile.
            chunk.data = b""

    def _inner_crcs(
        self, piece: DecodedPart, batches: RecordBatches, row: int
    ) -> Iterator[Finding]:
        """Report messages inside a wrapper whose own checksum is wrong; 0.8 and 0.9 stored them."""
        for number, flags in enumerate(piece.records.row_flags):
            if flags & c.INNER_CRC_BAD:
                offset = piece.records.offset(number)
                batch = damage.BatchAt(self.place, batches, row)
                yield batch.finding("inner-crc-mismatch", offset=offset)

    def _controls(
        self, controls: list[dict[str, object] | None], batches: RecordBatches, row: int
    ) -> Iterator[Finding]:
        for said in controls:
            if said is not None and "malformed" in said:
                malformed = said["malformed"]
                batch = damage.BatchAt(self.place, batches, row)
                yield batch.finding("control-record", actual=malformed)

    def _oversize(self, item: Oversize) -> Iterator[Item]:
        batches = item.batches
        before = self._offsets.last
        yield from self._gap_findings(self._log.take(item))
        yield from self._check_flags(batches, before, None)
        if self._filters.admits_batch(batches, 0):
            yield BatchChunk(self.place, batches)
            if self._want_records:
                yield from damage.decode_findings(reasons.OVER_LIMIT, "", self.place, batches, 0, 0)


def controls_of(piece: DecodedPart) -> list[dict[str, object] | None]:
    """Say what each record of a control batch means."""
    data, records = memoryview(piece.data), piece.records
    return [
        control.parse(records.key(data, row), records.payload(data, row))
        for row in range(records.count)
    ]

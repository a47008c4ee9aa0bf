"""Walk one log file as kafka-dump-log does (D2 to D4).

The tool frames entries by their lengths alone, whatever their checksums say, and decodes what lies
in them all the same. Where it would die of an exception, a finding says why, and the walk goes on
behind: at the next record batch, or at the next valid entry where a length leads nowhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from kdump import kernels
from kdump.engine.reading.damage import BatchAt, at_place
from kdump.engine.reading.segment_reader import RECORDS_A_CHUNK, controls_of
from kdump.findings.finding import About, Finding
from kdump.findings.rows import BatchChunk, Place, RecordChunk
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.record.batch import read_batch
from kdump.record.decoded_part import DecodedPart
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.layout import BATCH_HEADER_V2, LOG_OVERHEAD, MAGIC_V2, SMALLEST_MESSAGE, int64
from kdump.record.stretches import stretches
from kdump.storage.file_records import BATCHES_A_RUN, BLOCK_BYTES, FileRecords
from kdump.storage.source import Source
from kdump.tuples import NamedTuple
from kdump.values.decoded_values import values_of

if TYPE_CHECKING:
    from kdump.engine.kafka_text.pairs import Pairs
    from kdump.engine.reading.options import DumpOptions


def read_frames(
    source: Source, limit: int, position: int = 0, block: int = BLOCK_BYTES
) -> Iterator[Run | Oversize | Gap]:
    """Yield the entries of a file by their lengths alone, as FileLogInputStream does (S6).

    The last item is a Gap where the file does not end with an entry. After a length that leads
    nowhere the walk goes on at the next valid entry. `block` bytes are read at once, or an entry.
    """
    buffer = bytearray(min(block, max(source.size - position, 1)))
    beside = FileRecords(source, limit=limit)
    while position < source.size:
        filled = source.read_into(buffer, position, min(len(buffer), source.size - position))
        if filled <= 0:
            return
        start, reason = 0, reasons.FULL
        while reason == reasons.FULL:
            batches, start, reason = kernels.walk(
                buffer, start, filled, position, -1, True, BATCHES_A_RUN
            )
            if batches.count:
                yield Run(buffer, position, batches)
        ends = position + filled >= source.size or source.shrank
        size = int.from_bytes(buffer[start + 8 : start + LOG_OVERHEAD], "big", signed=True)
        position += start
        left = source.size - position
        needed = LOG_OVERHEAD + size
        if reason == reasons.LENGTH_TOO_SMALL:
            gap = next(beside.walk(position), None)
            if not isinstance(gap, Gap):  # the file changed under the walk
                return
            yield gap
            position += gap.size_bytes
        elif reason == reasons.SHORT_TAIL and ends:
            yield Gap(position, left, "short-tail", None, b"", to_end=True)
            return
        elif reason == reasons.CUT_SHORT and (ends or needed > left):
            yield Gap(position, left, "cut-short", None, b"", to_end=True)
            return
        elif reason == reasons.CUT_SHORT and needed > limit:
            for item in beside.walk(position, position + needed):
                header = item.header if isinstance(item, Gap) else item.batches
                if header is not None:
                    yield Oversize(header)
            position += needed
        elif reason == reasons.CUT_SHORT and needed > len(buffer):
            buffer = bytearray(needed)
        elif len(buffer) > block:
            buffer = bytearray(block)


def reinterpret_as_batch(batches: RecordBatches, row: int, header: bytes) -> None:
    """Put into the columns what a record batch's header at an entry's start would say."""
    (
        base_offset, _, leader_epoch, _, crc, attributes, delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, count,
    ) = BATCH_HEADER_V2.unpack(header)  # fmt: skip
    batches.put(
        row,
        attributes=attributes & 0xFFFF,
        base_offset=base_offset,
        last_offset=int64(base_offset + delta),
        records_count=count,
        crc=crc,
        leader_epoch=leader_epoch,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        flags=c.CRC_BAD | c.TOO_SMALL,
        layout=MAGIC_V2,
    )


_DOUBTFUL = c.CRC_BAD | c.TOO_SMALL | c.MAGIC_UNKNOWN


class ToolChunk(NamedTuple):
    """Entries of which the lines are printed, and the records decoded from them.

    `records` is None where only headers are printed. `batches` is None where `records` are more of
    the entry before. Like every chunk it is valid until the next item.
    """

    batches: BatchChunk | None
    records: RecordChunk | None


class InvalidTail(NamedTuple):
    """Bytes at the end of a file in which the tool's iteration ended without a word (D4)."""

    path: str
    size_bytes: int


class BrokenMessage(NamedTuple):
    """A v0 or v1 message whose value runs past its end: the tool prints sizes, then dies."""

    batches: BatchChunk
    key_size: int
    value_size: int


LogItem = ToolChunk | InvalidTail | BrokenMessage | Finding


class ToolLog:
    """A walk over one `.log` or `.checkpoint` file, as the options say.

    Where the next record's offset is not the last one's plus one, both are added to `gaps`.
    """

    def __init__(
        self, source: Source, segment: int | None, options: DumpOptions, gaps: Pairs
    ) -> None:
        self._source = source
        self._filters = options.filters
        self._place = place = Place(None, None, segment, source.path)
        self._values = values_of(place, decode=False, secrets=options.show_secrets)
        self._deep = options.mode == "records"
        self._limit = options.decompress_limit
        self._gaps_in_offsets = OffsetGaps(gaps)

    def walk(self) -> Iterator[LogItem]:
        """Yield what the tool prints, and findings for what is damaged or would kill it."""
        for item in read_frames(self._source, self._limit):
            if isinstance(item, Run):
                yield from self._run(item)
            elif isinstance(item, Oversize):
                yield self._chunk(item.batches, 0, 1)
                if self._deep:
                    yield self._finding("over-decompress-limit", item.batches, 0)
            elif item.reason in ("short-tail", "cut-short"):
                yield InvalidTail(self._source.path, item.size_bytes)
            else:
                yield self._death_finding(item)

    def _run(self, run: Run) -> Iterator[LogItem]:
        batches = run.batches
        if batches.flags & _DOUBTFUL:
            for row, flags in enumerate(batches.row_flags):
                if flags & _DOUBTFUL:
                    yield from self._check_entry(batches, row)
        if not self._deep:
            yield self._chunk(batches, 0, batches.count)
            return
        for data, records, first, behind, reason in stretches(
            *run, limit=self._limit, max_records=RECORDS_A_CHUNK
        ):
            if records is None:
                yield from self._decode_one(run, first)
                continue
            self._gaps_in_offsets.note(records)
            chunk = self._chunk(batches, first, behind, data, records)
            yield chunk
            if chunk.records is not None:
                chunk.records.data = b""  # it may still be held while the next text is opened
            if reason:
                yield from self._find_broken(run, behind - 1, reason)
                yield self._undecodable(batches, behind - 1, reason, "")

    def _chunk(
        self,
        batches: RecordBatches,
        first: int,
        behind: int,
        data: bytes | bytearray | memoryview = b"",
        records: DecodedRecords | None = None,
        controls: list[dict[str, object] | None] | None = None,
    ) -> ToolChunk:
        """Make a chunk of the entries from `first` to before `behind`, filtered."""
        filters = self._filters
        rows = array("q", range(first, behind))
        if records is None:
            shown = filters.select_headers(batches)
            if shown is not None:
                rows = array("q", (row for row in shown if first <= row < behind))
            return ToolChunk(BatchChunk(self._place, batches, rows), None)
        admitted = None
        if filters.on_batches:
            admitted = bytearray(filters.admits_batch(batches, row) for row in range(batches.count))
            rows = array("q", (row for row in rows if admitted[row]))
        wanted = filters.select_records(data, records, admitted)
        chunk = RecordChunk(self._place, data, batches, records, wanted, controls)
        if self._values is not None:
            chunk = self._values.hide(chunk, filters.content)
            wanted = chunk.rows
        if filters.on_records and wanted is not None:
            holding = {records.batch(row) for row in wanted}
            rows = array("q", (row for row in rows if row in holding))
        return ToolChunk(
            BatchChunk(self._place, batches, rows) if behind > first else None,
            chunk,
        )

    def _decode_one(self, run: Run, row: int) -> Iterator[LogItem]:
        """Decode one entry that is compressed, control, flagged or too large for a chunk."""
        batches = run.batches
        is_control = bool(batches.flags_of(row) & c.CONTROL)
        behind = row + 1
        for piece in self._pieces(run, row):
            controls = controls_of(piece) if is_control else None
            self._gaps_in_offsets.note(piece.records)
            chunk = self._chunk(batches, row, behind, piece.data, piece.records, controls)
            yield chunk
            if chunk.records is not None:
                chunk.records.data = b""  # it may still be held while the next text is opened
            behind = row
            if controls and any("malformed" in told for told in controls if told):
                yield self._finding("control-record", batches, row)
            if piece.reason not in (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT):
                yield from self._find_broken(run, row, piece.reason)
                yield self._undecodable(batches, row, piece.reason, piece.detail)

    def _pieces(self, run: Run, row: int) -> Iterator[DecodedPart]:
        batches, flags = run.batches, run.batches.flags_of(row)
        if flags & c.CRC_BAD and not flags & (c.WRAPPER | c.TOO_SMALL):
            # A plain message is decoded whatever its checksum; so the flag is taken off a copy.
            batches = batches.slice(0, batches.count)
            batches.put(row, flags=flags & ~c.CRC_BAD)
        yield from read_batch(
            run.data, run.base, batches, row, limit=self._limit, max_records=RECORDS_A_CHUNK
        )

    def _find_broken(self, run: Run, row: int, reason: int) -> Iterator[BrokenMessage]:
        """Give the sizes that a plain message claims, where its value is what is wrong."""
        batches = run.batches
        wrapped = batches.flags_of(row) & c.WRAPPER
        if reason != reasons.VALUE_LENGTH or not batches.is_legacy(row) or wrapped:
            return
        at = batches.position(row) - run.base
        at += batches.format(row).header_size - 4
        key_size = int.from_bytes(run.data[at : at + 4], "big", signed=True)
        at += 4 + max(key_size, 0)
        value_size = int.from_bytes(run.data[at : at + 4], "big", signed=True)
        chunk = BatchChunk(self._place, batches, array("q", [row]))
        yield BrokenMessage(chunk, key_size, value_size)

    def _check_entry(self, batches: RecordBatches, row: int) -> Iterator[Finding]:
        """Say what is wrong with an entry, and see it as the tool does.

        The tool goes by the magic byte alone, and reads a record batch's header in full even where
        the entry ends before it.
        """
        short = batches.flags_of(row) & c.TOO_SMALL and not batches.is_legacy(row)
        if short or batches.is_mislabelled(row):
            header = self._source.read(batches.position(row), BATCH_HEADER_V2.size)
            if len(header) == BATCH_HEADER_V2.size:
                reinterpret_as_batch(batches, row, header)
        if batches.flags_of(row) & (c.CRC_BAD | c.TOO_SMALL):
            yield self._crc_finding(batches, row)

    def _death_finding(self, gap: Gap) -> Finding:
        code = "preallocated-tail" if gap.reason == "zeros" else "batch-length"
        return at_place(
            code,
            self._place,
            position=gap.position,
            size_bytes=gap.size_bytes,
            expected=SMALLEST_MESSAGE,
            message="A length below the smallest message. kafka-dump-log fails here, with "
            "CorruptRecordException.",
        )

    def _crc_finding(self, batches: RecordBatches, row: int) -> Finding:
        stored, computed = batches.crc(row), batches.computed_crc(row)
        code = "batch-too-small" if batches.flags_of(row) & c.TOO_SMALL else "crc-mismatch"
        return self._finding(
            code,
            batches,
            row,
            expected=computed,
            actual=stored,
            message=f"stored {stored:08x}, computed {computed:08x}" if stored != computed else None,
        )

    def _undecodable(self, batches: RecordBatches, row: int, reason: int, detail: str) -> Finding:
        word = reasons.NAMES.get(reason, str(reason))
        if reason == reasons.OVER_LIMIT:
            return self._finding("over-decompress-limit", batches, row)
        if reason == reasons.CODEC_MISSING:
            return self._finding("codec-missing", batches, row, message=detail or None)
        told = f"{word}: {detail}" if detail else word
        return self._finding(
            "records-undecodable",
            batches,
            row,
            actual=word,
            message=f"{told}. kafka-dump-log fails here.",
        )

    def _finding(
        self, code: str, batches: RecordBatches, row: int, **about: Unpack[About]
    ) -> Finding:
        return BatchAt(self._place, batches, row).finding(code, **about)


class OffsetGaps:
    """Pairs of neighbouring record offsets where the second is not the first plus one (D3)."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._last = -1

    def note(self, records: DecodedRecords) -> None:
        """Look at some more records; only gaps cost more than one comparison."""
        if not records.count:
            return
        offsets = records.offsets.tolist()
        last = self._last if self._last != -1 else offsets[0] - 1
        self._last = offsets[-1]
        if offsets == list(range(last + 1, last + 1 + len(offsets))):
            return
        for offset in offsets:
            if last != -1 and offset != last + 1:
                self._pairs.append(last, offset)
            last = offset

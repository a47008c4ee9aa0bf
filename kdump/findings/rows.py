"""The rows of dump and lookup: chunks of columns for bulk, named tuples for one row.

A chunk carries the kernel's columns whole. Sinks hand them to the kernel's formatters; only where
Python has to look is a row made of them. A chunk and its data are valid until the next item is
asked for: the buffer behind them is used again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from kdump.kernels import columns as c
from kdump.kernels.columns import BatchHeader, DecodedRecords, RecordBatches
from kdump.kernels.members import codec_name, members_of, sequence_at, timestamp_type_name
from kdump.record.layout import TRANSACTIONAL_BIT, message_format
from kdump.rows.row import Row as Row
from kdump.tuples import NamedTuple

Buffer = bytes | bytearray | memoryview


class Place(NamedTuple):
    """Where rows come from: topic and partition as far as a name says them, segment, file."""

    topic: str | None
    partition: int | None
    segment: int | None
    path: str


class JsonText(bytes):
    """JSON text of what a key or a value holds, in the place of its bytes."""

    def value(self) -> object:
        """Read the text."""
        from json import loads

        return loads(self)


class RecordRow(NamedTuple):
    """One record, with the members of the `record` row in order; what some have has a default.

    `format` and `next_offset` are those of a message of a `.kafka` file; others are without them.
    `crc_valid` is False, and `inner_codec` a codec, only where they mark a message inside a wrapper
    of magic 0 or 1: its own checksum is wrong, or it is compressed again and its value the
    compressed bytes. Where the topic is decoded, `key` and `value` are a JsonText.
    """

    topic: str | None
    partition: int | None
    segment: int | None
    position: int
    magic: int
    codec: str
    offset: int
    timestamp_ms: int | None = None
    timestamp_type: str | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transactional: bool = False
    control: dict[str, object] | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    format: str | None = None
    next_offset: int | None = None
    crc_valid: bool | None = None
    inner_codec: str | None = None

    def members(self) -> Iterator[tuple[str, object]]:
        """Give the members that it has, each with its name."""
        yield from zip(RECORD_NAMES, self, strict=False)
        for name in _OPTIONAL:
            value = getattr(self, name)
            if value is not None:
                yield name, value


PRE08_NAMES, MARK_NAMES = RecordRow._fields[-4:-2], RecordRow._fields[-2:]
_OPTIONAL = PRE08_NAMES + MARK_NAMES
RECORD_NAMES = RecordRow._fields[: -len(_OPTIONAL)]


class DecodedRow(RecordRow):
    """A record whose key and value are objects where its topic can be decoded, else bytes."""

    __slots__ = ()
    key: Any
    value: Any


class BatchRow(NamedTuple):
    """One log entry's header, with the members of the `batch` row in order."""

    topic: str | None
    partition: int | None
    segment: int | None
    position: int
    size_bytes: int
    magic: int
    codec: str
    base_offset: int | None
    last_offset: int
    records_count: int | None
    crc: int
    crc_valid: bool
    timestamp_type: str | None = None
    base_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    last_sequence: int | None = None
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None


class HexText(NamedTuple):
    """Annotated bytes of one batch, as lines ready to print."""

    place: Place
    position: int
    lines: tuple[str, ...]


class RecordChunk:
    """Some records of one segment as columns.

    `data` holds the bytes that the record columns point into, JSON text where the records' flags
    say so; `batches` the headers they belong to; `rows` the row numbers that passed the filters
    (None: all). `controls` is set only for control batches, and where keys are JSON text: what each
    record says, parallel to the records; of those that are transaction markers the records' flags
    say so, and the batch may stand among others. `format` is that of messages of a `.kafka` file,
    whose next offsets stand as the last ones of their batches.
    """

    def __init__(
        self,
        place: Place,
        data: Buffer,
        batches: RecordBatches,
        records: DecodedRecords,
        rows: array[int] | None = None,
        controls: list[dict[str, object] | None] | None = None,
        format: str | None = None,
    ) -> None:
        self.place, self.data, self.batches, self.records = place, data, batches, records
        self.rows, self.controls, self.format = rows, controls, format

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def numbers(self) -> Sequence[int]:
        """The rows of the records that passed the filters."""
        return range(self.records.count) if self.rows is None else self.rows

    @property
    def may_have_marks(self) -> bool:
        """Whether some record might be marked as a message that is wrong inside its wrapper."""
        return self.records.flags & c.INNER_MARKS != 0

    @property
    def is_decoded(self) -> bool:
        """Whether keys or values are JSON text."""
        return self.records.flags & c.JSON_TEXT != 0

    @property
    def may_have_controls(self) -> bool:
        """Whether some record might be a control record."""
        markers = (flags & c.MARKER for flags in self.records.row_flags)
        return self.controls is not None or any(markers)

    def control(self, number: int) -> dict[str, object] | None:
        """Say what a record is that belongs to a control batch; None for one that does not."""
        from kdump.record import control as control_records

        if self.controls is not None:
            return self.controls[number]
        records = self.records
        if not records.flags_of(number) & c.MARKER:
            return None
        return control_records.parse(
            records.key(self.data, number), records.payload(self.data, number)
        )

    def iter_records(self) -> Iterator[RecordRow]:
        """Make a row of each record that passed the filters."""
        from kdump.record.default import headers_of

        data = memoryview(self.data)
        place = self.place
        seen = -1
        for number in self.numbers:
            (
                at, start, size, offset, timestamp, key, key_size, value, value_size,
                headers, count, flags,
            ) = self.records.row(number)  # fmt: skip
            if at != seen:
                seen = at
                batch = self.batches.header(at)
                attributes, read = batch.attributes, batch.format
                transactional = bool(attributes & read.meant_bits & TRANSACTIONAL_BIT)
                producing = read.has_producer_fields
                base_sequence = batch.base_sequence
                wrapper = batch.flags & c.WRAPPER
                codec = codec_name(attributes)
            # Inside a wrapper the message's own magic says whether there is a timestamp (F10, F15).
            own = message_format(flags >> c.INNER_MAGIC_SHIFT & 3) if wrapper else read
            timed = own.has_timestamps
            key_of = JsonText if flags & c.KEY_JSON else bytes
            value_of = JsonText if flags & c.VALUE_JSON else bytes
            yield RecordRow(
                place.topic,
                place.partition,
                place.segment,
                batch.position,
                batch.magic,
                codec,
                offset,
                timestamp if timed else None,
                timestamp_type_name(attributes) if timed else None,
                batch.leader_epoch if read.has_leader_epoch else None,
                batch.producer_id if producing else None,
                batch.producer_epoch if producing else None,
                sequence_at(base_sequence, offset - batch.base_offset) if producing else None,
                transactional,
                self.control(number),
                key_of(data[key : key + key_size]) if key_size >= 0 else None,
                value_of(data[value : value + value_size]) if value_size >= 0 else None,
                headers_of(data, headers, count, start + size) if count else (),
                self.format,
                batch.last_offset if self.format else None,
                False if flags & c.INNER_CRC_BAD else None,
                codec_name(flags >> c.INNER_CODEC_SHIFT) if flags & c.INNER_CODEC else None,
            )


class BatchChunk:
    """Some headers of one segment as columns; `rows` are those that passed the filters."""

    def __init__(
        self, place: Place, batches: RecordBatches, rows: array[int] | None = None
    ) -> None:
        self.place, self.batches, self.rows = place, batches, rows

    def __len__(self) -> int:
        return self.batches.count if self.rows is None else len(self.rows)

    def iter_batches(self) -> Iterator[BatchRow]:
        """Make a row of each header that passed the filters."""
        for number in range(self.batches.count) if self.rows is None else self.rows:
            yield batch_row(self.place, self.batches.header(number))


def batch_row(place: Place, batch: BatchHeader) -> BatchRow:
    """Make the `batch` row of one row of batch columns."""
    return BatchRow._make(place[:3] + members_of(batch))

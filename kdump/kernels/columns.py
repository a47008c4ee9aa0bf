"""The form in which kernels hand over batches and records: a few int64 columns in one block.

Column `k` of a `Columns` is `block[k * stride : k * stride + count]`. `stride` may be larger than
`count`; what lies between them is not defined. Both kernels fill the same columns with the same
numbers; only `stride` may differ.
"""

from __future__ import annotations

from array import array

from kdump.kernels.layout import DELETE_HORIZON_BIT, FORMATS, Format, format_of
from kdump.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    Data = bytes | bytearray | memoryview

# Columns of batches: one row for each log entry, of whatever version.
B_POSITION = 0  # where the entry starts in the file
B_SIZE = 1  # bytes of the whole entry, offset and size fields included
B_MAGIC = 2  # the signed byte as stored
B_ATTRIBUTES = 3  # layout 2: the int16 as 0..65535; layouts 0 and 1: the byte as 0..255
B_BASE_OFFSET = 4  # wrapper: -1, not known before it is opened (F18)
B_LAST_OFFSET = 5  # layout 2: base offset + lastOffsetDelta; else the offset field (F12)
B_RECORDS_COUNT = 6  # layout 2: recordsCount; plain message: 1; wrapper: -1
B_CRC = 7  # as stored, unsigned
B_COMPUTED_CRC = 8  # as computed, unsigned; the stored one where it was not checked
B_LEADER_EPOCH = 9  # this and the next of layouts 0 and 1: -1, or the timestamp where it fits
B_BASE_TIMESTAMP = 10  # layout 1: the timestamp; layout 0: -1
B_MAX_TIMESTAMP = 11  # layout 1: the timestamp; layout 0: -1
B_PRODUCER_ID = 12
B_PRODUCER_EPOCH = 13
B_BASE_SEQUENCE = 14
B_FLAGS = 15  # the bits below
B_LAYOUT = 16  # 0, 1 or 2: which table the entry was read with (see walk in _pure)
BATCH_WIDTH = 17
PRODUCER_WIDTH = 6  # numbers a producer in the table of `follow_producers`

# Bits of B_FLAGS. The first six break a shallow rule; the others only inform.
CRC_BAD = 1
MAGIC_UNKNOWN = 2  # magic is not 0, 1 or 2, or is 2 or more over a v0 message
TOO_SMALL = 4  # smaller than the fixed fields of its layout (F9, F22)
OFFSET_NOT_RISING = 8
DELTA_COUNT = 16  # recordsCount and lastOffsetDelta cannot both be right
CODEC_UNKNOWN = 32  # layout 2: above 4; layouts 0 and 1: above 3
WRONG = CRC_BAD | MAGIC_UNKNOWN | TOO_SMALL | OFFSET_NOT_RISING | DELTA_COUNT | CODEC_UNKNOWN
WRAPPER = 64  # layouts 0 and 1 with codec bits: holds messages
COMPRESSED = 128  # codec bits, any layout
CONTROL = 256
TRANSACTIONAL = 512
RESERVED = 1024  # attribute bits that no format has a meaning for

# Columns of records: one row for each record. Positions are indexes into the bytes that were
# decoded, which are those of the file only where nothing is compressed.
R_BATCH = 0  # row in the batch columns
R_POSITION = 1  # first byte: the length varint, or the offset field of a v0 or v1 message
R_SIZE = 2  # bytes from there to the record's end
R_OFFSET = 3  # absolute
R_TIMESTAMP = 4  # as a reader sees it (F10, F24); -1 where magic 0 has none
R_KEY = 5  # first byte of the key; 0 when null
R_KEY_SIZE = 6  # -1: null
R_VALUE = 7
R_VALUE_SIZE = 8
R_HEADERS = 9  # first byte of the first header; 0 in v0 and v1
R_HEADERS_COUNT = 10
R_FLAGS = 11
RECORD_WIDTH = 12
RECORD_COLUMNS = (
    *("batch", "position", "size_bytes", "offset", "timestamp", "key", "key_size"),
    *("value", "value_size", "headers", "headers_count", "flags"),
)

# Bits of R_FLAGS. The kernels set MARKER, and the others only for messages inside a wrapper.
INNER_CRC_BAD = 1
INNER_MAGIC_OTHER = 2  # the message's magic is not its wrapper's (F15)
MARKER = 4  # a transaction marker that decode_run found sound
INNER_CODEC_SHIFT = 4  # three bits: the message's own codec, where `read_past_nested` opened it
INNER_CODEC = 7 << INNER_CODEC_SHIFT
INNER_MAGIC_SHIFT = 8  # two bits: the message's own magic; 3 stands for any above 2 and below 0
KEY_JSON = 1 << 10  # JSON text in place of the key; only `kdump/values/` sets this and the next
VALUE_JSON = 1 << 11
JSON_TEXT = KEY_JSON | VALUE_JSON
#: What a row of the message has a mark for.
INNER_MARKS = INNER_CRC_BAD | INNER_CODEC

# Numbers that `sum_batches` and `sum_keys` add up. What they do not know stays as it was.
T_BATCHES = 0
T_RECORDS = 1
T_BYTES = 2
T_CONTROL = 3  # control batches
T_UNOPENED = 4  # wrappers whose messages are not among the records
T_FIRST = 5  # lowest timestamp, -1: none
T_LAST = 6  # highest timestamp, -1: none
T_ERROR = 7  # bytes that may be missing in BYTES
T_SEGMENTS = 8
T_SEEN = 9  # the number of the segment counted last
TOTALS_WIDTH = 10

# Numbers of one producer and partitioner that `count_placed` adds up.
P_RECORDS = 0
P_MISPLACED = 1
P_FACTOR = 2  # what all hashes of the misplaced less their partition are multiples of, 0: none
P_FIRST_OFFSET = 3  # of the misplaced, like the next three
P_FIRST_TIME = 4
P_LAST_OFFSET = 5
P_LAST_TIME = 6
PLACED_WIDTH = 7

# Why an index entry does not hold, as prove_entries says it.
NO_BATCH = 1
PASSES_OVER = 2
BELOW_BATCH = 3
STARTS_LATE = 4
OTHER_TIME = 5

# What is wrong with a record, or a batch as its records show it, as prove_records says it.
OFFSET_OUTSIDE = 1
OFFSET_ORDER = 2
MAX_TIMESTAMP = 3
INNER_CRC = 4
LAST_OFFSET = 5

# How formatters write bytes.
BYTES_AUTO = 0  # a string where valid UTF-8, else {"base64":"..."}
BYTES_UTF8 = 1  # a string, what is not UTF-8 replaced by U+FFFD
BYTES_HEX = 2
BYTES_BASE64 = 3


class Columns:
    """Columns of int64 in one block, so that a kernel asks for one buffer per call.

    `flags` is the OR of the FLAGS column: a run without a wrong batch costs a reader one test.
    """

    __slots__ = ("block", "count", "flags", "stride")

    def __init__(self, block: array[int], stride: int, count: int, flags: int = 0) -> None:
        self.block = block
        self.stride = stride
        self.count = count
        self.flags = flags

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}(width={self.width}, count={self.count}, flags={self.flags})"

    @classmethod
    def empty(cls, width: int) -> Self:
        """Return columns without a row. `width` says how many there would be; none needs room."""
        return cls(array("q", bytes(8 * width)), 1, 0)

    @classmethod
    def from_rows(cls, width: int, rows: list[tuple[int, ...]], flags: int = 0) -> Self:
        """Lay rows out as columns. Every value must fit in an int64."""
        if not rows:
            return cls.empty(width)
        block = array("q")
        for column in zip(*rows, strict=True):
            block.extend(column)
        return cls(block, len(rows), len(rows), flags)

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Lay the rows of several blocks of the same width, one at least, out as one."""
        if len(parts) == 1:
            return parts[0]
        block = array("q")
        for k in range(parts[0].width):
            for part in parts:
                first = k * part.stride
                block += part.block[first : first + part.count]
        count, flags = 0, 0
        for part in parts:
            count += part.count
            flags |= part.flags
        return cls(block, count, count, flags)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.block) // self.stride if self.stride else 0

    def column(self, k: int) -> memoryview:
        """Return column `k` as a view of int64, without a copy."""
        first = k * self.stride
        return memoryview(self.block)[first : first + self.count]

    def value(self, k: int, i: int) -> int:
        """Return column `k` of row `i`. `i` is not checked: this stands in hot loops."""
        return self.block[k * self.stride + i]

    def row(self, i: int) -> tuple[int, ...]:
        """Return row `i`, in the order of the column numbers."""
        return tuple(self.block[i :: self.stride][: self.width])

    def rows(self) -> list[tuple[int, ...]]:
        """Return all rows. For tests and for the few places that look at every one."""
        if not self.count:
            return []
        return list(zip(*(self.column(k) for k in range(self.width)), strict=True))

    def slice(self, start: int, stop: int) -> Self:
        """Return a copy of rows `start` to `stop`, with `flags` of the whole."""
        stop = max(0, min(stop, self.count))
        start = max(0, min(start, stop))
        if start == stop:
            return self.empty(self.width)
        if stop - start == 1:  # gaps have one header each, and there may be very many
            return type(self)(self.block[start :: self.stride], 1, 1, self.flags)
        block = array("q")
        for k in range(self.width):
            first = k * self.stride
            block += self.block[first + start : first + stop]
        return type(self)(block, stop - start, stop - start, self.flags)


def _cell(k: int) -> Callable[[Columns, int], int]:
    """Make the method that reads column `k` of row `i`; `i` is not checked."""

    def read(self: Columns, i: int) -> int:
        return self.block[k * self.stride + i]

    return read


def _has(member: str) -> Callable[[Columns, int], bool]:
    """Make the method that says whether the format of row `i` has something; `i` not checked."""
    has = tuple(bool(getattr(each, member)) for each in FORMATS)

    def read(self: Columns, i: int) -> bool:
        return has[self.block[B_LAYOUT * self.stride + i]]

    return read


class _Column:
    """A whole column, as a view of int64 without a copy."""

    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def __get__(self, columns: Columns, owner: type) -> memoryview:
        first = self.k * columns.stride
        return memoryview(columns.block)[first : first + columns.count]


class BatchHeader(NamedTuple):
    """One row of a `RecordBatches`, in the order of the columns."""

    position: int
    size_bytes: int
    magic: int
    attributes: int
    base_offset: int
    last_offset: int
    records_count: int
    crc: int
    computed_crc: int
    leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    flags: int
    layout: int

    @property
    def format(self) -> Format:
        """The format it was read in."""
        return FORMATS[self.layout]

    @property
    def is_legacy(self) -> bool:
        """Whether it is a message of magic 0 or 1, wrapper or not."""
        return self.format.is_legacy

    @property
    def is_mislabelled(self) -> bool:
        """Whether it is a message under the magic of a batch: 0.8 and 0.9 stored such (F9)."""
        return self.is_legacy and not format_of(self.magic).is_legacy


class RecordBatches(Columns):
    """Headers of log entries: `last_offset(i)` of one, `last_offsets` of all (see B_LAST_OFFSET).

    The singular reads one row and checks nothing; the plural is a view of the column.
    """

    __slots__ = ()

    position, positions = _cell(B_POSITION), _Column(B_POSITION)
    size_bytes, sizes = _cell(B_SIZE), _Column(B_SIZE)
    magic, magics = _cell(B_MAGIC), _Column(B_MAGIC)
    attributes, all_attributes = _cell(B_ATTRIBUTES), _Column(B_ATTRIBUTES)
    base_offset, base_offsets = _cell(B_BASE_OFFSET), _Column(B_BASE_OFFSET)
    last_offset, last_offsets = _cell(B_LAST_OFFSET), _Column(B_LAST_OFFSET)
    records_count, records_counts = _cell(B_RECORDS_COUNT), _Column(B_RECORDS_COUNT)
    crc, crcs = _cell(B_CRC), _Column(B_CRC)
    computed_crc, computed_crcs = _cell(B_COMPUTED_CRC), _Column(B_COMPUTED_CRC)
    leader_epoch, leader_epochs = _cell(B_LEADER_EPOCH), _Column(B_LEADER_EPOCH)
    base_timestamp, base_timestamps = _cell(B_BASE_TIMESTAMP), _Column(B_BASE_TIMESTAMP)
    max_timestamp, max_timestamps = _cell(B_MAX_TIMESTAMP), _Column(B_MAX_TIMESTAMP)
    producer_id, producer_ids = _cell(B_PRODUCER_ID), _Column(B_PRODUCER_ID)
    producer_epoch, producer_epochs = _cell(B_PRODUCER_EPOCH), _Column(B_PRODUCER_EPOCH)
    base_sequence, base_sequences = _cell(B_BASE_SEQUENCE), _Column(B_BASE_SEQUENCE)
    flags_of, row_flags = _cell(B_FLAGS), _Column(B_FLAGS)
    layout, layouts = _cell(B_LAYOUT), _Column(B_LAYOUT)

    is_legacy = _has("is_legacy")
    has_timestamps = _has("has_timestamps")
    has_leader_epoch = _has("has_leader_epoch")
    has_producer_fields = _has("has_producer_fields")

    def header(self, i: int) -> BatchHeader:
        """Return row `i` with its names."""
        return BatchHeader._make(self.row(i))

    def format(self, i: int) -> Format:
        """The format the entry was read in."""
        return FORMATS[self.layout(i)]

    def is_mislabelled(self, i: int) -> bool:
        """Whether it is a message under the magic of a batch: 0.8 and 0.9 stored such (F9)."""
        return self.is_legacy(i) and not format_of(self.magic(i)).is_legacy

    def has_delete_horizon(self, i: int) -> bool:
        """Whether a delete horizon stands in place of the base timestamp (F21)."""
        return bool(self.attributes(i) & self.format(i).meant_bits & DELETE_HORIZON_BIT)

    def is_wrapper(self, i: int) -> bool:
        """Whether the entry is a compressed message that holds messages (F12)."""
        return bool(self.block[B_FLAGS * self.stride + i] & WRAPPER)

    def end_position(self, i: int) -> int:
        """Where in the file the entry ends."""
        return self.position(i) + self.size_bytes(i)

    def known_offset(self, i: int) -> int:
        """The lowest offset that the header names: of a wrapper only the last is known (F18)."""
        return self.last_offset(i) if self.is_wrapper(i) else self.base_offset(i)

    def put(self, i: int, **members: int) -> None:
        """Change members of row `i`, by the names of `BatchHeader`; `flags` of all follows."""
        for name, number in members.items():
            self.block[_NUMBERS[name] * self.stride + i] = number
        self.flags |= members.get("flags", 0)


_NUMBERS = {name: k for k, name in enumerate(BatchHeader._fields)}


class DecodedRecords(Columns):
    """Decoded records: `offset(i)` of one, `offsets` of all (see R_OFFSET)."""

    __slots__ = ()

    batch, batches = _cell(R_BATCH), _Column(R_BATCH)
    position, positions = _cell(R_POSITION), _Column(R_POSITION)
    size_bytes, sizes = _cell(R_SIZE), _Column(R_SIZE)
    offset, offsets = _cell(R_OFFSET), _Column(R_OFFSET)
    timestamp, timestamps = _cell(R_TIMESTAMP), _Column(R_TIMESTAMP)
    key_position, key_positions = _cell(R_KEY), _Column(R_KEY)
    key_size, key_sizes = _cell(R_KEY_SIZE), _Column(R_KEY_SIZE)
    value_position, value_positions = _cell(R_VALUE), _Column(R_VALUE)
    value_size, value_sizes = _cell(R_VALUE_SIZE), _Column(R_VALUE_SIZE)
    headers_position, headers_positions = _cell(R_HEADERS), _Column(R_HEADERS)
    headers_count, headers_counts = _cell(R_HEADERS_COUNT), _Column(R_HEADERS_COUNT)
    flags_of, row_flags = _cell(R_FLAGS), _Column(R_FLAGS)

    def up_to(self, end: int) -> DecodedRecords:
        """Return the rows below `end`, in the same block."""
        return DecodedRecords(self.block, self.stride, end, self.flags)

    def fill(self, k: int, number: int) -> None:
        """Put one number into column `k` of every record."""
        first = k * self.stride
        self.block[first : first + self.count] = array("q", [number]) * self.count

    def shift(self, by: int) -> None:
        """Add a number to all positions: the bytes are elsewhere now."""
        for k in (R_POSITION, R_KEY, R_VALUE, R_HEADERS):
            first = k * self.stride
            moved = array("q", [position + by for position in self.column(k)])
            self.block[first : first + self.count] = moved

    def put_keys(self, rows: Iterable[int], texts: Iterable[bytes | None], start: int) -> int:
        """Place keys that are JSON text one after another, where not None; return their end."""
        return self._put(R_KEY, rows, texts, start, KEY_JSON)

    def put_values(
        self, rows: Iterable[int], texts: Iterable[bytes | None], start: int, *, is_json: bool
    ) -> int:
        """Place values one after another, where not None; return where they end."""
        return self._put(R_VALUE, rows, texts, start, VALUE_JSON if is_json else 0)

    def _put(
        self, k: int, rows: Iterable[int], texts: Iterable[bytes | None], at: int, flag: int
    ) -> int:
        block, starts, sizes = self.block, k * self.stride, (k + 1) * self.stride
        flags = R_FLAGS * self.stride
        for i, text in zip(rows, texts, strict=True):
            if text is not None:
                size = len(text)
                block[starts + i], block[sizes + i] = at, size
                block[flags + i] |= flag
                at += size
        self.flags |= flag
        return at

    def mark(self, i: int, flags: int) -> None:
        """Set flags of record `i`; `flags` of all follows."""
        self.block[R_FLAGS * self.stride + i] |= flags
        self.flags |= flags

    def forget_key(self, i: int) -> None:
        """Make the key of record `i` null."""
        self.block[R_KEY_SIZE * self.stride + i] = -1

    def key(self, data: Data, i: int) -> bytes | None:
        """Return the key of record `i`, which was decoded from `data`; None for null."""
        return self._bytes(data, R_KEY, i)

    def payload(self, data: Data, i: int) -> bytes | None:
        """Return the value of record `i`, which was decoded from `data`; None for null."""
        return self._bytes(data, R_VALUE, i)

    def contents(
        self, data: Data, rows: Iterable[int]
    ) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Yield the keys and values of some records, which were decoded from `data`."""
        view = memoryview(data)
        keys, key_sizes = self.key_positions.tolist(), self.key_sizes.tolist()
        values, value_sizes = self.value_positions.tolist(), self.value_sizes.tolist()
        for i in rows:
            key, key_size, value, size = keys[i], key_sizes[i], values[i], value_sizes[i]
            yield (
                i,
                None if key_size < 0 else bytes(view[key : key + key_size]),
                None if size < 0 else bytes(view[value : value + size]),
            )

    def _bytes(self, data: Data, k: int, i: int) -> bytes | None:
        size = self.block[(k + 1) * self.stride + i]  # the size stands behind the place
        if size < 0:
            return None
        start = self.block[k * self.stride + i]
        return bytes(memoryview(data)[start : start + size])

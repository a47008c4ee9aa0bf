"""The form in which kernels hand over batches and records: a few int64 columns in one block.

Column `k` of a `Columns` is `block[k * stride : k * stride + count]`. `stride` may be larger than
`count`; what lies between them is not defined. Both kernels fill the same columns with the same
numbers; only `stride` may differ.
"""

from __future__ import annotations

from array import array

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

# Bits of R_FLAGS, set for messages inside a wrapper only.
INNER_CRC_BAD = 1
INNER_MAGIC_OTHER = 2  # the message's magic is not its wrapper's (F15)
INNER_MAGIC_SHIFT = 8  # two bits: the message's own magic; 3 stands for any above 2 and below 0

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
INNER_SUM = 4
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
        return f"Columns(width={self.width}, count={self.count}, flags={self.flags})"

    @classmethod
    def empty(cls, width: int) -> Columns:
        """Return columns without a row. `width` says how many there would be; none needs room."""
        return cls(array("q", bytes(8 * width)), 1, 0)

    @classmethod
    def from_rows(cls, width: int, rows: list[tuple[int, ...]], flags: int = 0) -> Columns:
        """Lay rows out as columns. Every value must fit in an int64."""
        if not rows:
            return cls.empty(width)
        block = array("q")
        for column in zip(*rows, strict=True):
            block.extend(column)
        return cls(block, len(rows), len(rows), flags)

    @classmethod
    def join(cls, parts: list[Columns]) -> Columns:
        """Lay the rows of several blocks of the same width, one at least, out as one."""
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

    def slice(self, start: int, stop: int) -> Columns:
        """Return a copy of rows `start` to `stop`, with `flags` of the whole."""
        stop = max(0, min(stop, self.count))
        start = max(0, min(start, stop))
        if start == stop:
            return Columns.empty(self.width)
        if stop - start == 1:  # gaps have one header each, and there may be very many
            return Columns(self.block[start :: self.stride], 1, 1, self.flags)
        block = array("q")
        for k in range(self.width):
            first = k * self.stride
            block += self.block[first + start : first + stop]
        return Columns(block, stop - start, stop - start, self.flags)
